//! Converts YAML text to a `Scenario`.

use super::steps::steps;
use super::{
    Auth, AuthMethod, Capabilities, ConfigKind, ConfigOption, NamedOption, ProcessBehavior,
    PromptMatcher, Scenario, ScenarioTurn, SessionModes, SlashCommand,
};
use agentproto_manifest::Node;
use agentproto_manifest::fields::{self, FieldError, FieldReader};
use agentproto_text::one_of;

/// First value of a scenario file, which distinguishes it from other YAML files.
pub const FORMAT: &str = "agentproto.scenario/v1";

const CATEGORIES: [&str; 4] = ["mode", "model", "model_config", "thought_level"];

/// Parses a scenario, or returns all its mistakes.
pub fn parse(text: &str) -> Result<Scenario, Vec<FieldError>> {
    let what = "a scenario must be a mapping with `scenario` and `turns`";
    fields::read(text, what, scenario)
}

fn scenario(root: &Node, reader: &mut FieldReader) -> Scenario {
    reader.check_keys(
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
    let format = reader.required_string(root, "scenario", "a scenario file");
    if let Some(node) = root.get("scenario")
        && format != FORMAT
    {
        reader.error(node.span, format!("`scenario` must be `{FORMAT}`"));
    }
    let mut scenario = Scenario {
        name: reader.required_string(root, "name", "a scenario"),
        description: reader.string(root, "description").unwrap_or_default(),
        config_options: config_options(root, reader),
        commands: commands(root, reader),
        ..Scenario::default()
    };
    if let Some(node) = root.get("agent") {
        reader.check_keys(node, "`agent`", &["name", "title", "version"]);
        let agent = &mut scenario.agent;
        for (key, place) in [
            ("name", &mut agent.name),
            ("title", &mut agent.title),
            ("version", &mut agent.version),
        ] {
            if let Some(text) = reader.string(node, key) {
                *place = text;
            }
        }
    }
    if let Some(node) = root.get("capabilities") {
        scenario.capabilities = capabilities(node, reader);
    }
    if let Some(node) = root.get("auth") {
        scenario.auth = auth(node, reader);
    }
    if let Some(node) = root.get("modes") {
        scenario.modes = Some(modes(node, reader));
    }
    if let Some(node) = root.get("process") {
        scenario.process = process(node, reader);
    }
    if !root.has("turns") {
        reader.error(root.span, "a scenario needs `turns`");
    }
    scenario.turns = turns(root, reader);
    scenario
}

fn capabilities(node: &Node, reader: &mut FieldReader) -> Capabilities {
    reader.check_keys(
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
        load: reader.bool_or(node, "load", default.load),
        resume: reader.bool_or(node, "resume", default.resume),
        list: reader.bool_or(node, "list", default.list),
        close: reader.bool_or(node, "close", default.close),
        delete: reader.bool_or(node, "delete", default.delete),
        additional_directories: reader.bool_or(
            node,
            "additional_directories",
            default.additional_directories,
        ),
        image: reader.bool_or(node, "image", default.image),
        audio: reader.bool_or(node, "audio", default.audio),
        embedded_context: reader.bool_or(node, "embedded_context", default.embedded_context),
        mcp_http: reader.bool_or(node, "mcp_http", default.mcp_http),
        list_page: reader
            .number(node, "list_page", 1, 1000)
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default.list_page),
    }
}

fn auth(node: &Node, reader: &mut FieldReader) -> Auth {
    reader.check_keys(node, "`auth`", &["required", "logout", "methods"]);
    let methods = reader.items(node, "methods").iter().map(|node| {
        let what = "an auth method";
        reader.check_keys(
            node,
            what,
            &["id", "name", "description", "type", "args", "env"],
        );
        AuthMethod {
            id: reader.required_string(node, "id", what),
            name: reader.required_string(node, "name", what),
            description: reader.string(node, "description"),
            terminal: reader.one_of(node, "type", "agent", &["agent", "terminal"]) == "terminal",
            args: reader.strings(node, "args"),
            env: reader.pairs(node, "env"),
        }
    });
    let methods: Vec<AuthMethod> = methods.collect();
    let auth = Auth {
        required: reader.bool_or(node, "required", false),
        logout: reader.bool_or(node, "logout", false),
        methods,
    };
    if auth.required && auth.methods.is_empty() {
        reader.error(
            node.span,
            "`auth.required` needs at least one entry in `methods`",
        );
    }
    auth
}

fn modes(node: &Node, reader: &mut FieldReader) -> SessionModes {
    reader.check_keys(node, "`modes`", &["current", "available"]);
    let available = reader.items(node, "available");
    let available = available.iter().map(|n| named(n, "a mode", "id", reader));
    let available: Vec<_> = available.collect();
    let current = reader.required_string(node, "current", "`modes`");
    if !available.iter().any(|mode| mode.id == current) {
        let ids: Vec<&str> = available.iter().map(|m| m.id.as_str()).collect();
        let span = node.get("current").map_or(node.span, |n| n.span);
        reader.error(span, format!("`modes.current` must be {}", one_of(&ids)));
    }
    SessionModes { current, available }
}

