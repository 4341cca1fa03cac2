//! Methods that are answered immediately.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::servers::{self, Wanted};
use super::shapes::{self, MODE_OPTION};
use super::{AUTH_REQUIRED, NOT_FOUND, Offers, Server, Session, State};
use crate::rpc::{Answer, INVALID_REQUEST, Refusal};
use crate::scenario::{ConfigKind, Scenario};
use crate::store::{Saved, fresh_id, now};

type Opened = Result<(String, Value), Refusal>;

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

fn absolute(path: &str, what: &str) -> Result<String, Refusal> {
    match Path::new(path).is_absolute() {
        true => Ok(path.to_owned()),
        false => Err(Refusal::params(format!("{what} must be an absolute path"))),
    }
}

/// Directories and MCP servers of a session.
struct Place {
    cwd: String,
    directories: Vec<String>,
    servers: Vec<Wanted>,
}

fn place(params: &Value, servers_needed: bool, http: bool) -> Result<Place, Refusal> {
    let cwd = absolute(text(params, "cwd")?, "`cwd`")?;
    let servers = match params.get("mcpServers") {
        Some(Value::Array(list)) => servers::wanted(list, http)?,
        None if !servers_needed => Vec::new(),
        _ => return Err(Refusal::params("`mcpServers` must be a list")),
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
        Some(_) => return Err(Refusal::params("`additionalDirectories` must be a list")),
    }
    Ok(Place {
        cwd,
        directories,
        servers,
    })
}

impl Server {
    /// Rejects unsupported methods, and all methods before `initialize`.
    pub fn known(&self, method: &str) -> Result<(), Refusal> {
        let can = &self.scenario.capabilities;
        let there = match method {
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
        if !there {
            return Err(Refusal::unknown(method));
        }
        match self.state().client {
            Some(_) => Ok(()),
            None => Err(Refusal::new(
                INVALID_REQUEST,
                "`initialize` must be sent first",
            )),
        }
    }

    pub fn simple(&self, method: &str, params: &Value) -> Answer {
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
            _ => Err(Refusal::unknown(method)),
        }
    }

    fn initialize(&self, params: &Value) -> Answer {
        let version = params.get("protocolVersion").and_then(Value::as_u64);
        if version.is_none_or(|version| version > u64::from(u16::MAX)) {
            return Err(Refusal::params("`protocolVersion` must be an integer"));
        }
        let offers = offers(params);
        self.state().client = Some(offers);
        Ok(shapes::initialized(&self.scenario, offers))
    }

