//! Suites as data: requirements, and the cases that decide them.
//!
//! A suite is a YAML file; `schemas/suite.schema.json` is its schema, `read` its reader. Our own
//! suites are such files too, embedded in the binary; vendors write theirs in the same words.

mod built_in;
mod expect;
mod expectations;
mod read;
mod reference;
pub mod selection;
mod steps;
pub(crate) mod template;

use std::time::Duration;

use serde_json::Value;

pub use built_in::{built_in, names, says};
pub use expect::{Expect, Place, Test, refusal};
pub use expectations::test_names;
pub use read::{FORMAT, parse, parse_all};
pub use reference::reference;
pub use selection::Selection;
pub use steps::step_names;

use crate::model::Level;

/// What the cases of a suite speak, or look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Acp,
    /// The draft of version 2.
    AcpV2,
    Mcp,
    /// A bundle through the whole runner.
    Lifecycle,
    /// A host of many sessions, by its URL (AIP-46).
    Sessions,
}

/// Statements of a spec, and the cases that decide them.
#[derive(Debug)]
pub struct Suite {
    pub name: String,
    pub title: String,
    pub protocol: Protocol,
    pub requirements: Vec<Requirement>,
    pub cases: Vec<Case>,
}

impl Suite {
    pub fn requirement(&self, id: &str) -> Option<&Requirement> {
        self.requirements.iter().find(|r| r.id == id)
    }
}

/// A statement of a spec.
#[derive(Clone, Debug)]
pub struct Requirement {
    pub id: String,
    pub level: Level,
    /// What the text demands, in our words.
    pub statement: String,
    /// Where it stands: `ACP v1, prompt-turn`.
    pub source: String,
    /// The chapter of the suite.
    pub section: String,
    /// What to do where it is broken.
    pub hint: Option<String>,
    /// Monitors that watch it in every case, by the ids of what they note.
    pub watched: Vec<String>,
    /// Rows of the register that it decides too.
    pub register: Vec<String>,
}

/// How far the harness goes before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Begin {
    /// The process runs; nothing was sent.
    Process,
    /// `initialize` was answered.
    Initialized,
    /// A session is open: `$session`, in `$cwd`.
    Session,
}

/// A conversation with the target, and the statements that it decides.
#[derive(Debug)]
pub struct Case {
    pub id: String,
    pub title: String,
    /// Requirements that it decides.
    pub decides: Vec<String>,
    pub begin: Begin,
    /// `clientCapabilities`; `None` sends none at all.
    pub client: Option<Value>,
    /// More members of the first session/new.
    pub session: Option<Value>,
    pub needs: Needs,
    pub answers: Answers,
    pub steps: Vec<Step>,
    /// Line of the case in its file.
    pub line: u32,
}

/// What must be there, else the case says nothing about the agent.
#[derive(Debug, Default)]
pub struct Needs {
    /// Pointers below `agentCapabilities` (or `capabilities` in MCP).
    pub capabilities: Vec<String>,
    /// Keys of the prompts file.
    pub prompts: Vec<String>,
    /// A way to log in must be known.
    pub auth: bool,
    /// The mock model must be behind the agent.
    pub model: bool,
    /// Looked at after the begin.
    pub that: Vec<Expect>,
}

/// How the harness, as a client, answers the agent's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    pub permission: Answer,
    pub fs: Answer,
    pub terminal: Answer,
    /// terminal/wait_for_exit alone.
    pub terminal_exit: Answer,
    pub elicitation: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// As a good client does: allow, serve, accept.
    Serve,
    /// A refusal in the protocol's own words: reject, decline.
    Refuse,
    /// Cancelled by the user.
    Cancel,
    /// A JSON-RPC error.
    Error(i64),
    /// Not yet: until the case answers, or the turn is cancelled.
    Hold,
}

impl Default for Answers {
    fn default() -> Self {
        Answers {
            permission: Answer::Serve,
            fs: Answer::Serve,
            terminal: Answer::Serve,
            terminal_exit: Answer::Serve,
            elicitation: Answer::Serve,
        }
    }
}

#[derive(Debug)]
pub struct Step {
    pub line: u32,
    pub what: What,
}

/// A JSON value in which strings that start with `$` stand for what was seen before.
pub type Template = Value;

