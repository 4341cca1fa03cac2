//! `env.pass` and `env.set`: the child gets the variables of the plan and no others.

use crate::matrix::Control::Escapes;
use crate::matrix::{backends, command, observe, unconfined, wall};
use crate::policies::{listed, no_exec, visible};
use crate::world::{Host, World};

/// A29-SBX-10, A29-SBX-11, A45-SEC-05.
#[tokio::test]
async fn only_the_declared_variables_are_passed() {
    agentproto_suites::proves!("A29-SBX-10", "A29-SBX-11");
    let host = Host::new();
    let world = World::new(&host);
    let case = wall("environment", "", "A29-SBX-10 A29-SBX-11", Escapes);
    let control = std::process::Command::new(crate::world::probe())
        .arg("environment")
        .env("LEAKED", "from the runner")
        .output()
        .expect("control");
    assert!(String::from_utf8_lossy(&control.stdout).contains("LEAKED"));
    for policy in [listed, no_exec, visible] {
        let command = command(&world, "environment", "");
        let plan = agentproto_sandbox::build::plan(&policy(&world), &command);
        let mut plans = vec![unconfined(plan.clone())];
        plans.extend(
            backends()
                .into_iter()
                .filter_map(|(_, own)| own(plan.clone()).ok()),
        );
        let given: Vec<String> = policy(&world)
            .env
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert!(given.contains(&"GIVEN=value".to_owned()), "{given:?}");
        assert!(
            !given.iter().any(|pair| pair.starts_with("LEAKED")),
            "{given:?}"
        );
        for plan in plans {
            let seen = observe(&plan, &world, &case).await;
            assert_eq!(seen.how, given.join("\n"), "{:?}", plan.kind);
        }
    }
}
