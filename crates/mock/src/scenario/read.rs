//! Converts YAML text to a `Scenario`.

use super::steps::steps;
use super::{
    Auth, AuthMethod, Capabilities, Command, ConfigKind, ConfigOption, Modes, Named, Process,
    Scenario, Turn, When,
};
use agentproto_manifest::Node;
use agentproto_manifest::fields::{self, Mistake, Notes};
use agentproto_text::one_of;

/// First value of a scenario file, which distinguishes it from other YAML files.
pub const FORMAT: &str = "agentproto.scenario/v1";

const CATEGORIES: [&str; 4] = ["mode", "model", "model_config", "thought_level"];

/// Parses a scenario, or returns all its mistakes.
pub fn parse(text: &str) -> Result<Scenario, Vec<Mistake>> {
    let what = "a scenario must be a mapping with `scenario` and `turns`";
    fields::read(text, what, scenario)
}

fn scenario(root: &Node, notes: &mut Notes) -> Scenario {
    notes.keys(
        root,
        "a scenario",
        &[
            "scenario",
            "name",
            "description",
            "agent",
            "capabilities",
            "auth",
            "modes",
            "config_options",
            "commands",
            "process",
            "turns",
        ],
    );
    let format = notes.need(root, "scenario", "a scenario file");
    if let Some(node) = root.get("scenario")
        && format != FORMAT
    {
        notes.wrong(node.span, format!("`scenario` must be `{FORMAT}`"));
    }
    let mut scenario = Scenario {
        name: notes.need(root, "name", "a scenario"),
        description: notes.string(root, "description").unwrap_or_default(),
        config_options: config_options(root, notes),
        commands: commands(root, notes),
        ..Scenario::default()
    };
    if let Some(node) = root.get("agent") {
        notes.keys(node, "`agent`", &["name", "title", "version"]);
        let agent = &mut scenario.agent;
        for (key, place) in [
            ("name", &mut agent.name),
            ("title", &mut agent.title),
            ("version", &mut agent.version),
        ] {
            if let Some(text) = notes.string(node, key) {
                *place = text;
            }
        }
    }
    if let Some(node) = root.get("capabilities") {
        scenario.capabilities = capabilities(node, notes);
    }
    if let Some(node) = root.get("auth") {
        scenario.auth = auth(node, notes);
    }
    if let Some(node) = root.get("modes") {
        scenario.modes = Some(modes(node, notes));
    }
    if let Some(node) = root.get("process") {
        scenario.process = process(node, notes);
    }
    if !root.has("turns") {
        notes.wrong(root.span, "a scenario needs `turns`");
    }
    scenario.turns = turns(root, notes);
    scenario
}

fn capabilities(node: &Node, notes: &mut Notes) -> Capabilities {
    notes.keys(
        node,
        "`capabilities`",
        &[
            "load",
            "resume",
            "list",
            "close",
            "delete",
            "additional_directories",
            "image",
            "audio",
            "embedded_context",
            "mcp_http",
            "list_page",
        ],
    );
    let default = Capabilities::default();
    Capabilities {
        load: notes.flag(node, "load", default.load),
        resume: notes.flag(node, "resume", default.resume),
        list: notes.flag(node, "list", default.list),
        close: notes.flag(node, "close", default.close),
        delete: notes.flag(node, "delete", default.delete),
        additional_directories: notes.flag(
            node,
            "additional_directories",
            default.additional_directories,
        ),
        image: notes.flag(node, "image", default.image),
        audio: notes.flag(node, "audio", default.audio),
        embedded_context: notes.flag(node, "embedded_context", default.embedded_context),
        mcp_http: notes.flag(node, "mcp_http", default.mcp_http),
        list_page: notes
            .number(node, "list_page", 1, 1000)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default.list_page),
    }
}

fn auth(node: &Node, notes: &mut Notes) -> Auth {
    notes.keys(node, "`auth`", &["required", "logout", "methods"]);
    let methods = notes.items(node, "methods").iter().map(|node| {
        let what = "an auth method";
        notes.keys(
            node,
            what,
            &["id", "name", "description", "type", "args", "env"],
        );
        AuthMethod {
            id: notes.need(node, "id", what),
            name: notes.need(node, "name", what),
            description: notes.string(node, "description"),
            terminal: notes.word(node, "type", "agent", &["agent", "terminal"]) == "terminal",
            args: notes.list(node, "args"),
            env: notes.pairs(node, "env"),
        }
    });
    let methods: Vec<AuthMethod> = methods.collect();
    let auth = Auth {
        required: notes.flag(node, "required", false),
        logout: notes.flag(node, "logout", false),
        methods,
    };
    if auth.required && auth.methods.is_empty() {
        notes.wrong(
            node.span,
            "`auth.required` needs at least one entry in `methods`",
        );
    }
    auth
}

