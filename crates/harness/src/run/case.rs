//! Runs one case: starts a fresh process, runs the steps, and collects the results.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::connection::{Connection, NoResponse, ReceivedMessage};
pub use super::outcome::{CaseOutcome, CaseViolation, NoVerdict, Unanswered};
use super::process::StartError;
use super::{LoginMethod, RunConfig};
use crate::suite::template::Bindings;
use crate::suite::{Case, StartState, SuiteProtocol, describe_error};

/// Maximum length in bytes of a text that a case generates.
pub(super) const MAX_TEXT_BYTES: usize = 32 << 20;

/// Why a case that needs a session has no verdict if a login is missing.
pub(super) const NEEDS_LOGIN: &str = "a session requires a login: log in first, pass a method with --auth-method, or use a scripted \
     model with --mock-llm";

/// Ends a case early.
pub(super) enum Stop {
    NoVerdict(NoVerdict),
    /// A requirement is violated, and the remaining steps make no sense.
    Violation,
}

impl From<NoVerdict> for Stop {
    fn from(no_verdict: NoVerdict) -> Stop {
        Stop::NoVerdict(no_verdict)
    }
}

pub(super) type StepResult = Result<(), Stop>;

/// What a step without expectations needs in order to continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredResponse {
    Answer,
    Result,
}

pub struct CaseRunner<'a> {
    pub(super) case: &'a Case,
    pub(super) config: &'a RunConfig,
    pub(super) protocol: SuiteProtocol,
    pub(super) connection: Option<Connection>,
    /// Client capabilities for `initialize`. `None` leaves the member out.
    pub(super) client: Option<Value>,
    pub(super) bindings: Bindings,
    /// Requests that were sent, by name: id and transcript line.
    pub(super) sent: HashMap<String, (Value, u64)>,
    pub(super) root: PathBuf,
    pub(super) outcome: CaseOutcome,
    pub(super) started: Instant,
    pub(super) recorders: HashMap<String, super::recorder::McpRecorder>,
    /// Names of requests that are prompts.
    pub(super) prompted: HashSet<String>,
    /// Names of lists of messages, in which each item has its own line.
    pub(super) message_lists: HashSet<String>,
    /// Names of prompts that were sent before the client canceled a turn or closed a session.
    pub(super) canceled: HashSet<String>,
    pub(super) directories: usize,
    /// Whether the harness has logged in. A new process requires a new login.
    pub(super) is_logged_in: bool,
    /// The line after which the next `wait_for` starts to look.
    pub(super) seen_until: u64,
    /// The line of the last prompt.
    pub(super) prompted_at: u64,
    /// Whether the steps of the case have started.
    pub(super) steps_started: bool,
    /// Whether `session/new` was refused because a login is missing.
    pub(super) needs_login: bool,
    /// Whether a process had to be killed at a restart, because it did not exit.
    pub(super) was_killed: bool,
}

pub async fn run_case(case: &Case, protocol: SuiteProtocol, config: &RunConfig) -> CaseOutcome {
    let started = Instant::now();
    // If a capability is missing, the case is not applicable, and a missing prompt does not matter.
    let claims = !case.needs.capabilities.is_empty();
    if let Some(no_verdict) = missing_precondition(case, protocol, config).filter(|_| !claims) {
        return CaseOutcome::no_verdict(no_verdict);
    }
    let root = match config.workspace.case() {
        Ok(root) => root,
        Err(error) => {
            let why = format!("cannot create a directory for the case: {error}");
            return CaseOutcome::no_verdict(NoVerdict::Error(why));
        }
    };
    if protocol == SuiteProtocol::Lifecycle {
        return crate::lifecycle::run_case(case, config, root.path()).await;
    }
    if protocol == SuiteProtocol::Sessions {
        return crate::sessions::run_case(case, config, root.path()).await;
    }
    let mut runner = CaseRunner::new(case, protocol, config, root.path());
    let most = config.case_limit();
    let outcome = match tokio::time::timeout(most, runner.run()).await {
        Ok(outcome) => outcome,
        Err(_) => {
            runner.outcome.time_outs.any = true;
            Err(Stop::NoVerdict(NoVerdict::Error(format!(
                "the case did not finish within {} s",
                most.as_secs()
            ))))
        }
    };
    if let Err(Stop::NoVerdict(no_verdict)) = outcome {
        runner.outcome.no_verdict = Some(no_verdict);
    }
    runner.end_process(config.grace).await;
    runner.outcome.duration = started.elapsed();
    runner.outcome
}

