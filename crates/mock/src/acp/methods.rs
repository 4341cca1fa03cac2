//! Methods that are answered immediately.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::servers::{self, ServerConfig};
use super::shapes::{self, MODE_OPTION};
use super::{AUTH_REQUIRED, AcpServer, ClientCapabilities, NOT_FOUND, Session, State};
use crate::rpc::{INVALID_REQUEST, RpcError, RpcResult};
use crate::scenario::{ConfigKind, Scenario};
use crate::store::{StoredSession, fresh_id, now};

type OpenedSession = Result<(String, Value), RpcError>;

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

fn absolute(path: &str, what: &str) -> Result<String, RpcError> {
    match Path::new(path).is_absolute() {
        true => Ok(path.to_owned()),
        false => Err(RpcError::params(format!("{what} must be an absolute path"))),
    }
}

/// Directories and MCP servers of a session.
struct SessionDirs {
    cwd: String,
    directories: Vec<String>,
    servers: Vec<ServerConfig>,
}

fn read_session_dirs(
    params: &Value,
    servers_needed: bool,
    http: bool,
) -> Result<SessionDirs, RpcError> {
    let cwd = absolute(text(params, "cwd")?, "`cwd`")?;
    let servers = match params.get("mcpServers") {
        Some(Value::Array(list)) => servers::parse_servers(list, http)?,
        None if !servers_needed => Vec::new(),
        _ => return Err(RpcError::params("`mcpServers` must be a list")),
    };
    let mut directories = Vec::new();
    match params.get("additionalDirectories") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for entry in list {
                let path = entry.as_str().unwrap_or_default();
                directories.push(absolute(path, "an additional directory")?);
            }
        }
        Some(_) => return Err(RpcError::params("`additionalDirectories` must be a list")),
    }
    Ok(SessionDirs {
        cwd,
        directories,
        servers,
    })
}

impl AcpServer {
    /// Rejects unsupported methods, and all methods before `initialize`.
    pub fn check_supported(&self, method: &str) -> Result<(), RpcError> {
        let can = &self.scenario.capabilities;
        let is_supported = match method {
            "initialize" => return Ok(()),
            "authenticate" => !self.scenario.auth.methods.is_empty(),
            "logout" => self.scenario.auth.logout,
            "session/new" | "session/prompt" => true,
            "session/load" => can.load,
            "session/resume" => can.resume,
            "session/list" => can.list,
            "session/close" => can.close,
            "session/delete" => can.delete,
            "session/set_mode" => self.scenario.modes.is_some(),
            "session/set_config_option" => {
                self.scenario.modes.is_some() || !self.scenario.config_options.is_empty()
            }
            _ => false,
        };
        if !is_supported {
            return Err(RpcError::unknown(method));
        }
        match self.state().client {
            Some(_) => Ok(()),
            None => Err(RpcError::new(
                INVALID_REQUEST,
                "`initialize` must be sent first",
            )),
        }
    }

    pub fn simple(&self, method: &str, params: &Value) -> RpcResult {
        match method {
            "initialize" => self.initialize(params),
            "authenticate" => self.authenticate(params),
            "logout" => {
                self.state().authenticated = false;
                Ok(json!({}))
            }
            "session/list" => self.list(params),
            "session/delete" => self.delete(params),
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" => self.set_config_option(params),
            _ => Err(RpcError::unknown(method)),
        }
    }

    fn initialize(&self, params: &Value) -> RpcResult {
        let version = params.get("protocolVersion").and_then(Value::as_u64);
        if version.is_none_or(|version| version > u64::from(u16::MAX)) {
            return Err(RpcError::params("`protocolVersion` must be an integer"));
        }
        let client = client_capabilities(params);
        self.state().client = Some(client);
        Ok(shapes::initialized(&self.scenario, client))
    }