fn modes(node: &Node, notes: &mut Notes) -> Modes {
    notes.keys(node, "`modes`", &["current", "available"]);
    let available = notes.items(node, "available");
    let available = available.iter().map(|n| named(n, "a mode", "id", notes));
    let available: Vec<_> = available.collect();
    let current = notes.need(node, "current", "`modes`");
    if !available.iter().any(|mode| mode.id == current) {
        let ids: Vec<&str> = available.iter().map(|m| m.id.as_str()).collect();
        let span = node.get("current").map_or(node.span, |n| n.span);
        notes.wrong(span, format!("`modes.current` must be {}", one_of(&ids)));
    }
    Modes { current, available }
}

fn config_options(root: &Node, notes: &mut Notes) -> Vec<ConfigOption> {
    let items = notes.items(root, "config_options");
    items.iter().map(|n| config_option(n, notes)).collect()
}

fn config_option(node: &Node, notes: &mut Notes) -> ConfigOption {
    let what = "a config option";
    notes.keys(
        node,
        what,
        &[
            "id",
            "name",
            "description",
            "category",
            "type",
            "current",
            "options",
        ],
    );
    let category = notes.string(node, "category");
    if let (Some(category), Some(value)) = (&category, node.get("category"))
        && !category.starts_with('_')
        && !CATEGORIES.contains(&category.as_str())
    {
        let known = one_of(&CATEGORIES);
        notes.wrong(
            value.span,
            format!("`category` must be {known}, or start with `_`"),
        );
    }
    let kind = match notes
        .word(node, "type", "select", &["select", "boolean"])
        .as_str()
    {
        "boolean" => ConfigKind::Boolean {
            current: notes.flag(node, "current", false),
        },
        _ => {
            let options = notes.items(node, "options");
            let options = options.iter().map(|n| named(n, "a value", "value", notes));
            let options: Vec<_> = options.collect();
            let current = notes.need(node, "current", "a select option");
            if !options.iter().any(|option| option.id == current) {
                let span = node.get("current").map_or(node.span, |n| n.span);
                notes.wrong(span, "`current` must be one of `options`");
            }
            ConfigKind::Select { current, options }
        }
    };
    let id = notes.need(node, "id", what);
    ConfigOption {
        name: notes.string(node, "name").unwrap_or_else(|| id.clone()),
        id,
        description: notes.string(node, "description"),
        category,
        kind,
    }
}

fn commands(root: &Node, notes: &mut Notes) -> Vec<Command> {
    let items = notes.items(root, "commands").iter().map(|node| {
        let what = "a command";
        notes.keys(node, what, &["name", "description", "hint"]);
        Command {
            name: notes.need(node, "name", what),
            description: notes.need(node, "description", what),
            hint: notes.string(node, "hint"),
        }
    });
    items.collect()
}

fn process(node: &Node, notes: &mut Notes) -> Process {
    notes.keys(
        node,
        "`process`",
        &[
            "start_delay_ms",
            "banner",
            "stderr",
            "exit_at_start",
            "ignore_sigterm",
            "ignore_eof",
        ],
    );
    Process {
        start_delay_ms: notes
            .number(node, "start_delay_ms", 0, 3_600_000)
            .unwrap_or(0),
        banner: notes.string(node, "banner"),
        stderr: notes.string(node, "stderr"),
        exit_at_start: notes
            .number(node, "exit_at_start", 0, 255)
            .and_then(|n| u8::try_from(n).ok()),
        ignore_sigterm: notes.flag(node, "ignore_sigterm", false),
        ignore_eof: notes.flag(node, "ignore_eof", false),
    }
}

fn turns(root: &Node, notes: &mut Notes) -> Vec<Turn> {
    let items = notes.items(root, "turns").iter().map(|node| {
        notes.keys(node, "a turn", &["when", "steps"]);
        if node.is_map() && !node.has("steps") {
            notes.wrong(node.span, "a turn needs `steps`");
        }
        Turn {
            when: node.get("when").map_or(When::Any, |n| when(n, notes)),
            steps: steps(node, "steps", notes),
        }
    });
    items.collect()
}

fn when(node: &Node, notes: &mut Notes) -> When {
    if node.as_str() == Some("any") {
        return When::Any;
    }
    let [entry] = node.entries() else {
        notes.wrong(
            node.span,
            "`when` must be `any`, or one of `{exact: …}`, `{contains: …}` and `{regex: …}`",
        );
        return When::Any;
    };
    notes.keys(node, "`when`", &["exact", "contains", "regex"]);
    let text = notes.string(node, &entry.key).unwrap_or_default();
    match entry.key.as_str() {
        "exact" => When::Exact(text),
        "contains" => When::Contains(text),
        "regex" => match regress::Regex::new(&text) {
            Ok(regex) => When::Regex(Box::new(regex)),
            Err(error) => {
                notes.wrong(
                    entry.value.span,
                    format!("not a valid ECMAScript regular expression: {error}"),
                );
                When::Any
            }
        },
        _ => When::Any,
    }
}

fn named(node: &Node, what: &str, id: &str, notes: &mut Notes) -> Named {
    notes.keys(node, what, &[id, "name", "description"]);
    let key = notes.need(node, id, what);
    Named {
        name: notes.string(node, "name").unwrap_or_else(|| key.clone()),
        id: key,
        description: notes.string(node, "description"),
    }
}
