//! Methods that are answered immediately.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::shapes::{self, MODE_OPTION};
use super::{AUTH_REQUIRED, DraftServer, NOT_FOUND, PROTOCOL, Session, State, UNSUPPORTED_VERSION};
use crate::rpc::{INVALID_REQUEST, RpcError, RpcResult};
use crate::scenario::ConfigKind;
use crate::store::{StoredSession, fresh_id, now};

fn text<'a>(params: &'a Value, key: &str) -> Result<&'a str, RpcError> {
    let value = params.get(key).and_then(Value::as_str);
    value.ok_or_else(|| RpcError::params(format!("`{key}` must be a string")))
}

/// Finds the running session that the parameters name.
pub fn session<'a>(state: &'a mut State, params: &Value) -> Result<&'a mut Session, RpcError> {
    let id = text(params, "sessionId")?;
    let found = state.sessions.get_mut(id);
    found.ok_or_else(|| unknown_session(id))
}

fn unknown_session(id: &str) -> RpcError {
    RpcError::new(NOT_FOUND, "unknown session").data(json!({ "sessionId": id }))
}

fn absolute(path: &str) -> Result<String, RpcError> {
    match Path::new(path).is_absolute() {
        true => Ok(path.to_owned()),
        false => Err(RpcError::params("a directory must be an absolute path")),
    }
}

/// Reads the working directory and the additional directories of a session.
fn read_directories(params: &Value) -> Result<(String, Vec<String>), RpcError> {
    let cwd = absolute(text(params, "cwd")?)?;
    if !matches!(
        params.get("mcpServers"),
        None | Some(Value::Null | Value::Array(_))
    ) {
        return Err(RpcError::params("`mcpServers` must be a list"));
    }
    let more = match params.get("additionalDirectories") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            let paths = list
                .iter()
                .map(|p| absolute(p.as_str().unwrap_or_default()));
            paths.collect()
        }
        Some(_) => Err(RpcError::params("`additionalDirectories` must be a list")),
    };
    Ok((cwd, more?))
}

impl DraftServer {
    /// Rejects unsupported methods, and all methods before `initialize`.
    pub fn check_supported(&self, method: &str) -> Result<(), RpcError> {
        let is_supported = match method {
            "initialize" => return Ok(()),
            "auth/login" | "auth/logout" => !self.scenario.auth.methods.is_empty(),
            "session/new" | "session/list" | "session/resume" | "session/close"
            | "session/prompt" => true,
            "session/delete" => self.scenario.capabilities.delete,
            "session/set_config_option" => shapes::has_options(&self.scenario),
            _ => false,
        };
        if !is_supported {
            return Err(RpcError::unknown(method));
        }
        match self.state().initialized {
            true => Ok(()),
            false => Err(RpcError::new(
                INVALID_REQUEST,
                "`initialize` must be sent first",
            )),
        }
    }

