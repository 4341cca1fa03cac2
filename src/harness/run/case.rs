//! Plays one case: from a fresh process to what it showed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Setting;
use super::connection::{Connection, Received, Silence};
use crate::harness::monitor::{Notes, session_of};
use crate::harness::suite::template::Bindings;
use crate::harness::suite::{
    Awaited, Begin, Case, Expect, Prompt, PromptText, Protocol, Request, Step, What,
};
use crate::wire::{Kind, Transcript};

/// What one requirement got in one case.
#[derive(Clone, Debug)]
pub struct Broken {
    pub requirement: String,
    pub message: String,
    pub lines: Vec<u64>,
    pub is_guess: bool,
}

/// Why a case says nothing about the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    NotApplicable(String),
    Skip(String),
    NotVerified(String),
    Error(String),
}

/// What a case showed.
#[derive(Default)]
pub struct Played {
    pub broken: Vec<Broken>,
    pub blocked: Option<Blocked>,
    /// Requirements that stay open, each for a reason of its own.
    pub open: Vec<(String, Blocked)>,
    /// Requirements with at least one expectation that was looked at.
    pub looked_at: Vec<String>,
    /// Lines that show what happened where nothing was broken.
    pub shown: Vec<u64>,
    /// Everything that was said, over all processes of the case.
    pub transcript: Transcript,
    /// What the monitors noted, process by process.
    pub notes: Vec<Notes>,
    pub duration: Duration,
    pub startup: Duration,
    pub waits: Duration,
    pub agent: Duration,
    pub initialize: Value,
}

/// Stops a case.
enum Stop {
    Blocked(Blocked),
    /// Something was broken, and nothing after it makes sense.
    Broken,
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Stop {
        Stop::Blocked(blocked)
    }
}

type Step1 = Result<(), Stop>;

pub struct Player<'a> {
    case: &'a Case,
    setting: &'a Setting,
    protocol: Protocol,
    connection: Option<Connection>,
    known: Bindings,
    /// Names of requests that were sent: id and line.
    sent: HashMap<String, (Value, u64)>,
    root: PathBuf,
    played: Played,
    begun: Instant,
    recorders: HashMap<String, super::recorder::Recorder>,
    directories: usize,
    /// Where `wait_for` of each kind goes on.
    seen_until: u64,
}

