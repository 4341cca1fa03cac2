//! Methods that are answered immediately.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::shapes::{self, MODE_OPTION};
use super::{AUTH_REQUIRED, NOT_FOUND, PROTOCOL, Server, Session, State, UNSUPPORTED_VERSION};
use crate::rpc::{Answer, INVALID_REQUEST, Refusal};
use crate::scenario::ConfigKind;
use crate::store::{Saved, fresh_id, now};

fn text<'a>(params: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    let value = params.get(key).and_then(Value::as_str);
    value.ok_or_else(|| Refusal::params(format!("`{key}` must be a string")))
}

/// Finds the running session that the parameters name.
pub fn session<'a>(state: &'a mut State, params: &Value) -> Result<&'a mut Session, Refusal> {
    let id = text(params, "sessionId")?;
    let found = state.sessions.get_mut(id);
    found.ok_or_else(|| unknown_session(id))
}

fn unknown_session(id: &str) -> Refusal {
    Refusal::new(NOT_FOUND, "unknown session").data(json!({ "sessionId": id }))
}

fn absolute(path: &str) -> Result<String, Refusal> {
    match Path::new(path).is_absolute() {
        true => Ok(path.to_owned()),
        false => Err(Refusal::params("a directory must be an absolute path")),
    }
}

/// Reads the working directory and the additional directories of a session.
fn place(params: &Value) -> Result<(String, Vec<String>), Refusal> {
    let cwd = absolute(text(params, "cwd")?)?;
    if !matches!(
        params.get("mcpServers"),
        None | Some(Value::Null | Value::Array(_))
    ) {
        return Err(Refusal::params("`mcpServers` must be a list"));
    }
    let more = match params.get("additionalDirectories") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            let paths = list
                .iter()
                .map(|p| absolute(p.as_str().unwrap_or_default()));
            paths.collect()
        }
        Some(_) => Err(Refusal::params("`additionalDirectories` must be a list")),
    };
    Ok((cwd, more?))
}

impl Server {
    /// Rejects unsupported methods, and all methods before `initialize`.
    pub fn known(&self, method: &str) -> Result<(), Refusal> {
        let there = match method {
            "initialize" => return Ok(()),
            "auth/login" | "auth/logout" => !self.scenario.auth.methods.is_empty(),
            "session/new" | "session/list" | "session/resume" | "session/close"
            | "session/prompt" => true,
            "session/delete" => self.scenario.capabilities.delete,
            "session/set_config_option" => shapes::has_options(&self.scenario),
            _ => false,
        };
        if !there {
            return Err(Refusal::unknown(method));
        }
        match self.state().initialized {
            true => Ok(()),
            false => Err(Refusal::new(
                INVALID_REQUEST,
                "`initialize` must be sent first",
            )),
        }
    }

    pub fn answer(&self, method: &str, params: &Value) -> Answer {
        match method {
            "initialize" => self.initialize(params),
            "auth/login" => self.login(params),
            "auth/logout" => {
                self.state().authenticated = false;
                Ok(json!({}))
            }
            "session/new" => self.new_session(params),
            "session/list" => self.list(params),
            "session/resume" => self.resume(params),
            "session/close" => self.close(params),
            "session/delete" => self.delete(params),
            "session/set_config_option" => self.set_config_option(params),
            _ => Err(Refusal::unknown(method)),
        }
    }

    fn initialize(&self, params: &Value) -> Answer {
        match params.get("protocolVersion").and_then(Value::as_u64) {
            Some(version) if version < PROTOCOL => Err(Refusal::new(
                UNSUPPORTED_VERSION,
                format!("unsupported protocol version {version}, only {PROTOCOL} is supported"),
            )),
            Some(version) if version <= u64::from(u16::MAX) => {
                self.state().initialized = true;
                let terminal = params.pointer("/capabilities/auth/terminal");
                let terminal = terminal.is_some_and(Value::is_object);
                Ok(shapes::initialized(&self.scenario, terminal))
            }
            _ => Err(Refusal::params("`protocolVersion` must be an integer")),
        }
    }

    fn login(&self, params: &Value) -> Answer {
        let id = text(params, "methodId")?;
        let mut methods = self.scenario.auth.methods.iter();
        match methods.find(|method| method.id == id && !method.terminal) {
            Some(_) => {
                self.state().authenticated = true;
                Ok(json!({}))
            }
            None => Err(Refusal::params(format!("unknown auth method `{id}`"))),
        }
    }

    fn allowed(&self, state: &State) -> Result<(), Refusal> {
        match self.scenario.auth.required && !state.authenticated {
            true => Err(Refusal::new(AUTH_REQUIRED, "authentication is required")),
            false => Ok(()),
        }
    }

    fn new_session(&self, params: &Value) -> Answer {
        let (cwd, directories) = place(params)?;
        let mut state = self.state();
        self.allowed(&state)?;
        let saved = Saved {
            id: fresh_id("mock"),
            cwd,
            directories,
            updated_at: now(),
            ..Saved::default()
        };
        self.store.save(&saved);
        let id = saved.id.clone();
        let mut answer = self.start(&mut state, saved);
        answer.insert("sessionId".to_owned(), json!(id));
        Ok(Value::Object(answer))
    }

