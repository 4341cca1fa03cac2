//! Keeps secrets out of reports: values that the caller passes to the agent, and logins. The checks
//! see the real values, but everything that leaves the harness is masked.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::case::{CaseOutcome, NoVerdict};
use super::process::Launcher;
use crate::lifecycle::BundleTarget;
use crate::model::Target;
use crate::suite;
use agentproto_text::credentials::{is_secret_name, is_token};
use agentproto_text::redact::SecretRedactor;
use agentproto_wire::{Line, Transcript};

/// Minimum length of a secret. A shorter value (`1`, `debug`, `en_US`) is a setting, and masking it
/// would make reports unreadable.
const MIN_LENGTH: usize = 6;
/// Minimum number of digits of a numeric secret. A shorter number is a port or a limit, and a mask
/// would break the JSON around it.
const MIN_DIGITS: usize = 12;

/// All secrets of a run. Clones share them.
#[derive(Clone, Default)]
pub struct RunSecrets {
    masks: SecretRedactor,
}

impl RunSecrets {
    /// Collects the values of `--env`, except settings, and of variables whose names indicate a
    /// secret.
    pub fn new(given: &[(String, String)], launcher: &Launcher) -> RunSecrets {
        let secrets = RunSecrets::default();
        for (name, value) in given {
            if !is_setting(name) || is_token(value.trim()) {
                secrets.hide(value);
            }
        }
        secrets.hide_named(&launcher.env(), is_secret_name);
        if let Some(token) = launcher.host().and_then(|host| host.token.as_ref()) {
            // Always masked, whatever it looks like.
            secrets.masks.add(token);
        }
        if let Some(bundle) = launcher.bundle() {
            let auth = bundle.bundle.common().auth();
            let state = auth.and_then(|auth| auth.state());
            let names: Vec<&str> = state.iter().flat_map(|state| state.env()).collect();
            let holds = |name: &str| is_secret_name(name) || names.contains(&name);
            secrets.hide_named(&bundle.options.host_env, holds);
        }
        secrets
    }

    /// Adds the values of environment variables that the agent's auth methods name.
    pub fn add_auth_variables(&self, methods: &Value, env: &[(OsString, OsString)]) {
        match methods {
            Value::String(name) => self.hide_named(env, |known| known == name),
            Value::Array(items) => items
                .iter()
                .for_each(|item| self.add_auth_variables(item, env)),
            Value::Object(members) => members
                .values()
                .for_each(|v| self.add_auth_variables(v, env)),
            _ => {}
        }
    }

    fn hide_named(&self, env: &[(OsString, OsString)], holds: impl Fn(&str) -> bool) {
        for (_, value) in env
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(&holds))
        {
            self.hide(&value.to_string_lossy());
        }
    }

    fn hide(&self, value: &str) {
        if is_secret(value.trim()) {
            self.masks.add(value);
        }
    }

    /// Masks the secrets in everything that a case produced.
    pub fn redact_outcome(&self, outcome: &mut CaseOutcome, bundle: Option<&BundleTarget>) {
        // The runtime has its own masks for what it resolved for a bundle.
        let of_runner = bundle.and_then(BundleTarget::masks);
        for masks in [Some(&self.masks), of_runner].into_iter().flatten() {
            if !masks.is_empty() {
                redact_with(outcome, masks);
            }
        }
    }

    /// Masks the secrets in the description of the target.
    pub fn redact_target(&self, target: &mut Target) {
        target.name = self.text(&target.name).into_owned();
        for word in &mut target.command {
            *word = self.text(word).into_owned();
        }
        for value in [
            &mut target.info,
            &mut target.protocol_version,
            &mut target.capabilities,
        ] {
            self.masks.mask_value(value);
        }
    }

    /// Masks the secrets in a text.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.masks.mask_cut(text)
    }

    /// Masks the secrets in a transcript.
    pub fn transcript(&self, transcript: Transcript) -> Transcript {
        redact_transcript(transcript, &self.masks)
    }
}

/// Last words of the names of variables that hold a setting. A reader of a report needs to see
/// their values: with the model's name masked, the messages of an agent make no sense.
const SETTINGS: [&str; 24] = [
    "MODEL", "URL", "URI", "HOST", "PORT", "HOME", "DIR", "PATH", "FILE", "MODE", "LEVEL", "LOG",
    "DEBUG", "PROVIDER", "REGION", "TYPE", "ENABLED", "DISABLED", "TIMEOUT", "VERSION", "LANG",
    "ENDPOINT", "SCENARIO", "MUTANT",
];

