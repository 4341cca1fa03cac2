//! The commands and flags of the tool. The parser, help and capabilities are all based on them.

pub const TOOL: &str = "mock-aoi";
pub const TOOL_VERSION: &str = "3.7.1";
pub const AOI_VERSION: &str = "0.2";
pub const SCHEMA_NAME: &str = "com.example.mock-aoi.events";
/// Supported versions, oldest first. The last one is the default.
pub const VERSIONS: [&str; 2] = ["1.4.0", "2.0.0"];

pub struct Flag {
    pub name: &'static str,
    /// Placeholder of its value. `None` for a switch.
    pub value: Option<&'static str>,
    pub description: &'static str,
}

const fn switch(name: &'static str, description: &'static str) -> Flag {
    Flag {
        name,
        value: None,
        description,
    }
}

const fn valued(name: &'static str, value: &'static str, description: &'static str) -> Flag {
    Flag {
        name,
        value: Some(value),
        description,
    }
}

pub static GLOBAL: &[Flag] = &[
    valued("--output", "FORMAT", "jsonl (machine mode), json or human"),
    switch("--help", "print this help"),
    switch("-h", "print this help"),
    switch("--version", "print the version of the tool"),
    switch(
        "--no-color",
        "disable color (machine mode never uses color)",
    ),
    valued("--timeout", "SECONDS", "stop after this time, exit 124"),
    switch("--debug", "print diagnostics to stderr, without secrets"),
    switch(
        "--quiet",
        "print nothing to stderr, emit no progress events",
    ),
    valued(
        "--schema-version",
        "VERSION",
        "schema version: 1, 2 or a full version",
    ),
    valued(
        "--accept-schema",
        "NAME@VERSION",
        "schema version with its name",
    ),
    valued("--state", "DIR", "directory of the items"),
    valued("--delay-ms", "N", "wait before each result"),
    switch("--schema", "same as the command `schema`"),
    switch("--capabilities", "same as the command `capabilities`"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CommandEffect {
    ReadOnly,
    Mutating,
    Destructive,
}

pub struct CommandSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub operands: &'static [&'static str],
    /// Whether further operands are allowed.
    pub takes_more: bool,
    pub flags: &'static [Flag],
    pub effect: CommandEffect,
    /// Domain events, in addition to the framework events.
    pub events: &'static [&'static str],
}

impl CommandSpec {
    const fn reads(name: &'static str, description: &'static str) -> CommandSpec {
        CommandSpec {
            name,
            description,
            operands: &[],
            takes_more: false,
            flags: &[],
            effect: CommandEffect::ReadOnly,
            events: &[],
        }
    }
    const fn with_operands(mut self, operands: &'static [&'static str]) -> CommandSpec {
        self.operands = operands;
        self
    }
    const fn with_any_operands(mut self) -> CommandSpec {
        self.takes_more = true;
        self
    }
    const fn with(mut self, flags: &'static [Flag]) -> CommandSpec {
        self.flags = flags;
        self
    }
    const fn emits(mut self, events: &'static [&'static str]) -> CommandSpec {
        self.events = events;
        self
    }
    const fn with_effect(mut self, effect: CommandEffect) -> CommandSpec {
        self.effect = effect;
        self
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known.name == flag)
    }
    pub fn reads_input(&self) -> bool {
        self.has("--input-jsonl")
    }
}

const LIMIT: Flag = valued("--limit", "N", "maximum number of results, 1 to 1000");
const CURSOR: Flag = valued("--cursor", "TOKEN", "continue after a page");
const TOKEN: Flag = valued("--token", "TOKEN", "credential, never shown");
const KEY: Flag = valued("--idempotency-key", "KEY", "make a retry safe");
const DRY_RUN: Flag = switch("--dry-run", "show planned changes only");
const CONFIRM: Flag = switch("--confirm", "confirm the deletion (required)");
const INPUT: Flag = valued("--input-jsonl", "-", "read JSON lines from stdin");
const CONTINUE: Flag = switch("--continue-on-error", "continue after an invalid line");

pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::reads("schema", "print the event schema (no login, no network)")
        .emits(&["document"]),
    CommandSpec::reads("aoi-schema", "alias of `schema`").emits(&["document"]),
    CommandSpec::reads(
        "capabilities",
        "print the capabilities (no login, no network)",
    )
    .emits(&["document"]),
    CommandSpec::reads("input-schema", "print the input schema of a command")
        .with(&[valued("--command", "NAME", "import or rank")])
        .emits(&["document"]),
    CommandSpec::reads("doctor", "check whether the tool is ready"),
    CommandSpec::reads("search", "search documents (default limit 20)")
        .with_operands(&["QUERY"])
        .with(&[
            LIMIT,
            CURSOR,
            TOKEN,
            valued("--header", "HEADER", "header of the request, never shown"),
            valued(
                "--url",
                "URL",
                "address of the service; only its host is shown",
            ),
        ])
        .emits(&["hit"]),
    CommandSpec::reads("list", "list the items (default limit 100)")
        .with(&[
            LIMIT,
            CURSOR,
            switch("--documents", "list documents instead of items"),
        ])
        .emits(&["entry"]),
    CommandSpec::reads("get", "show one item or document")
        .with_operands(&["ID"])
        .emits(&["entry"]),
    CommandSpec::reads("create", "create an item")
        .with_operands(&["NAME"])
        .with(&[KEY, DRY_RUN])
        .with_effect(CommandEffect::Mutating)
        .emits(&["created"]),
    CommandSpec::reads("update", "rename an item")
        .with_operands(&["ID", "NAME"])
        .with(&[KEY, DRY_RUN])
        .with_effect(CommandEffect::Mutating)
        .emits(&["updated"]),
    CommandSpec::reads("delete", "delete an item; requires --confirm")
        .with_operands(&["ID"])
        .with(&[CONFIRM, KEY, DRY_RUN])
        .with_effect(CommandEffect::Destructive)
        .emits(&["deleted"]),
    CommandSpec::reads(
        "purge",
        "delete these items, or all; requires --confirm and a count",
    )
    .with_any_operands()
    .with(&[
        CONFIRM,
        valued("--confirm-count", "N", "number of items to delete"),
        KEY,
        DRY_RUN,
    ])
    .with_effect(CommandEffect::Destructive)
    .emits(&["deleted"]),
    CommandSpec::reads("rank", "sort the hits of an AOI stream on stdin")
        .with(&[INPUT, CONTINUE])
        .emits(&["ranked"]),
    CommandSpec::reads("import", "create an item from each line on stdin")
        .with(&[INPUT, CONTINUE, KEY, DRY_RUN])
        .with_effect(CommandEffect::Mutating)
        .emits(&["created"]),
    CommandSpec::reads(
        "watch",
        "emit an unbounded stream of ticks until interrupted",
    )
    .with(&[
        valued("--interval-ms", "N", "time between two ticks"),
        valued("--count", "N", "stop after this number of ticks"),
    ])
    .emits(&["tick"]),
    CommandSpec::reads("fetch", "fetch documents (requires a login)")
        .with(&[TOKEN])
        .emits(&["entry"]),
];

pub fn command(name: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// Finds a flag of any command.
pub fn flag(name: &str) -> Option<&'static Flag> {
    let own = COMMANDS.iter().flat_map(|command| command.flags);
    GLOBAL.iter().chain(own).find(|flag| flag.name == name)
}

pub fn help(named: Option<&CommandSpec>) -> String {
    let mut text = String::new();
    let row = |flag: &Flag| {
        let left = format!("{} {}", flag.name, flag.value.unwrap_or_default());
        format!("  {left:<30} {}\n", flag.description)
    };
    match named {
        Some(command) => {
            let operands = command.operands.join(" ");
            text += &format!("Usage: {TOOL} {} {operands} [OPTIONS]\n\n", command.name);
            text += &format!("{}.\n\nOptions:\n", command.description);
            text.extend(command.flags.iter().map(row));
        }
        None => {
            text += &format!("Usage: {TOOL} COMMAND [OPTIONS]\n\nCommands:\n");
            let rows = COMMANDS.iter();
            text.extend(rows.map(|c| format!("  {:<30} {}\n", c.name, c.description)));
            text += "\nOptions:\n";
        }
    }
    text.extend(GLOBAL.iter().map(row));
    text += "\nMachine mode is the default: one JSON object per line, aoi:meta first, aoi:summary\n\
             last. `watch` is unbounded: it runs until interrupted, or for --count ticks.\n\
             `import` and `rank` stop at the first invalid line, unless --continue-on-error.\n";
    text
}