/// What the caller did not provide: a prompt, or the mock model.
pub(super) fn missing_precondition(
    case: &Case,
    protocol: SuiteProtocol,
    config: &RunConfig,
) -> Option<NoVerdict> {
    let missing: Vec<&str> = case
        .needs
        .prompts
        .iter()
        .filter(|key| !config.prompts.contains_key(*key))
        .map(String::as_str)
        .collect();
    // For MCP, the calls can also be derived from the server's tools, so they are checked later.
    if !missing.is_empty() && protocol != SuiteProtocol::Mcp {
        let keys = missing.join("`, `");
        return Some(NoVerdict::Skip(format!(
            "{}: add `{keys}` to the --prompts file",
            super::prompts::MISSING_PROMPT
        )));
    }
    if case.needs.model && config.model.is_none() {
        // Only the built-in mock agents have such a variable. One of their scenarios asks a model.
        let why = match config.state_variable {
            Some(_) => "only tested with the mock model (--mock-llm --env MOCK_SCENARIO=model)",
            None => "only tested with the mock model (--mock-llm)",
        };
        return Some(NoVerdict::Skip(why.to_owned()));
    }
    None
}

/// A capability that the case needs and that the agent does not advertise in its response to
/// `initialize`.
pub(super) fn missing_capability(
    case: &Case,
    protocol: SuiteProtocol,
    initialize: &Value,
) -> Option<NoVerdict> {
    let capabilities = match protocol {
        SuiteProtocol::Mcp | SuiteProtocol::AcpV2 => "capabilities",
        _ => "agentCapabilities",
    };
    let is_missing = |pointer: &&String| {
        let value = initialize.get(capabilities);
        let value = value.and_then(|all| all.pointer(pointer));
        !matches!(value, Some(Value::Bool(true) | Value::Object(_)))
    };
    let pointer = case.needs.capabilities.iter().find(is_missing)?;
    let name = pointer.trim_start_matches('/').replace('/', ".");
    let why = format!("the agent does not advertise `{name}`");
    Some(NoVerdict::NotApplicable(why))
}

impl<'a> CaseRunner<'a> {
    pub(super) fn new(
        case: &'a Case,
        protocol: SuiteProtocol,
        config: &'a RunConfig,
        root: &Path,
    ) -> CaseRunner<'a> {
        CaseRunner {
            case,
            config,
            protocol,
            connection: None,
            client: case.client.clone(),
            bindings: Bindings::default(),
            sent: HashMap::new(),
            root: root.to_owned(),
            outcome: CaseOutcome::default(),
            started: Instant::now(),
            recorders: HashMap::new(),
            prompted: HashSet::new(),
            message_lists: HashSet::new(),
            canceled: HashSet::new(),
            directories: 0,
            is_logged_in: false,
            seen_until: 0,
            prompted_at: 0,
            steps_started: false,
            needs_login: false,
            was_killed: false,
        }
    }
}