#[derive(Debug)]
pub enum What {
    /// Sends a request and waits for its answer.
    Call(Request, Vec<Expect>),
    /// Sends a request.
    Send(Request),
    /// Waits for the answer to a request that was sent.
    Receive {
        of: String,
        within: Option<Duration>,
        expect: Vec<Expect>,
    },
    Notify {
        method: String,
        params: Template,
    },
    /// Bytes as they are.
    Raw(Vec<Vec<u8>>),
    /// A message as it is, wrong members and all.
    Message(Template),
    /// The answer to a request of the agent that was held.
    Answer {
        of: String,
        with: Template,
    },
    /// Waits for something that the agent sends by itself.
    WaitFor(WaitFor),
    /// Listens for a while. What comes is bound.
    Quiet {
        time: Option<Duration>,
        name: Option<String>,
    },
    Expect(Vec<Expect>),
    /// A turn with the prompt of a key, from prompt to answer.
    Turn(Prompt, Vec<Expect>),
    /// Only its beginning.
    Prompt(Prompt),
    /// session/cancel, and `cancelled` for every question that is still open.
    Cancel,
    /// Binds all updates that came so far for a session.
    Updates {
        session: Template,
        since: Option<String>,
        name: String,
    },
    Bind {
        name: String,
        value: Template,
        /// A text, so many times after itself.
        times: u64,
    },
    /// Adds a value to a list.
    Collect {
        value: Template,
        into: String,
    },
    NewSession {
        params: Template,
        name: String,
    },
    /// Another process of the same agent, as far as this; the first one is ended.
    Restart {
        begin: Begin,
        /// What the client offers this time, where that is not what the case says.
        client: Option<Value>,
    },
    /// Closes the agent's input.
    EndInput,
    Signal(i32),
    /// Waits for the end of the process; binds `$exit`.
    Exit {
        within: Option<Duration>,
        expect: Vec<Expect>,
    },
    /// Any answer to any request shows that it lives.
    Alive,
    ForEach {
        list: Template,
        name: String,
        steps: Vec<Step>,
    },
    Repeat {
        times: u64,
        steps: Vec<Step>,
    },
    /// Only where all of these hold.
    When {
        that: Vec<Expect>,
        steps: Vec<Step>,
    },
    /// An empty directory; bound to its path.
    Directory(String),
    /// Writes a file, or binds what is in one.
    WriteFile {
        path: Template,
        text: Template,
    },
    ReadFile {
        path: Template,
        name: String,
    },
    /// Descriptor of an MCP server that writes down how it was started, and what it recorded.
    Recorder {
        name: String,
        transport: String,
        env: Template,
        args: Template,
    },
    Recorded {
        of: String,
        name: String,
        /// Wait until it has heard so many requests.
        within: Option<Duration>,
    },
    /// Binds what the mock model was asked so far.
    Model {
        name: String,
    },
    /// Binds all messages of the agent so far; with a method, its requests and notifications.
    Messages {
        method: Option<String>,
        /// Only since this request was sent.
        since: Option<String>,
        name: String,
    },
    /// Binds what the agent said: the text of its message chunks in one piece.
    Said {
        session: Template,
        since: Option<String>,
        name: String,
    },
    /// Binds the lines of standard error so far.
    Stderr {
        name: String,
    },
    /// Logs in with the method of the run.
    LogIn,
    /// Something that is done through the runner, or to a host of sessions: only in suites of
    /// those.
    Probe(String),
    /// Ends the case here: there is nothing that could be judged.
    NotVerified(String),
    /// Ends the case here: the agent does not claim what this is about.
    NotApplicable(String),
}

#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub params: Option<Template>,
    /// `None` takes the next number.
    pub id: Option<Template>,
    pub name: Option<String>,
    pub within: Option<Duration>,
    /// Without expectations: an error is an answer too.
    pub takes_errors: bool,
}

#[derive(Debug)]
pub struct Prompt {
    /// A key of the prompts file, or content blocks.
    pub what: PromptText,
    pub session: Option<Template>,
    pub name: String,
    pub within: Option<Duration>,
}

#[derive(Debug)]
pub enum PromptText {
    Key(String),
    Blocks(Template),
}

#[derive(Debug)]
pub struct WaitFor {
    pub what: Awaited,
    /// Only a message that satisfies these counts.
    pub which: Vec<Expect>,
    pub name: Option<String>,
    pub within: Option<Duration>,
    /// Where it does not come the case is not verified; else it is a violation.
    pub is_expected: bool,
    /// Stops when the request of this name is answered: it will not come any more.
    pub unless: Option<String>,
    pub say: Option<String>,
    pub expect: Vec<Expect>,
}

#[derive(Debug)]
pub enum Awaited {
    /// An answer with one of these ids: for lines that were sent raw.
    Answer(Vec<Template>),
    /// `session/update` of one of these kinds.
    Update(Vec<String>),
    Request(String),
    Notification(String),
}
