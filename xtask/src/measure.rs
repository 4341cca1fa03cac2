//! Measures build and test cost: wall and CPU seconds of one command, in a fresh clone with its
//! own target directory. The results are in docs/development.md.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::{Outcome, root, run};

/// Name, cargo arguments, and whether the cargo home starts empty.
const WHAT: &[(&str, &[&str], bool)] = &[
    ("release", &["build", "--release", "--locked"], false),
    (
        "lint",
        &[
            "build",
            "--release",
            "--locked",
            "-p",
            "agentproto",
            "--no-default-features",
        ],
        false,
    ),
    (
        "first",
        &[
            "run",
            "--release",
            "-p",
            "agentproto",
            "--no-default-features",
            "--",
            "lint",
            "--exit-zero",
            "fixtures/demo/bad",
        ],
        true,
    ),
    ("test", &["test", "--locked"], false),
    ("ci", &[], false),
];

pub fn all(names: &[&str]) -> Outcome {
    for name in names {
        let known = WHAT.iter().find(|(known, ..)| known == name);
        let Some((name, args, empty_home)) = known else {
            let names: Vec<&str> = WHAT.iter().map(|(name, ..)| *name).collect();
            return Err(format!(
                "unknown measurement `{name}`; expected one of {}",
                names.join(", ")
            ));
        };
        one(name, args, *empty_home)?;
    }
    Ok(())
}

fn one(name: &str, args: &[&str], empty_home: bool) -> Outcome {
    let place = std::env::temp_dir().join(format!("agentproto-measure-{}", std::process::id()));
    let clone = place.join("clone");
    let done = fresh(&clone).and_then(|()| {
        let mut command = match name {
            "ci" => Command::new(clone.join(".ci/run")),
            _ => {
                let mut cargo = Command::new("cargo");
                cargo.args(args);
                cargo
            }
        };
        command.current_dir(&clone).env_remove("CARGO_TARGET_DIR");
        if empty_home {
            command.env("CARGO_HOME", place.join("cargo"));
        }
        let (cpu, wall) = (children_cpu(), Instant::now());
        run(&mut command)?;
        let (cpu, wall) = (children_cpu() - cpu, wall.elapsed().as_secs_f64());
        println!("{name}: {wall:.0} s wall, {cpu:.0} s CPU");
        Ok(())
    });
    let _ = std::fs::remove_dir_all(&place);
    done
}

fn fresh(clone: &Path) -> Outcome {
    let _ = std::fs::remove_dir_all(clone);
    let mut git = Command::new("git");
    run(git.args(["clone", "--quiet"]).arg(root()).arg(clone))
}

/// User and system seconds of all finished child processes (Linux).
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after_name
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    // Linux reports 100 ticks per second on all supported machines.
    fields.iter().sum::<f64>() / 100.0
}
