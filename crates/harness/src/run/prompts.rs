//! The prompts file: which prompt makes the agent do what.

use std::collections::BTreeMap;

use agentproto_manifest::fields::{self, FieldError};
use agentproto_manifest::to_json;

/// A key of the prompts file.
#[derive(Debug)]
pub struct PromptKey {
    /// Name of the key.
    pub name: &'static str,
    /// What the prompt must make the agent do.
    pub effect: &'static str,
    /// A prompt that works with many agents.
    pub sample: &'static str,
}

/// All keys of the prompts file.
pub const KEYS: [PromptKey; 12] = [
    PromptKey {
        name: "text",
        effect: "answers with some text",
        sample: "Say hello in one short sentence.",
    },
    PromptKey {
        name: "tool",
        effect: "calls a tool: session/update with tool_call",
        sample: "List the files of this directory.",
    },
    PromptKey {
        name: "permission",
        effect: "asks for permission: session/request_permission",
        sample: "Delete the file notes.txt.",
    },
    PromptKey {
        name: "fs_read",
        effect: "reads a file through the client: fs/read_text_file",
        sample: "Read the file notes.txt and tell me what it says.",
    },
    PromptKey {
        name: "fs_write",
        effect: "writes a file through the client: fs/write_text_file",
        sample: "Write the word hello into the file certify-notes.txt.",
    },
    PromptKey {
        name: "terminal",
        effect: "runs a command in a terminal of the client: terminal/create",
        sample: "Run the command ls in the terminal.",
    },
    PromptKey {
        name: "slow",
        effect: "works for some seconds, so that the turn can be canceled",
        sample: "Write a poem of forty lines about herons.",
    },
    PromptKey {
        name: "plan",
        effect: "makes a plan: session/update with plan",
        sample: "Make a plan for a small web server, then stop.",
    },
    PromptKey {
        name: "thought",
        effect: "shows its reasoning: session/update with agent_thought_chunk",
        sample: "Think about whether 91 is a prime number.",
    },
    PromptKey {
        name: "elicitation",
        effect: "asks the user with a form: elicitation/create",
        sample: "Ask me for my name with a form.",
    },
    PromptKey {
        name: "recall",
        effect: "repeats what the user said earlier in the session",
        sample: "Repeat word for word what I said before.",
    },
    PromptKey {
        name: "log",
        effect: "logs something (only for MCP servers)",
        sample: "Log something.",
    },
];

/// How the message of a case starts if a prompt is missing. `prompting` recognizes it.
pub const MISSING_PROMPT: &str = "a prompt is missing";
/// How the message of a case starts if a tool call is missing.
pub const MISSING_CALL: &str = "a tool call is missing";

/// The names of all keys.
pub fn names() -> [&'static str; KEYS.len()] {
    KEYS.each_ref().map(|key| key.name)
}

/// Parses a prompts file, or returns everything that is wrong with it.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, Vec<FieldError>> {
    let what = "a prompts file must be a mapping of keys to prompts, such as `text: hello`";
    fields::read(text, what, |root, reader| {
        reader.check_keys(root, "the prompts file", &names());
        let mut prompts = BTreeMap::new();
        for key in names() {
            // The value may be the call of an MCP tool instead of a prompt.
            if let Some(call) = root.get(key).filter(|node| node.is_map()) {
                reader.check_keys(call, "a tool call", &["name", "arguments"]);
                reader.required_string(call, "name", "a tool call");
                prompts.insert(key.to_owned(), to_json(call).to_string());
            } else if let Some(text) = reader.string(root, key) {
                prompts.insert(key.to_owned(), text);
            }
        }
        prompts
    })
}

/// Default prompts, used without a prompts file.
pub fn default_prompts() -> BTreeMap<String, String> {
    let text = KEYS.iter().find(|key| key.name == "text");
    let text = text.map(|key| (key.name.to_owned(), key.sample.to_owned()));
    text.into_iter().collect()
}

/// Prompts for the mock agent.
pub fn mock_prompts() -> BTreeMap<String, String> {
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

/// Prompts for the built-in script of the mock model.
pub fn mock_model_prompts() -> BTreeMap<String, String> {
    let prompts = names().map(|key| (key.to_owned(), format!("certify:{key}")));
    prompts.into_iter().collect()
}