    fn authenticate(&self, params: &Value) -> RpcResult {
        let id = text(params, "methodId")?;
        let mut methods = self.scenario.auth.methods.iter();
        match methods.find(|method| method.id == id) {
            Some(method) if method.terminal => {
                Err(RpcError::params("this method must be run in a terminal"))
            }
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

    pub fn new_session(&self, params: &Value) -> OpenedSession {
        let dirs = read_session_dirs(params, true, self.scenario.capabilities.mcp_http)?;
        let saved = StoredSession {
            id: fresh_id("mock"),
            cwd: dirs.cwd,
            directories: dirs.directories,
            updated_at: now(),
            ..StoredSession::default()
        };
        let mut state = self.state();
        self.check_authenticated(&state)?;
        let id = saved.id.clone();
        self.store.save(&saved);
        let mut answer = self.start(&mut state, saved, &dirs.servers);
        answer.insert("sessionId".to_owned(), id.as_str().into());
        Ok((id, Value::Object(answer)))
    }

    /// Starts a session, and returns its modes and options.
    fn start(
        &self,
        state: &mut State,
        saved: StoredSession,
        configs: &[ServerConfig],
    ) -> Map<String, Value> {
        let modes = self.scenario.modes.as_ref();
        let session = Session {
            mode: saved.mode.clone().or(modes.map(|m| m.current.clone())),
            config: defaults(&self.scenario),
            active: None,
            servers: servers::connect(configs),
            saved,
        };
        let client = state.client.unwrap_or_default();
        let settings = shapes::settings(&self.scenario, &session, client);
        state.sessions.insert(session.saved.id.clone(), session);
        settings
    }

    /// Finds an earlier session, and moves it to the given directories.
    fn find_stored_session(
        &self,
        params: &Value,
        servers_needed: bool,
    ) -> Result<(StoredSession, Vec<ServerConfig>), RpcError> {
        let id = text(params, "sessionId")?;
        let http = self.scenario.capabilities.mcp_http;
        let dirs = read_session_dirs(params, servers_needed, http)?;
        let state = self.state();
        self.check_authenticated(&state)?;
        let running = state.sessions.get(id).map(|session| &session.saved);
        let known = running.or_else(|| state.closed.get(id)).cloned();
        let mut saved = known
            .or_else(|| self.store.load(id))
            .ok_or_else(|| unknown_session(id))?;
        saved.cwd = dirs.cwd;
        saved.directories = dirs.directories;
        Ok((saved, dirs.servers))
    }

    /// Replays the whole conversation before the response.
    pub fn load(&self, params: &Value) -> OpenedSession {
        let (saved, servers) = self.find_stored_session(params, true)?;
        for update in &saved.history {
            self.update(&saved.id, update.clone());
        }
        Ok(self.reopen(saved, &servers))
    }

    /// Like `load`, but without the replay.
    pub fn resume(&self, params: &Value) -> OpenedSession {
        let (saved, servers) = self.find_stored_session(params, false)?;
        Ok(self.reopen(saved, &servers))
    }

    fn reopen(&self, saved: StoredSession, configs: &[ServerConfig]) -> (String, Value) {
        let id = saved.id.clone();
        let mut state = self.state();
        state.closed.remove(&id);
        if let Some(session) = state.sessions.get_mut(&id) {
            session.saved.cwd = saved.cwd;
            session.saved.directories = saved.directories;
            session.servers = servers::connect(configs);
            let client = state.client.unwrap_or_default();
            let settings = state.sessions.get(&id);
            let settings = settings.map(|s| shapes::settings(&self.scenario, s, client));
            return (id, Value::Object(settings.unwrap_or_default()));
        }
        let settings = self.start(&mut state, saved, configs);
        (id, Value::Object(settings))
    }

    fn list(&self, params: &Value) -> RpcResult {
        let cwd = match params.get("cwd") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) => Some(absolute(path, "`cwd`")?),
            Some(_) => return Err(RpcError::params("`cwd` must be a string")),
        };
        let state = self.state();
        self.check_authenticated(&state)?;
        let mut all: HashMap<String, StoredSession> = HashMap::new();
        let running = state.sessions.values().map(|session| &session.saved);
        let stored = self.store.all();
        for saved in stored.iter().chain(state.closed.values()).chain(running) {
            all.insert(saved.id.clone(), saved.clone());
        }
        let is_listed = |saved: &StoredSession| cwd.as_ref().is_none_or(|cwd| *cwd == saved.cwd);
        let mut all: Vec<StoredSession> = all.into_values().filter(is_listed).collect();
        all.sort_by(|a, b| (&b.updated_at, &b.id).cmp(&(&a.updated_at, &a.id)));
        let from = match params.get("cursor") {
            None | Some(Value::Null) => 0,
            Some(cursor) => page_start(cursor, all.len())?,
        };
        let page = self.scenario.capabilities.list_page;
        let sessions = all.iter().skip(from).take(page).map(session_info);
        let mut answer = json!({ "sessions": sessions.collect::<Vec<_>>() });
        let next = from + page;
        if next < all.len()
            && let Some(map) = answer.as_object_mut()
        {
            map.insert("nextCursor".to_owned(), format!("from-{next}").into());
        }
        Ok(answer)
    }

    fn delete(&self, params: &Value) -> RpcResult {
        let id = text(params, "sessionId")?;
        let mut state = self.cancel_turn_and_wait(self.state(), id);
        state.sessions.remove(id);
        state.closed.remove(id);
        self.store.delete(id);
        Ok(json!({}))
    }

    /// Checks that the scenario has the mode.
    fn checked_mode(&self, mode: &str) -> Result<(), RpcError> {
        let modes = self.scenario.modes.as_ref();
        match modes.is_some_and(|modes| modes.available.iter().any(|m| m.id == mode)) {
            true => Ok(()),
            false => Err(RpcError::params(format!("unknown mode `{mode}`"))),
        }
    }

    /// Sets the mode of a session, also for a later `session/load`.
    fn store_mode(&self, session: &mut Session, mode: &str) {
        session.mode = Some(mode.to_owned());
        session.saved.mode = session.mode.clone();
        self.store.save(&session.saved);
    }

