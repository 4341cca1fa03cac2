//! One run of the checks on the mock tool: how the tool is started, and what is checked.

use std::path::Path;

use super::SLEEPER;
use agentproto_aoi::LintError;
use agentproto_aoi::model::CheckId;
use agentproto_aoi::probe::{self, Observe, ProbeCommand, ProbeSpec};
use agentproto_mock::mutants::aoi::AoiMutant;

/// Probe file of the mock tool.
const PROBE: &str = agentproto_mock_agents::AOI_PROBE;

/// One run of all checks on the mock tool, or of some.
#[derive(Default)]
pub struct ToolRun {
    /// Arguments before the tool's own that select the mutant or variant.
    pub args: Vec<String>,
    /// Name of the mutant or variant. Some need another probe file.
    pub name: &'static str,
    /// Checks to run. Empty means all.
    pub checks: Vec<CheckId>,
    /// Commands to test, in addition to those that they need. An unknown name means `search`.
    /// Empty means all.
    pub commands: Vec<&'static str>,
    /// Whether to leave out commands that behave like others.
    pub skip_similar: bool,
}

impl ToolRun {
    pub fn variant(name: &'static str, quick: bool) -> ToolRun {
        ToolRun {
            args: vec!["--variant".to_owned(), name.to_owned()],
            name,
            skip_similar: quick,
            ..ToolRun::default()
        }
    }

    pub fn all_checks(mutant: &'static AoiMutant) -> ToolRun {
        ToolRun {
            args: vec!["--mutant".to_owned(), mutant.id.to_owned()],
            name: mutant.id,
            ..ToolRun::default()
        }
    }

    pub fn own_check(mutant: &'static AoiMutant, own_check: CheckId) -> ToolRun {
        ToolRun {
            checks: vec![own_check],
            ..ToolRun::all_checks(mutant)
        }
    }

    pub fn own_command(mutant: &'static AoiMutant) -> ToolRun {
        ToolRun {
            // Some defects show only in `rank`.
            commands: vec![affected_command(mutant), "rank"],
            ..ToolRun::all_checks(mutant)
        }
    }

    pub fn own_check_and_command(mutant: &'static AoiMutant, own_check: CheckId) -> ToolRun {
        ToolRun {
            commands: vec![affected_command(mutant)],
            ..ToolRun::own_check(mutant, own_check)
        }
    }

    /// The probe file, with this binary as the program and the arguments that select the defect.
    pub fn probe(&self) -> Result<ProbeSpec, LintError> {
        let mut probe = read_probe()?;
        let program = agentproto_sandbox::helper::own_path().map_err(LintError::RunDirectory)?;
        let mut tool = vec![program.to_string_lossy().into_owned()];
        let declared = probe.tool.iter().skip(1).map(String::as_str);
        for word in declared {
            if word == "--" {
                tool.extend(self.args.iter().cloned());
            }
            tool.push(word.to_owned());
        }
        probe.tool = tool;
        // The tool is started thousands of times and runs for milliseconds, so clearing large
        // pages would only waste time.
        for name in ["MIMALLOC_ALLOW_THP", "MIMALLOC_ARENA_EAGER_COMMIT"] {
            probe.env.push((name.to_owned(), "0".to_owned()));
        }
        self.adapt(&mut probe);
        Ok(probe)
    }

    /// Adapts the probe file to this mutant or variant.
    fn adapt(&self, probe: &mut ProbeSpec) {
        match self.name {
            "format-flag" => probe.machine_args = vec!["--format".into(), "jsonl".into()],
            "bounded-false" => edit(probe, "watch", |watch| watch.unbounded = false),
            "aoi-11-limit-undeclared" => edit(probe, "search", |search| search.limit = None),
            "doctor-checks-login" => edit(probe, "doctor", |doctor| doctor.needs_auth = true),
            "delete-by-id" => edit(probe, "delete", |delete| delete.idempotency = None),
            "created-ids" => edit(probe, "get", |get| {
                get.ok = words(&["get", "{id}"]);
                get.slow = Some(words(&["get", "{id}", "--delay-ms", "400"]));
                get.target_from = Some("create".to_owned());
            }),
            "absent-id" => edit(probe, "get", |get| {
                get.ok = words(&["get", "item-0001"]);
                get.slow = None;
            }),
            "aoi-advisory-other-flag" => probe.machine_args = vec!["--jsonl".into()],
            // This variant has no optional feature.
            "bare" => {
                probe.commands.retain(|command| command.name != "purge");
                for command in &mut probe.commands {
                    command.limit = None;
                    command.idempotency = None;
                    command.dry_run = None;
                    let names_limit = |line: &Vec<String>| line.iter().any(|w| w == "--limit");
                    command.malformed.retain(|line| !names_limit(line));
                }
                if let Some(Observe::Command { args, .. }) = &mut probe.observe {
                    args.truncate(1);
                }
            }
            _ => {}
        }
        if self.skip_similar {
            // `search`, `create` and `delete` behave like these commands.
            let mut alike = vec!["list", "get", "update", "purge"];
            // These variants are about `get`.
            if matches!(self.name, "created-ids" | "absent-id") {
                alike.retain(|name| *name != "get");
            }
            // `import` makes several changes, and the variant sleeps before each.
            alike.extend((self.name == SLEEPER).then_some("import"));
            probe.commands.retain(|c| !alike.contains(&c.name.as_str()));
        }
        if self.commands.is_empty() {
            return;
        }
        let known = |name: &str| probe.commands.iter().any(|command| command.name == name);
        let named = self.commands.iter();
        let named = named.map(|name| if known(name) { *name } else { "search" });
        let mut kept: Vec<String> = named.map(str::to_owned).collect();
        let mut at = 0;
        while let Some(name) = kept.get(at).cloned() {
            at += 1;
            let command = probe.commands.iter().find(|command| command.name == name);
            kept.extend(command.and_then(|command| command.target_from.clone()));
        }
        probe
            .commands
            .retain(|command| kept.contains(&command.name));
    }
}

/// Changes one command of the probe file.
fn edit(probe: &mut ProbeSpec, name: &str, change: impl FnOnce(&mut ProbeCommand)) {
    let command = probe.commands.iter_mut().find(|one| one.name == name);
    if let Some(command) = command {
        change(command);
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn read_probe() -> Result<ProbeSpec, LintError> {
    probe::parse(PROBE, Path::new("/")).map_err(|mistakes| {
        let first = mistakes
            .first()
            .map(|m| format!("{}: {}", m.line, m.message));
        LintError::NoProgram(first.unwrap_or_default())
    })
}

/// The command in which the defect shows.
fn affected_command(mutant: &AoiMutant) -> &'static str {
    mutant.run_args.first().copied().unwrap_or_default()
}
