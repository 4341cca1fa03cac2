//! Plays one case: starts a fresh process, runs the steps, and collects the results.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::connection::{Connection, Received, Silence};
use super::{Login, Setting};
use crate::monitor::Notes;
use crate::suite::template::Bindings;
use crate::suite::{Begin, Case, Protocol, refusal};
use agentproto_wire::Transcript;

/// Maximum length in bytes of a text that a case generates.
pub(super) const LONGEST_TEXT: usize = 32 << 20;

/// A violation of one requirement in one case.
#[derive(Clone, Debug)]
pub struct Broken {
    pub requirement: String,
    pub message: String,
    pub lines: Vec<u64>,
    /// JSON Pointer to the value that is wrong in one of the lines.
    pub at: Option<String>,
    pub is_guess: bool,
    /// Whether the agent exited during the case.
    pub is_death: bool,
}

/// Why a case has no verdict about the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    NotApplicable(String),
    Skip(String),
    NotVerified(String),
    Error(String),
}

/// The results of a case.
#[derive(Default)]
pub struct Played {
    pub broken: Vec<Broken>,
    pub blocked: Option<Blocked>,
    /// Requirements without a verdict, each with its own reason.
    pub open: Vec<(String, Blocked)>,
    /// Requirements with at least one expectation that was checked.
    pub looked_at: Vec<String>,
    /// Lines that show what happened if nothing is violated.
    pub shown: Vec<u64>,
    /// Everything that was sent and received, over all processes of the case.
    pub transcript: Transcript,
    /// Notes of the monitors, one entry per process.
    pub notes: Vec<Notes>,
    pub duration: Duration,
    pub startup: Duration,
    pub waits: Duration,
    pub agent: Duration,
    pub initialize: Value,
}

/// Ends a case early.
pub(super) enum Stop {
    Blocked(Blocked),
    /// A requirement is violated, and the remaining steps make no sense.
    Broken,
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Stop {
        Stop::Blocked(blocked)
    }
}

pub(super) type Step1 = Result<(), Stop>;

/// What a step without expectations needs in order to continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    Answer,
    Result,
}

pub struct Player<'a> {
    pub(super) case: &'a Case,
    pub(super) setting: &'a Setting,
    pub(super) protocol: Protocol,
    pub(super) connection: Option<Connection>,
    /// Client capabilities for `initialize`. `None` leaves the member out.
    pub(super) client: Option<Value>,
    pub(super) known: Bindings,
    /// Requests that were sent, by name: id and transcript line.
    pub(super) sent: HashMap<String, (Value, u64)>,
    pub(super) root: PathBuf,
    pub(super) played: Played,
    pub(super) begun: Instant,
    pub(super) recorders: HashMap<String, super::recorder::Recorder>,
    /// Names of requests that are prompts.
    pub(super) prompted: HashSet<String>,
    pub(super) directories: usize,
    /// Whether the harness has logged in. A new process requires a new login.
    pub(super) is_logged_in: bool,
    /// The line after which the next `wait_for` starts to look.
    pub(super) seen_until: u64,
    /// Whether the steps of the case have started.
    pub(super) is_under_way: bool,
}

