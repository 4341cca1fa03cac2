//! What the exit code and the output of a tool mean: success, failure, an expired login, a value.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::invoke::Ran;
use super::output::{self, Format};
use super::result::{CallResult, CallWarning};
use super::{ToolBundle, ToolCommand, exit, schema};
use crate::auth;
use crate::entry::{DetectExpiryArgs, Entry, ExpectedOutput, ParseOutputArgs, ParseOutputResult};
use crate::error::{Code, Error};
use agentproto_sandbox::diagnose;
use serde_json::json;

/// Maximum number of characters of the tool's output in an error message.
const MAX_ERROR_CHARS: usize = 1000;

impl ToolBundle {
    /// The exit code and its meaning.
    pub(super) fn exit(&self, ran: &Ran) -> (i32, String) {
        if ran.exit.timed_out {
            return (124, exit::TIMEOUT.to_owned());
        }
        let status = ran.exit.status;
        match status.code() {
            Some(code) => {
                let codes = self.output().and_then(|output| output.exit_codes());
                (code, exit::meaning(codes, code))
            }
            None => {
                let signal = status.signal().unwrap_or(libc::SIGKILL);
                (128 + signal, exit::KILLED.to_owned())
            }
        }
    }

    /// Asks the entry whether the login has expired (A29-DEFCLI-03).
    pub(super) async fn detect_expiry(
        &self,
        entry: &mut Option<Entry>,
        result: &CallResult,
        ran: &Ran,
    ) -> Result<bool, Error> {
        let Some(entry) = entry.as_mut().filter(|entry| entry.hooks().detect_expiry) else {
            return Ok(false);
        };
        let has_ended = !ran.exit.timed_out && !ran.is_abandoned;
        if !has_ended || self.context.bundle.common().auth().is_none() {
            return Ok(false);
        }
        let args = DetectExpiryArgs {
            exit_code: result.exit_code,
            stdout: ran.stdout.text(),
            stderr: result.stderr.clone(),
        };
        entry.detect_expiry(&args).await.map_err(has_run)
    }

    /// Decides whether the call failed, and detects an expired login (A29-AUTH-11).
    pub(super) fn judge(
        &self,
        result: &mut CallResult,
        ran: &mut Ran,
        limit: Duration,
        policy: Option<&agentproto_sandbox::Policy>,
        detected: Result<bool, Error>,
    ) {
        let context = &self.context;
        let said = self.error_text(ran);
        let expired = match detected {
            Err(error) => {
                result.error = Some(error);
                return;
            }
            Ok(true) => Some(auth::expire(context, result.exit_code, &said)),
            Ok(false) if ran.exit.timed_out => None,
            Ok(false) => auth::expired(context, ran.exit.status, &said),
        };
        if let Some(expired) = expired {
            result.meaning = exit::AUTH_REQUIRED.to_owned();
            result.error = Some(expired);
            return;
        }
        let code = result.exit_code;
        let tool = format!("{} {}", result.target.id, result.command);
        result.error = match result.meaning.as_str() {
            exit::OK => None,
            exit::TIMEOUT if ran.exit.timed_out => {
                let what = format!("`{tool}` was killed after {} s", limit.as_secs_f64());
                Some(Error::new(Code::ToolTimeout, what).hint(
                    "`--timeout`, `timeout_ms` in the TOOL.md and `runner.limits.timeout_ms` in the CLI.md set the limit; the shortest one applies",
                ))
            }
            exit::TIMEOUT => {
                let what = format!(
                    "`{tool}` reports a timeout (exit code {code}){}",
                    after(&said)
                );
                Some(Error::new(Code::ToolTimeout, what))
            }
            exit::AUTH_REQUIRED => {
                let what = format!(
                    "`{tool}` reports that a login is required (exit code {code}){}",
                    after(&said)
                );
                Some(
                    Error::new(Code::AuthRequired, what)
                        .hint("the CLI.md has no `auth`, so log in with the program itself"),
                )
            }
            meaning => {
                let how = match ran.exit.status.code() {
                    Some(code) if meaning == "error" => format!("failed with exit code {code}"),
                    Some(code) => format!("failed with exit code {code} ({meaning})"),
                    None => format!("was killed by signal {}", code - 128),
                };
                let error = Error::new(Code::ToolFailed, format!("`{tool}` {how}{}", after(&said)));
                let hints = policy.map(|policy| diagnose::diagnose(policy, &said, &[]));
                match hints.unwrap_or_default().as_slice() {
                    [] => Some(error),
                    hints => Some(error.hint(format!(
                        "the sandbox may be the cause: {}",
                        hints.join("; ")
                    ))),
                }
            }
        };
    }

    /// The end of the error message, from the declared stream (A29-OUT-14).
    fn error_text(&self, ran: &Ran) -> String {
        let declared = self.output().and_then(|output| output.error_stream());
        let (first, second) = match declared {
            Some("stdout") => (&ran.stdout, &ran.stderr),
            _ => (&ran.stderr, &ran.stdout),
        };
        let text = match first.text() {
            text if text.trim().is_empty() => second.text(),
            text => text,
        };
        let text = text.trim();
        let over = text.chars().count().saturating_sub(MAX_ERROR_CHARS);
        let text: String = text.chars().skip(over).collect();
        self.context.masks.mask(&text).into_owned()
    }