    fn authenticate(&self, params: &Value) -> Answer {
        let id = text(params, "methodId")?;
        let mut methods = self.scenario.auth.methods.iter();
        match methods.find(|method| method.id == id) {
            Some(method) if method.terminal => {
                Err(Refusal::params("this method must be run in a terminal"))
            }
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

    pub fn new_session(&self, params: &Value) -> Opened {
        let place = place(params, true, self.scenario.capabilities.mcp_http)?;
        let saved = Saved {
            id: fresh_id("mock"),
            cwd: place.cwd,
            directories: place.directories,
            updated_at: now(),
            ..Saved::default()
        };
        let mut state = self.state();
        self.allowed(&state)?;
        let id = saved.id.clone();
        self.store.save(&saved);
        let mut answer = self.start(&mut state, saved, &place.servers);
        answer.insert("sessionId".to_owned(), id.as_str().into());
        Ok((id, Value::Object(answer)))
    }

    /// Starts a session, and returns its modes and options.
    fn start(&self, state: &mut State, saved: Saved, wanted: &[Wanted]) -> Map<String, Value> {
        let session = Session {
            mode: self.scenario.modes.as_ref().map(|m| m.current.clone()),
            config: defaults(&self.scenario),
            active: None,
            servers: servers::connect(wanted),
            saved,
        };
        let offers = state.client.unwrap_or_default();
        let settings = shapes::settings(&self.scenario, &session, offers);
        state.sessions.insert(session.saved.id.clone(), session);
        settings
    }

    /// Finds an earlier session, and moves it to the given directories.
    fn revive(
        &self,
        params: &Value,
        servers_needed: bool,
    ) -> Result<(Saved, Vec<Wanted>), Refusal> {
        let id = text(params, "sessionId")?;
        let http = self.scenario.capabilities.mcp_http;
        let place = place(params, servers_needed, http)?;
        let state = self.state();
        self.allowed(&state)?;
        let running = state.sessions.get(id).map(|session| &session.saved);
        let known = running.or_else(|| state.closed.get(id)).cloned();
        let mut saved = known
            .or_else(|| self.store.load(id))
            .ok_or_else(|| unknown_session(id))?;
        saved.cwd = place.cwd;
        saved.directories = place.directories;
        Ok((saved, place.servers))
    }

    /// Replays the whole conversation before the response.
    pub fn load(&self, params: &Value) -> Opened {
        let (saved, servers) = self.revive(params, true)?;
        for update in &saved.history {
            self.update(&saved.id, update.clone());
        }
        Ok(self.reopened(saved, &servers))
    }

    /// Like `load`, but without the replay.
    pub fn resume(&self, params: &Value) -> Opened {
        let (saved, servers) = self.revive(params, false)?;
        Ok(self.reopened(saved, &servers))
    }

    fn reopened(&self, saved: Saved, wanted: &[Wanted]) -> (String, Value) {
        let id = saved.id.clone();
        let mut state = self.state();
        state.closed.remove(&id);
        if let Some(session) = state.sessions.get_mut(&id) {
            session.saved.cwd = saved.cwd;
            session.saved.directories = saved.directories;
            session.servers = servers::connect(wanted);
            let offers = state.client.unwrap_or_default();
            let settings = state.sessions.get(&id);
            let settings = settings.map(|s| shapes::settings(&self.scenario, s, offers));
            return (id, Value::Object(settings.unwrap_or_default()));
        }
        let settings = self.start(&mut state, saved, wanted);
        (id, Value::Object(settings))
    }

    fn list(&self, params: &Value) -> Answer {
        let cwd = match params.get("cwd") {
            None | Some(Value::Null) => None,
            Some(Value::String(path)) => Some(absolute(path, "`cwd`")?),
            Some(_) => return Err(Refusal::params("`cwd` must be a string")),
        };
        let state = self.state();
        self.allowed(&state)?;
        let mut all: HashMap<String, Saved> = HashMap::new();
        let running = state.sessions.values().map(|session| &session.saved);
        let stored = self.store.all();
        for saved in stored.iter().chain(state.closed.values()).chain(running) {
            all.insert(saved.id.clone(), saved.clone());
        }
        let wanted = |saved: &Saved| cwd.as_ref().is_none_or(|cwd| *cwd == saved.cwd);
        let mut all: Vec<Saved> = all.into_values().filter(wanted).collect();
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

    fn delete(&self, params: &Value) -> Answer {
        let id = text(params, "sessionId")?;
        let mut state = self.without_turn(self.state(), id);
        state.sessions.remove(id);
        state.closed.remove(id);
        self.store.delete(id);
        Ok(json!({}))
    }

    /// Checks that the scenario has the mode.
    fn checked_mode(&self, mode: &str) -> Result<(), Refusal> {
        let modes = self.scenario.modes.as_ref();
        match modes.is_some_and(|modes| modes.available.iter().any(|m| m.id == mode)) {
            true => Ok(()),
            false => Err(Refusal::params(format!("unknown mode `{mode}`"))),
        }
    }

    fn set_mode(&self, params: &Value) -> Answer {
        let mode = text(params, "modeId")?;
        let mut state = self.state();
        let offers = state.client.unwrap_or_default();
        let session = session(&mut state, params)?;
        self.checked_mode(mode)?;
        session.mode = Some(mode.to_owned());
        self.tell_options(session, offers);
        Ok(json!({}))
    }

    /// Sends the full list of options, for clients that show options instead of modes.
    fn tell_options(&self, session: &Session, offers: Offers) {
        let options = shapes::config_options(&self.scenario, session, offers);
        let update = json!({ "sessionUpdate": "config_option_update", "configOptions": options });
        self.update(&session.saved.id, update);
    }

    fn tell_mode(&self, session: &Session) {
        let update = json!({
            "sessionUpdate": "current_mode_update",
            "currentModeId": session.mode,
        });
        self.update(&session.saved.id, update);
    }

    /// Changes the mode on behalf of the agent.
    pub fn switch_mode(&self, id: &str, mode: &str) {
        let mut state = self.state();
        let offers = state.client.unwrap_or_default();
        if self.checked_mode(mode).is_ok()
            && let Some(session) = state.sessions.get_mut(id)
        {
            session.mode = Some(mode.to_owned());
            self.tell_mode(session);
            self.tell_options(session, offers);
        }
    }

    pub fn rename(&self, id: &str, title: &str) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            session.saved.title = Some(title.to_owned());
        }
        let update = json!({ "sessionUpdate": "session_info_update", "title": title });
        self.update(id, update);
    }

    fn set_config_option(&self, params: &Value) -> Answer {
        let option = text(params, "configId")?;
        let value = params.get("value").cloned().unwrap_or(Value::Null);
        let mut state = self.state();
        let offers = state.client.unwrap_or_default();
        let session = session(&mut state, params)?;
        if option == MODE_OPTION && self.scenario.modes.is_some() {
            let mode = text(params, "value")?;
            self.checked_mode(mode)?;
            session.mode = Some(mode.to_owned());
            self.tell_mode(session);
        } else {
            let mut options = self.scenario.config_options.iter();
            let Some(known) = options.find(|o| o.id == option) else {
                return Err(Refusal::params(format!("unknown config option `{option}`")));
            };
            let fits = match &known.kind {
                ConfigKind::Select { options, .. } => options
                    .iter()
                    .any(|o| Some(o.id.as_str()) == value.as_str()),
                ConfigKind::Boolean { .. } => offers.boolean_options && value.is_boolean(),
            };
            if !fits {
                return Err(Refusal::params(format!("invalid value for `{option}`")));
            }
            session.config.insert(option.to_owned(), value);
        }
        let options = shapes::config_options(&self.scenario, session, offers);
        Ok(json!({ "configOptions": options }))
    }
}

fn offers(params: &Value) -> Offers {
    let capabilities = params.get("clientCapabilities").unwrap_or(&Value::Null);
    let on = |pointer: &str| capabilities.pointer(pointer) == Some(&Value::Bool(true));
    let given = |pointer: &str| capabilities.pointer(pointer).is_some_and(Value::is_object);
    Offers {
        read: on("/fs/readTextFile"),
        write: on("/fs/writeTextFile"),
        terminal: on("/terminal"),
        auth_terminal: on("/auth/terminal"),
        boolean_options: given("/session/configOptions/boolean"),
        notices: given("/session/notices"),
        forms: given("/elicitation/form"),
        urls: given("/elicitation/url"),
        compaction: given("/session/compaction"),
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
fn page_start(cursor: &Value, total: usize) -> Result<usize, Refusal> {
    let number = cursor.as_str().and_then(|text| text.strip_prefix("from-"));
    let number: Option<usize> = number.and_then(|number| number.parse().ok());
    number
        .filter(|number| *number <= total)
        .ok_or_else(|| Refusal::params("unknown cursor"))
}

fn session_info(saved: &Saved) -> Value {
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