pub async fn play(case: &Case, protocol: Protocol, setting: &Setting) -> Played {
    let begun = Instant::now();
    // If a capability is missing, the case is not applicable, and a missing prompt does not matter.
    let claims = !case.needs.capabilities.is_empty();
    if let Some(blocked) = lacking(case, protocol, setting).filter(|_| !claims) {
        return Played::blocked(blocked);
    }
    let root = match setting.workspace.case() {
        Ok(root) => root,
        Err(error) => {
            let why = format!("cannot create a directory for the case: {error}");
            return Played::blocked(Blocked::Error(why));
        }
    };
    if protocol == Protocol::Lifecycle {
        return crate::lifecycle::play(case, setting, root.path()).await;
    }
    if protocol == Protocol::Sessions {
        return crate::sessions::play(case, setting, root.path()).await;
    }
    let mut player = Player {
        case,
        setting,
        protocol,
        connection: None,
        client: case.client.clone(),
        known: Bindings::default(),
        sent: HashMap::new(),
        root: root.path().to_owned(),
        played: Played::default(),
        begun,
        recorders: HashMap::new(),
        prompted: HashSet::new(),
        directories: 0,
        is_logged_in: false,
        seen_until: 0,
        is_under_way: false,
    };
    let most = setting.longest_case();
    let outcome = match tokio::time::timeout(most, player.run()).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Stop::Blocked(Blocked::Error(format!(
            "the case did not finish within {} s",
            most.as_secs()
        )))),
    };
    if let Err(Stop::Blocked(blocked)) = outcome {
        player.played.blocked = Some(blocked);
    }
    player.hang_up().await;
    player.played.duration = begun.elapsed();
    player.played
}

/// What the caller did not provide: a prompt, or the mock model.
fn lacking(case: &Case, protocol: Protocol, setting: &Setting) -> Option<Blocked> {
    let missing: Vec<&str> = case
        .needs
        .prompts
        .iter()
        .filter(|key| !setting.prompts.contains_key(*key))
        .map(String::as_str)
        .collect();
    // For MCP, the calls can also be derived from the server's tools, so they are checked later.
    if !missing.is_empty() && protocol != Protocol::Mcp {
        let keys = missing.join("`, `");
        return Some(Blocked::Skip(format!(
            "{}: add `{keys}` to the --prompts file",
            super::prompts::NO_PROMPT
        )));
    }
    if case.needs.model && setting.model.is_none() {
        let why = "needs the mock model: run with --mock-llm";
        return Some(Blocked::Skip(why.to_owned()));
    }
    None
}