impl CaseRunner<'_> {
    async fn run(&mut self) -> StepResult {
        self.bind_basics()?;
        self.begin(self.case.begin).await?;
        self.check_needs()?;
        self.steps_started = true;
        let case = self.case;
        self.steps(&case.steps).await
    }

    /// Creates the directories of the case, and binds them and the prompts.
    pub(super) fn bind_basics(&mut self) -> StepResult {
        let work = self.directory("work")?;
        let other = self.directory("other")?;
        self.bindings.bind("cwd", json!(work), Vec::new());
        self.bindings.bind("other", json!(other), Vec::new());
        self.bindings
            .bind("prompts", json!(self.config.prompts), Vec::new());
        self.bindings.bind("tag", json!(self.tag()), Vec::new());
        Ok(())
    }

    pub(super) fn directory(&mut self, name: &str) -> Result<String, Stop> {
        let path = self.root.join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path.to_string_lossy().into_owned()),
            Err(error) => {
                Err(NoVerdict::Error(format!("cannot create a directory: {error}")).into())
            }
        }
    }

    // --- start -----------------------------------------------------------------------------

    async fn begin(&mut self, begin: StartState) -> StepResult {
        let start_time = Instant::now();
        self.start_process().await?;
        if begin == StartState::Process {
            return Ok(());
        }
        self.initialize().await?;
        self.outcome.startup += start_time.elapsed();
        if begin == StartState::Session && self.protocol == SuiteProtocol::Mcp {
            self.list_tools().await?;
        } else if begin == StartState::Session {
            let params = self.case.session.clone().unwrap_or_else(|| json!({}));
            self.open_session(&params, "new").await?;
        }
        Ok(())
    }

    pub(super) async fn start_process(&mut self) -> StepResult {
        let monitors = super::monitors(self.protocol);
        let monitors = crate::monitor::MonitorRunner::new(monitors);
        let launcher = &self.config.launcher;
        let own = || self.root.join("start");
        let cwd = launcher.cwd().map_or_else(own, Path::to_owned);
        if let Err(error) = std::fs::create_dir_all(&cwd) {
            return Err(NoVerdict::Error(format!("cannot create a directory: {error}")).into());
        }
        let so_far = (std::mem::take(&mut self.outcome.transcript), self.started);
        let answers = &self.case.answers;
        let env = match self.config.own_env(&self.root) {
            Ok(env) => env,
            Err(error) => {
                let why = format!("cannot create a home directory for the agent: {error}");
                return Err(NoVerdict::Error(why).into());
            }
        };
        let root = &self.root;
        let started =
            Connection::start(launcher, &cwd, &env, monitors, answers, root, so_far).await;
        match started {
            Ok(mut connection) => {
                connection.start_allowance = self.config.start_allowance();
                self.connection = Some(connection);
                Ok(())
            }
            Err((error, transcript)) => {
                self.outcome.transcript = transcript;
                Err(match error {
                    StartError::Refused(refusal) => NoVerdict::of_refusal(&refusal),
                    // The environment is at fault, such as a program that is missing.
                    error => NoVerdict::NotVerified(error.to_string()),
                }
                .into())
            }
        }
    }

    pub(super) async fn initialize(&mut self) -> StepResult {
        let params = super::handshake::initialize(self.protocol, self.client.clone());
        let answer = self.exchange("initialize", Some(params)).await?;
        let result = answer.json.get("result").cloned().unwrap_or(Value::Null);
        self.bind("initialize", &answer);
        if self.protocol == SuiteProtocol::AcpV2
            && let Some(why) = super::handshake::unsupported_draft(&answer.json)
        {
            self.outcome.initialize = result;
            return Err(NoVerdict::NotApplicable(why).into());
        }
        if !result.is_object() {
            let why = crate::model::NO_INITIALIZE.to_owned();
            return Err(NoVerdict::NotVerified(why).into());
        }
        if let Some(methods) = result.get("authMethods") {
            let env = self.config.launcher.env();
            self.config.secrets.add_auth_variables(methods, &env);
        }
        self.outcome.initialize = result;
        let method = self.auth_method().unwrap_or(Value::Null);
        self.bindings.bind("auth_method", method, vec![answer.line]);
        if self.protocol == SuiteProtocol::Mcp {
            // Receive what came together with the response, so that it is logged before the next
            // line is sent.
            let moment = Duration::from_millis(10);
            self.connection()?.listen(moment).await;
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            self.send_message(&ready).await?;
        }
        Ok(())
    }

    /// Binds all pages of `tools/list` as `$tools`, and possible calls as `$calls`.
    pub(super) async fn list_tools(&mut self) -> StepResult {
        const PAGES: usize = 50;
        if !self.outcome.initialize["capabilities"]["tools"].is_object() {
            let why = "the server does not declare `tools`".to_owned();
            return Err(NoVerdict::NotApplicable(why).into());
        }
        let (mut tools, mut lines) = (Vec::new(), Vec::new());
        let mut params = json!({});
        for _ in 0..PAGES {
            let page = self.exchange("tools/list", Some(params)).await?;
            lines.push(page.line);
            let Some(more) = page.json.pointer("/result/tools").and_then(Value::as_array) else {
                let why = "`tools/list` was not answered with a list".to_owned();
                return Err(NoVerdict::NotVerified(why).into());
            };
            tools.extend(more.iter().cloned());
            match page.json.pointer("/result/nextCursor") {
                Some(Value::String(cursor)) => params = json!({"cursor": cursor}),
                _ => break,
            }
        }
        let calls = super::tools::calls(&tools, &self.config.prompts);
        self.bindings.bind("tools", json!(tools), lines.clone());
        self.bindings.bind("calls", calls, lines);
        Ok(())
    }

    /// Sends a request of the setup and waits for the response.
    async fn exchange(
        &mut self,
        method: &str,
        params: Option<Value>,
    ) -> Result<ReceivedMessage, Stop> {
        let (config, usual) = (self.config, self.config.timeout);
        let (history, timeout) = match method {
            "initialize" => (Some(&config.starts), config.starts.time_limit(usual)),
            "session/new" => (Some(&config.sessions), config.sessions.time_limit(usual)),
            _ => (None, usual),
        };
        let connection = self.connection()?;
        let sent = connection.request(method, params, None, timeout).await;
        let answer = match sent {
            Ok((id, line)) => {
                let answer = connection.answer(&id, timeout).await;
                if matches!(answer, Err(NoResponse::TimedOut(_)) if timeout >= usual) {
                    connection.give_up(&id);
                }
                answer.map(|a| (a, line))
            }
            Err(no_response) => Err(no_response),
        };
        match answer {
            Ok((answer, _)) => {
                if let Some(history) = history {
                    history.answered();
                }
                Ok(answer)
            }
            Err(no_response) => {
                let starved = matches!(no_response, NoResponse::Starved(..));
                if let Some(history) = history.filter(|_| !starved) {
                    history.unanswered_because(&no_response.to_string());
                }
                match no_response {
                    NoResponse::Ended(how) if self.steps_started => {
                        Err(self.agent_exited(&how, Some(method)))
                    }
                    no_response => {
                        let before = match no_response {
                            NoResponse::TimedOut(_) if timeout < usual => {
                                " (short limit: it was never answered in this run)"
                            }
                            _ => "",
                        };
                        let why = format!("`{method}` was not answered: {no_response}{before}");
                        Err(NoVerdict::NotVerified(why).into())
                    }
                }
            }
        }
    }

    /// Sends `session/new` with defaults for missing params. Logs in if the agent requires it.
    pub(super) async fn open_session(&mut self, params: &Value, name: &str) -> StepResult {
        let mut whole = json!({"cwd": "$cwd", "mcpServers": []});
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), params.as_object()) {
            for (key, value) in more {
                whole.insert(key.clone(), value.clone());
            }
        }
        let params = self.fill(&whole)?;
        let mut answer = self.exchange("session/new", Some(params.clone())).await?;
        let needs_login = |answer: &ReceivedMessage| {
            answer.json.pointer("/error/code").and_then(Value::as_i64) == Some(-32000)
        };
        if needs_login(&answer) && self.log_in().await? {
            answer = self.exchange("session/new", Some(params)).await?;
        }
        self.bind(name, &answer);
        let id = answer.json.pointer("/result/sessionId").cloned();
        match id {
            Some(id) => {
                if name == "new" {
                    self.bindings.bind("session", id, vec![answer.line]);
                }
                Ok(())
            }
            None if needs_login(&answer) => {
                self.needs_login = true;
                Err(NoVerdict::NotVerified(NEEDS_LOGIN.to_owned()).into())
            }
            None => {
                let text = answer.json.get("error").map(describe_error);
                let text = text.unwrap_or_else(|| "no sessionId".to_owned());
                let why = format!("`session/new` returned no session: {text}");
                Err(NoVerdict::NotVerified(why).into())
            }
        }
    }

    pub(super) async fn log_in(&mut self) -> Result<bool, Stop> {
        let Some(method) = self.auth_method() else {
            return Ok(false);
        };
        let params = json!({"methodId": method});
        let login = match self.protocol {
            SuiteProtocol::AcpV2 => "auth/login",
            _ => "authenticate",
        };
        let answer = self.exchange(login, Some(params)).await?;
        self.is_logged_in = answer.json.get("result").is_some();
        Ok(self.is_logged_in)
    }

    /// The id of the method to log in with.
    fn auth_method(&self) -> Option<Value> {
        match &self.config.login {
            LoginMethod::No => None,
            LoginMethod::With(method) => Some(json!(method)),
            LoginMethod::First => {
                let methods = self.outcome.initialize.get("authMethods");
                let methods = methods.and_then(Value::as_array).into_iter().flatten();
                let own = |m: &&Value| m.get("type").is_none_or(|kind| kind == "agent");
                let id = match self.protocol {
                    SuiteProtocol::AcpV2 => "methodId",
                    _ => "id",
                };
                methods.filter(own).find_map(|m| m.get(id)).cloned()
            }
        }
    }

    fn check_needs(&mut self) -> StepResult {
        let initialize = &self.outcome.initialize;
        if let Some(no_verdict) = missing_capability(self.case, self.protocol, initialize) {
            return Err(no_verdict.into());
        }
        if let Some(no_verdict) = missing_precondition(self.case, self.protocol, self.config) {
            return Err(no_verdict.into());
        }
        if self.protocol == SuiteProtocol::Mcp {
            let is_unknown =
                |key: &&String| self.bindings.resolve(&format!("$calls/{key}")).is_none();
            if let Some(key) = self.case.needs.prompts.iter().find(is_unknown) {
                return Err(NoVerdict::Skip(super::tools::missing_call_message(key)).into());
            }
        }
        for expect in &self.case.needs.that {
            if let Err(failure) = expect.check(None, &self.bindings) {
                let why = match &expect.message {
                    Some(template) => self.fill_message(template),
                    None => failure.message,
                };
                return Err(NoVerdict::NotApplicable(why).into());
            }
        }
        if self.case.needs.auth && self.config.login == LoginMethod::No {
            let why = "needs a login: pass a method with --auth-method";
            return Err(NoVerdict::Skip(why.to_owned()).into());
        }
        Ok(())
    }

    /// The transcript line of the request with this name.
    pub(super) fn sent_at(&self, name: Option<&str>) -> u64 {
        let sent = name.and_then(|name| self.sent.get(name));
        sent.map_or(0, |(_, line)| *line)
    }

    /// Replaces the references in a message.
    pub(super) fn fill_message(&self, text: &str) -> String {
        self.bindings.fill_message(text)
    }

    pub(super) fn tag(&self) -> String {
        let name = self.root.file_name().unwrap_or_default();
        format!("({})", name.to_string_lossy())
    }

    pub(super) fn connection(&mut self) -> Result<&mut Connection, Stop> {
        let gone = || {
            Stop::NoVerdict(NoVerdict::Error(
                "the agent process is not running".to_owned(),
            ))
        };
        self.connection.as_mut().ok_or_else(gone)
    }

    pub(super) fn fill(&self, template: &Value) -> Result<Value, Stop> {
        let filled = self.bindings.fill(template);
        filled.map_err(|why| NoVerdict::NotVerified(why).into())
    }

    pub(super) fn own_path(&self, path: &Value) -> Result<PathBuf, Stop> {
        let path = self.fill(path)?;
        let path = Path::new(path.as_str().unwrap_or_default()).to_owned();
        let up = path
            .components()
            .any(|c| matches!(c, std::path::Component::ParentDir));
        match path.starts_with(&self.root) && !up {
            true => Ok(path),
            false => {
                let why = format!("{} is outside the directory of the case", path.display());
                Err(NoVerdict::Error(why).into())
            }
        }
    }

    pub(super) fn bind(&mut self, name: &str, message: &ReceivedMessage) {
        self.bindings
            .bind(name, (*message.json).clone(), vec![message.line]);
        self.outcome.passed_lines.push(message.line);
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> StepResult {
        let timeout = self.config.timeout;
        match self.connection()?.write(bytes, timeout).await {
            Ok(_) => Ok(()),
            Err(no_response) => Err(self.send_failed(&no_response, None)),
        }
    }

    pub(super) async fn send_message(&mut self, message: &Value) -> StepResult {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(b'\n');
        self.write(&bytes).await
    }

    /// Handles a failed write, which the agent caused.
    pub(super) fn send_failed(&mut self, no_response: &NoResponse, method: Option<&str>) -> Stop {
        match no_response {
            NoResponse::Ended(how) => self.agent_exited(how, method),
            _ => {
                let message = format!("cannot send to the agent: {no_response}");
                self.violate_all(&CaseViolation::new(message, Vec::new()));
                Stop::Violation
            }
        }
    }

    /// Handles the exit of the agent, while it had to answer `method`. During a case, this violates
    /// everything that the case decides, no matter how the exit was noticed. Before the first step,
    /// nothing is decided.
    pub(super) fn agent_exited(&mut self, how: &str, method: Option<&str>) -> Stop {
        if !self.steps_started {
            return NoVerdict::NotVerified(format!("the agent is not running: {how}")).into();
        }
        let connection = self.connection.as_ref();
        let mut lines = connection.map_or_else(Vec::new, Connection::last_sent);
        lines.extend(connection.map(|connection| connection.transcript.last()));
        let unanswered = method.map(|method| Unanswered {
            method: method.to_owned(),
            is_exit: true,
        });
        let violation = CaseViolation {
            is_exit: true,
            unanswered,
            ..CaseViolation::new(format!("during the case, {how}"), lines)
        };
        self.violate_all(&violation);
        Stop::Violation
    }

    /// Violates everything that the case decides.
    pub(super) fn violate_all(&mut self, violation: &CaseViolation) {
        for requirement in &self.case.decides {
            self.outcome.violations.push(CaseViolation {
                requirement: requirement.clone(),
                ..violation.clone()
            });
        }
    }

    /// Ends the current process before a restart. It may take as long as the protocol lets an
    /// agent take after its stdin was closed, because it may still have to store its sessions.
    pub(super) async fn end_for_restart(&mut self) {
        if let Some(connection) = &mut self.connection {
            self.was_killed |= !connection.close(self.config.restart_grace).await;
        }
        self.end_process(Duration::ZERO).await;
    }

    /// Ends the current process.
    pub(super) async fn end_process(&mut self, grace: Duration) {
        if let Some(connection) = self.connection.take() {
            self.outcome.agent += connection.waited;
            self.outcome.time_outs.add(connection.time_outs);
            let (transcript, notes) = connection.finish(grace).await;
            self.outcome.transcript = transcript;
            self.outcome.notes.push(notes);
        }
    }
}