/// Whether the name of a variable says that it holds a setting and not a secret.
fn is_setting(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    SETTINGS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Whether a value should be masked, and can be masked.
fn is_secret(value: &str) -> bool {
    let is_number = value.len() < MIN_DIGITS && value.bytes().all(|b| b.is_ascii_digit());
    // These placeholders are replaced in each case, so the value itself never occurs.
    let is_template = value.contains("{home}") || value.contains("{model_url}");
    let is_place = || Path::new(value).is_absolute() && Path::new(value).exists();
    value.chars().count() >= MIN_LENGTH
        && !is_number
        && !is_template
        && !is_place()
        // Every report contains text of the suites, so a value that occurs there cannot be masked.
        && !suite::any_contains(value)
}

fn redact_with(outcome: &mut CaseOutcome, masks: &SecretRedactor) {
    let hide = |text: &mut String| {
        if let Cow::Owned(masked) = masks.mask_cut(text) {
            *text = masked;
        }
    };
    let drop_secret_pointer = |at: &mut Option<String>| {
        at.take_if(|at| matches!(masks.mask_cut(at), Cow::Owned(_)));
    };
    for broken in &mut outcome.violations {
        hide(&mut broken.message);
        drop_secret_pointer(&mut broken.at);
    }
    let open = outcome
        .undecided
        .iter_mut()
        .map(|(_, no_verdict)| no_verdict);
    for no_verdict in open.chain(&mut outcome.no_verdict) {
        match no_verdict {
            NoVerdict::NotApplicable(why)
            | NoVerdict::Skip(why)
            | NoVerdict::NotVerified(why)
            | NoVerdict::Error(why) => hide(why),
        }
    }
    for found in outcome.notes.iter_mut().flat_map(|n| n.found.values_mut()) {
        for violation in &mut found.violations {
            hide(&mut violation.message);
            drop_secret_pointer(&mut violation.at);
        }
    }
    masks.mask_value(&mut outcome.initialize);
    let transcript = std::mem::take(&mut outcome.transcript);
    outcome.transcript = redact_transcript(transcript, masks);
}

/// Masks a transcript and keeps the line numbers.
fn redact_transcript(transcript: Transcript, masks: &SecretRedactor) -> Transcript {
    let holds = |line: Line| matches!(redact_line(&line, masks), Cow::Owned(_));
    if masks.is_empty() || !transcript.lines().any(holds) {
        return transcript;
    }
    let mut out = Transcript::new();
    for line in transcript.lines() {
        let bytes = redact_line(&line, masks);
        let length = line.cut.map(|length| length.max(bytes.len() as u64 + 1));
        out.push(line.direction, line.at, &bytes, line.ended, length);
    }
    out.dropped = transcript.dropped;
    out
}

fn redact_line<'l>(line: &'l Line, masks: &SecretRedactor) -> Cow<'l, [u8]> {
    masks.mask_bytes(&line.bytes, line.cut.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::process::Program;
    use agentproto_wire::Direction;
    use std::time::Duration;

    #[test]
    fn settings_are_distinguished_from_secrets() {
        for secret in [
            "hunter2",
            "a-token-of-the-caller",
            "123456789012",
            "/no/such/place/at-all",
            " padded-key\n",
        ] {
            assert!(is_secret(secret.trim()), "{secret}");
        }
        for config in [
            "",
            "1",
            "debug",
            "65535",
            "300000",
            "session",
            "/dev/null",
            "{home}/.config",
            "{model_url}/v1",
        ] {
            assert!(!is_secret(config), "{config}");
        }
    }

    #[test]
    fn a_name_tells_settings_from_secrets() {
        for name in [
            "OPENAI_MODEL",
            "model",
            "X_BASE_URL",
            "CODEX_HOME",
            "RUST_LOG",
        ] {
            assert!(is_setting(name), "{name}");
        }
        for name in [
            "GIVEN",
            "OPENAI_API_KEY",
            "MODEL_TOKEN",
            "PASSWORD",
            "LOGIN",
            "",
        ] {
            assert!(!is_setting(name), "{name}");
        }
        let token = format!("ghp_{}", "a1b2c3d4".repeat(6));
        let given = [
            ("OPENAI_MODEL", "the-model-of-mine"),
            ("PROXY_URL", "https://me:hunter2222@proxy.example"),
            ("ODD_MODE", token.as_str()),
            ("OTHER", "something-else"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let program = Program {
            argv: Vec::new(),
            env: Vec::new(),
            cwd: None,
        };
        let secrets = RunSecrets::new(&given, &Launcher::Program(program));
        let is_shown = |value: &str| secrets.text(value) == value;
        let shown = given.map(|(_, value)| is_shown(&value));
        assert_eq!(shown, [true, false, false, false]);
    }

    #[test]
    fn lines_keep_their_numbers_and_directions() {
        let secrets = RunSecrets::default();
        secrets.hide("k/ey-of-mine");
        let mut transcript = Transcript::new();
        let at = Duration::from_millis(5);
        let mut push = |direction, bytes: &[u8], length| {
            transcript.push(direction, at, bytes, true, length);
        };
        push(Direction::Process, br#"{"started":true}"#, None);
        push(Direction::FromAgent, br#"{"a":"k\/ey-of-mine"}"#, None);
        push(Direction::FromAgent, br#"{"a":"x\/y"}"#, None);
        push(Direction::Stderr, b"\xff k/ey-of-mine", None);
        push(Direction::FromAgent, b"long k/ey-of", Some(90));
        let masked = secrets.transcript(transcript);
        let lines: Vec<Line> = masked.lines().collect();
        let bytes: Vec<&[u8]> = lines.iter().map(|line| line.bytes.as_slice()).collect();
        let wanted: [&[u8]; 5] = [
            br#"{"started":true}"#,
            br#"{"a":"[secret]"}"#,
            br#"{"a":"x\/y"}"#,
            b"\xff [secret]",
            b"long [secret]",
        ];
        assert_eq!(bytes, wanted);
        assert_eq!(lines[4].cut, Some(90));
        assert_eq!(
            (lines[3].number, lines[3].direction),
            (5, Direction::Stderr)
        );
        assert_eq!(lines[3].at, at);
    }
}
