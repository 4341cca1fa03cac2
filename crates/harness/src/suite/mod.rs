//! Suites as data: requirements, and the cases that decide them.
//!
//! A suite is a YAML file. `schemas/suite.schema.json` is its schema, and the module `read` parses
//! it. The built-in suites are such files embedded in the binary. Vendors write their own suites in
//! the same format.

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

/// What the cases of a suite talk to, and in which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// An ACP agent over stdio, version 1.
    Acp,
    /// An ACP agent over stdio, draft of version 2.
    AcpV2,
    /// An MCP server over stdio.
    Mcp,
    /// A bundle, through the runtime.
    Lifecycle,
    /// A session host by its URL (AIP-46).
    Sessions,
}

/// Requirements of a spec, and the cases that decide them.
#[derive(Debug)]
pub struct Suite {
    /// Name, such as `acp`.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// What the cases talk to.
    pub protocol: Protocol,
    /// The requirements, in the order of the file.
    pub requirements: Vec<Requirement>,
    /// The cases, in the order of the file.
    pub cases: Vec<Case>,
}

impl Suite {
    /// The requirement with this id.
    pub fn requirement(&self, id: &str) -> Option<&Requirement> {
        self.requirements.iter().find(|r| r.id == id)
    }
}

/// A numbered statement of a spec.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// Id, such as `TR-03`.
    pub id: String,
    /// How strongly the spec requires it.
    pub level: Level,
    /// What the spec requires, in plain words.
    pub statement: String,
    /// Where the spec says so, for example `ACP v1, prompt-turn`.
    pub source: String,
    /// Section of the suite.
    pub section: String,
    /// How to fix a violation.
    pub hint: Option<String>,
    /// Ids of the monitors that check it in every case.
    pub watched: Vec<String>,
    /// Ids in the register of requirements that it also decides.
    pub register: Vec<String>,
}

/// How far the harness goes before the first step of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Begin {
    /// The process is running, and nothing was sent.
    Process,
    /// `initialize` was answered.
    Initialized,
    /// A session is open: `$session`, in `$cwd`.
    Session,
}

/// A conversation with the target, and the requirements that it decides.
#[derive(Debug)]
pub struct Case {
    /// Id, unique within the suite.
    pub id: String,
    /// Title for people.
    pub title: String,
    /// Ids of the requirements that it decides.
    pub decides: Vec<String>,
    /// How far the harness goes before the first step.
    pub begin: Begin,
    /// `clientCapabilities` of `initialize`. `None` leaves the member out.
    pub client: Option<Value>,
    /// Additional members of the first `session/new`.
    pub session: Option<Value>,
    /// Preconditions.
    pub needs: Needs,
    /// How the harness answers the agent's requests.
    pub answers: Answers,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Line of the case in its file.
    pub line: u32,
}

/// Preconditions of a case. If one is not met, the case has no verdict about the agent.
#[derive(Debug, Default)]
pub struct Needs {
    /// JSON Pointers below `agentCapabilities` (`capabilities` in MCP) that must be present.
    pub capabilities: Vec<String>,
    /// Keys of the prompts file.
    pub prompts: Vec<String>,
    /// Whether a login method must be known.
    pub auth: bool,
    /// Whether the agent must run with the mock model.
    pub model: bool,
    /// Expectations that are checked after `begin`.
    pub that: Vec<Expect>,
}

/// How the harness, as a client, answers the agent's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    pub permission: Answer,
    pub fs: Answer,
    pub terminal: Answer,
    /// `terminal/wait_for_exit` only.
    pub terminal_exit: Answer,
    pub elicitation: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Like a good client: allow, serve, accept.
    Serve,
    /// Refuse as the protocol provides: reject, decline.
    Refuse,
    /// Canceled by the user.
    Cancel,
    /// A JSON-RPC error.
    Error(i64),
    /// Answer later: when the case answers, or when the turn is canceled.
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

/// A JSON value in which strings that start with `$` refer to bindings of earlier steps.
pub type Template = Value;