    /// Parses the output, with the hook of the entry if it has one, and compares it with the tool's
    /// schema.
    pub(super) async fn read_output(
        &self,
        result: &mut CallResult,
        ran: Ran,
        command: &ToolCommand,
        structured: bool,
        entry: &mut Option<Entry>,
    ) {
        let entry = entry.as_mut().filter(|entry| entry.hooks().parse_output);
        let hook = entry.filter(|_| structured && reads_output(result, &ran));
        let is_cut = hook.is_some() && ran.stdout.is_cut();
        let args = hook.is_some().then(|| ParseOutputArgs {
            exit_code: result.exit_code,
            stdout: ran.stdout.text(),
            stderr: result.stderr.clone(),
            expected: ExpectedOutput {
                format: result.format,
            },
        });
        let declared = self.output().and_then(|output| output.stream());
        result.output = match declared {
            Some("stderr") if result.is_ok() => ran.stderr,
            Some("mixed") if result.is_ok() => ran.mixed,
            _ => ran.stdout,
        };
        if result.is_abandoned {
            return;
        }
        // Otherwise the caller reads the output while the tool runs.
        if structured && result.output.is_cut() {
            let (kept, written) = (result.output.bytes.len(), result.output.written);
            let message = format!(
                "the output has {written} bytes, and only the first {kept} are in the result"
            );
            result.warnings.push(CallWarning {
                code: "output_truncated",
                message,
            });
        }
        if !structured {
            return;
        }
        if let (Some(hook), Some(args)) = (hook, args) {
            if is_cut {
                let kept = args.stdout.len();
                let what = format!(
                    "the output is longer than {kept} bytes, so `parseOutput` of the module cannot read it"
                );
                result.error = Some(has_run(Error::new(Code::OutputInvalid, what)));
                return;
            }
            match hook.parse_output(&args).await {
                Some(Ok(parsed)) => adopt(result, parsed),
                Some(Err(error)) => result.error = Some(has_run(error)),
                None => {}
            }
            return self.check_output(result, command);
        }
        let parsed = match result.output.is_cut() {
            true if matches!(result.format, Format::Json | Format::Yaml) => Err(format!(
                "its output is longer than {} bytes",
                result.output.bytes.len()
            )),
            true => Ok(None),
            false => output::parse(result.format, &result.output.bytes),
        };
        match parsed {
            Ok(value) => result.value = value,
            // The exit code says more than the missing output.
            Err(_) if !result.is_ok() => {}
            Err(why) => {
                let what = format!(
                    "`{} {}` succeeded, but {why}",
                    result.target.id, result.command
                );
                let hint = "the tool has run: do not repeat the call if it changes something; `--output text` shows its output";
                result.error = Some(Error::new(Code::OutputInvalid, what).hint(hint));
            }
        }
        self.check_output(result, command);
    }

    /// Compares the value with the tool's schema.
    fn check_output(&self, result: &mut CallResult, command: &ToolCommand) {
        if let (true, Some(value), Some(outputs)) =
            (result.is_ok(), &result.value, &command.outputs)
        {
            let message = match schema::Schema::compile(outputs) {
                Err(why) => Some(format!(
                    "the schema of the tool's `outputs` is invalid: {why}"
                )),
                Ok(schema) => schema.violations(value).first().map(|first| {
                    let at = match first.pointer.as_str() {
                        "" => String::new(),
                        pointer => format!(" at `{pointer}`"),
                    };
                    format!(
                        "the output does not match the schema of the tool{at}: {}",
                        first.message
                    )
                }),
            };
            result.warnings.extend(message.map(|message| CallWarning {
                code: "output_schema_mismatch",
                message,
            }));
        }
    }
}

/// Whether the hook decides about the output: the tool has ended by itself, and the login is valid.
fn reads_output(result: &CallResult, ran: &Ran) -> bool {
    let code = result.error.as_ref().map(|error| error.code);
    let is_decided = matches!(code, Some(Code::AuthRequired | Code::EntryFailed));
    let has_ended = !ran.exit.timed_out && !ran.is_abandoned && result.meaning != exit::KILLED;
    has_ended && !is_decided
}

/// Uses the result of the hook instead of the exit code and the declared format (A29-DEFCLI-10).
fn adopt(result: &mut CallResult, parsed: ParseOutputResult) {
    result.value = parsed.value;
    if parsed.ok {
        result.error = None;
        return;
    }
    let before = result.error.take();
    let hint = before.as_ref().and_then(|error| error.hint.clone());
    let mut error = match (parsed.error, before) {
        (Some(error), _) => {
            let what = format!(
                "`{} {}` failed ({}): {}",
                result.target.id, result.command, error.code, error.message
            );
            let details = json!({ "code": error.code, "retryable": error.retryable });
            Error::new(Code::ToolFailed, what).details(details)
        }
        (None, Some(before)) => before,
        (None, None) => {
            let what = format!(
                "`{} {}` failed, says `parseOutput` of the module",
                result.target.id, result.command
            );
            Error::new(Code::ToolFailed, what)
        }
    };
    error.hint = hint;
    result.error = Some(error);
}

/// Adds to an error of the entry that the tool has run.
fn has_run(error: Error) -> Error {
    let next = error.hint.as_deref();
    let next = next.map(|next| format!("; {next}")).unwrap_or_default();
    error.hint(format!(
        "the tool has run: do not repeat the call if it changes something{next}"
    ))
}

fn after(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!(": {text}"),
    }
}
