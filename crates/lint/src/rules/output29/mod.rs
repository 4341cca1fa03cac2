//! How the binary's output is read, and the worked examples.

mod catalog;

use catalog::*;

use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::registry::{Check, Family};
use crate::rules::install::is_bin;
use crate::shape::{Keyword, Violation, draft};
use agentproto_manifest::{Doctype, Entry, Node, Value};
use agentproto_text::{closest_of, short};

pub static FAMILY: Family = Family {
    name: "output29",
    rules: &[
        &EXIT_CODE_KEY,
        &EXIT_CODE_VALUE,
        &RESERVED_CODE,
        &CODE_RANGE,
        &JSON_ARGS_NO_FLAG,
        &EXAMPLE_FIELDS,
        &EXAMPLE_NOT_BIN,
        &EXAMPLE_NOT_IN_TREE,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Cli],
        run: check,
    }],
};

/// `ok: 0` has its sides swapped: the key reports it, the type of the value does not.
pub fn swapped_value<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    ctx.is(Doctype::Cli)
        && v.keyword == Keyword::Type
        && swapped_entry(ctx).is_some_and(|mut all| all.any(|e| std::ptr::eq(&e.value, v.node)))
}

fn exit_codes<'d>(ctx: &Context<'d>) -> Option<&'d Node> {
    ctx.root.at(&["output", "exit_codes"])
}

fn is_code(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit())
}

fn swapped_entry<'d>(ctx: &Context<'d>) -> Option<impl Iterator<Item = &'d Entry> + use<'d>> {
    let codes = exit_codes(ctx)?;
    Some(
        codes
            .entries()
            .iter()
            .filter(|e| !is_code(&e.key) && e.value.as_int().is_some_and(|code| code >= 0)),
    )
}

fn bad_key<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(entry) = violation.entry else {
        return ctx.report(draft(ctx, violation));
    };
    let codes = violation.node;
    let key = short(&entry.key, 40);
    if let Some(code) = entry.value.as_int().filter(|code| *code >= 0) {
        let code = code.to_string();
        let report = Draft::new(
            &EXIT_CODE_KEY,
            entry,
            format!("the sides are swapped: `{key}: {code}` maps a word to a number"),
        )
        .help(format!("write `{code}: {}`", snake(&entry.key)));
        let free = !codes.has(&code);
        let edits = free.then(|| swap(ctx, entry, &code)).flatten();
        ctx.report(report.fix_if(
            Safety::Safe,
            format!("Write `{code}: {}`", snake(&entry.key)),
            edits,
        ));
        return;
    }
    let mut report = Draft::new(
        &EXIT_CODE_KEY,
        entry,
        format!("`{key}` is not an exit code; keys are digits only"),
    );
    // The code must be beyond doubt and not yet taken.
    let mut runs = entry
        .key
        .split(|c: char| !c.is_ascii_digit())
        .filter(|run| !run.is_empty());
    let only = runs.next().filter(|_| runs.next().is_none());
    match only {
        Some(code) if !codes.has(code) && !entry.key.starts_with('-') => {
            report = report.help(format!("write `{code}`")).fix_if(
                Safety::Safe,
                format!("Rename the key to `{code}`"),
                rename(ctx, entry, code),
            );
        }
        _ => {
            report =
                report.help("write the number with which the process ends, as in `3: rate_limited`")
        }
    }
    ctx.report(report);
}

fn swap(ctx: &Context<'_>, entry: &Entry, code: &str) -> Option<Vec<Edit>> {
    let word = snake(&entry.key);
    if !is_outcome(&word) {
        return None;
    }
    let mut all = rename(ctx, entry, code)?;
    all.extend(edits::set_raw(ctx.doc, &entry.value, &word)?);
    Some(all)
}

/// A plain key stays plain, as exit codes are usually written.
fn rename(ctx: &Context<'_>, entry: &Entry, code: &str) -> Option<Vec<Edit>> {
    if ctx.doc.slice(entry.key_span) != entry.key {
        return edits::rename_key(ctx.doc, entry, code);
    }
    Some(vec![Edit {
        span: entry.key_span,
        text: code.to_owned(),
    }])
}