#[derive(Debug)]
pub enum What {
    /// Sends a request and waits for the response.
    Call(Request, Vec<Expect>),
    /// Sends a request.
    Send(Request),
    /// Waits for the response to a request that was sent earlier.
    Receive {
        of: String,
        within: Option<Duration>,
        expect: Vec<Expect>,
    },
    Notify {
        method: String,
        params: Template,
    },
    /// Sends raw bytes.
    Raw(Vec<Vec<u8>>),
    /// Sends a message as it is, including invalid members.
    Message(Template),
    /// Answers a request of the agent that was held back.
    Answer {
        of: String,
        with: Template,
    },
    /// Waits for a message that the agent sends on its own.
    WaitFor(WaitFor),
    /// Listens for a while and binds the messages that arrive.
    Quiet {
        time: Option<Duration>,
        name: Option<String>,
    },
    Expect(Vec<Expect>),
    /// Runs a whole turn with the prompt of a key: sends the prompt and waits for the response.
    Turn(Prompt, Vec<Expect>),
    /// Starts a turn without waiting for its end.
    Prompt(Prompt),
    /// Sends `session/cancel`, and answers all open permission requests with `cancelled`.
    Cancel,
    /// Binds all updates of a session so far.
    Updates {
        session: Template,
        since: Option<String>,
        name: String,
    },
    Bind {
        name: String,
        value: Template,
        /// How often a text is repeated.
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
    /// Stops the process and starts another one of the same agent, up to `begin`.
    Restart {
        begin: Begin,
        /// Client capabilities that replace those of the case.
        client: Option<Value>,
    },
    /// Closes the agent's stdin.
    EndInput,
    Signal(i32),
    /// Waits until the process exits, and binds `$exit`.
    Exit {
        within: Option<Duration>,
        expect: Vec<Expect>,
    },
    /// Checks that the agent still answers a request.
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
    /// Runs the steps only if all of these hold.
    When {
        that: Vec<Expect>,
        steps: Vec<Step>,
    },
    /// Creates an empty directory and binds its path.
    Directory(String),
    /// Writes a file.
    WriteFile {
        path: Template,
        text: Template,
    },
    /// Binds the content of a file.
    ReadFile {
        path: Template,
        name: String,
    },
    /// Binds the descriptor of an MCP server that records how it is started and what it is asked.
    Recorder {
        name: String,
        transport: String,
        env: Template,
        args: Template,
    },
    /// Binds what such an MCP server recorded.
    Recorded {
        of: String,
        name: String,
        /// How long to wait until the server has received a request.
        within: Option<Duration>,
    },
    /// Binds the requests that the mock model received so far.
    Model {
        name: String,
    },
    /// Binds all messages of the agent so far. With a method: only its requests and notifications.
    Messages {
        method: Option<String>,
        /// Only messages after this request was sent.
        since: Option<String>,
        name: String,
    },
    /// Binds what the agent said: the joined text of its message chunks.
    Said {
        session: Template,
        since: Option<String>,
        name: String,
    },
    /// Binds the lines of stderr so far.
    Stderr {
        name: String,
    },
    /// Logs in with the login method of the run.
    LogIn,
    /// Runs a probe through the runtime or against a session host. Only in suites for those.
    Probe(String),
    /// Ends the case as not verified, with this reason.
    NotVerified(String),
    /// Ends the case as not applicable, because the agent does not claim the feature.
    NotApplicable(String),
}

#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub params: Option<Template>,
    /// `None` uses the next number.
    pub id: Option<Template>,
    pub name: Option<String>,
    pub within: Option<Duration>,
    /// Whether an error is accepted as the response of a call without expectations.
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
    /// Only a message that meets these expectations counts.
    pub which: Vec<Expect>,
    pub name: Option<String>,
    pub within: Option<Duration>,
    /// Whether it is a violation if no such message arrives. Otherwise the case is not verified.
    pub is_expected: bool,
    /// Stops waiting when the request of this name is answered, because the message cannot arrive
    /// after that.
    pub unless: Option<String>,
    pub say: Option<String>,
    pub expect: Vec<Expect>,
}

#[derive(Debug)]
pub enum Awaited {
    /// A response with one of these ids, for requests that were sent raw.
    Answer(Vec<Template>),
    /// A `session/update` of one of these kinds.
    Update(Vec<String>),
    Request(String),
    Notification(String),
}
