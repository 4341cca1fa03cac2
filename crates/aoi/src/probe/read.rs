//! Parses a probe file, or returns all errors in it.

use std::path::Path;

use super::placeholders;
use super::{
    Credentials, InputMode, JsonlInput, Observe, ProbeCommand, ProbePosition, ProbeSpec,
    ResultLimit, SchemaVersions,
};
use agentproto_manifest::fields::{self, FieldError, FieldReader};
use agentproto_manifest::{LineIndex, Node, Span};

/// Parses a probe file. Relative paths in it refer to `base`.
pub fn parse(text: &str, base: &Path) -> Result<ProbeSpec, Vec<FieldError>> {
    let what = "a probe file must be a mapping with `aoi_probe: 1`, `tool` and `commands`";
    let lines = LineIndex::new(text);
    let at = |span: Span| {
        let position = lines.position(text, span.start);
        ProbePosition {
            line: position.line,
            column: position.column,
        }
    };
    fields::read(text, what, |root, reader| {
        placeholders::check(root, reader);
        let mut probe = probe(root, reader, &at);
        probe.base = base.to_owned();
        resolve_here(&mut probe);
        probe
    })
}

/// Template parts of `init` that are still in the file.
pub fn template_leftovers(text: &str, probe: &ProbeSpec) -> Vec<FieldError> {
    const OPEN: &str = "FILL IN";
    let mut leftovers = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let at = line
            .find(OPEN)
            .filter(|_| !line.trim_start().starts_with('#'));
        if let Some(at) = at {
            let before = line.get(..at).unwrap_or_default();
            let position = ProbePosition {
                line: number,
                column: u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX),
            };
            let open = line.get(at..).unwrap_or_default();
            let open = open.split(['"', ']', ',', ':', '#']).next().unwrap_or(OPEN);
            let message = format!("replace `{}` with a value for this run", open.trim());
            leftovers.push(position.error(&message));
        }
    }
    let template = probe.commands.iter().find(|c| c.name == "mycommand");
    leftovers.extend(template.map(|command| {
        let message = "`mycommand` is only an example: replace it with the name of a command of the \
                    tool";
        command.position.error(message)
    }));
    leftovers.sort_by_key(|error| (error.line, error.column));
    leftovers
}

/// Replaces `{here}` by the directory of the file, and protects doubled braces from later
/// replacement.
fn resolve_here(probe: &mut ProbeSpec) {
    let here = probe.base.to_string_lossy().into_owned();
    let fill = |text: &mut String| {
        placeholders::protect(text);
        if text.contains("{here}") {
            *text = text.replace("{here}", &here);
        }
    };
    probe.tool.iter_mut().for_each(fill);
    probe.machine_args.iter_mut().for_each(fill);
    probe.caches.iter_mut().for_each(fill);
    probe.credentials.files.iter_mut().for_each(fill);
    for file in &mut probe.credentials.files {
        *file = placeholders::unprotect(file).into_owned();
    }
    let values = probe.env.iter_mut().map(|(_, value)| value);
    values.for_each(fill);
    let programs = probe.setup.iter_mut().chain(&mut probe.teardown);
    programs.flatten().for_each(fill);
    match &mut probe.observe {
        Some(Observe::Command { args: words, .. } | Observe::Exec(words)) => {
            words.iter_mut().for_each(fill);
        }
        Some(Observe::Dir(dir)) => fill(dir),
        None => {}
    }
    for command in &mut probe.commands {
        command.ok.iter_mut().for_each(fill);
        command.confirm.iter_mut().for_each(fill);
        command.stdin.iter_mut().for_each(fill);
        let lines = command.malformed.iter_mut().chain(&mut command.secrets);
        lines.flatten().for_each(fill);
        let more = command.slow.iter_mut().chain(&mut command.other);
        more.flatten().for_each(fill);
        if let Some(input) = &mut command.input {
            let lines = input.good.iter_mut().chain(&mut input.bad);
            lines.chain(&mut input.flag).for_each(fill);
            let modes = input.fail_fast.iter_mut().chain(&mut input.tolerant);
            modes.flatten().for_each(fill);
        }
    }
}

/// The keys that each mapping may have. The schema has the same lists.
pub const KEYS_BY_MAPPING: &[(&str, &[&str])] = &[
    ("", &KEYS),
    ("credentials", &CREDENTIALS),
    ("observe", &OBSERVE),
    ("command", &COMMAND),
    ("limit", &LIMIT),
    ("idempotency", &["flag"]),
    ("target", &["from"]),
    ("input", &INPUT),
    ("modes", &MODES),
    ("schema", &["versions"]),
    ("versions", &VERSIONS),
];