fn config_options(root: &Node, reader: &mut FieldReader) -> Vec<ConfigOption> {
    let items = reader.items(root, "config_options");
    items.iter().map(|n| config_option(n, reader)).collect()
}

fn config_option(node: &Node, reader: &mut FieldReader) -> ConfigOption {
    let what = "a config option";
    reader.check_keys(
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
    let category = reader.string(node, "category");
    if let (Some(category), Some(value)) = (&category, node.get("category"))
        && !category.starts_with('_')
        && !CATEGORIES.contains(&category.as_str())
    {
        let known = one_of(&CATEGORIES);
        reader.error(
            value.span,
            format!("`category` must be {known}, or start with `_`"),
        );
    }
    let kind = match reader
        .one_of(node, "type", "select", &["select", "boolean"])
        .as_str()
    {
        "boolean" => ConfigKind::Boolean {
            current: reader.bool_or(node, "current", false),
        },
        _ => {
            let options = reader.items(node, "options");
            let options = options.iter().map(|n| named(n, "a value", "value", reader));
            let options: Vec<_> = options.collect();
            let current = reader.required_string(node, "current", "a select option");
            if !options.iter().any(|option| option.id == current) {
                let span = node.get("current").map_or(node.span, |n| n.span);
                reader.error(span, "`current` must be one of `options`");
            }
            ConfigKind::Select { current, options }
        }
    };
    let id = reader.required_string(node, "id", what);
    ConfigOption {
        name: reader.string(node, "name").unwrap_or_else(|| id.clone()),
        id,
        description: reader.string(node, "description"),
        category,
        kind,
    }
}

fn commands(root: &Node, reader: &mut FieldReader) -> Vec<SlashCommand> {
    let items = reader.items(root, "commands").iter().map(|node| {
        let what = "a command";
        reader.check_keys(node, what, &["name", "description", "hint"]);
        SlashCommand {
            name: reader.required_string(node, "name", what),
            description: reader.required_string(node, "description", what),
            hint: reader.string(node, "hint"),
        }
    });
    items.collect()
}

fn process(node: &Node, reader: &mut FieldReader) -> ProcessBehavior {
    reader.check_keys(
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
    ProcessBehavior {
        start_delay_ms: reader
            .number(node, "start_delay_ms", 0, 3_600_000)
            .unwrap_or(0),
        banner: reader.string(node, "banner"),
        stderr: reader.string(node, "stderr"),
        exit_at_start: reader
            .number(node, "exit_at_start", 0, 255)
            .and_then(|n| u8::try_from(n).ok()),
        ignore_sigterm: reader.bool_or(node, "ignore_sigterm", false),
        ignore_eof: reader.bool_or(node, "ignore_eof", false),
    }
}

fn turns(root: &Node, reader: &mut FieldReader) -> Vec<ScenarioTurn> {
    let items = reader.items(root, "turns").iter().map(|node| {
        reader.check_keys(node, "a turn", &["when", "steps"]);
        if node.is_map() && !node.has("steps") {
            reader.error(node.span, "a turn needs `steps`");
        }
        ScenarioTurn {
            when: node
                .get("when")
                .map_or(PromptMatcher::Any, |n| when(n, reader)),
            steps: steps(node, "steps", reader),
        }
    });
    items.collect()
}

fn when(node: &Node, reader: &mut FieldReader) -> PromptMatcher {
    if node.as_str() == Some("any") {
        return PromptMatcher::Any;
    }
    let [entry] = node.entries() else {
        reader.error(
            node.span,
            "`when` must be `any`, or one of `{exact: …}`, `{contains: …}` and `{regex: …}`",
        );
        return PromptMatcher::Any;
    };
    reader.check_keys(node, "`when`", &["exact", "contains", "regex"]);
    let text = reader.string(node, &entry.key).unwrap_or_default();
    match entry.key.as_str() {
        "exact" => PromptMatcher::Exact(text),
        "contains" => PromptMatcher::Contains(text),
        "regex" => match regress::Regex::new(&text) {
            Ok(regex) => PromptMatcher::Regex(Box::new(regex)),
            Err(error) => {
                reader.error(
                    entry.value.span,
                    format!("not a valid ECMAScript regular expression: {error}"),
                );
                PromptMatcher::Any
            }
        },
        _ => PromptMatcher::Any,
    }
}

fn named(node: &Node, what: &str, id: &str, reader: &mut FieldReader) -> NamedOption {
    reader.check_keys(node, what, &[id, "name", "description"]);
    let key = reader.required_string(node, id, what);
    NamedOption {
        name: reader.string(node, "name").unwrap_or_else(|| key.clone()),
        id: key,
        description: reader.string(node, "description"),
    }
}