fn bad_value<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(word) = violation.node.as_str() else {
        return ctx.report(draft(ctx, violation));
    };
    let mended = snake(word);
    let report = Draft::new(
        &EXIT_CODE_VALUE,
        violation.node,
        format!("`{}` is not a snake_case word", short(word, 40)),
    );
    ctx.report(if is_outcome(&mended) {
        report.help(format!("write `{mended}`")).fix_if(
            Safety::Safe,
            format!("Replace it by `{mended}`"),
            edits::set_scalar(ctx.doc, violation.node, &mended),
        )
    } else {
        report.help("use small letters, digits and underscores, two or more, a letter first")
    });
}

/// `Rate-Limited` → `rate_limited`, `rateLimited` → `rate_limited`.
fn snake(word: &str) -> String {
    let mut out = String::with_capacity(word.len() + 2);
    let mut after_small = false;
    for c in word.trim().chars() {
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && after_small {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
            after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        } else if matches!(c, '-' | ' ' | '_' | '.' | '/') {
            if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            after_small = false;
        } else {
            // What cannot be spelt is kept, so that the result is seen not to fit.
            out.push(c);
        }
    }
    out.trim_end_matches('_').to_owned()
}

fn is_outcome(word: &str) -> bool {
    word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn bad_example<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    // `command:` in place of `cmd:` is one mistake: the missing key reports it.
    let misspelt = !violation.node.has("cmd") || !violation.node.has("goal");
    if violation.keyword == Keyword::AdditionalProperties && misspelt {
        return;
    }
    let Some(missing) = violation.missing.as_deref() else {
        return ctx.report(draft(ctx, violation));
    };
    let mut report = draft(ctx, violation);
    let others = violation.node.entries().iter().map(|e| e.key.as_str());
    let near = others
        .filter(|key| !matches!(*key, "goal" | "cmd" | "note"))
        .find(|key| {
            closest_of(key, [missing]).is_some()
                || (missing == "cmd" && matches!(*key, "command" | "run"))
        });
    report = match near {
        Some(key) => report.help(format!("rename `{key}` to `{missing}`")),
        None if missing == "goal" => report.help("say in `goal` what the command is good for"),
        None => report.help("give the whole command line in `cmd`"),
    };
    ctx.report(report);
}

fn check(ctx: &Context<'_>) {
    if let Some(output) = ctx.root.get("output") {
        check_output(ctx, output);
    }
    if let Some(examples) = ctx.root.get("examples") {
        for cmd in examples.items().iter().filter_map(|e| e.get("cmd")) {
            check_example(ctx, cmd);
        }
    }
}

/// The codes that have a meaning already.
fn reserved(code: i64) -> Option<&'static str> {
    Some(match code {
        0 => "ok",
        1 => "error",
        2 => "usage_error",
        4 => "auth_required",
        124 => "timeout",
        137 => "killed",
        _ => return None,
    })
}

fn check_output<'d>(ctx: &Context<'d>, output: &'d Node) {
    for entry in output.get("exit_codes").map_or(&[][..], Node::entries) {
        if !is_code(&entry.key) {
            continue;
        }
        // More digits than fit are out of range all the same.
        let code = entry.key.parse::<i64>().unwrap_or(i64::MAX);
        if let (Some(meaning), Some(word)) = (reserved(code), entry.value.as_str())
            && word != meaning
            && snake(word) != meaning
        {
            let report = Draft::new(
                &RESERVED_CODE,
                &entry.value,
                format!(
                    "exit code {code} is reserved for `{meaning}`, not `{}`",
                    short(word, 40)
                ),
            )
            .help(format!(
                "write `{code}: {meaning}`, and give other outcomes codes that are not reserved"
            ));
            ctx.report(report);
        }
        if code > 255 && !windows_only(ctx) {
            let report = Draft::new(
                &CODE_RANGE,
                entry,
                format!(
                    "no process ends with the exit code {}",
                    short(&entry.key, 20)
                ),
            )
            .help("exit codes go from 0 to 255; larger ones wrap round");
            ctx.report(report);
        }
    }
    if let Some(args) = output.entry("json_flag_args")
        && !args.value.items().is_empty()
        && !output.has("json_flag")
    {
        let report = Draft::new(
            &JSON_ARGS_NO_FLAG,
            args,
            "`json_flag_args` has values, but there is no `json_flag` for them to follow",
        )
        .help("add `json_flag`, for example `json_flag: --json`");
        ctx.report(report);
    }
}