const CREDENTIALS: [&str; 2] = ["env", "files"];
const OBSERVE: [&str; 4] = ["command", "id", "dir", "exec"];
const LIMIT: [&str; 7] = [
    "flag",
    "total",
    "page",
    "default",
    "cursor_flag",
    "id",
    "unit",
];
const INPUT: [&str; 6] = ["flag", "good", "bad", "modes", "default", "upstream"];
const MODES: [&str; 2] = ["fail_fast", "continue"];
const VERSIONS: [&str; 4] = ["flag", "accept_flag", "ok", "unsupported"];

const KEYS: [&str; 15] = [
    "aoi_probe",
    "tool",
    "machine_args",
    "env",
    "credentials",
    "sandbox",
    "setup",
    "teardown",
    "observe",
    "commands",
    "leave_out",
    "schema",
    "local_only_schema",
    "caches",
    "title",
];

fn probe(root: &Node, reader: &mut FieldReader, at: &dyn Fn(Span) -> ProbePosition) -> ProbeSpec {
    reader.check_keys(root, "a probe file", &KEYS);
    match root.get("aoi_probe") {
        Some(version) if version.as_int() == Some(1) => {}
        Some(version) => reader.error(
            version.span,
            "`aoi_probe` must be 1, the only version of this format",
        ),
        None => reader.error(
            root.span,
            "`aoi_probe: 1` is missing: add the version of this format",
        ),
    }
    let tool = words(root, "tool", reader);
    if tool.is_empty() {
        reader.error(
            root.span,
            "`tool` is missing: add the command that starts it, such as [./mytool]",
        );
    }
    let machine_args = match root.get("machine_args") {
        Some(_) => words(root, "machine_args", reader),
        None => vec!["--output".to_owned(), "jsonl".to_owned()],
    };
    let mut commands = Vec::new();
    if let Some(node) = root.get("commands").filter(|node| !node.is_map()) {
        reader.error(
            node.span,
            "`commands` must be a mapping from command names to their settings",
        );
    }
    for entry in root.get("commands").map(Node::entries).unwrap_or_default() {
        let position = (at(entry.key_span), at(entry.value.span).line);
        commands.push(command(&entry.key, position, &entry.value, reader));
    }
    for command in &commands {
        let Some(from) = &command.target_from else {
            continue;
        };
        if !commands.iter().any(|other| other.name == *from) {
            let node = root.get("commands").and_then(|all| all.get(&command.name));
            let span = node.map_or(root.span, |node| node.span);
            reader.error(
                span,
                format!("`target.from` names `{from}`, which is not in `commands`"),
            );
        }
    }
    ProbeSpec {
        tool,
        machine_args,
        env: reader.pairs(root, "env"),
        credentials: root
            .get("credentials")
            .map_or_else(Credentials::default, |node| {
                reader.check_keys(node, "`credentials`", &CREDENTIALS);
                Credentials {
                    env: reader.strings(node, "env"),
                    files: reader.strings(node, "files"),
                }
            }),
        sandbox: reader.bool_or(root, "sandbox", false),
        setup: argvs(root, "setup", reader),
        setup_positions: positions(root, "setup", at),
        teardown: argvs(root, "teardown", reader),
        observe: root.get("observe").and_then(|node| observe(node, reader)),
        leave_out: leave_out(root, &commands, reader, at),
        commands,
        schema: schema(root, reader),
        local_only_schema: reader.bool_or(root, "local_only_schema", false),
        caches: reader.strings(root, "caches"),
        ..ProbeSpec::default()
    }
}

/// A command line.
fn words(node: &Node, key: &str, reader: &mut FieldReader) -> Vec<String> {
    let Some(value) = node.get(key) else {
        return Vec::new();
    };
    line_of_words(value, key, reader)
}

fn line_of_words(value: &Node, key: &str, reader: &mut FieldReader) -> Vec<String> {
    // No shell splits the string, so all of it would be one word.
    if value.as_str().is_some_and(|text| text.contains(' ')) {
        let message = format!("`{key}` must be a list of words, such as [search, agent]");
        reader.error(value.span, message);
    }
    reader.strings_in(value, key)
}

/// A list of command lines.
fn argvs(node: &Node, key: &str, reader: &mut FieldReader) -> Vec<Vec<String>> {
    let items = reader.items(node, key);
    let lines = items.iter();
    lines.map(|item| line_of_words(item, key, reader)).collect()
}

/// Positions of the items of a list.
fn positions(node: &Node, key: &str, at: &dyn Fn(Span) -> ProbePosition) -> Vec<ProbePosition> {
    let items = node.get(key).map(Node::items).unwrap_or_default();
    items.iter().map(|item| at(item.span)).collect()
}

