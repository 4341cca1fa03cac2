//! Parses YAML text into a `Suite`.

use std::collections::HashSet;

use serde_json::Value;

use super::expectations::expects;
use super::steps::steps;
use super::{
    Behavior, Case, CaseNeeds, CaseStep, ClientBehavior, Requirement, StartState, StepKind, Suite,
    SuiteProtocol,
};
use crate::model::{Basis, Binding, Level, Profile};
use crate::{lifecycle, sessions};
use agentproto_manifest::fields::{self, FieldError, FieldReader};
use agentproto_manifest::{LineIndex, Node, to_json};

/// The value of `suite`, which identifies a suite file among other YAML files.
pub const FORMAT: &str = "agentproto.suite/v1";

/// The source text, with an index of its lines.
pub struct SuiteReader<'t> {
    pub text: &'t str,
    pub lines: LineIndex,
}

impl SuiteReader<'_> {
    pub fn line(&self, node: &Node) -> u32 {
        self.lines.position(self.text, node.span.start).line
    }
}

/// Parses a suite, or returns everything that is wrong with it.
pub fn parse(text: &str) -> Result<Suite, Vec<FieldError>> {
    let reader = SuiteReader {
        text,
        lines: LineIndex::new(text),
    };
    let what = "a suite must be a mapping with `suite`, `name`, `requirements` and `cases`";
    fields::read(text, what, |root, notes| suite(root, &reader, notes))
}

/// Parses a suite that is split into several files, one per section. All files have the same
/// `name`, `title` and `protocol`.
pub fn parse_all(texts: &[&str]) -> Result<Suite, Vec<FieldError>> {
    let mut whole: Option<Suite> = None;
    for text in texts {
        let part = parse(text)?;
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => {
                whole.requirements.extend(part.requirements);
                whole.cases.extend(part.cases);
            }
        }
    }
    whole.ok_or_else(Vec::new)
}

fn suite(root: &Node, reader: &SuiteReader<'_>, notes: &mut FieldReader) -> Suite {
    let known = [
        "suite",
        "name",
        "title",
        "protocol",
        "source",
        "section",
        "profile",
        "requirements",
        "cases",
    ];
    notes.check_keys(root, "a suite", &known);
    let format = notes.required_string(root, "suite", "a suite file");
    if let Some(node) = root.get("suite")
        && format != FORMAT
    {
        notes.error(node.span, format!("`suite` must be `{FORMAT}`"));
    }
    let name = notes.required_string(root, "name", "a suite");
    let protocol = notes.one_of(
        root,
        "protocol",
        "acp",
        &["acp", "acp-v2", "mcp", "lifecycle", "sessions"],
    );
    let protocol = match protocol.as_str() {
        "acp-v2" => SuiteProtocol::AcpV2,
        "mcp" => SuiteProtocol::Mcp,
        "lifecycle" => SuiteProtocol::Lifecycle,
        "sessions" => SuiteProtocol::Sessions,
        _ => SuiteProtocol::Acp,
    };
    let defaults = RequirementDefaults {
        source: notes.string(root, "source").unwrap_or_default(),
        section: notes.string(root, "section").unwrap_or_default(),
        profile: profile(root, "core", notes),
    };
    let items = notes.items(root, "requirements");
    let requirements: Vec<Requirement> = items
        .iter()
        .map(|node| requirement(node, &defaults, notes))
        .collect();
    let mut ids = HashSet::new();
    for (requirement, node) in requirements.iter().zip(items) {
        if !ids.insert(requirement.id.clone()) {
            let id = &requirement.id;
            notes.error(node.span, format!("duplicate requirement `{id}`"));
        }
    }
    let items = notes.items(root, "cases");
    let cases: Vec<Case> = items
        .iter()
        .map(|n| case(n, protocol, reader, notes))
        .collect();
    let mut names = HashSet::new();
    for (case, node) in cases.iter().zip(items) {
        if let Err(why) = probes_fit(protocol, &case.steps) {
            notes.error(node.span, why);
        }
        if !names.insert(case.id.clone()) {
            notes.error(node.span, format!("duplicate case `{}`", case.id));
        }
        let decided = node.get("decides").unwrap_or(node);
        for id in &case.decides {
            if !ids.contains(id) {
                notes.error(
                    decided.span,
                    format!("`{id}` is not in `requirements` of this file"),
                );
            }
        }
    }
    Suite {
        title: notes.string(root, "title").unwrap_or_else(|| name.clone()),
        name,
        protocol,
        requirements,
        cases,
    }
}