pub async fn play(case: &Case, protocol: Protocol, setting: &Setting) -> Played {
    let begun = Instant::now();
    if let Some(blocked) = lacking(case, setting) {
        return Played {
            blocked: Some(blocked),
            ..Played::default()
        };
    }
    let root = match setting.workspace.case() {
        Ok(root) => root,
        Err(error) => {
            let why = format!("cannot make a directory for the case: {error}");
            return Played {
                blocked: Some(Blocked::Error(why)),
                ..Played::default()
            };
        }
    };
    if protocol == Protocol::Lifecycle {
        return crate::harness::lifecycle::play(case, setting, root.path()).await;
    }
    let mut player = Player {
        case,
        setting,
        protocol,
        connection: None,
        known: Bindings::default(),
        sent: HashMap::new(),
        root: root.path().to_owned(),
        played: Played::default(),
        begun,
        recorders: HashMap::new(),
        directories: 0,
        seen_until: 0,
    };
    // However patient the steps are, a case has an end.
    let most = setting.timeout * 6 + Duration::from_secs(20);
    let outcome = match tokio::time::timeout(most, player.run()).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Stop::Blocked(Blocked::Error(format!(
            "the case did not come to its end within {} s",
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

/// What the caller did not give.
fn lacking(case: &Case, setting: &Setting) -> Option<Blocked> {
    let missing: Vec<&str> = case
        .needs
        .prompts
        .iter()
        .filter(|key| !setting.prompts.contains_key(*key))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let keys = missing.join("`, `");
        return Some(Blocked::Skip(format!(
            "no prompt is known that leads there: put `{keys}` into the file of --prompts"
        )));
    }
    if case.needs.model && setting.model.is_none() {
        let why = "needs a model that can be asked what it saw: run with --mock-llm";
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
        let case = self.case;
        self.steps(&case.steps).await
    }

    fn directory(&mut self, name: &str) -> Result<String, Stop> {
        let path = self.root.join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path.to_string_lossy().into_owned()),
            Err(error) => Err(Blocked::Error(format!("cannot make a directory: {error}")).into()),
        }
    }

    // --- the beginning -------------------------------------------------------------------

    async fn begin(&mut self, begin: Begin) -> Step1 {
        let begun = Instant::now();
        self.start_process().await?;
        if begin == Begin::Process {
            return Ok(());
        }
        self.initialize().await?;
        self.played.startup += begun.elapsed();
        if begin == Begin::Session {
            let params = self.case.session.clone().unwrap_or_else(|| json!({}));
            self.open_session(&params, "new").await?;
        }
        Ok(())
    }

    async fn start_process(&mut self) -> Step1 {
        let monitors = super::monitors(self.protocol);
        let watch = crate::harness::monitor::Watch::new(monitors);
        let cwd = self.root.join("start");
        if let Err(error) = std::fs::create_dir_all(&cwd) {
            return Err(Blocked::Error(format!("cannot make a directory: {error}")).into());
        }
        let launcher = &self.setting.launcher;
        let so_far = (std::mem::take(&mut self.played.transcript), self.begun);
        let answers = &self.case.answers;
        let env = match self.setting.own_env(&self.root) {
            Ok(env) => env,
            Err(error) => {
                let why = format!("cannot make a home for the agent: {error}");
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

    async fn initialize(&mut self) -> Step1 {
        let client = self.case.client.clone();
        let params = super::opening::initialize(self.protocol, client);
        let answer = self.exchange("initialize", Some(params)).await?;
        let result = answer.json.get("result").cloned().unwrap_or(Value::Null);
        self.bind("initialize", &answer);
        if !result.is_object() {
            let why = "initialize was not answered with a result".to_owned();
            return Err(Blocked::NotVerified(why).into());
        }
        self.played.initialize = result;
        if self.protocol == Protocol::Mcp {
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            self.say(&ready).await?;
        }
        Ok(())
    }

    /// A request that only prepares something.
    async fn exchange(&mut self, method: &str, params: Option<Value>) -> Result<Received, Stop> {
        let timeout = self.setting.timeout;
        let connection = self.connection()?;
        let sent = connection.request(method, params, None, timeout).await;
        let answer = match sent {
            Ok((id, line)) => connection.answer(&id, timeout).await.map(|a| (a, line)),
            Err(silence) => Err(silence),
        };
        match answer {
            Ok((answer, _)) => Ok(answer),
            Err(silence) => {
                Err(Blocked::NotVerified(format!("{method} was not answered: {silence}")).into())
            }
        }
    }

    /// session/new with what the params do not say; logs in where the agent asks for it.
    async fn open_session(&mut self, params: &Value, name: &str) -> Step1 {
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
                "a session needs a login: name its method with --auth-method, or log in before"
                    .to_owned(),
            )
            .into()),
            None => {
                let said = answer.json.get("error").map(Value::to_string);
                let said = said.unwrap_or_else(|| "no sessionId".to_owned());
                let why = format!("session/new gave no session: {said}");
                Err(Blocked::NotVerified(why).into())
            }
        }
    }

    async fn log_in(&mut self) -> Result<bool, Stop> {
        let Some(method) = self.setting.auth_method.clone() else {
            return Ok(false);
        };
        let params = json!({"methodId": method});
        let answer = self.exchange("authenticate", Some(params)).await?;
        Ok(answer.json.get("result").is_some())
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
        for expect in &self.case.needs.that {
            if let Err(unmet) = expect.check(None, &self.known) {
                return Err(Blocked::NotApplicable(unmet.message).into());
            }
        }
        Ok(())
    }

    // --- the steps -----------------------------------------------------------------------

    async fn steps(&mut self, steps: &[Step]) -> Step1 {
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Step1 {
        match &step.what {
            What::Call(request, expect) => {
                let name = self.send(request).await?;
                self.receive(&name, &request.method, request.within, expect)
                    .await
            }
            What::Send(request) => self.send(request).await.map(|_| ()),
            What::Receive { of, within, expect } => self.receive(of, of, *within, expect).await,
            What::Notify { method, params } => {
                let params = self.fill(params)?;
                self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
                    .await
            }
            What::Raw(pieces) => {
                for piece in pieces {
                    self.write(piece).await?;
                }
                Ok(())
            }
            What::Message(template) => {
                let message = self.fill(template)?;
                self.say(&message).await
            }
            What::Answer { of, with } => {
                let id = self
                    .known
                    .look(&format!("${of}/id"))
                    .map(|(id, _)| id.clone());
                let Some(id) = id else {
                    return Err(Blocked::Error(format!("${of} is no request")).into());
                };
                let mut message = self.fill(with)?;
                if let Some(members) = message.as_object_mut() {
                    members.insert("jsonrpc".to_owned(), json!("2.0"));
                    members.insert("id".to_owned(), id.clone());
                }
                self.connection()?.services.no_longer_held(&id);
                self.say(&message).await
            }
            What::WaitFor(wait) => self.wait_for(wait).await,
            What::Quiet { time, name } => {
                let time = time.unwrap_or(self.setting.quiet);
                let heard = self.connection()?.listen(time).await;
                self.played.waits += time;
                if let Some(name) = name {
                    let lines = heard.iter().map(|m| m.line).collect();
                    let values: Vec<Value> = heard.iter().map(|m| (*m.json).clone()).collect();
                    self.known.bind(name, json!(values), lines);
                }
                Ok(())
            }
            What::Expect(expect) => self.judge(None, expect),
            What::Turn(prompt, expect) => {
                self.prompt(prompt).await?;
                self.receive(&prompt.name, "session/prompt", prompt.within, expect)
                    .await
            }
            What::Prompt(prompt) => self.prompt(prompt).await,
            What::Cancel => self.cancel().await,
            What::Updates { session, name } => {
                let session = self.fill(session)?;
                let session = session.as_str().unwrap_or_default().to_owned();
                let inbox = &self.connection()?.inbox;
                let mut lines = Vec::new();
                let mut values = Vec::new();
                for message in inbox {
                    if is_update(message) && session_of(&message.json) == Some(&session) {
                        lines.push(message.line);
                        values.push(message.json["params"]["update"].clone());
                    }
                }
                self.known.bind(name, json!(values), lines);
                Ok(())
            }
            What::Bind { name, value } => {
                let filled = self.fill(value)?;
                let lines = match value.as_str().and_then(|path| self.known.look(path)) {
                    Some((_, lines)) => lines.to_vec(),
                    None => Vec::new(),
                };
                self.known.bind(name, filled, lines);
                Ok(())
            }
            What::Collect { value, into } => {
                let filled = self.fill(value)?;
                let (mut list, mut lines) = match self.known.get(into) {
                    Some(bound) => (bound.value.clone(), bound.lines.clone()),
                    None => (json!([]), Vec::new()),
                };
                if let Some((_, more)) = value.as_str().and_then(|path| self.known.look(path)) {
                    lines.extend(more);
                }
                if let Some(items) = list.as_array_mut() {
                    items.push(filled);
                }
                self.known.bind(into, list, lines);
                Ok(())
            }
            What::NewSession { params, name } => self.open_session(params, name).await,
            What::Restart => {
                self.hang_up().await;
                self.start_process().await?;
                self.initialize().await
            }
            What::EndInput => {
                self.connection()?.close_input();
                Ok(())
            }
            What::Signal(number) => {
                self.connection()?.signal(*number);
                Ok(())
            }
            What::Exit { within, expect } => {
                let within = within.unwrap_or(self.setting.timeout);
                let connection = self.connection()?;
                let exit = connection.ended(within).await;
                let last = connection.transcript.len() as u64;
                let value = exit.unwrap_or(Value::Null);
                self.known.bind("exit", value, vec![last]);
                self.judge(None, expect)
            }
            What::Alive => self.alive().await,
            What::ForEach { list, name, steps } => {
                let lines = match list.as_str().and_then(|path| self.known.look(path)) {
                    Some((_, lines)) => lines.to_vec(),
                    None => Vec::new(),
                };
                let list = self.fill(list)?;
                for item in list.as_array().into_iter().flatten() {
                    self.known.bind(name, item.clone(), lines.clone());
                    self.steps(steps).await?;
                }
                Ok(())
            }
            What::Repeat { times, steps } => {
                for round in 0..*times {
                    self.known.bind("round", json!(round), Vec::new());
                    self.steps(steps).await?;
                }
                Ok(())
            }
            What::When { that, steps } => {
                let holds = |expect: &Expect| expect.check(None, &self.known).is_ok();
                match that.iter().all(holds) {
                    true => self.steps(steps).await,
                    false => Ok(()),
                }
            }
            What::Directory(name) => {
                self.directories += 1;
                let path = self.directory(&format!("{name}-{}", self.directories))?;
                self.known.bind(name, json!(path), Vec::new());
                Ok(())
            }
            What::WriteFile { path, text } => {
                let path = self.own_path(path)?;
                let text = self.fill(text)?;
                let written = std::fs::write(&path, text.as_str().unwrap_or_default());
                written.map_err(|e| Blocked::Error(format!("{}: {e}", path.display())).into())
            }
            What::ReadFile { path, name } => {
                let path = self.own_path(path)?;
                // A file that is not there is a null to be judged.
                let text = std::fs::read(&path).ok();
                let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.known.bind(name, json!(text), Vec::new());
                Ok(())
            }
            What::Recorder {
                name,
                transport,
                env,
                args,
            } => {
                let (env, args) = (self.fill(env)?, self.fill(args)?);
                let recorder =
                    super::recorder::Recorder::new(name, transport, &env, &args, &self.root).await;
                let recorder = recorder.map_err(Blocked::Error)?;
                self.known.bind(name, recorder.descriptor(), Vec::new());
                self.recorders.insert(name.clone(), recorder);
                Ok(())
            }
            What::Recorded { of, name, within } => {
                let within = within.unwrap_or(self.setting.timeout);
                let Some(recorder) = self.recorders.get(of) else {
                    return Err(Blocked::Error(format!("there is no recorder `{of}`")).into());
                };
                // The agent is listened to meanwhile: it may have to be answered.
                let until = Instant::now() + within;
                let mut record = recorder.record();
                while record.is_null() && Instant::now() < until {
                    let pause = Duration::from_millis(20);
                    if let Some(connection) = &mut self.connection {
                        connection.listen(pause).await;
                        self.played.agent += pause;
                        if connection.is_over() {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    record = recorder.record();
                }
                self.known.bind(name, record, Vec::new());
                Ok(())
            }
            What::Model { name } => {
                let tag = self.tag();
                let model = self.setting.model.as_ref();
                let asked = model.map(|model| model.asked(&tag));
                self.known
                    .bind(name, asked.unwrap_or(Value::Null), Vec::new());
                Ok(())
            }
            // `lifecycle::play` has them.
            What::Probe(name) => Err(Blocked::Error(format!("`{name}` needs the runner")).into()),
            What::NotVerified(why) => Err(Blocked::NotVerified(why.clone()).into()),
        }
    }

    fn tag(&self) -> String {
        let name = self.root.file_name().unwrap_or_default();
        format!("({})", name.to_string_lossy())
    }

    fn connection(&mut self) -> Result<&mut Connection, Stop> {
        let gone = || Stop::Blocked(Blocked::Error("there is no process".to_owned()));
        self.connection.as_mut().ok_or_else(gone)
    }

    fn fill(&self, template: &Value) -> Result<Value, Stop> {
        let filled = self.known.fill(template);
        filled.map_err(|why| Blocked::NotVerified(why).into())
    }

    fn own_path(&self, path: &Value) -> Result<PathBuf, Stop> {
        let path = self.fill(path)?;
        let path = Path::new(path.as_str().unwrap_or_default()).to_owned();
        let up = path
            .components()
            .any(|c| matches!(c, std::path::Component::ParentDir));
        match path.starts_with(&self.root) && !up {
            true => Ok(path),
            false => {
                let why = format!("{} is outside of the case", path.display());
                Err(Blocked::Error(why).into())
            }
        }
    }

    fn bind(&mut self, name: &str, message: &Received) {
        self.known
            .bind(name, (*message.json).clone(), vec![message.line]);
        self.played.shown.push(message.line);
    }

    async fn write(&mut self, bytes: &[u8]) -> Step1 {
        let timeout = self.setting.timeout;
        match self.connection()?.write(bytes, timeout).await {
            Ok(_) => Ok(()),
            Err(silence) => Err(self.broken_off(&silence)),
        }
    }

    async fn say(&mut self, message: &Value) -> Step1 {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(b'\n');
        self.write(&bytes).await
    }

    /// Nothing can be sent any more: that is the agent's doing.
    fn broken_off(&mut self, silence: &Silence) -> Stop {
        let message = format!("nothing could be sent to the agent: {silence}");
        self.break_all(&message, Vec::new());
        Stop::Broken
    }

    fn break_all(&mut self, message: &str, lines: Vec<u64>) {
        for requirement in &self.case.decides {
            self.played.broken.push(Broken {
                requirement: requirement.clone(),
                message: message.to_owned(),
                lines: lines.clone(),
                is_guess: false,
            });
        }
    }

    async fn send(&mut self, request: &Request) -> Result<String, Stop> {
        let params = match &request.params {
            Some(params) => Some(self.fill(params)?),
            None => None,
        };
        let id = match &request.id {
            Some(id) => Some(self.fill(id)?),
            None => None,
        };
        let name = request.name.clone().unwrap_or_else(|| "answer".to_owned());
        let timeout = self.setting.timeout;
        let sent = self
            .connection()?
            .request(&request.method, params, id, timeout)
            .await;
        match sent {
            Ok(sent) => {
                self.sent.insert(name.clone(), sent);
                Ok(name)
            }
            Err(silence) => Err(self.broken_off(&silence)),
        }
    }

    /// Waits for the answer to a named request, and judges it.
    async fn receive(
        &mut self,
        name: &str,
        method: &str,
        within: Option<Duration>,
        expect: &[Expect],
    ) -> Step1 {
        let Some((id, line)) = self.sent.get(name).cloned() else {
            return Err(Blocked::Error(format!("no request was sent as `{name}`")).into());
        };
        let within = within.unwrap_or(self.setting.timeout);
        match self.connection()?.answer(&id, within).await {
            Ok(answer) => {
                let lines = vec![line, answer.line];
                self.known.bind(name, (*answer.json).clone(), lines.clone());
                self.played.shown.extend(&lines);
                if expect.is_empty() {
                    return match answer.json.get("result") {
                        Some(_) => Ok(()),
                        None => {
                            let said = answer.json.get("error").map(Value::to_string);
                            let said = said.unwrap_or_default();
                            let why = format!("{method} was refused: {said}");
                            Err(Blocked::NotVerified(why).into())
                        }
                    };
                }
                self.judge(Some((&answer.json, &lines)), expect)
            }
            Err(silence) if expect.is_empty() => {
                Err(Blocked::NotVerified(format!("{method} was not answered: {silence}")).into())
            }
            Err(silence) => {
                let message = match expect.iter().find_map(|e| e.say.clone()) {
                    Some(say) => {
                        let said = self.known.fill(&Value::String(say.clone()));
                        let said = said.ok().and_then(|s| s.as_str().map(str::to_owned));
                        let said = said.unwrap_or(say);
                        format!("{said} ({method} was not answered: {silence})")
                    }
                    None => format!("{method} was not answered: {silence}"),
                };
                let mut decided: Vec<&String> =
                    expect.iter().filter_map(|e| e.decides.as_ref()).collect();
                decided.dedup();
                if decided.is_empty() || decided.len() < expect.len() {
                    self.break_all(&message, vec![line]);
                } else {
                    for requirement in decided {
                        self.played.broken.push(Broken {
                            requirement: requirement.clone(),
                            message: message.clone(),
                            lines: vec![line],
                            is_guess: false,
                        });
                    }
                }
                Err(Stop::Broken)
            }
        }
    }

    /// Judges expectations; goes on after a broken one, so that one run shows them all.
    fn judge(&mut self, here: Option<(&Value, &[u64])>, expect: &[Expect]) -> Step1 {
        for expect in expect {
            let decided: Vec<String> = match &expect.decides {
                Some(id) => vec![id.clone()],
                None => self.case.decides.clone(),
            };
            self.played.looked_at.extend(decided.iter().cloned());
            if let Err(unmet) = expect.check(here, &self.known) {
                for requirement in decided {
                    self.played.broken.push(Broken {
                        requirement,
                        message: unmet.message.clone(),
                        lines: unmet.lines.clone(),
                        is_guess: expect.is_guess,
                    });
                }
            }
        }
        Ok(())
    }

    async fn wait_for(&mut self, wait: &crate::harness::suite::WaitFor) -> Step1 {
        let within = wait.within.unwrap_or(self.setting.timeout);
        let from = self.seen_until;
        let fits = |m: &Received| match (&wait.what, &m.kind) {
            (Awaited::Update(kinds), Kind::Notification { .. }) => {
                let kind = m.json.pointer("/params/update/sessionUpdate");
                let kind = kind.and_then(Value::as_str).unwrap_or_default();
                is_update(m) && (kinds.is_empty() || kinds.iter().any(|k| k == kind))
            }
            (Awaited::Request(wanted), Kind::Request { method, .. }) => wanted == method,
            (Awaited::Notification(wanted), Kind::Notification { method }) => wanted == method,
            _ => false,
        };
        let found = self.connection()?.find(from, within, fits).await;
        match found {
            Ok(found) => {
                self.seen_until = found.line;
                if let Some(name) = &wait.name {
                    self.bind(name, &found);
                }
                let lines = [found.line];
                self.judge(Some((&found.json, &lines)), &wait.expect)
            }
            Err(silence) => {
                let awaited = match &wait.what {
                    Awaited::Update(kinds) => format!("session/update {}", kinds.join(" or ")),
                    Awaited::Request(method) | Awaited::Notification(method) => method.clone(),
                };
                let message = format!("no {awaited} came: {silence}");
                if !wait.is_expected {
                    return Err(Blocked::NotVerified(message).into());
                }
                let message = match &wait.say {
                    Some(say) => format!("{say} ({message})"),
                    None => message,
                };
                let last = self.connection()?.transcript.len() as u64;
                self.break_all(&message, vec![last]);
                Err(Stop::Broken)
            }
        }
    }

    async fn prompt(&mut self, prompt: &Prompt) -> Step1 {
        let blocks = match &prompt.what {
            PromptText::Key(key) => {
                let text = self.setting.prompts.get(key);
                let Some(text) = text else {
                    let why = format!("no prompt `{key}` is known");
                    return Err(Blocked::Skip(why).into());
                };
                let text = match self.setting.model {
                    // By its tag the model's log tells whose question it was.
                    Some(_) => format!("{text} {}", self.tag()),
                    None => text.clone(),
                };
                json!([{"type": "text", "text": text}])
            }
            PromptText::Blocks(blocks) => self.fill(blocks)?,
        };
        let session = match &prompt.session {
            Some(session) => self.fill(session)?,
            None => self.fill(&json!("$session"))?,
        };
        let params = json!({"sessionId": session, "prompt": blocks});
        let timeout = self.setting.timeout;
        let connection = self.connection()?;
        let sent = connection
            .request("session/prompt", Some(params), None, timeout)
            .await;
        match sent {
            Ok(sent) => {
                self.seen_until = self.seen_until.max(sent.1);
                self.sent.insert(prompt.name.clone(), sent);
                Ok(())
            }
            Err(silence) => Err(self.broken_off(&silence)),
        }
    }

    async fn cancel(&mut self) -> Step1 {
        let params = self.fill(&json!({"sessionId": "$session"}))?;
        self.say(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
            .await?;
        let answers = self.connection()?.services.cancel_held();
        for answer in answers {
            self.say(&answer).await?;
        }
        Ok(())
    }

    /// Any answer will do, an error too.
    async fn alive(&mut self) -> Step1 {
        let timeout = self.setting.timeout;
        let connection = self.connection()?;
        let sent = connection
            .request("_agentproto/alive", Some(json!({})), None, timeout)
            .await;
        let answer = match sent {
            Ok((id, line)) => connection.answer(&id, timeout).await.map_err(|s| (s, line)),
            Err(silence) => Err((silence, 0)),
        };
        match answer {
            Ok(answer) => {
                self.played.shown.push(answer.line);
                let decided = self.case.decides.clone();
                self.played.looked_at.extend(decided);
                Ok(())
            }
            Err((silence, line)) => {
                let message = format!("the agent does not answer any more: {silence}");
                self.break_all(&message, vec![line]);
                Err(Stop::Broken)
            }
        }
    }

    /// Ends the process of now.
    async fn hang_up(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.played.agent += connection.waited;
            let (transcript, notes) = connection.finish(self.setting.grace).await;
            self.played.transcript = transcript;
            self.played.notes.push(notes);
        }
    }
}

fn is_update(message: &Received) -> bool {
    matches!(&message.kind, Kind::Notification { method } if method == "session/update")
}
