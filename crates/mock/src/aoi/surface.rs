//! What the tool offers: its commands and flags, the one source of parser, help and capabilities.

pub const TOOL: &str = "mock-aoi";
pub const TOOL_VERSION: &str = "3.7.1";
pub const AOI_VERSION: &str = "0.2";
pub const SCHEMA_NAME: &str = "com.example.mock-aoi.events";
/// The oldest first; the last is the default.
pub const VERSIONS: [&str; 2] = ["1.4.0", "2.0.0"];

pub struct Flag {
    pub name: &'static str,
    /// How its value is called; none for a switch.
    pub value: Option<&'static str>,
    pub what: &'static str,
}

const fn switch(name: &'static str, what: &'static str) -> Flag {
    Flag {
        name,
        value: None,
        what,
    }
}

const fn valued(name: &'static str, value: &'static str, what: &'static str) -> Flag {
    Flag {
        name,
        value: Some(value),
        what,
    }
}

pub static GLOBAL: &[Flag] = &[
    valued("--output", "FORMAT", "jsonl (machine mode), json or human"),
    switch("--help", "this text"),
    switch("-h", "this text"),
    switch("--version", "the version of the tool"),
    switch("--no-color", "no colour; there is none in machine mode"),
    valued("--timeout", "SECONDS", "gives up after this time, exit 124"),
    switch("--debug", "diagnostics on stderr, without secrets"),
    switch("--quiet", "nothing on stderr, no progress events"),
    valued("--schema-version", "VERSION", "1, 2 or a full version"),
    valued("--accept-schema", "NAME@VERSION", "the same, with its name"),
    valued("--state", "DIR", "where items are kept"),
    valued("--delay-ms", "N", "waits before each result"),
    switch("--schema", "as the command `schema`"),
    switch("--capabilities", "as the command `capabilities`"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    ReadOnly,
    Mutating,
    Destructive,
}

pub struct Command {
    pub name: &'static str,
    pub what: &'static str,
    pub operands: &'static [&'static str],
    /// It takes more operands than those.
    pub takes_more: bool,
    pub flags: &'static [Flag],
    pub effect: Effect,
    /// Domain events; the framework's own come on top.
    pub events: &'static [&'static str],
}