/// Checks that suites of probes contain only probes of their kind, and that other suites contain
/// none.
fn probes_fit(protocol: SuiteProtocol, steps: &[CaseStep]) -> Result<(), String> {
    let (what, of_it): (_, fn(&str) -> bool) = match protocol {
        SuiteProtocol::Lifecycle => ("lifecycle", |name| {
            lifecycle::PROBES.names().any(|known| known == name)
        }),
        SuiteProtocol::Sessions => ("sessions", |name| {
            sessions::PROBES.names().any(|known| known == name)
        }),
        _ => {
            let any = steps
                .iter()
                .any(|step| matches!(step.kind, StepKind::Probe(_)));
            return match any {
                true => Err(
                    "`probe` is only allowed in suites with `protocol: lifecycle` or `protocol: \
                     sessions`"
                        .to_owned(),
                ),
                false => Ok(()),
            };
        }
    };
    for step in steps {
        match &step.kind {
            StepKind::Probe(name) if of_it(name) => {}
            StepKind::Probe(name) => {
                return Err(format!("`{name}` is not a probe of {what} suites"));
            }
            _ => return Err(format!("every step of a {what} suite must be a `probe`")),
        }
    }
    Ok(())
}

/// What the requirements of a file have in common.
struct RequirementDefaults {
    source: String,
    section: String,
    profile: Profile,
}

/// Parses `profile`: `core` or `strict`.
fn profile(node: &Node, default: &'static str, notes: &mut FieldReader) -> Profile {
    match notes
        .one_of(node, "profile", default, &["core", "strict"])
        .as_str()
    {
        "strict" => Profile::Strict,
        _ => Profile::Core,
    }
}

/// Parses `basis`: what the source of a requirement says.
fn basis(node: &Node, notes: &mut FieldReader) -> Option<Basis> {
    let node = node.get("basis")?;
    notes.check_keys(node, "`basis`", &["binding", "says"]);
    let names: Vec<&str> = Binding::ALL
        .iter()
        .map(|binding| (*binding).into())
        .collect();
    let binding = notes.one_of(node, "binding", "defined", &names);
    Some(Basis {
        binding: binding.parse().ok()?,
        says: notes.required_string(node, "says", "`basis`"),
    })
}

fn requirement(
    node: &Node,
    defaults: &RequirementDefaults,
    notes: &mut FieldReader,
) -> Requirement {
    let what = "a requirement";
    let known = [
        "id",
        "level",
        "statement",
        "source",
        "section",
        "hint",
        "watched",
        "register",
        "covers",
        "profile",
        "basis",
    ];
    notes.check_keys(node, what, &known);
    let level = notes.one_of(node, "level", "MUST", &["MUST", "SHOULD", "MAY", "INFO"]);
    let page = notes.string(node, "source").unwrap_or_default();
    let id = notes.required_string(node, "id", what);
    // `true` means the monitor with the same id.
    let monitors = match node.get("watched").map(Node::as_bool) {
        Some(Some(true)) => vec![id.clone()],
        Some(Some(false)) => Vec::new(),
        _ => notes.strings(node, "watched"),
    };
    Requirement {
        id,
        level: match level.as_str() {
            "SHOULD" => Level::Should,
            "MAY" => Level::May,
            "INFO" => Level::Info,
            _ => Level::Must,
        },
        statement: notes.required_string(node, "statement", what),
        source: match (defaults.source.as_str(), page.as_str()) {
            (source, "") => source.to_owned(),
            ("", page) => page.to_owned(),
            (source, page) => format!("{source}, {page}"),
        },
        section: notes
            .string(node, "section")
            .unwrap_or_else(|| defaults.section.clone()),
        hint: notes.string(node, "hint"),
        monitors,
        register: notes.strings(node, "register"),
        covers: notes.string(node, "covers"),
        profile: profile(
            node,
            match defaults.profile {
                Profile::Strict => "strict",
                _ => "core",
            },
            notes,
        ),
        basis: basis(node, notes),
    }
}