    /// Starts a session, and returns its options and commands.
    fn start(&self, state: &mut State, saved: Saved) -> Map<String, Value> {
        let session = Session {
            config: shapes::defaults(&self.scenario),
            active: None,
            hanging: false,
            saved,
        };
        let settings = shapes::settings(&self.scenario, &session);
        state.sessions.insert(session.saved.id.clone(), session);
        settings
    }

    /// Replays the conversation if requested, then reports the current state, and then answers.
    fn resume(&self, params: &Value) -> Answer {
        let id = text(params, "sessionId")?;
        let (cwd, directories) = place(params)?;
        let replays = match params.get("replayFrom") {
            None | Some(Value::Null) => false,
            Some(from) if from.get("type").and_then(Value::as_str) == Some("start") => true,
            Some(_) => return Err(Refusal::params("`replayFrom` must be `start`")),
        };
        let mut state = self.state();
        self.allowed(&state)?;
        if !state.sessions.contains_key(id) {
            let saved = state.closed.remove(id).or_else(|| self.store.load(id));
            let saved = saved.ok_or_else(|| unknown_session(id))?;
            self.start(&mut state, saved);
        }
        let session = session(&mut state, params)?;
        session.saved.cwd = cwd;
        session.saved.directories = directories;
        if replays {
            for update in &session.saved.history {
                self.update(id, update.clone());
            }
        }
        let now = match session.active {
            Some(_) => "running",
            None => "idle",
        };
        self.update(id, shapes::state(now));
        Ok(Value::Object(shapes::settings(&self.scenario, session)))
    }

    fn list(&self, params: &Value) -> Answer {
        let cwd = match params.get("cwd") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) => Some(absolute(path)?),
            Some(_) => return Err(Refusal::params("`cwd` must be a string")),
        };
        // All sessions are on one page.
        if !matches!(params.get("cursor"), None | Some(Value::Null)) {
            return Err(Refusal::params("unknown cursor"));
        }
        let state = self.state();
        self.allowed(&state)?;
        let stored = self.store.all();
        let running = state.sessions.values().map(|session| &session.saved);
        let mut all: BTreeMap<&str, &Saved> = BTreeMap::new();
        for saved in stored.iter().chain(state.closed.values()).chain(running) {
            all.insert(&saved.id, saved);
        }
        let wanted = |saved: &&&Saved| cwd.as_ref().is_none_or(|cwd| *cwd == saved.cwd);
        let listed = all.values().filter(wanted).map(|s| shapes::listed(s));
        Ok(json!({ "sessions": listed.collect::<Vec<_>>() }))
    }

    /// Closes a session. A session that is not running is already closed.
    fn close(&self, params: &Value) -> Answer {
        let id = text(params, "sessionId")?;
        let mut state = self.without_work(self.state(), id);
        if let Some(session) = state.sessions.remove(id) {
            self.store.save(&session.saved);
            state.closed.insert(id.to_owned(), session.saved);
        }
        Ok(json!({}))
    }

    fn delete(&self, params: &Value) -> Answer {
        let id = text(params, "sessionId")?;
        let mut state = self.without_work(self.state(), id);
        state.sessions.remove(id);
        state.closed.remove(id);
        self.store.delete(id);
        Ok(json!({}))
    }

    fn set_config_option(&self, params: &Value) -> Answer {
        let option = text(params, "configId")?;
        let kind = text(params, "type")?;
        let value = params.get("value").unwrap_or(&Value::Null);
        let mut state = self.state();
        let session = session(&mut state, params)?;
        self.set(session, option, kind, value)?;
        Ok(json!({ "configOptions": shapes::options(&self.scenario, session) }))
    }

    /// Sets an option if the value is valid.
    fn set(
        &self,
        session: &mut Session,
        option: &str,
        kind: &str,
        value: &Value,
    ) -> Result<(), Refusal> {
        let word = value.as_str().filter(|_| kind == "id");
        let modes = self
            .scenario
            .modes
            .as_ref()
            .filter(|_| option == MODE_OPTION);
        let mut options = self.scenario.config_options.iter();
        let fits = match (modes, options.find(|known| known.id == option)) {
            (Some(modes), _) => modes.available.iter().any(|m| Some(m.id.as_str()) == word),
            (None, Some(known)) => match &known.kind {
                ConfigKind::Select { options, .. } => {
                    options.iter().any(|o| Some(o.id.as_str()) == word)
                }
                ConfigKind::Boolean { .. } => kind == "boolean" && value.is_boolean(),
            },
            (None, None) => false,
        };
        if !fits {
            let why = format!("unknown option `{option}`, or invalid value");
            return Err(Refusal::params(why));
        }
        session.config.insert(option.to_owned(), value.clone());
        Ok(())
    }

    /// Changes the mode on behalf of the agent.
    pub fn switch_mode(&self, id: &str, mode: &str) {
        let mut state = self.state();
        if let Some(session) = state.sessions.get_mut(id)
            && self.set(session, MODE_OPTION, "id", &json!(mode)).is_ok()
        {
            let options = shapes::options(&self.scenario, session);
            let update =
                json!({ "sessionUpdate": "config_option_update", "configOptions": options });
            self.update(id, update);
        }
    }

    pub fn rename(&self, id: &str, title: &str) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            session.saved.title = Some(title.to_owned());
        }
        let update = json!({ "sessionUpdate": "session_info_update", "title": title });
        self.update(id, update);
    }
}
