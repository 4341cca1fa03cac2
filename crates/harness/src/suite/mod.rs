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
/// Selection of requirements and cases.
pub mod selection;
mod steps;
pub(crate) mod template;

use std::time::Duration;

use serde_json::Value;

pub use built_in::{LoadError, any_contains, built_in, load, names};
pub use expect::{Assertion, Expectation, ValueRef, describe_error};
pub use expectations::test_names;
pub(crate) use read::everything;
pub use read::{FORMAT, parse, parse_all};
pub(crate) use reference::escaped;
pub use reference::reference;
pub use selection::Selection;
pub use steps::step_names;

use crate::model::{Basis, Level, Profile};

/// What the cases of a suite talk to, and in which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteProtocol {
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
    pub protocol: SuiteProtocol,
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
    pub monitors: Vec<String>,
    /// Ids in the register of requirements that it also decides.
    pub register: Vec<String>,
    /// The request without whose response nothing else works. If it is not answered, other rows
    /// with the same cause follow from this requirement.
    pub covers: Option<String>,
    /// The smallest profile in which it decides: `core` or `strict`.
    pub profile: Profile,
    /// What the source says. Requirements of the ACP suites have it.
    pub basis: Option<Basis>,
}

/// How far the harness goes before the first step of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StartState {
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
    pub begin: StartState,
    /// `clientCapabilities` of `initialize`. `None` leaves the member out.
    pub client: Option<Value>,
    /// Additional members of the first `session/new`.
    pub session: Option<Value>,
    /// Preconditions.
    pub needs: CaseNeeds,
    /// How the harness answers the agent's requests.
    pub answers: ClientBehavior,
    /// The steps, in order.
    pub steps: Vec<CaseStep>,
    /// Line of the case in its file.
    pub line: u32,
}

/// Preconditions of a case. If one is not met, the case has no verdict about the agent.
#[derive(Debug, Default)]
pub struct CaseNeeds {
    /// JSON Pointers below `agentCapabilities` (`capabilities` in MCP) that must be present.
    pub capabilities: Vec<String>,
    /// Keys of the prompts file.
    pub prompts: Vec<String>,
    /// Whether a login method must be known.
    pub auth: bool,
    /// Whether the agent must run with the mock model.
    pub model: bool,
    /// Expectations that are checked after `begin`.
    pub that: Vec<Expectation>,
}

/// How the harness, as a client, answers the agent's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientBehavior {
    /// Answers to `session/request_permission`.
    pub permission: Behavior,
    /// Answers to `fs/*`.
    pub fs: Behavior,
    /// Answers to `terminal/*`.
    pub terminal: Behavior,
    /// `terminal/wait_for_exit` only.
    pub terminal_exit: Behavior,
    /// Answers to `elicitation/create`.
    pub elicitation: Behavior,
}

/// How the harness answers one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
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

impl Default for ClientBehavior {
    fn default() -> Self {
        ClientBehavior {
            permission: Behavior::Serve,
            fs: Behavior::Serve,
            terminal: Behavior::Serve,
            terminal_exit: Behavior::Serve,
            elicitation: Behavior::Serve,
        }
    }
}

/// A step of a case.
#[derive(Debug)]
pub struct CaseStep {
    /// Line of the step in its file.
    pub line: u32,
    /// What the step does.
    pub kind: StepKind,
}

/// A JSON value in which strings that start with `$` refer to bindings of earlier steps.
pub type Template = Value;