impl Player<'_> {
    async fn run(&mut self) -> Step1 {
        let work = self.directory("work")?;
        let other = self.directory("other")?;
        self.known.bind("cwd", json!(work), Vec::new());
        self.known.bind("other", json!(other), Vec::new());
        self.known
            .bind("prompts", json!(self.setting.prompts), Vec::new());
        self.begin(self.case.begin).await?;
        self.check_needs()?;
        self.is_under_way = true;
        let case = self.case;
        self.steps(&case.steps).await
    }

    pub(super) fn directory(&mut self, name: &str) -> Result<String, Stop> {
        let path = self.root.join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path.to_string_lossy().into_owned()),
            Err(error) => Err(Blocked::Error(format!("cannot create a directory: {error}")).into()),
        }
    }

    // --- start -----------------------------------------------------------------------------

    async fn begin(&mut self, begin: Begin) -> Step1 {
        let begun = Instant::now();
        self.start_process().await?;
        if begin == Begin::Process {
            return Ok(());
        }
        self.initialize().await?;
        self.played.startup += begun.elapsed();
        if begin == Begin::Session && self.protocol == Protocol::Mcp {
            self.list_tools().await?;
        } else if begin == Begin::Session {
            let params = self.case.session.clone().unwrap_or_else(|| json!({}));
            self.open_session(&params, "new").await?;
        }
        Ok(())
    }

    pub(super) async fn start_process(&mut self) -> Step1 {
        let monitors = super::monitors(self.protocol);
        let watch = crate::monitor::Watch::new(monitors);
        let launcher = &self.setting.launcher;
        let own = || self.root.join("start");
        let cwd = launcher.cwd().map_or_else(own, Path::to_owned);
        if let Err(error) = std::fs::create_dir_all(&cwd) {
            return Err(Blocked::Error(format!("cannot create a directory: {error}")).into());
        }
        let so_far = (std::mem::take(&mut self.played.transcript), self.begun);
        let answers = &self.case.answers;
        let env = match self.setting.own_env(&self.root) {
            Ok(env) => env,
            Err(error) => {
                let why = format!("cannot create a home directory for the agent: {error}");
                return Err(Blocked::Error(why).into());
            }
        };
        let root = &self.root;
        let started = Connection::start(launcher, &cwd, &env, watch, answers, root, so_far).await;
        match started {
            Ok(connection) => {
                self.connection = Some(connection);
                Ok(())
            }
            Err((error, transcript)) => {
                self.played.transcript = transcript;
                Err(Blocked::Error(error.to_string()).into())
            }
        }
    }

    pub(super) async fn initialize(&mut self) -> Step1 {
        let params = super::opening::initialize(self.protocol, self.client.clone());
        let answer = self.exchange("initialize", Some(params)).await?;
        let result = answer.json.get("result").cloned().unwrap_or(Value::Null);
        self.bind("initialize", &answer);
        if self.protocol == Protocol::AcpV2
            && let Some(why) = super::opening::no_draft(&answer.json)
        {
            self.played.initialize = result;
            return Err(Blocked::NotApplicable(why).into());
        }
        if !result.is_object() {
            let why = "`initialize` was not answered with a result".to_owned();
            return Err(Blocked::NotVerified(why).into());
        }
        if let Some(methods) = result.get("authMethods") {
            let env = self.setting.launcher.env();
            self.setting.secrets.of_methods(methods, &env);
        }
        self.played.initialize = result;
        let method = self.auth_method().unwrap_or(Value::Null);
        self.known.bind("auth_method", method, vec![answer.line]);
        if self.protocol == Protocol::Mcp {
            // Receive what came together with the response, so that it is logged before the next
            // line is sent.
            let moment = Duration::from_millis(10);
            self.connection()?.listen(moment).await;
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            self.say(&ready).await?;
        }
        Ok(())
    }

    /// Binds all pages of `tools/list` as `$tools`, and possible calls as `$calls`.
    pub(super) async fn list_tools(&mut self) -> Step1 {
        const PAGES: usize = 50;
        if !self.played.initialize["capabilities"]["tools"].is_object() {
            let why = "the server does not declare `tools`".to_owned();
            return Err(Blocked::NotApplicable(why).into());
        }
        let (mut tools, mut lines) = (Vec::new(), Vec::new());
        let mut params = json!({});
        for _ in 0..PAGES {
            let page = self.exchange("tools/list", Some(params)).await?;
            lines.push(page.line);
            let Some(more) = page.json.pointer("/result/tools").and_then(Value::as_array) else {
                let why = "`tools/list` was not answered with a list".to_owned();
                return Err(Blocked::NotVerified(why).into());
            };
            tools.extend(more.iter().cloned());
            match page.json.pointer("/result/nextCursor") {
                Some(Value::String(cursor)) => params = json!({"cursor": cursor}),
                _ => break,
            }
        }
        let calls = super::tools::calls(&tools, &self.setting.prompts);
        self.known.bind("tools", json!(tools), lines.clone());
        self.known.bind("calls", calls, lines);
        Ok(())
    }

    /// Sends a request of the setup and waits for the response.
    async fn exchange(&mut self, method: &str, params: Option<Value>) -> Result<Received, Stop> {
        let (setting, usual) = (self.setting, self.setting.timeout);
        // A process needs some time to start.
        let (patience, timeout) = match method {
            "initialize" => (Some(&setting.starts), setting.starts.time(usual * 2)),
            "session/new" => (Some(&setting.sessions), setting.sessions.time(usual)),
            _ => (None, usual),
        };
        let connection = self.connection()?;
        let sent = connection.request(method, params, None, timeout).await;
        let answer = match sent {
            Ok((id, line)) => {
                let answer = connection.answer(&id, timeout).await;
                if matches!(answer, Err(Silence::TimedOut(time)) if time >= usual) {
                    connection.give_up(&id);
                }
                answer.map(|a| (a, line))
            }
            Err(silence) => Err(silence),
        };
        match answer {
            Ok((answer, _)) => {
                if let Some(patience) = patience {
                    patience.answered();
                }
                Ok(answer)
            }
            Err(silence) => {
                if let Some(patience) = patience {
                    patience.silent_as(&silence.to_string());
                }
                match silence {
                    Silence::Ended(how) if self.is_under_way => Err(self.died(&how)),
                    silence => {
                        let before = match silence {
                            Silence::TimedOut(time) if time < usual => {
                                " (short limit: it was never answered in this run)"
                            }
                            _ => "",
                        };
                        let why = format!("`{method}` was not answered: {silence}{before}");
                        Err(Blocked::NotVerified(why).into())
                    }
                }
            }
        }
    }

    /// Sends `session/new` with defaults for missing params. Logs in if the agent requires it.
    pub(super) async fn open_session(&mut self, params: &Value, name: &str) -> Step1 {
        let mut whole = json!({"cwd": "$cwd", "mcpServers": []});
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), params.as_object()) {
            for (key, value) in more {
                whole.insert(key.clone(), value.clone());
            }
        }
        let params = self.fill(&whole)?;
        let mut answer = self.exchange("session/new", Some(params.clone())).await?;
        let needs_login = |answer: &Received| {
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
                    self.known.bind("session", id, vec![answer.line]);
                }
                Ok(())
            }
            None if needs_login(&answer) => Err(Blocked::NotVerified(
                "a session requires a login: pass a method with --auth-method, or log in first"
                    .to_owned(),
            )
            .into()),
            None => {
                let said = answer.json.get("error").map(refusal);
                let said = said.unwrap_or_else(|| "no sessionId".to_owned());
                let why = format!("`session/new` returned no session: {said}");
                Err(Blocked::NotVerified(why).into())
            }
        }
    }

    pub(super) async fn log_in(&mut self) -> Result<bool, Stop> {
        let Some(method) = self.auth_method() else {
            return Ok(false);
        };
        let params = json!({"methodId": method});
        let login = match self.protocol {
            Protocol::AcpV2 => "auth/login",
            _ => "authenticate",
        };
        let answer = self.exchange(login, Some(params)).await?;
        self.is_logged_in = answer.json.get("result").is_some();
        Ok(self.is_logged_in)
    }

    /// The id of the method to log in with.
    fn auth_method(&self) -> Option<Value> {
        match &self.setting.login {
            Login::No => None,
            Login::With(method) => Some(json!(method)),
            Login::First => {
                let methods = self.played.initialize.get("authMethods");
                let methods = methods.and_then(Value::as_array).into_iter().flatten();
                let own = |m: &&Value| m.get("type").is_none_or(|kind| kind == "agent");
                let id = match self.protocol {
                    Protocol::AcpV2 => "methodId",
                    _ => "id",
                };
                methods.filter(own).find_map(|m| m.get(id)).cloned()
            }
        }
    }

    fn check_needs(&mut self) -> Step1 {
        let capabilities = match self.protocol {
            Protocol::Mcp | Protocol::AcpV2 => "capabilities",
            _ => "agentCapabilities",
        };
        for pointer in &self.case.needs.capabilities {
            let value = self
                .played
                .initialize
                .get(capabilities)
                .and_then(|c| c.pointer(pointer));
            if !matches!(value, Some(Value::Bool(true) | Value::Object(_))) {
                let name = pointer.trim_start_matches('/').replace('/', ".");
                let why = format!("the agent does not advertise `{name}`");
                return Err(Blocked::NotApplicable(why).into());
            }
        }
        if let Some(blocked) = lacking(self.case, self.protocol, self.setting) {
            return Err(blocked.into());
        }
        if self.protocol == Protocol::Mcp {
            let unknown = |key: &&String| self.known.look(&format!("$calls/{key}")).is_none();
            if let Some(key) = self.case.needs.prompts.iter().find(unknown) {
                return Err(Blocked::Skip(super::tools::unknown(key)).into());
            }
        }
        for expect in &self.case.needs.that {
            if let Err(unmet) = expect.check(None, &self.known) {
                let why = match &expect.say {
                    Some(say) => self.words(say),
                    None => unmet.message,
                };
                return Err(Blocked::NotApplicable(why).into());
            }
        }
        if self.case.needs.auth && self.setting.login == Login::No {
            let why = "needs a login: pass a method with --auth-method";
            return Err(Blocked::Skip(why.to_owned()).into());
        }
        Ok(())
    }

    /// The transcript line of the request with this name.
    pub(super) fn sent_at(&self, name: Option<&str>) -> u64 {
        let sent = name.and_then(|name| self.sent.get(name));
        sent.map_or(0, |(_, line)| *line)
    }

    /// Replaces the references in a message.
    pub(super) fn words(&self, text: &str) -> String {
        match self.known.fill(&Value::String(text.to_owned())) {
            Ok(Value::String(text)) => text,
            _ => text.to_owned(),
        }
    }

    pub(super) fn tag(&self) -> String {
        let name = self.root.file_name().unwrap_or_default();
        format!("({})", name.to_string_lossy())
    }

    pub(super) fn connection(&mut self) -> Result<&mut Connection, Stop> {
        let gone = || {
            Stop::Blocked(Blocked::Error(
                "the agent process is not running".to_owned(),
            ))
        };
        self.connection.as_mut().ok_or_else(gone)
    }

    pub(super) fn fill(&self, template: &Value) -> Result<Value, Stop> {
        let filled = self.known.fill(template);
        filled.map_err(|why| Blocked::NotVerified(why).into())
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
                Err(Blocked::Error(why).into())
            }
        }
    }

    pub(super) fn bind(&mut self, name: &str, message: &Received) {
        self.known
            .bind(name, (*message.json).clone(), vec![message.line]);
        self.played.shown.push(message.line);
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Step1 {
        let timeout = self.setting.timeout;
        match self.connection()?.write(bytes, timeout).await {
            Ok(_) => Ok(()),
            Err(silence) => Err(self.broken_off(&silence)),
        }
    }

    pub(super) async fn say(&mut self, message: &Value) -> Step1 {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(b'\n');
        self.write(&bytes).await
    }

    /// Handles a failed write, which the agent caused.
    pub(super) fn broken_off(&mut self, silence: &Silence) -> Stop {
        match silence {
            Silence::Ended(how) => self.died(how),
            _ => {
                let message = format!("cannot send to the agent: {silence}");
                self.break_all(&message, Vec::new());
                Stop::Broken
            }
        }
    }

    /// Handles the exit of the agent. During a case, this violates everything that the case
    /// decides, no matter how the exit was noticed. Before the first step, nothing is decided.
    pub(super) fn died(&mut self, how: &str) -> Stop {
        if !self.is_under_way {
            return Blocked::NotVerified(format!("the agent is not running: {how}")).into();
        }
        let connection = self.connection.as_ref();
        let lines = connection.map_or_else(Vec::new, Connection::last_sent);
        let message = format!("the agent exited during the case: {how}");
        self.break_each(&message, lines, true);
        Stop::Broken
    }

    pub(super) fn break_all(&mut self, message: &str, lines: Vec<u64>) {
        self.break_each(message, lines, false);
    }

    fn break_each(&mut self, message: &str, lines: Vec<u64>, is_death: bool) {
        for requirement in &self.case.decides {
            self.played.broken.push(Broken {
                requirement: requirement.clone(),
                message: message.to_owned(),
                lines: lines.clone(),
                at: None,
                is_guess: false,
                is_death,
            });
        }
    }

    /// Ends the current process.
    pub(super) async fn hang_up(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.played.agent += connection.waited;
            let (transcript, notes) = connection.finish(self.setting.grace).await;
            self.played.transcript = transcript;
            self.played.notes.push(notes);
        }
    }
}
