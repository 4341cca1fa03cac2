//! Property tests: no manifest causes a panic, and no denied path is visible.

use proptest::prelude::*;

use super::Machine;
use agentproto_manifest::globs;

fn glob() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("*"),
        Just("**"),
        Just("?"),
        Just("link"),
        Just("{a,b}"),
        Just("[a-b]"),
        Just("..")
    ];
    let head = prop_oneof![Just("~/"), Just(""), Just("./"), Just("$HOME/")];
    (head, prop::collection::vec(part, 1..4))
        .prop_map(|(head, parts)| format!("{head}{}", parts.join("/")))
}

fn yaml_list(globs: &[String]) -> String {
    serde_json::to_string(globs).expect("a list")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "[ -~\n]{0,200}", key in "fs|network|exec|env|tty|provider|mounts|limits|config") {
        let machine = Machine::new();
        let _ = machine.block(&text);
        let _ = machine.block(&format!("{key}: {text}\n"));
        let _ = machine.block(&format!("provider: local\n{key}: {{{text}}}\n"));
        machine.file("bundle/AGENT-CLI.md", &format!("---\nprotocol: acp\nbin: x\nsandbox: {text}\n---\n"));
        let _ = machine.resolve("bundle/AGENT-CLI.md");
    }

    #[test]
    fn a29_sbx_07_a_denied_path_is_never_visible(
        read in prop::collection::vec(glob(), 0..3),
        write in prop::collection::vec(glob(), 0..2),
        deny in prop::collection::vec(glob(), 1..3),
    ) {
        let machine = Machine::new();
        let mut names = Vec::new();
        for place in ["home", "work"] {
            for x in ["a", "b", "c"] {
                for y in ["a", "b"] {
                    machine.file(&format!("{place}/{x}/{y}/c"), "");
                    names.push((place, format!("{x}/{y}/c")));
                    names.push((place, format!("{x}/{y}")));
                }
            }
        }
        machine.link("work/link", "../home/a");
        let yaml = format!(
            "fs: {{read: {}, write: {}, deny: {}}}\n",
            yaml_list(&read), yaml_list(&write), yaml_list(&deny)
        );
        let Ok(policy) = machine.block(&yaml) else { return Ok(()); };
        if !policy.unenforceable.is_empty() {
            return Ok(());
        }
        for (place, rest) in names {
            let path = match place {
                "home" => format!("~/{rest}"),
                _ => rest.clone(),
            };
            // A relative glob applies only to the working directory.
            let of_home = |glob: &str| glob.starts_with(['~', '$']);
            let plain = |glob: &&String| !glob.contains("..") && of_home(glob) == (place == "home");
            let denied = deny.iter().filter(plain).any(|d| globs::matches(d, &path));
            if denied {
                let inside = format!("{place}/{rest}");
                prop_assert_eq!(machine.sees(&policy, &inside), "-", "{} of {}", inside, yaml);
            }
        }
    }
}