/// What a step does.
#[derive(Debug)]
pub enum StepKind {
    /// Sends a request and waits for the response.
    Call(RequestStep, Vec<Expectation>),
    /// Sends a request.
    Send(RequestStep),
    /// Waits for the response to a request that was sent earlier.
    Receive {
        /// Name of the request.
        of: String,
        /// Time limit. `None` uses that of the run.
        within: Option<Duration>,
        /// Expectations on the result.
        expect: Vec<Expectation>,
    },
    /// Sends a notification.
    Notify {
        /// Method name.
        method: String,
        /// Params.
        params: Template,
    },
    /// Sends raw bytes.
    Raw(Vec<Vec<u8>>),
    /// Sends a message as it is, including invalid members.
    Message(Template),
    /// Answers a request of the agent that was held back.
    Answer {
        /// Binding of the request.
        of: String,
        /// Response without `jsonrpc` and `id`.
        with: Template,
        /// How further permission requests are answered until the next prompt.
        then: Option<Behavior>,
    },
    /// Waits for a message that the agent sends on its own.
    WaitFor(WaitFor),
    /// Listens for a while and binds the messages that arrive.
    Quiet {
        /// Duration. `None` uses that of the run.
        time: Option<Duration>,
        /// Binding for the messages.
        name: Option<String>,
    },
    /// Checks expectations on bindings.
    Expect(Vec<Expectation>),
    /// Runs a whole turn with the prompt of a key: sends the prompt and waits for the response.
    Turn(PromptStep, Vec<Expectation>),
    /// Starts a turn without waiting for its end.
    Prompt(PromptStep),
    /// Sends `session/cancel`, and answers all open permission requests with `cancelled`.
    Cancel,
    /// Binds all updates of a session so far.
    Updates {
        /// Session id.
        session: Template,
        /// Only messages after this request was sent.
        since: Option<String>,
        /// Binding for the result.
        name: String,
    },
    /// Binds a value.
    Bind {
        /// Binding for the result.
        name: String,
        /// The value.
        value: Template,
        /// How often a text is repeated.
        times: u64,
    },
    /// Adds a value to a list.
    Collect {
        /// The value to add.
        value: Template,
        /// Binding of the list.
        into: String,
    },
    /// Opens a session, and binds the response.
    NewSession {
        /// Additional params of `session/new`.
        params: Template,
        /// Binding for the result.
        name: String,
    },
    /// Stops the process and starts another one of the same agent, up to `begin`.
    Restart {
        /// How far the harness goes with the new process.
        begin: StartState,
        /// Client capabilities that replace those of the case.
        client: Option<Value>,
    },
    /// Closes the agent's stdin.
    EndInput,
    /// Sends a signal to the process.
    Signal(i32),
    /// Waits until the process exits, and binds `$exit`.
    Exit {
        /// Time limit. `None` uses that of the run.
        within: Option<Duration>,
        /// Expectations on the result.
        expect: Vec<Expectation>,
    },
    /// Checks that the agent still answers a request.
    Alive,
    /// Runs the steps for each member of a list.
    ForEach {
        /// The list.
        list: Template,
        /// Binding for the current member.
        name: String,
        /// The steps.
        steps: Vec<CaseStep>,
    },
    /// Runs the steps several times, with the number of the round in `$round`.
    Repeat {
        /// Number of rounds.
        times: u64,
        /// The steps.
        steps: Vec<CaseStep>,
    },
    /// Runs the steps only if all of these hold.
    When {
        /// The conditions.
        that: Vec<Expectation>,
        /// The steps.
        steps: Vec<CaseStep>,
    },
    /// Creates an empty directory and binds its path.
    Directory(String),
    /// Writes a file.
    WriteFile {
        /// Path in the directory of the case.
        path: Template,
        /// Content of the file.
        text: Template,
    },
    /// Binds the content of a file.
    ReadFile {
        /// Path in the directory of the case.
        path: Template,
        /// Binding for the result.
        name: String,
    },
    /// Binds the descriptor of an MCP server that records how it is started and what it is asked.
    Recorder {
        /// Name of the recorder, and binding for its descriptor.
        name: String,
        /// `stdio` or `http`.
        transport: String,
        /// Environment variables, or headers for `http`.
        env: Template,
        /// Additional arguments for `stdio`.
        args: Template,
    },
    /// Binds what such an MCP server recorded.
    Recorded {
        /// Name of the recorder.
        of: String,
        /// Binding for the result.
        name: String,
        /// How long to wait until the server has received a request.
        within: Option<Duration>,
    },
    /// Binds the requests that the mock model received so far.
    Model {
        /// Binding for the result.
        name: String,
    },
    /// Binds all messages of the agent so far. With a method: only its requests and notifications.
    Messages {
        /// Method name. `None` selects all messages.
        method: Option<String>,
        /// Only messages after this request was sent.
        since: Option<String>,
        /// Binding for the result.
        name: String,
    },
    /// Binds what the agent said: the joined text of its message chunks.
    AgentText {
        /// Session id.
        session: Template,
        /// Only messages after this request was sent.
        since: Option<String>,
        /// Binding for the result.
        name: String,
    },
    /// Binds the lines of stderr so far.
    Stderr {
        /// Binding for the result.
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

/// A request that a step sends.
#[derive(Debug)]
pub struct RequestStep {
    /// Method name.
    pub method: String,
    /// Params. `None` leaves the member out.
    pub params: Option<Template>,
    /// `None` uses the next number.
    pub id: Option<Template>,
    /// Binding for the response. The default is `answer`.
    pub name: Option<String>,
    /// Time limit for the response. `None` uses that of the run.
    pub within: Option<Duration>,
    /// Whether an error is accepted as the response of a call without expectations.
    pub takes_errors: bool,
}

/// A prompt that a step sends.
#[derive(Debug)]
pub struct PromptStep {
    /// A key of the prompts file, or content blocks.
    pub text: PromptText,
    /// Session id. The default is `$session`.
    pub session: Option<Template>,
    /// Binding for the response.
    pub name: String,
    /// Time limit for the turn. `None` uses that of the run.
    pub within: Option<Duration>,
}

/// The content of a prompt.
#[derive(Debug)]
pub enum PromptText {
    /// Key of the prompts file.
    Key(String),
    /// ACP content blocks.
    Blocks(Template),
}

/// A message that a step waits for.
#[derive(Debug)]
pub struct WaitFor {
    /// Kind of message.
    pub message: AwaitedMessage,
    /// Only a message that meets these expectations counts.
    pub which: Vec<Expectation>,
    /// Binding for the message.
    pub name: Option<String>,
    /// Time limit. `None` uses that of the run.
    pub within: Option<Duration>,
    /// Whether it is a violation if no such message arrives. Otherwise the case is not verified.
    pub is_expected: bool,
    /// Whether the case continues if no such message arrives. The binding is then null.
    pub is_optional: bool,
    /// Stops waiting when the request of this name is answered, because the message cannot arrive
    /// after that.
    pub unless: Option<String>,
    /// Message if nothing arrives. Without one, a default message is used.
    pub failure_message: Option<String>,
    /// Expectations on the message.
    pub expect: Vec<Expectation>,
}

/// Kind of message that a step waits for.
#[derive(Debug)]
pub enum AwaitedMessage {
    /// A response with one of these ids, for requests that were sent raw.
    Answer(Vec<Template>),
    /// A `session/update` of one of these kinds.
    Update(Vec<String>),
    /// A request with this method.
    Request(String),
    /// A notification with this method.
    Notification(String),
    /// The start or the end of the work on the last prompt, in the draft of version 2.
    Work(WorkState),
}

/// A point in the work on a prompt, as `state_update` reports it in the draft of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// The work has started: the state is `running` or `requires_action`.
    Running,
    /// The work has ended: the state is `idle` after the work has started, or with a `stopReason`.
    /// Other idle states only report that nothing is running.
    Idle,
}
