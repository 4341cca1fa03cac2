//! The prompts file: which text makes this agent do what.

use std::collections::BTreeMap;

use crate::fields::{self, Mistake};
use crate::manifest::to_json;

/// The keys that cases ask for.
pub const KEYS: [&str; 12] = [
    "text",
    "tool",
    "permission",
    "fs_read",
    "fs_write",
    "terminal",
    "slow",
    "plan",
    "thought",
    "elicitation",
    "recall",
    "log",
];

/// Reads a prompts file, or says everything that is wrong with it.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, Vec<Mistake>> {
    let what = "a prompts file is a mapping of keys to prompts, such as `text: hello`";
    fields::read(text, what, |root, notes| {
        notes.keys(root, "a prompts file", &KEYS);
        let mut prompts = BTreeMap::new();
        for key in KEYS {
            // A call of an MCP tool stands there as it is.
            if let Some(call) = root.get(key).filter(|node| node.is_map()) {
                notes.keys(call, "a call of a tool", &["name", "arguments"]);
                notes.need(call, "name", "a call of a tool");
                prompts.insert(key.to_owned(), to_json(call).to_string());
            } else if let Some(text) = notes.string(root, key) {
                prompts.insert(key.to_owned(), text);
            }
        }
        prompts
    })
}

/// What anybody can be asked who was told nothing else.
pub fn of_anybody() -> BTreeMap<String, String> {
    let text = "Say hello in one short sentence.".to_owned();
    BTreeMap::from([("text".to_owned(), text)])
}

/// What our own mock agent listens to.
pub fn of_mock() -> BTreeMap<String, String> {
    let prompts = [
        ("text", "hello"),
        ("tool", "use a tool"),
        ("permission", "ask for permission"),
        ("fs_read", "read notes.txt"),
        ("fs_write", "write notes.txt"),
        ("terminal", "use the terminal"),
        ("slow", "be slow"),
        ("plan", "make a plan"),
        ("thought", "have a thought"),
        ("elicitation", "ask a question"),
        ("recall", "what did I say before?"),
    ];
    let owned = prompts.map(|(key, text)| (key.to_owned(), text.to_owned()));
    owned.into_iter().collect()
}

/// What the built-in script of the mock model listens to.
pub fn of_mock_model() -> BTreeMap<String, String> {
    let keys = KEYS.into_iter().chain(["recall"]);
    let prompts = keys.map(|key| (key.to_owned(), format!("certify:{key}")));
    prompts.collect()
}
