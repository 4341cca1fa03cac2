//! Parses a probe file, or returns all errors in it.

use std::path::Path;

use super::braces;
use super::{Command, Credentials, Input, Limit, Mode, Observe, Place, Probe, SchemaVersions};
use agentproto_manifest::fields::{self, Mistake, Notes};
use agentproto_manifest::{LineIndex, Node, Span};

/// Parses a probe file. Relative paths in it refer to `base`.
pub fn parse(text: &str, base: &Path) -> Result<Probe, Vec<Mistake>> {
    let what = "a probe file must be a mapping with `aoi_probe: 1`, `tool` and `commands`";
    let lines = LineIndex::new(text);
    let at = |span: Span| {
        let place = lines.position(text, span.start);
        Place {
            line: place.line,
            column: place.column,
        }
    };
    fields::read(text, what, |root, notes| {
        braces::check(root, notes);
        let mut probe = probe(root, notes, &at);
        probe.base = base.to_owned();
        place(&mut probe);
        probe
    })
}

/// Template parts of `init` that are still in the file.
pub fn unfinished(text: &str, probe: &Probe) -> Vec<Mistake> {
    const OPEN: &str = "FILL IN";
    let mut left = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let at = line
            .find(OPEN)
            .filter(|_| !line.trim_start().starts_with('#'));
        if let Some(at) = at {
            let before = line.get(..at).unwrap_or_default();
            let place = Place {
                line: number,
                column: u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX),
            };
            let told = "replace FILL IN with what this run needs";
            left.push(place.mistake(told));
        }
    }
    let template = probe.commands.iter().find(|c| c.name == "mycommand");
    left.extend(template.map(|command| {
        let told = "`mycommand` is only an example: replace it with the name of a command of the \
                    tool";
        command.place.mistake(told)
    }));
    left.sort_by_key(|mistake| (mistake.line, mistake.column));
    left
}

