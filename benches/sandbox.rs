//! Measures how much longer a sandboxed spawn takes than a plain one of the same binary. The runs
//! alternate. `cargo bench --bench sandbox` needs bubblewrap 0.8 or newer.

use std::time::{Duration, Instant};

use agentproto_sandbox::helper;
use agentproto_sandbox::plan::{PlanKind, SpawnPlan};
use agentproto_sandbox::policy::{Access, Exec, PathGrant, Policy, SandboxSpec};
use agentproto_sandbox::spawn::{SpawnOptions, spawn};
use agentproto_sandbox::{build, bwrap, probe};

const ROUNDS: usize = 200;
const TARGET: &str = "/bin/true";

fn main() {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let native = build::plan(&policy(), &[TARGET.into()]);
    let guard = SpawnPlan {
        kind: PlanKind::Guard,
        confinement: None,
        ..native.clone()
    };
    let bubblewrap = match probe::bubblewrap() {
        Ok(found) => bwrap::plan(native.clone(), found).expect("a plan"),
        Err(line) => {
            println!("MISS bubblewrap: {}", line.text);
            std::process::exit(1);
        }
    };
    let guarded = additional_ms(&runtime, &guard);
    println!("     guarded, additional ms: {guarded:.2}");
    let within = [
        ("native sandbox", &native, 5.0),
        ("bubblewrap", &bubblewrap, 15.0),
    ]
    .map(|(name, plan, most)| {
        let over = additional_ms(&runtime, plan);
        let verdict = if over <= most { "ok  " } else { "MISS" };
        println!("{verdict} {name}, additional ms: {over:.2} (limit <= {most})");
        over <= most
    });
    if within.contains(&false) {
        std::process::exit(1);
    }
}

/// Milliseconds that a spawn takes longer than a plain one of the same binary. The runs alternate,
/// so that a change in the machine's speed affects both.
fn additional_ms(runtime: &tokio::runtime::Runtime, plan: &SpawnPlan) -> f64 {
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let status = std::process::Command::new(TARGET).status();
        assert!(status.expect("bare").success());
        bare.push(began.elapsed());
        let began = Instant::now();
        runtime.block_on(async {
            let mut child = spawn(plan, SpawnOptions::default()).await.expect("started");
            assert!(child.wait().await.status.success());
        });
        ours.push(began.elapsed());
    }
    let (bare, ours) = (median(bare), median(ours));
    println!("     bare {bare:?}, ours {ours:?}");
    ours.saturating_sub(bare).as_secs_f64() * 1000.0
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A typical policy for an agent: the system read-only, a working directory, a private home.
fn policy() -> Policy {
    let grant = |path: &str, access, exec| PathGrant {
        source: path.into(),
        at: path.into(),
        access,
        exec,
        create: None,
        clause: None,
    };
    let work = std::env::temp_dir();
    let work = work.to_str().expect("a path");
    Policy {
        spec: SandboxSpec::Aip36,
        egress: vec![],
        ingress: vec![],
        grants: vec![
            grant("/usr", Access::Read, true),
            grant("/etc", Access::Read, false),
            grant(work, Access::Write, true),
        ],
        links: vec![],
        ineffective: vec![],
        denials: vec![],
        exec: Exec::Visible,
        env: vec![],
        env_clauses: vec![],
        tty: None,
        limits: vec![],
        private_size: 64 << 20,
        create: vec![],
        protected: vec![],
        cwd: work.into(),
        home: "/root".into(),
        unenforceable: vec![],
        notes: vec![],
    }
}