    pub fn answer(&self, method: &str, params: &Value) -> RpcResult {
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
            _ => Err(RpcError::unknown(method)),
        }
    }

    fn initialize(&self, params: &Value) -> RpcResult {
        match params.get("protocolVersion").and_then(Value::as_u64) {
            Some(version) if version < PROTOCOL => Err(RpcError::new(
                UNSUPPORTED_VERSION,
                format!("unsupported protocol version {version}, only {PROTOCOL} is supported"),
            )),
            Some(version) if version <= u64::from(u16::MAX) => {
                self.state().initialized = true;
                let terminal = params.pointer("/capabilities/auth/terminal");
                let terminal = terminal.is_some_and(Value::is_object);
                Ok(shapes::initialized(&self.scenario, terminal))
            }
            _ => Err(RpcError::params("`protocolVersion` must be an integer")),
        }
    }

    fn login(&self, params: &Value) -> RpcResult {
        let id = text(params, "methodId")?;
        let mut methods = self.scenario.auth.methods.iter();
        match methods.find(|method| method.id == id && !method.terminal) {
            Some(_) => {
                self.state().authenticated = true;
                Ok(json!({}))
            }
            None => Err(RpcError::params(format!("unknown auth method `{id}`"))),
        }
    }

    fn check_authenticated(&self, state: &State) -> Result<(), RpcError> {
        match self.scenario.auth.required && !state.authenticated {
            true => Err(RpcError::new(AUTH_REQUIRED, "authentication is required")),
            false => Ok(()),
        }
    }

    fn new_session(&self, params: &Value) -> RpcResult {
        let (cwd, directories) = read_directories(params)?;
        let mut state = self.state();
        self.check_authenticated(&state)?;
        let saved = StoredSession {
            id: fresh_id("mock"),
            cwd,
            directories,
            updated_at: now(),
            ..StoredSession::default()
        };
        self.store.save(&saved);
        let id = saved.id.clone();
        let mut answer = self.start(&mut state, saved);
        answer.insert("sessionId".to_owned(), json!(id));
        Ok(Value::Object(answer))
    }

    /// Starts a session, and returns its options and commands.
    fn start(&self, state: &mut State, saved: StoredSession) -> Map<String, Value> {
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
    fn resume(&self, params: &Value) -> RpcResult {
        let id = text(params, "sessionId")?;
        let (cwd, directories) = read_directories(params)?;
        let replays = match params.get("replayFrom") {
            None | Some(Value::Null) => false,
            Some(from) if from.get("type").and_then(Value::as_str) == Some("start") => true,
            Some(_) => return Err(RpcError::params("`replayFrom` must be `start`")),
        };
        let mut state = self.state();
        self.check_authenticated(&state)?;
        if !state.sessions.contains_key(id) {
            let saved = state.closed.remove(id).or_else(|| self.store.load(id));
            let saved = saved.ok_or_else(|| unknown_session(id))?;
            self.start(&mut state, saved);
        }
        let session = session(&mut state, params)?;
        session.saved.cwd = cwd;
        session.saved.directories = directories;
        if replays {
            for update in shapes::replay(&session.saved.history) {
                self.update(id, update);
            }
        }
        let now = match session.active {
            Some(_) => "running",
            None => "idle",
        };
        self.update(id, shapes::state(now));
        Ok(Value::Object(shapes::settings(&self.scenario, session)))
    }

    fn list(&self, params: &Value) -> RpcResult {
        let cwd = match params.get("cwd") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) => Some(absolute(path)?),
            Some(_) => return Err(RpcError::params("`cwd` must be a string")),
        };
        // All sessions are on one page.
        if !matches!(params.get("cursor"), None | Some(Value::Null)) {
            return Err(RpcError::params("unknown cursor"));
        }
        let state = self.state();
        self.check_authenticated(&state)?;
        let stored = self.store.all();
        let running = state.sessions.values().map(|session| &session.saved);
        let mut all: BTreeMap<&str, &StoredSession> = BTreeMap::new();
        for saved in stored.iter().chain(state.closed.values()).chain(running) {
            all.insert(&saved.id, saved);
        }
        let is_listed = |saved: &&&StoredSession| cwd.as_ref().is_none_or(|cwd| *cwd == saved.cwd);
        let entries = all
            .values()
            .filter(is_listed)
            .map(|s| shapes::list_entry(s));
        Ok(json!({ "sessions": entries.collect::<Vec<_>>() }))
    }

    /// Closes a session. A session that is not running is already closed.
    fn close(&self, params: &Value) -> RpcResult {
        let id = text(params, "sessionId")?;
        let mut state = self.cancel_work_and_wait(self.state(), id);
        if let Some(session) = state.sessions.remove(id) {
            self.store.save(&session.saved);
            state.closed.insert(id.to_owned(), session.saved);
        }
        Ok(json!({}))
    }

    fn delete(&self, params: &Value) -> RpcResult {
        let id = text(params, "sessionId")?;
        let mut state = self.cancel_work_and_wait(self.state(), id);
        state.sessions.remove(id);
        state.closed.remove(id);
        self.store.delete(id);
        Ok(json!({}))
    }

    fn set_config_option(&self, params: &Value) -> RpcResult {
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
    ) -> Result<(), RpcError> {
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
            return Err(RpcError::params(why));
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