impl Command {
    const fn reads(name: &'static str, what: &'static str) -> Command {
        Command {
            name,
            what,
            operands: &[],
            takes_more: false,
            flags: &[],
            effect: Effect::ReadOnly,
            events: &[],
        }
    }
    const fn of(mut self, operands: &'static [&'static str]) -> Command {
        self.operands = operands;
        self
    }
    const fn of_any(mut self) -> Command {
        self.takes_more = true;
        self
    }
    const fn with(mut self, flags: &'static [Flag]) -> Command {
        self.flags = flags;
        self
    }
    const fn says(mut self, events: &'static [&'static str]) -> Command {
        self.events = events;
        self
    }
    const fn does(mut self, effect: Effect) -> Command {
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

const LIMIT: Flag = valued("--limit", "N", "at most so many results, 1 to 1000");
const CURSOR: Flag = valued("--cursor", "TOKEN", "goes on where a page ended");
const TOKEN: Flag = valued("--token", "TOKEN", "a credential; never shown");
const KEY: Flag = valued("--idempotency-key", "KEY", "a retry has no second effect");
const DRY_RUN: Flag = switch("--dry-run", "says what would be done");
const CONFIRM: Flag = switch("--confirm", "required");
const INPUT: Flag = valued("--input-jsonl", "-", "JSON lines on stdin");
const CONTINUE: Flag = switch("--continue-on-error", "goes on after a bad line");

pub static COMMANDS: &[Command] = &[
    Command::reads("schema", "the schema of the events; no login, no network").says(&["document"]),
    Command::reads("aoi-schema", "another name of `schema`").says(&["document"]),
    Command::reads("capabilities", "what the tool can do; no login, no network")
        .says(&["document"]),
    Command::reads("input-schema", "the schema of the input of a command")
        .with(&[valued("--command", "NAME", "import or rank")])
        .says(&["document"]),
    Command::reads("doctor", "whether the tool is ready"),
    Command::reads("search", "ranked results; 20 unless told")
        .of(&["QUERY"])
        .with(&[
            LIMIT,
            CURSOR,
            TOKEN,
            valued("--header", "HEADER", "a header of the request; never shown"),
            valued("--url", "URL", "where to ask; only its host is shown"),
        ])
        .says(&["hit"]),
    Command::reads("list", "the items; 100 unless told")
        .with(&[
            LIMIT,
            CURSOR,
            switch("--documents", "the documents in place of the items"),
        ])
        .says(&["entry"]),
    Command::reads("get", "one item or document")
        .of(&["ID"])
        .says(&["entry"]),
    Command::reads("create", "makes an item")
        .of(&["NAME"])
        .with(&[KEY, DRY_RUN])
        .does(Effect::Mutating)
        .says(&["created"]),
    Command::reads("update", "gives an item another name")
        .of(&["ID", "NAME"])
        .with(&[KEY, DRY_RUN])
        .does(Effect::Mutating)
        .says(&["updated"]),
    Command::reads("delete", "removes an item; needs --confirm")
        .of(&["ID"])
        .with(&[CONFIRM, KEY, DRY_RUN])
        .does(Effect::Destructive)
        .says(&["deleted"]),
    Command::reads(
        "purge",
        "removes these items, or all; needs --confirm and a count",
    )
    .of_any()
    .with(&[
        CONFIRM,
        valued("--confirm-count", "N", "how many items will be gone"),
        KEY,
        DRY_RUN,
    ])
    .does(Effect::Destructive)
    .says(&["deleted"]),
    Command::reads("rank", "sorts the hits of an AOI stream on stdin")
        .with(&[INPUT, CONTINUE])
        .says(&["ranked"]),
    Command::reads("import", "makes an item of each line on stdin")
        .with(&[INPUT, CONTINUE, KEY, DRY_RUN])
        .does(Effect::Mutating)
        .says(&["created"]),
    Command::reads(
        "watch",
        "an unbounded stream of ticks; ends when interrupted",
    )
    .with(&[
        valued("--interval-ms", "N", "time between two ticks"),
        valued("--count", "N", "ends after so many ticks"),
    ])
    .says(&["tick"]),
    Command::reads("fetch", "documents that need a login")
        .with(&[TOKEN])
        .says(&["entry"]),
];

pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// A flag of any command.
pub fn flag(name: &str) -> Option<&'static Flag> {
    let own = COMMANDS.iter().flat_map(|command| command.flags);
    GLOBAL.iter().chain(own).find(|flag| flag.name == name)
}

pub fn help(named: Option<&Command>) -> String {
    let mut text = String::new();
    let row = |flag: &Flag| {
        let left = format!("{} {}", flag.name, flag.value.unwrap_or_default());
        format!("  {left:<30} {}\n", flag.what)
    };
    match named {
        Some(command) => {
            let operands = command.operands.join(" ");
            text += &format!("Usage: {TOOL} {} {operands} [OPTIONS]\n\n", command.name);
            text += &format!("{}.\n\nOptions:\n", command.what);
            text.extend(command.flags.iter().map(row));
        }
        None => {
            text += &format!("Usage: {TOOL} COMMAND [OPTIONS]\n\nCommands:\n");
            let rows = COMMANDS.iter();
            text.extend(rows.map(|c| format!("  {:<30} {}\n", c.name, c.what)));
            text += "\nOptions:\n";
        }
    }
    text.extend(GLOBAL.iter().map(row));
    text += "\nMachine mode is the default: one JSON object per line, aoi:meta first, aoi:summary\n\
             last. `watch` is unbounded: it ends when it is interrupted, or after --count ticks.\n\
             `import` and `rank` stop at the first bad line, unless --continue-on-error.\n";
    text
}