fn case(
    node: &Node,
    protocol: SuiteProtocol,
    reader: &SuiteReader<'_>,
    notes: &mut FieldReader,
) -> Case {
    let what = "a case";
    let known = [
        "id", "title", "decides", "begin", "client", "session", "needs", "answers", "steps",
    ];
    notes.check_keys(node, what, &known);
    let begin = notes.one_of(
        node,
        "begin",
        "session",
        &["process", "initialized", "session"],
    );
    let decides = notes.strings(node, "decides");
    if decides.is_empty() {
        notes.error(
            node.span,
            "`decides` is missing: list the requirements that this case decides",
        );
    }
    if node.is_map() && !node.has("steps") {
        notes.error(node.span, "`steps` is missing");
    }
    if let Some(steps) = node.get("steps")
        && steps.is_seq()
        && steps.items().is_empty()
    {
        notes.error(
            steps.span,
            "`steps` is empty: a case needs at least one step",
        );
    }
    Case {
        id: notes.required_string(node, "id", what),
        title: notes.string(node, "title").unwrap_or_default(),
        begin: match begin.as_str() {
            "process" => StartState::Process,
            "initialized" => StartState::Initialized,
            _ => StartState::Session,
        },
        client: client(node, protocol, notes),
        session: notes.json(node, "session"),
        needs: node
            .get("needs")
            .map_or_else(CaseNeeds::default, |n| needs(n, reader, notes)),
        answers: node
            .get("answers")
            .map_or_else(ClientBehavior::default, |n| answers(n, notes)),
        steps: steps(node, "steps", &decides, reader, notes),
        decides,
        line: reader.line(node),
    }
}

/// Parses `client`: `all` (the default), `none`, `unsaid`, or a mapping of capabilities.
fn client(node: &Node, protocol: SuiteProtocol, notes: &mut FieldReader) -> Option<Value> {
    let Some(client) = node.get("client") else {
        return Some(everything(protocol));
    };
    match client.as_str() {
        Some("all") => Some(everything(protocol)),
        Some("none") => Some(Value::Object(serde_json::Map::new())),
        Some("unsaid") => None,
        None if client.is_map() => Some(to_json(client)),
        _ => {
            let wanted = "`client` must be `all`, `none`, `unsaid`, or a mapping of capabilities";
            notes.error(client.span, wanted);
            None
        }
    }
}

/// All capabilities that a client can offer.
pub fn everything(protocol: SuiteProtocol) -> Value {
    if protocol == SuiteProtocol::Mcp {
        return serde_json::json!({
            "roots": {},
            "sampling": {},
            "elicitation": {"form": {}, "url": {}},
        });
    }
    if protocol == SuiteProtocol::AcpV2 {
        return serde_json::json!({
            "auth": {"terminal": {}},
            "elicitation": {"form": {}, "url": {}},
        });
    }
    serde_json::json!({
        "fs": {"readTextFile": true, "writeTextFile": true},
        "terminal": true,
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "auth": {"terminal": true},
        "elicitation": {"form": {}, "url": {}},
    })
}

fn needs(node: &Node, reader: &SuiteReader<'_>, notes: &mut FieldReader) -> CaseNeeds {
    notes.check_keys(
        node,
        "`needs`",
        &["capabilities", "prompts", "auth", "model", "that"],
    );
    CaseNeeds {
        capabilities: notes.strings(node, "capabilities"),
        prompts: notes.strings(node, "prompts"),
        auth: notes.bool_or(node, "auth", false),
        model: notes.bool_or(node, "model", false),
        that: expects(node, "that", &[], reader, notes),
    }
}

fn answers(node: &Node, notes: &mut FieldReader) -> ClientBehavior {
    let known = [
        "permission",
        "fs",
        "terminal",
        "terminal_exit",
        "elicitation",
    ];
    notes.check_keys(node, "`answers`", &known);
    let [permission, fs, terminal, terminal_exit, elicitation] =
        known.map(|key| answer(node, key, notes));
    ClientBehavior {
        permission,
        fs,
        terminal,
        terminal_exit,
        elicitation,
    }
}

pub(super) fn answer(node: &Node, key: &str, notes: &mut FieldReader) -> Behavior {
    let Some(value) = node.get(key) else {
        return Behavior::Serve;
    };
    if let Some(code) = value.as_int() {
        return Behavior::Error(code);
    }
    match value.as_str() {
        Some("serve") => Behavior::Serve,
        Some("refuse") => Behavior::Refuse,
        Some("cancel") => Behavior::Cancel,
        Some("hold") => Behavior::Hold,
        _ => {
            let wanted =
                format!("`{key}` must be `serve`, `refuse`, `cancel`, `hold`, or an error code");
            notes.error(value.span, wanted);
            Behavior::Serve
        }
    }
}
