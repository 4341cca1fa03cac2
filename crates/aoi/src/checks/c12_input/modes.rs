//! The modes of a command for invalid lines, according to the probe file and `capabilities`.

use serde_json::Value;

use crate::model::CheckId;
use crate::observe::{capabilities_run, is_mutating};
use crate::probe::{InputMode, JsonlInput, ProbeCommand};
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::verdicts::Verdicts;

pub struct InputModes {
    fail_fast: Option<Vec<String>>,
    tolerant: Option<Vec<String>>,
    /// Mode without arguments that select one.
    pub default: Option<InputMode>,
    /// Default mode according to `capabilities`.
    pub declared: Option<InputMode>,
    none: Vec<String>,
}

pub(super) static MODE: Rule = Rule {
    id: "AOI-12.mode",
    check: CheckId::Number(12),
    level: Level::Must,
    section: "§12.2",
    requirement: "The tool documents whether an invalid line stops the command or is skipped",
    why: "A caller must know whether some of its lines may already be processed.",
    hint: "Document it in `capabilities` (input.malformed: fail_fast, tolerant or configurable) \
           and in --help.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-01", "AOI-12.2-04", "AOI-18.2-12"],
};

pub(super) static DEFAULT: Rule = Rule {
    id: "AOI-12.default-mode",
    check: CheckId::Number(12),
    level: Level::Open,
    section: "§12.2",
    requirement: "If a command has both modes, fail-fast is the default",
    why: "Continuing after errors must be an explicit choice of the caller.",
    hint: "Continue only with --continue-on-error.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-05", "AOI-12.2-06"],
};

impl InputModes {
    pub fn of(session: &LintSession, command: &ProbeCommand, input: &JsonlInput) -> InputModes {
        let declared = session.declared.get();
        let entry = declared.and_then(|declared| declared.command(&command.name));
        let declared_mode = entry.map_or_else(DeclaredMode::default, declared_mode);
        let mut modes = InputModes {
            fail_fast: input.fail_fast.clone(),
            tolerant: input.tolerant.clone(),
            default: input.default.or(declared_mode.default),
            declared: declared_mode.default,
            none: Vec::new(),
        };
        // The default mode needs no arguments.
        match modes.default {
            Some(InputMode::FailFast) => modes.fail_fast.get_or_insert_default(),
            Some(InputMode::Tolerant) => modes.tolerant.get_or_insert_default(),
            None => &mut modes.none,
        };
        if let (None, Some(flag)) = (&modes.tolerant, declared_mode.continue_flag) {
            modes.tolerant = Some(vec![flag]);
        }
        modes
    }

    /// Arguments that select a mode, if the command has it.
    pub fn words(&self, mode: InputMode) -> Option<&[String]> {
        match mode {
            InputMode::FailFast => self.fail_fast.as_deref(),
            InputMode::Tolerant => self.tolerant.as_deref(),
        }
    }

    /// Arguments for runs in the default mode.
    pub fn usual(&self) -> &[String] {
        &self.none
    }

    pub async fn check(
        &self,
        session: &LintSession,
        command: &ProbeCommand,
        verdicts: &mut Verdicts<'_>,
    ) {
        self.manifest(session, command, verdicts);
        let both = self.fail_fast.is_some() && self.tolerant.is_some();
        if self.fail_fast.is_some() || self.tolerant.is_some() {
            verdicts.pass(&MODE, "the mode is documented");
        } else {
            let name = command.ok.first().unwrap_or(&command.name).clone();
            let how = RunOptions {
                no_machine_args: true,
                ..RunOptions::default()
            };
            let words = [name, "--help".to_owned()];
            let help = session.run(&command.name, "--help", &words, how).await;
            let text = String::from_utf8_lossy(&help.stdout).to_lowercase();
            let known = ["fail-fast", "fail fast", "continue-on-error", "malformed"];
            match known.iter().find(|word| text.contains(**word)) {
                Some(word) => {
                    let why =
                        format!("--help mentions `{word}`; add the `modes` to the probe file");
                    verdicts.skip(&MODE, why);
                }
                None => {
                    let message = "neither `capabilities` nor --help nor the probe file documents \
                                   how invalid lines are handled";
                    verdicts.violation(&MODE, message, &help);
                }
            }
        }
        if !both {
            return verdicts.not_applicable(&DEFAULT, "the command has only one mode");
        }
        let kind = match is_mutating(session, command) {
            true => "a command that changes something",
            false => "a transform",
        };
        match self.default {
            Some(InputMode::FailFast) => verdicts.pass(&DEFAULT, "the default mode is fail-fast"),
            None => verdicts.skip(&DEFAULT, "the probe file does not specify the default mode"),
            Some(InputMode::Tolerant) => {
                let captures = session.captures();
                let run = captures.iter().find(|run| run.command == command.name);
                let message = format!("{kind} continues after errors by default");
                match run {
                    Some(run) => verdicts.violation(&DEFAULT, message, run),
                    None => verdicts.not_verified(&DEFAULT, message),
                }
            }
        }
    }
}

