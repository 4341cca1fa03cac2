//! Parses the command line. Error messages never quote a value, because it may be a secret.

use super::changes::Quirk;
use super::surface::{self, CommandSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    Jsonl,
    Json,
    Human,
}

#[derive(Default)]
pub struct ParsedArgs {
    pub command: Option<&'static CommandSpec>,
    pub operands: Vec<String>,
    flags: Vec<(&'static str, String)>,
}

pub struct UsageError {
    pub code: &'static str,
    pub message: String,
}

fn usage_error(code: &'static str, message: impl Into<String>) -> UsageError {
    let message = message.into();
    UsageError { code, message }
}

impl ParsedArgs {
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| *name == flag)
    }
    /// The value of a flag. The last occurrence counts.
    pub fn value(&self, flag: &str) -> Option<&str> {
        let mut found = self.flags.iter().rev();
        let found = found.find(|(name, _)| *name == flag);
        found.map(|(_, value)| value.as_str())
    }
    pub fn operand(&self, at: usize) -> &str {
        self.operands.get(at).map_or("", String::as_str)
    }
    pub fn number(&self, flag: &str) -> Result<Option<u64>, UsageError> {
        let Some(text) = self.value(flag) else {
            return Ok(None);
        };
        let number = text.parse().ok();
        number
            .map(Some)
            .ok_or_else(|| usage_error("NOT_A_NUMBER", format!("`{flag}` must be a whole number.")))
    }
}

/// The output mode, even if the rest of the command line is invalid.
pub fn mode(args: &[String], quirks: &[Quirk]) -> OutputMode {
    let flag = mode_flag(quirks);
    let inline = |word: &str| {
        let value = word.strip_prefix(flag)?.strip_prefix('=')?;
        Some(value.to_owned())
    };
    let mut value_text = None;
    let mut words = args.iter().peekable();
    while let Some(word) = words.next() {
        if word == flag {
            value_text = words.peek().map(|next| (*next).clone()).or(value_text);
        } else if let Some(value) = inline(word) {
            value_text = Some(value);
        }
    }
    match value_text.as_deref() {
        Some("jsonl") => OutputMode::Jsonl,
        Some("json") => OutputMode::Json,
        Some("human") => OutputMode::Human,
        _ if quirks.contains(&Quirk::HumanDefault) => OutputMode::Human,
        _ => OutputMode::Jsonl,
    }
}

pub fn mode_flag(quirks: &[Quirk]) -> &'static str {
    match quirks.contains(&Quirk::FormatFlag) {
        true => "--format",
        false => "--output",
    }
}

pub fn read(args: &[String], quirks: &[Quirk]) -> Result<ParsedArgs, UsageError> {
    let has = |quirk: Quirk| quirks.contains(&quirk);
    let mut words = ParsedArgs::default();
    let mut rest = args.iter().peekable();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word == "-" {
            take_operand(&mut words, word, quirks)?;
            continue;
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let flag = match name == mode_flag(quirks) {
            true => surface::flag("--output"),
            false if name == "--output" => None,
            false => surface::flag(name),
        };
        let Some(flag) = flag else {
            if has(Quirk::UnknownFlagsPass) {
                continue;
            }
            let next = inline.or_else(|| rest.peek().map(|next| (*next).clone()));
            return Err(match next {
                Some(value) if has(Quirk::QuotesFlagValues) => {
                    usage_error("UNKNOWN_FLAG", format!("Unknown flag `{name} {value}`."))
                }
                _ => usage_error(
                    "UNKNOWN_FLAG",
                    format!("Unknown flag{}.", flag_suffix(name)),
                ),
            });
        };
        let value = match (flag.value, inline) {
            (None, None) => String::new(),
            (None, Some(_)) => {
                let message = format!("`{}` does not take a value.", flag.name);
                return Err(usage_error("VALUE_NOT_WANTED", message));
            }
            (Some(_), Some(value)) => value,
            (Some(_), None) => match rest.next_if(|next| !next.starts_with("--")) {
                Some(value) => value.clone(),
                None if has(Quirk::MissingValuePasses) => continue,
                None => {
                    let message = format!("`{}` requires a value.", flag.name);
                    return Err(usage_error("VALUE_MISSING", message));
                }
            },
        };
        words.flags.push((flag.name, value));
    }
    check(&words, quirks)?;
    Ok(words)
}

fn take_operand(words: &mut ParsedArgs, word: &str, quirks: &[Quirk]) -> Result<(), UsageError> {
    if words.command.is_some() {
        words.operands.push(word.to_owned());
        return Ok(());
    }
    words.command = surface::command(word);
    match words.command {
        Some(_) => Ok(()),
        None if quirks.contains(&Quirk::UnknownCommandPasses) => {
            words.command = surface::command("list");
            Ok(())
        }
        None => Err(usage_error("UNKNOWN_COMMAND", "Unknown command.")),
    }
}

/// Checks that need the whole command line.
fn check(words: &ParsedArgs, quirks: &[Quirk]) -> Result<(), UsageError> {
    let has = |quirk: Quirk| quirks.contains(&quirk);
    let output = words.value("--output");
    let known = output.is_none_or(|format| matches!(format, "jsonl" | "json" | "human"));
    if !known && !has(Quirk::InvalidOutputPasses) {
        let message = format!("`{}` must be jsonl, json or human.", mode_flag(quirks));
        return Err(usage_error("UNKNOWN_FORMAT", message));
    }
    let Some(command) = words.command else {
        return Ok(());
    };
    let is_global = |flag: &str| surface::GLOBAL.iter().any(|global| global.name == flag);
    let alien = words.flags.iter();
    let mut alien = alien.filter(|(flag, _)| !is_global(flag) && !command.has(flag));
    if let Some((flag, value)) = alien.next()
        && !has(Quirk::UnknownFlagsPass)
    {
        let flag_text = match has(Quirk::QuotesFlagValues) {
            true => format!("{flag} {value}"),
            false => (*flag).to_owned(),
        };
        let message = format!("`{}` has no flag `{flag_text}`.", command.name);
        return Err(usage_error("UNKNOWN_FLAG", message));
    }
    if words.has("--help") || words.has("-h") || words.has("--version") {
        return Ok(());
    }
    let expected = command.operands.len();
    let found = words.operands.len();
    if found < expected && !has(Quirk::MissingOperandPasses) {
        let names = command.operands.get(found..).unwrap_or_default().join(" ");
        let message = format!("`{}` requires {names}.", command.name);
        return Err(usage_error("OPERAND_MISSING", message));
    }
    if found > expected && !command.takes_more && !has(Quirk::ExtraOperandPasses) {
        let extra = words.operands.get(expected..).unwrap_or_default().join(" ");
        let message = match has(Quirk::QuotesOperands) {
            true => format!("Unexpected operand `{extra}`."),
            false => format!(
                "`{}` takes {expected} operands, found {found}.",
                command.name
            ),
        };
        return Err(usage_error("OPERAND_UNEXPECTED", message));
    }
    Ok(())
}

/// The name of a flag, if it has the form of one. A misplaced secret does not.
fn flag_suffix(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match name.len() <= 40 && name.chars().all(plain) {
        true => format!(" `{name}`"),
        false => String::new(),
    }
}