fn windows_only(ctx: &Context<'_>) -> bool {
    let systems = ctx.root.at(&["requires", "os"]);
    systems
        .is_some_and(|os| !os.items().is_empty() && os.strings().all(|(name, _)| name == "windows"))
}

fn check_example<'d>(ctx: &Context<'d>, cmd: &'d Node) {
    // A malformed `bin` is a mistake of its own.
    let bin = ctx.root.str_at(&["bin"]).filter(|bin| is_bin(bin));
    let (Some(text), Some(bin)) = (cmd.as_str(), bin) else {
        return;
    };
    // A malformed `bin` is reported as such; no example can agree with it.
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    if bin.is_empty() || !bin.bytes().all(is_name) {
        return;
    }
    let mut words = text
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '\'']))
        .skip_while(|word| is_assignment(word));
    let Some(program) = words.next() else {
        return;
    };
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    if program != bin && file_name(program) != file_name(bin) {
        let report = Draft::new(
            &EXAMPLE_NOT_BIN,
            cmd,
            format!(
                "the example runs `{}`, but this manifest is about `{bin}`",
                short(program, 40)
            ),
        )
        .help(format!("begin the command with `{bin}`"));
        ctx.report(match ctx.root.get("bin") {
            Some(node) => report.nearby(node.span, "the binary"),
            None => report,
        });
        return;
    }
    if let Some(commands) = ctx.root.entry("commands") {
        check_path(ctx, cmd, commands, words);
    }
}

/// `NAME=value` before the program.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn check_path<'d, 'w>(
    ctx: &Context<'d>,
    cmd: &'d Node,
    commands: &'d Entry,
    words: impl Iterator<Item = &'w str>,
) {
    let mut group = &commands.value;
    let mut path = String::new();
    for word in words {
        // Options before the subcommand may take values: what follows is not certain.
        let plain = word.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !plain || group.entries().is_empty() {
            return;
        }
        let Some(next) = group.get(word) else {
            let known = group.entries().iter().map(|e| e.key.as_str());
            let report = Draft::new(
                &EXAMPLE_NOT_IN_TREE,
                cmd,
                format!("`{}{}` is not in `commands`", path, short(word, 40)),
            )
            .nearby(commands.key_span, "the subcommands of this tool");
            ctx.report(match closest_of(word, known) {
                Some(meant) => report.help(format!("did you mean `{path}{meant}`?")),
                None => {
                    report.help("index its TOOL.md under `commands`, or show another subcommand")
                }
            });
            return;
        };
        if !matches!(next.value, Value::Map(_)) {
            return;
        }
        path.push_str(word);
        path.push(' ');
        group = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_snake_case() {
        assert_eq!(snake("Rate-Limited"), "rate_limited");
        assert_eq!(snake("rateLimited"), "rate_limited");
        assert_eq!(snake("AUTH REQUIRED"), "auth_required");
        assert_eq!(snake("HTTP2Error"), "http2_error");
        assert_eq!(snake("__x-"), "x");
        assert!(!is_outcome(&snake("größe")));
        assert!(!is_outcome("x") && !is_outcome("2x") && is_outcome("x2"));
    }

    #[test]
    fn assignments_before_a_program() {
        assert!(is_assignment("A_1=x") && is_assignment("A="));
        assert!(!is_assignment("1A=x") && !is_assignment("--a=x") && !is_assignment("gh"));
    }
}