    fn set_mode(&self, params: &Value) -> RpcResult {
        let mode = text(params, "modeId")?;
        let mut state = self.state();
        let client = state.client.unwrap_or_default();
        let session = session(&mut state, params)?;
        self.checked_mode(mode)?;
        self.store_mode(session, mode);
        self.send_options(session, client);
        Ok(json!({}))
    }

    /// Sends the full list of options, for clients that show options instead of modes.
    fn send_options(&self, session: &Session, client: ClientCapabilities) {
        let options = shapes::config_options(&self.scenario, session, client);
        let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
        self.update(&session.saved.id, update);
    }

    fn send_mode(&self, session: &Session) {
        let update = json!({
            "sessionUpdate": "current_mode_update",
            "currentModeId": session.mode,
        });
        self.update(&session.saved.id, update);
    }

    /// Changes the mode on behalf of the agent.
    pub fn switch_mode(&self, id: &str, mode: &str) {
        let mut state = self.state();
        let client = state.client.unwrap_or_default();
        if self.checked_mode(mode).is_ok()
            && let Some(session) = state.sessions.get_mut(id)
        {
            self.store_mode(session, mode);
            self.send_mode(session);
            self.send_options(session, client);
        }
    }

    pub fn rename(&self, id: &str, title: &str) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            session.saved.title = Some(title.to_owned());
        }
        let update = json!({ "sessionUpdate": "session_info_update", "title": title });
        self.update(id, update);
    }

    fn set_config_option(&self, params: &Value) -> RpcResult {
        let option = text(params, "configId")?;
        let value = params.get("value").cloned().unwrap_or(Value::Null);
        let mut state = self.state();
        let client = state.client.unwrap_or_default();
        let session = session(&mut state, params)?;
        if option == MODE_OPTION && self.scenario.modes.is_some() {
            let mode = text(params, "value")?;
            self.checked_mode(mode)?;
            self.store_mode(session, mode);
            self.send_mode(session);
        } else {
            let mut options = self.scenario.config_options.iter();
            let Some(known) = options.find(|o| o.id == option) else {
                return Err(RpcError::params(format!(
                    "unknown config option `{option}`"
                )));
            };
            let fits = match &known.kind {
                ConfigKind::Select { options, .. } => options
                    .iter()
                    .any(|o| Some(o.id.as_str()) == value.as_str()),
                ConfigKind::Boolean { .. } => client.boolean_options && value.is_boolean(),
            };
            if !fits {
                return Err(RpcError::params(format!("invalid value for `{option}`")));
            }
            session.config.insert(option.to_owned(), value);
        }
        let options = shapes::config_options(&self.scenario, session, client);
        Ok(json!({ "configOptions": options }))
    }
}

fn client_capabilities(params: &Value) -> ClientCapabilities {
    let capabilities = params.get("clientCapabilities").unwrap_or(&Value::Null);
    let on = |pointer: &str| capabilities.pointer(pointer) == Some(&Value::Bool(true));
    let has_object = |pointer: &str| capabilities.pointer(pointer).is_some_and(Value::is_object);
    ClientCapabilities {
        read: on("/fs/readTextFile"),
        write: on("/fs/writeTextFile"),
        terminal: on("/terminal"),
        auth_terminal: on("/auth/terminal"),
        boolean_options: has_object("/session/configOptions/boolean"),
        notices: has_object("/session/notices"),
        forms: has_object("/elicitation/form"),
        urls: has_object("/elicitation/url"),
        compaction: has_object("/session/compaction"),
    }
}

fn defaults(scenario: &Scenario) -> HashMap<String, Value> {
    let options = scenario.config_options.iter().map(|option| {
        let value = match &option.kind {
            ConfigKind::Select { current, .. } => current.as_str().into(),
            ConfigKind::Boolean { current } => (*current).into(),
        };
        (option.id.clone(), value)
    });
    options.collect()
}

/// Parses a cursor. Cursors have the form `from-N` and are opaque to the client.
fn page_start(cursor: &Value, total: usize) -> Result<usize, RpcError> {
    let number = cursor.as_str().and_then(|text| text.strip_prefix("from-"));
    let number: Option<usize> = number.and_then(|number| number.parse().ok());
    number
        .filter(|number| *number <= total)
        .ok_or_else(|| RpcError::params("unknown cursor"))
}

fn session_info(saved: &StoredSession) -> Value {
    let mut info = json!({
        "sessionId": saved.id,
        "cwd": saved.cwd,
        "updatedAt": saved.updated_at,
    });
    if let Some(map) = info.as_object_mut() {
        if let Some(title) = &saved.title {
            map.insert("title".to_owned(), title.as_str().into());
        }
        if !saved.directories.is_empty() {
            map.insert("additionalDirectories".to_owned(), json!(saved.directories));
        }
    }
    info
}