fn leave_out(
    root: &Node,
    commands: &[ProbeCommand],
    reader: &mut FieldReader,
    at: &dyn Fn(Span) -> ProbePosition,
) -> Vec<(String, ProbePosition)> {
    let names = reader.strings(root, "leave_out");
    let Some(node) = root.get("leave_out") else {
        return Vec::new();
    };
    let spans: Vec<Span> = match node.is_seq() {
        true => node.items().iter().map(|item| item.span).collect(),
        false => vec![node.span],
    };
    for (name, span) in names.iter().zip(&spans) {
        if commands.iter().any(|command| command.name == *name) {
            let invalid = format!("`{name}` is in both `leave_out` and `commands`");
            reader.error(*span, invalid);
        }
    }
    let positions = spans.into_iter().map(at);
    names.into_iter().zip(positions).collect()
}

/// JSON pointer of an id in an event.
fn pointer(node: &Node, key: &str, reader: &mut FieldReader) -> Option<String> {
    let text = reader.string(node, key)?;
    if !text.starts_with('/') {
        let span = node.get(key).map_or(node.span, |node| node.span);
        let message = format!("`{key}` must be a JSON Pointer, such as /id");
        reader.error(span, message);
    }
    Some(text)
}

fn observe(node: &Node, reader: &mut FieldReader) -> Option<Observe> {
    reader.check_keys(node, "`observe`", &OBSERVE);
    if node.get("command").is_some() {
        return Some(Observe::Command {
            args: words(node, "command", reader),
            id: pointer(node, "id", reader).unwrap_or_else(|| "/id".to_owned()),
        });
    }
    if let Some(dir) = reader.string(node, "dir") {
        return Some(Observe::Dir(dir));
    }
    if node.get("exec").is_some() {
        return Some(Observe::Exec(words(node, "exec", reader)));
    }
    let message = "`observe` must have one of `command` (with `id`), `dir` or `exec`";
    reader.error(node.span, message);
    None
}

const COMMAND: [&str; 20] = [
    "ok",
    "other",
    "stdin",
    "malformed",
    "limit",
    "slow",
    "secrets",
    "mutating",
    "destructive",
    "unbounded",
    "needs_auth",
    "read_only",
    "idempotency",
    "events",
    "id",
    "dry_run",
    "confirm",
    "target",
    "input",
    "title",
];

fn command(
    name: &str,
    position: (ProbePosition, u32),
    node: &Node,
    reader: &mut FieldReader,
) -> ProbeCommand {
    let what = format!("the command `{name}`");
    reader.check_keys(node, &what, &COMMAND);
    let destructive = reader.bool_or(node, "destructive", false);
    let ok = words(node, "ok", reader);
    if ok.is_empty() && node.get("input").is_none() {
        reader.error(
            node.span,
            format!("{what} has no `ok`: add the arguments of a run that succeeds"),
        );
    }
    let mutating = reader.bool_or(node, "mutating", false) || destructive;
    let read_only = node
        .get("read_only")
        .map(|_| reader.bool_or(node, "read_only", false));
    if mutating && read_only == Some(true) {
        let invalid = format!("{what} cannot be both mutating and read_only");
        reader.error(node.span, invalid);
    }
    let other = node.get("other").map(|_| words(node, "other", reader));
    if let (Some(words), Some(position)) = (&other, node.get("other"))
        && let Some(invalid) = invalid_other(words, &ok, read_only, node)
    {
        reader.error(position.span, invalid);
    }
    if let Some(position) = node.get("stdin").filter(|_| node.has("input")) {
        let invalid = "`stdin` and `input` exclude each other: remove one of them";
        reader.error(position.span, invalid);
    }
    for vector in reader.items(node, "secrets") {
        let has_canary = |item: &Node| item.as_str().is_some_and(|text| text.contains("{canary}"));
        if vector.is_seq() && !vector.items().iter().any(has_canary) {
            let message = "each list in `secrets` must have a `{canary}` in place of the secret";
            reader.error(vector.span, message);
        }
    }
    ProbeCommand {
        name: name.to_owned(),
        position: position.0,
        line: position.1,
        ok,
        other,
        stdin: reader.string(node, "stdin"),
        malformed: argvs(node, "malformed", reader),
        limit: node.get("limit").map(|node| limit(node, reader)),
        slow: node.get("slow").map(|_| words(node, "slow", reader)),
        secrets: argvs(node, "secrets", reader),
        mutating,
        destructive,
        unbounded: reader.bool_or(node, "unbounded", false),
        needs_auth: reader.bool_or(node, "needs_auth", false),
        read_only,
        idempotency: node.get("idempotency").map(|node| {
            reader.check_keys(node, "`idempotency`", &["flag"]);
            reader.required_string(node, "flag", "`idempotency`")
        }),
        events: reader.strings(node, "events"),
        id: pointer(node, "id", reader),
        dry_run: reader.string(node, "dry_run"),
        confirm: words(node, "confirm", reader),
        target_from: node.get("target").map(|node| {
            reader.check_keys(node, "`target`", &["from"]);
            reader.required_string(node, "from", "`target`")
        }),
        input: node.get("input").map(|node| input(node, reader)),
    }
}