/// Replaces `{here}` by the directory of the file, and protects doubled braces from later
/// replacement.
fn place(probe: &mut Probe) {
    let here = probe.base.to_string_lossy().into_owned();
    let fill = |text: &mut String| {
        braces::hide(text);
        if text.contains("{here}") {
            *text = text.replace("{here}", &here);
        }
    };
    probe.tool.iter_mut().for_each(fill);
    probe.machine_args.iter_mut().for_each(fill);
    probe.caches.iter_mut().for_each(fill);
    probe.credentials.files.iter_mut().for_each(fill);
    for file in &mut probe.credentials.files {
        *file = braces::shown(file).into_owned();
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
pub const KNOWN: &[(&str, &[&str])] = &[
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

fn probe(root: &Node, notes: &mut Notes, at: &dyn Fn(Span) -> Place) -> Probe {
    notes.keys(root, "a probe file", &KEYS);
    match root.get("aoi_probe") {
        Some(version) if version.as_int() == Some(1) => {}
        Some(version) => notes.wrong(
            version.span,
            "`aoi_probe` must be 1, the only version of this format",
        ),
        None => notes.wrong(
            root.span,
            "`aoi_probe: 1` is missing: add the version of this format",
        ),
    }
    let tool = words(root, "tool", notes);
    if tool.is_empty() {
        notes.wrong(
            root.span,
            "`tool` is missing: add the command that starts it, such as [./mytool]",
        );
    }
    let machine_args = match root.get("machine_args") {
        Some(_) => words(root, "machine_args", notes),
        None => vec!["--output".to_owned(), "jsonl".to_owned()],
    };
    let mut commands = Vec::new();
    if let Some(node) = root.get("commands").filter(|node| !node.is_map()) {
        notes.wrong(
            node.span,
            "`commands` must be a mapping from command names to their settings",
        );
    }
    for entry in root.get("commands").map(Node::entries).unwrap_or_default() {
        let place = (at(entry.key_span), at(entry.value.span).line);
        commands.push(command(&entry.key, place, &entry.value, notes));
    }
    for command in &commands {
        let Some(from) = &command.target_from else {
            continue;
        };
        if !commands.iter().any(|other| other.name == *from) {
            let node = root.get("commands").and_then(|all| all.get(&command.name));
            let span = node.map_or(root.span, |node| node.span);
            notes.wrong(
                span,
                format!("`target.from` names `{from}`, which is not in `commands`"),
            );
        }
    }
    Probe {
        tool,
        machine_args,
        env: notes.pairs(root, "env"),
        credentials: root
            .get("credentials")
            .map_or_else(Credentials::default, |node| {
                notes.keys(node, "`credentials`", &CREDENTIALS);
                Credentials {
                    env: notes.list(node, "env"),
                    files: notes.list(node, "files"),
                }
            }),
        sandbox: notes.flag(root, "sandbox", false),
        setup: argvs(root, "setup", notes),
        setup_at: places(root, "setup", at),
        teardown: argvs(root, "teardown", notes),
        observe: root.get("observe").and_then(|node| observe(node, notes)),
        leave_out: leave_out(root, &commands, notes, at),
        commands,
        schema: schema(root, notes),
        local_only_schema: notes.flag(root, "local_only_schema", false),
        caches: notes.list(root, "caches"),
        ..Probe::default()
    }
}

/// A command line.
fn words(node: &Node, key: &str, notes: &mut Notes) -> Vec<String> {
    let Some(value) = node.get(key) else {
        return Vec::new();
    };
    line_of_words(value, key, notes)
}

fn line_of_words(value: &Node, key: &str, notes: &mut Notes) -> Vec<String> {
    // No shell splits the string, so all of it would be one word.
    if value.as_str().is_some_and(|text| text.contains(' ')) {
        let wanted = format!("`{key}` must be a list of words, such as [search, agent]");
        notes.wrong(value.span, wanted);
    }
    notes.texts(value, key)
}

/// A list of command lines.
fn argvs(node: &Node, key: &str, notes: &mut Notes) -> Vec<Vec<String>> {
    let items = notes.items(node, key);
    let lines = items.iter();
    lines.map(|item| line_of_words(item, key, notes)).collect()
}

/// Positions of the items of a list.
fn places(node: &Node, key: &str, at: &dyn Fn(Span) -> Place) -> Vec<Place> {
    let items = node.get(key).map(Node::items).unwrap_or_default();
    items.iter().map(|item| at(item.span)).collect()
}

fn leave_out(
    root: &Node,
    commands: &[Command],
    notes: &mut Notes,
    at: &dyn Fn(Span) -> Place,
) -> Vec<(String, Place)> {
    let names = notes.list(root, "leave_out");
    let Some(node) = root.get("leave_out") else {
        return Vec::new();
    };
    let spans: Vec<Span> = match node.is_seq() {
        true => node.items().iter().map(|item| item.span).collect(),
        false => vec![node.span],
    };
    for (name, span) in names.iter().zip(&spans) {
        if commands.iter().any(|command| command.name == *name) {
            let wrong = format!("`{name}` is in both `leave_out` and `commands`");
            notes.wrong(*span, wrong);
        }
    }
    let places = spans.into_iter().map(at);
    names.into_iter().zip(places).collect()
}

/// JSON pointer of an id in an event.
fn pointer(node: &Node, key: &str, notes: &mut Notes) -> Option<String> {
    let text = notes.string(node, key)?;
    if !text.starts_with('/') {
        let span = node.get(key).map_or(node.span, |node| node.span);
        let wanted = format!("`{key}` must be a JSON Pointer, such as /id");
        notes.wrong(span, wanted);
    }
    Some(text)
}

fn observe(node: &Node, notes: &mut Notes) -> Option<Observe> {
    notes.keys(node, "`observe`", &OBSERVE);
    if node.get("command").is_some() {
        return Some(Observe::Command {
            args: words(node, "command", notes),
            id: pointer(node, "id", notes).unwrap_or_else(|| "/id".to_owned()),
        });
    }
    if let Some(dir) = notes.string(node, "dir") {
        return Some(Observe::Dir(dir));
    }
    if node.get("exec").is_some() {
        return Some(Observe::Exec(words(node, "exec", notes)));
    }
    let wanted = "`observe` must have one of `command` (with `id`), `dir` or `exec`";
    notes.wrong(node.span, wanted);
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

fn command(name: &str, place: (Place, u32), node: &Node, notes: &mut Notes) -> Command {
    let what = format!("the command `{name}`");
    notes.keys(node, &what, &COMMAND);
    let destructive = notes.flag(node, "destructive", false);
    let ok = words(node, "ok", notes);
    if ok.is_empty() && node.get("input").is_none() {
        notes.wrong(
            node.span,
            format!("{what} has no `ok`: add the arguments of a run that succeeds"),
        );
    }
    let mutating = notes.flag(node, "mutating", false) || destructive;
    let read_only = node
        .get("read_only")
        .map(|_| notes.flag(node, "read_only", false));
    if mutating && read_only == Some(true) {
        let wrong = format!("{what} cannot be both mutating and read_only");
        notes.wrong(node.span, wrong);
    }
    let other = node.get("other").map(|_| words(node, "other", notes));
    if let (Some(words), Some(place)) = (&other, node.get("other"))
        && let Some(wrong) = wrong_other(words, &ok, read_only, node)
    {
        notes.wrong(place.span, wrong);
    }
    if let Some(place) = node.get("stdin").filter(|_| node.has("input")) {
        let wrong = "`stdin` and `input` exclude each other: remove one of them";
        notes.wrong(place.span, wrong);
    }
    for vector in notes.items(node, "secrets") {
        let planted = |item: &Node| item.as_str().is_some_and(|text| text.contains("{canary}"));
        if vector.is_seq() && !vector.items().iter().any(planted) {
            let wanted = "each list in `secrets` must have a `{canary}` in place of the secret";
            notes.wrong(vector.span, wanted);
        }
    }
    Command {
        name: name.to_owned(),
        place: place.0,
        line: place.1,
        ok,
        other,
        stdin: notes.string(node, "stdin"),
        malformed: argvs(node, "malformed", notes),
        limit: node.get("limit").map(|node| limit(node, notes)),
        slow: node.get("slow").map(|_| words(node, "slow", notes)),
        secrets: argvs(node, "secrets", notes),
        mutating,
        destructive,
        unbounded: notes.flag(node, "unbounded", false),
        needs_auth: notes.flag(node, "needs_auth", false),
        read_only,
        idempotency: node.get("idempotency").map(|node| {
            notes.keys(node, "`idempotency`", &["flag"]);
            notes.need(node, "flag", "`idempotency`")
        }),
        events: notes.list(node, "events"),
        id: pointer(node, "id", notes),
        dry_run: notes.string(node, "dry_run"),
        confirm: words(node, "confirm", notes),
        target_from: node.get("target").map(|node| {
            notes.keys(node, "`target`", &["from"]);
            notes.need(node, "from", "`target`")
        }),
        input: node.get("input").map(|node| input(node, notes)),
    }
}

/// Why `other` cannot create or change a second resource.
fn wrong_other(
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

fn limit(node: &Node, notes: &mut Notes) -> Limit {
    notes.keys(node, "`limit`", &LIMIT);
    let mut count = |key: &str| match node.get(key) {
        Some(_) => notes.number(node, key, 1, 1_000_000).unwrap_or(1),
        None => {
            notes.wrong(node.span, format!("`limit` needs the number `{key}`"));
            1
        }
    };
    let (total, page) = (count("total"), count("page"));
    let default = node.get("default").map(|_| count("default"));
    if page > total {
        let span = node.get("page").map_or(node.span, |node| node.span);
        notes.wrong(
            span,
            format!("`page` must be at most `total` ({total}), found {page}"),
        );
    }
    Limit {
        flag: notes.need(node, "flag", "`limit`"),
        total,
        page,
        default,
        cursor_flag: notes.string(node, "cursor_flag"),
        id: pointer(node, "id", notes).unwrap_or_else(|| "/id".to_owned()),
        unit: notes.word(node, "unit", "events", &["events", "lines", "bytes"]),
    }
}

fn input(node: &Node, notes: &mut Notes) -> Input {
    notes.keys(node, "`input`", &INPUT);
    let modes = node.get("modes");
    if let Some(modes) = modes {
        notes.keys(modes, "`modes`", &MODES);
    }
    let mut mode = |key: &str| {
        let modes = modes?;
        modes.get(key).map(|_| words(modes, key, notes))
    };
    let (fail_fast, tolerant) = (mode("fail_fast"), mode("continue"));
    let default = node.get("default").map(|_| {
        let word = notes.word(node, "default", "fail_fast", &MODES);
        match word.as_str() {
            "continue" => Mode::Tolerant,
            _ => Mode::FailFast,
        }
    });
    Input {
        flag: words(node, "flag", notes),
        good: notes.list(node, "good"),
        bad: notes.list(node, "bad"),
        fail_fast,
        tolerant,
        default,
        upstream: notes.flag(node, "upstream", false),
    }
}

fn schema(root: &Node, notes: &mut Notes) -> SchemaVersions {
    let Some(node) = root.get("schema") else {
        return SchemaVersions::default();
    };
    notes.keys(node, "`schema`", &["versions"]);
    let Some(node) = node.get("versions") else {
        return SchemaVersions::default();
    };
    notes.keys(node, "`versions`", &VERSIONS);
    SchemaVersions {
        flag: notes.string(node, "flag"),
        accept_flag: notes.string(node, "accept_flag"),
        ok: notes.list(node, "ok"),
        unsupported: notes.string(node, "unsupported"),
    }
}