pub(super) static MODE_MANIFEST: Rule = Rule {
    id: "AOI-12.mode-manifest",
    check: CheckId::Number(12),
    level: Level::Open,
    section: "§16.2",
    requirement: "`capabilities` documents the input mode of a command, including invalid lines",
    why: "Programs do not read --help.",
    hint: "Add `input` with malformed and default to the command in `capabilities`.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.2-01", "AOI-12.2-04"],
};

impl InputModes {
    fn manifest(&self, session: &LintSession, command: &ProbeCommand, verdicts: &mut Verdicts<'_>) {
        let declared = session.declared.get();
        let Some(entry) = declared.and_then(|declared| declared.command(&command.name)) else {
            let why = "`capabilities` has no entry for the command";
            return verdicts.not_applicable(&MODE_MANIFEST, why);
        };
        let declared_mode = declared_mode(entry);
        let source = capabilities_run(session);
        match (declared_mode.is_any, source) {
            (true, _) => verdicts.pass(&MODE_MANIFEST, "`capabilities` documents it"),
            (false, Some(run)) => {
                let name = &command.name;
                let message =
                    format!("`capabilities` does not document how `{name}` handles invalid lines");
                verdicts.violation(&MODE_MANIFEST, message, &run);
            }
            (false, None) => {
                verdicts.not_verified(&MODE_MANIFEST, "`capabilities` could not be read")
            }
        }
    }
}

#[derive(Debug, Default, PartialEq)]
struct DeclaredMode {
    default: Option<InputMode>,
    continue_flag: Option<String>,
    /// Whether the mode is documented at all.
    is_any: bool,
}

/// Reads the mode from an entry of `capabilities`. The spec defines no field names for it.
fn declared_mode(entry: &Value) -> DeclaredMode {
    let places = [Some(entry), entry.get("input")];
    let text = |keys: &[&str]| {
        let mut found = places
            .iter()
            .flatten()
            .flat_map(|place| keys.iter().filter_map(|key| place.get(key)?.as_str()));
        found.next().map(str::to_owned)
    };
    let mode = |word: &str| {
        let word = word.to_lowercase().replace('-', "_");
        match word.as_str() {
            "fail_fast" | "failfast" | "whole_input" => Some(InputMode::FailFast),
            "tolerant" | "per_line" | "continue" | "continue_on_error" => Some(InputMode::Tolerant),
            _ => None,
        }
    };
    let names = [
        "malformed",
        "malformed_input",
        "malformed_mode",
        "on_malformed",
        "error_mode",
    ];
    let named = text(&names);
    let is_any = named.is_some();
    let fixed = named.and_then(|word| mode(&word));
    let default = text(&["default", "default_mode", "malformed_default"]);
    DeclaredMode {
        default: fixed.or_else(|| default.and_then(|word| mode(&word))),
        continue_flag: text(&["continue_flag"]),
        is_any,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn capabilities_may_name_the_mode() {
        let entry = json!({ "input": {
            "malformed": "configurable", "default": "fail_fast", "continue_flag": "--go-on",
        } });
        let expected = DeclaredMode {
            default: Some(InputMode::FailFast),
            continue_flag: Some("--go-on".to_owned()),
            is_any: true,
        };
        assert_eq!(declared_mode(&entry), expected);
        let entry = json!({ "malformed_input": "per-line" });
        assert_eq!(declared_mode(&entry).default, Some(InputMode::Tolerant));
        assert_eq!(
            declared_mode(&json!({ "name": "import" })),
            DeclaredMode::default()
        );
    }
}