/// Why `other` cannot create or change a second resource.
fn invalid_other(
    words: &[String],
    ok: &[String],
    read_only: Option<bool>,
    command: &Node,
) -> Option<&'static str> {
    if words.is_empty() {
        return Some("`other` is empty: add the arguments of a second successful run");
    }
    if words == ok {
        return Some("`other` is the same as `ok`: it must be about another resource");
    }
    if words.iter().any(|word| word.contains("{id}")) {
        return Some("`other` must not contain {id}, because it names its own resource");
    }
    if command.has("target") {
        return Some(
            "remove `other`: with `target`, a {uniq} in the command that creates the \
             target is enough",
        );
    }
    if command.has("input") {
        return Some("remove `other`: with `input`, a {uniq} in the lines of `good` is enough");
    }
    if read_only == Some(true) {
        return Some(
            "remove `other`: it is for commands that change something, and this one is \
             read_only",
        );
    }
    None
}

fn limit(node: &Node, reader: &mut FieldReader) -> ResultLimit {
    reader.check_keys(node, "`limit`", &LIMIT);
    let mut count = |key: &str| match node.get(key) {
        Some(_) => reader.number(node, key, 1, 1_000_000).unwrap_or(1),
        None => {
            reader.error(node.span, format!("`limit` needs the number `{key}`"));
            1
        }
    };
    let (total, page) = (count("total"), count("page"));
    let default = node.get("default").map(|_| count("default"));
    if page > total {
        let span = node.get("page").map_or(node.span, |node| node.span);
        reader.error(
            span,
            format!("`page` must be at most `total` ({total}), found {page}"),
        );
    }
    ResultLimit {
        flag: reader.required_string(node, "flag", "`limit`"),
        total,
        page,
        default,
        cursor_flag: reader.string(node, "cursor_flag"),
        id: pointer(node, "id", reader).unwrap_or_else(|| "/id".to_owned()),
        unit: reader.one_of(node, "unit", "events", &["events", "lines", "bytes"]),
    }
}

fn input(node: &Node, reader: &mut FieldReader) -> JsonlInput {
    reader.check_keys(node, "`input`", &INPUT);
    let modes = node.get("modes");
    if let Some(modes) = modes {
        reader.check_keys(modes, "`modes`", &MODES);
    }
    let mut mode = |key: &str| {
        let modes = modes?;
        modes.get(key).map(|_| words(modes, key, reader))
    };
    let (fail_fast, tolerant) = (mode("fail_fast"), mode("continue"));
    let default = node.get("default").map(|_| {
        let word = reader.one_of(node, "default", "fail_fast", &MODES);
        match word.as_str() {
            "continue" => InputMode::Tolerant,
            _ => InputMode::FailFast,
        }
    });
    let good = reader.strings(node, "good");
    let reads_events = !good.is_empty() && good.iter().all(|line| is_event(line));
    JsonlInput {
        flag: words(node, "flag", reader),
        good,
        bad: reader.strings(node, "bad"),
        fail_fast,
        tolerant,
        default,
        upstream: reader.bool_or(node, "upstream", reads_events),
    }
}

/// Whether the line is an event, so that the command reads the stream of another tool.
fn is_event(line: &str) -> bool {
    let event: Option<serde_json::Value> = serde_json::from_str(line).ok();
    event.is_some_and(|event| event.get("type").is_some_and(serde_json::Value::is_string))
}

fn schema(root: &Node, reader: &mut FieldReader) -> SchemaVersions {
    let Some(node) = root.get("schema") else {
        return SchemaVersions::default();
    };
    reader.check_keys(node, "`schema`", &["versions"]);
    let Some(node) = node.get("versions") else {
        return SchemaVersions::default();
    };
    reader.check_keys(node, "`versions`", &VERSIONS);
    SchemaVersions {
        flag: reader.string(node, "flag"),
        accept_flag: reader.string(node, "accept_flag"),
        ok: reader.strings(node, "ok"),
        unsupported: reader.string(node, "unsupported"),
    }
}
