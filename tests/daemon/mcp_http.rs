//! `/mcp` of a running daemon, and `agentproto mcp` next to it (A46-MCP-07, A46-TURN-02, 04, 05).

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::mcp_client::{Door, HANG, Place};
use super::mcp_scenes::{ALIASES, a_life, listed, questions, the_tools, unattended, wrong_calls};

/// `agentproto serve`, stopped on drop.
struct Daemon {
    child: Child,
    url: String,
    token: String,
}

impl Daemon {
    fn start(place: &Place, args: &[&str]) -> Daemon {
        let mut whole = vec!["serve", "--port", "0"];
        whole.extend(args);
        let child = place
            .command(&whole)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let mut daemon = Daemon {
            child,
            url: String::new(),
            token: String::new(),
        };
        let begun = Instant::now();
        loop {
            let told = std::fs::read(place.path("home/runtime.json")).unwrap_or_default();
            if let Ok(told) = serde_json::from_slice::<Value>(&told)
                && told["pid"] == daemon.child.id()
            {
                let text = |key: &str| told[key].as_str().expect("a text").to_owned();
                (daemon.url, daemon.token) = (text("url"), text("token"));
                return daemon;
            }
            assert!(begun.elapsed() < HANG, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(&mut self) -> Option<i32> {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        self.child.wait().expect("ended").code()
    }

    /// A client with an MCP session, as older protocol versions use it.
    fn client(&self) -> Web {
        let mut web = Web::new(self);
        let answer = web.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        assert!(web.session.is_some(), "the response has no session id");
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(web.post(&told).0, 202);
        web
    }

    /// A client that sends each request without a session.
    fn stateless(&self) -> Web {
        let mut web = Web::new(self);
        web.alone = true;
        web
    }

    /// Calls an AIP-46 route.
    fn http(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let answer = agent().run(request.body(body).expect("a request"));
        let mut answer = answer.expect("an answer");
        let text = answer.body_mut().read_to_string().expect("text");
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        (answer.status().as_u16(), json)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(HANG))
        .build()
        .into()
}

/// A client over streamable HTTP.
struct Web {
    url: String,
    headers: Vec<(String, String)>,
    session: Option<String>,
    alone: bool,
    last: u64,
    agent: ureq::Agent,
}

impl Web {
    fn new(daemon: &Daemon) -> Web {
        Web {
            url: format!("{}/mcp", daemon.url),
            headers: vec![("authorization".into(), format!("Bearer {}", daemon.token))],
            session: None,
            alone: false,
            last: 0,
            agent: agent(),
        }
    }

    fn with(mut self, name: &str, value: &str) -> Web {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Posts one message. Returns status and body.
    fn post(&mut self, message: &Value) -> (u16, String) {
        let bytes = message.to_string();
        self.post_bytes(message, bytes.as_bytes())
    }

    fn post_bytes(&mut self, message: &Value, bytes: &[u8]) -> (u16, String) {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
            request = request.header("mcp-protocol-version", "2025-11-25");
        }
        if self.alone {
            request = request.header("mcp-protocol-version", "2026-07-28");
            request = request.header("mcp-method", message["method"].as_str().unwrap_or("x"));
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        let mut answer = request.send(bytes).expect("an answer");
        let session = answer.headers().get("mcp-session-id");
        if let Some(session) = session.and_then(|v| v.to_str().ok()) {
            self.session = Some(session.to_owned());
        }
        let status = answer.status().as_u16();
        (status, answer.body_mut().read_to_string().expect("text"))
    }
}

/// The last message of a response: its body, or the last event of its stream.
fn message(body: &str) -> Value {
    if let Ok(value) = serde_json::from_str(body) {
        return value;
    }
    let mut data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let last = data.rfind(|data| !data.trim().is_empty());
    let last = last.unwrap_or_else(|| panic!("no message in {body:?}"));
    serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {last}"))
}

impl Door for Web {
    fn request(&mut self, method: &str, mut params: Value) -> Value {
        self.last += 1;
        if self.alone {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let message_of =
            json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        let (_, body) = self.post(&message_of);
        let answer = message(&body);
        assert_eq!(answer["id"], self.last, "{answer}");
        answer
    }
}

#[test]
fn clients_with_an_mcp_session() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let mut web = daemon.client();
    wrong_calls(&mut web, &place);
    the_tools(&mut web);
    a_life(&mut web, &place);
    // A DELETE request ends the client's own session.
    let session = web.session.clone().expect("a session");
    let gone = web
        .agent
        .delete(&web.url)
        .header("authorization", format!("Bearer {}", daemon.token))
        .header("mcp-session-id", &session)
        .call()
        .expect("an answer");
    assert_eq!(gone.status().as_u16(), 204);
    let ping = json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" });
    assert_eq!(web.post(&ping).0, 404);
}

#[test]
fn clients_without_an_mcp_session() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--mcp-aliases"]);
    let mut web = daemon.stateless();
    assert_eq!(listed(&mut web).len(), 13);
    a_life(&mut web, &place);
    let all = web.done(ALIASES[2], json!({ "onlyAlive": false }));
    assert_eq!(all["sessions"].as_array().map(Vec::len), Some(1));
    assert!(web.session.is_none());
}

/// A46-MCP-07: there is one registry, so every interface shows the same sessions and the same
/// output.
#[test]
fn every_interface_shows_the_same_sessions() {
    agentproto_suites::proves!("A46-REF-01");
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let mut web = daemon.client();
    let mut alone = daemon.stateless();
    let mut pipe = place.client(&[]);
    let (status, by_http) = daemon.http(
        "POST",
        "/sessions/agent",
        Some(json!({ "adapter": "mock-acp", "cwd": place.work(), "prompt": "by http" })),
    );
    assert_eq!(status, 201, "{by_http}");
    let start = |word: &str| json!({ "adapter": "mock-acp", "cwd": place.work(), "label": word, "prompt": word });
    let by_web = web.done("start_agent_session", start("by web"));
    let by_pipe = pipe.done("start_agent_session", start("by pipe"));
    let ids = [&by_http, &by_web, &by_pipe].map(|s| s["id"].as_str().expect("an id").to_owned());
    for id in &ids {
        let lines = alone.turns(id, 1);
        assert_eq!(pipe.turns(id, 1), lines);
        assert_eq!(web.turns(id, 1), lines);
    }
    // The next turn reaches the same agent through another interface (A46-TURN-02).
    let prompt = json!({ "sessionId": ids[0], "prompt": "what did I say before?" });
    pipe.done("prompt_agent_session", prompt);
    let lines = web.turns(&ids[0], 2);
    let after = lines.iter().skip_while(|l| !l.starts_with("── turn-end"));
    assert!(after.skip(1).any(|l| l.contains("by http")), "{lines:?}");
    // Overlapping turns through two interfaces get the same error text (A46-TURN-04, 05).
    let slow = json!({ "sessionId": ids[1], "prompt": "be slow" });
    web.done("prompt_agent_session", slow);
    let path = format!("/sessions/{}/prompt", ids[1]);
    let (status, refused) = daemon.http("POST", &path, Some(json!({ "prompt": "x" })));
    assert_eq!(status, 409);
    let overlap = json!({ "sessionId": ids[1], "prompt": "x" });
    assert_eq!(refused["error"]["code"], "session_busy");
    assert_eq!(
        pipe.refused("prompt_agent_session", overlap.clone()),
        refused["error"]
    );
    assert_eq!(
        web.refused("prompt_agent_session", overlap.clone()),
        refused["error"]
    );
    assert_eq!(
        alone.refused("prompt_agent_session", overlap),
        refused["error"]
    );
    let (_, unknown) = daemon.http("GET", "/sessions/ses_0", None);
    let told = web.refused("kill_agent_session", json!({ "sessionId": "ses_0" }));
    assert_eq!(told, unknown["error"]);
    for (change, value) in [
        ("adapter", "mock-acq"),
        ("cwd", "work"),
        ("cwd", "/nowhere/at/all"),
    ] {
        let mut request = start("x");
        request[change] = json!(value);
        let (_, by_http) = daemon.http("POST", "/sessions/agent", Some(request.clone()));
        assert_eq!(
            pipe.refused("start_agent_session", request.clone()),
            by_http["error"]
        );
        assert_eq!(
            web.refused("start_agent_session", request),
            by_http["error"]
        );
    }
    // A session ended through one interface has ended for all.
    assert_eq!(
        pipe.done("kill_agent_session", json!({ "sessionId": ids[1] }))["ok"],
        true
    );
    let (_, killed) = daemon.http("GET", &format!("/sessions/{}", ids[1]), None);
    assert_eq!(killed["status"], "killed");
    let (status, _) = daemon.http("POST", &format!("/sessions/{}/kill", ids[2]), None);
    assert_eq!(status, 200);
    for only_alive in [true, false] {
        let arguments = json!({ "onlyAlive": only_alive });
        let mut over_http = daemon.http("GET", "/sessions", None).1;
        if only_alive {
            let sessions = over_http["sessions"].as_array_mut().expect("a list");
            sessions.retain(|s| s["status"] == "running" || s["status"] == "starting");
            assert_eq!(sessions.len(), 1);
        }
        assert_eq!(
            web.done("list_agent_sessions", arguments.clone()),
            over_http
        );
        assert_eq!(
            alone.done("list_agent_sessions", arguments.clone()),
            over_http
        );
        assert_eq!(pipe.done("list_agent_sessions", arguments), over_http);
    }
    // The sessions belong to the daemon, so they survive the client.
    let ended = pipe.close();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.contains(&daemon.url), "{}", ended.stderr);
    assert!(!ended.stderr.contains(&daemon.token), "{}", ended.stderr);
    let (_, still) = daemon.http("GET", &format!("/sessions/{}", ids[0]), None);
    assert_eq!(still["status"], "running");
}

#[test]
fn all_scenes_pass_for_a_client_of_a_daemon() {
    let place = Place::new();
    let _daemon = Daemon::start(&place, &[]);
    let mut pipe = place.client(&[]);
    wrong_calls(&mut pipe, &place);
    the_tools(&mut pipe);
    a_life(&mut pipe, &place);
    questions(&mut pipe, &place);
    unattended(&mut pipe, &place);
    // The alias names are an option of this client only.
    let mut aliased = place.client(&["--aliases"]);
    let all = aliased.done("agent_sessions_list", json!({}));
    assert_eq!(all["sessions"].as_array().map(Vec::len), Some(5));
    // With `--own`, the client has its own sessions and does not see those of the daemon.
    let mut own = place.client(&["--own"]);
    assert_eq!(
        own.done("list_agent_sessions", json!({}))["sessions"],
        json!([])
    );
}

/// A daemon that stopped is reported, and a restarted one is found.
#[test]
fn a_daemon_restart_is_noticed() {
    let place = Place::new();
    let mut first = Daemon::start(&place, &[]);
    let mut pipe = place.client(&[]);
    pipe.done("list_agent_sessions", json!({}));
    assert_eq!(first.stop(), Some(143));
    let told = pipe.refused("list_agent_sessions", json!({}));
    assert_eq!(told["code"], "daemon_unavailable", "{told}");
    assert!(
        told["hint"]
            .as_str()
            .is_some_and(|h| h.contains("agentproto serve"))
    );
    let second = Daemon::start(&place, &[]);
    assert_ne!(first.token, second.token);
    let start = json!({ "adapter": "mock-acp", "cwd": place.work() });
    let session = pipe.done("start_agent_session", start);
    let (_, listed) = second.http("GET", "/sessions", None);
    assert_eq!(listed["sessions"][0]["id"], session["id"]);
}

/// The runtime file of a dead daemon is ignored.
#[test]
fn without_a_reachable_daemon_the_client_has_its_own_sessions() {
    let place = Place::new();
    let told = json!({ "url": "http://127.0.0.1:9", "pid": 1, "token": "x" });
    std::fs::write(place.path("home/runtime.json"), told.to_string()).expect("written");
    let mut client = place.client(&[]);
    assert_eq!(
        client.done("list_agent_sessions", json!({}))["sessions"],
        json!([])
    );
    assert!(client.close().stderr.contains("hosts its own sessions"));
}

/// The same access checks as for every other route.
#[test]
fn token_host_and_origin_are_checked() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    } } });
    let port = daemon.url.rsplit(':').next().expect("a port");
    let local = format!("localhost:{port}");
    let status = |web: Web| {
        let mut web = web;
        web.alone = true;
        let (status, body) = web.post(&ping);
        let code = message(&body)["error"]["code"].as_str().map(str::to_owned);
        (status, code.unwrap_or_default())
    };
    let web = || Web::new(&daemon);
    let ok = (200, String::new());
    assert_eq!(status(web()), ok);
    assert_eq!(
        status(
            web()
                .with("host", &local)
                .with("origin", &format!("http://{local}"))
        ),
        ok
    );
    let wrong = "Bearer 0123456789";
    for (web, wanted, code) in [
        (web().with("authorization", wrong), 401, "unauthorized"),
        (web().with("authorization", ""), 401, "unauthorized"),
        (web().with("host", "evil.example"), 403, "host_forbidden"),
        (
            web().with("origin", "http://evil.example"),
            403,
            "origin_forbidden",
        ),
        (web().with("origin", "null"), 403, "origin_forbidden"),
    ] {
        assert_eq!(status(web), (wanted, code.to_owned()));
    }
    // The token is not accepted in the URL.
    let mut by_url = Web::new(&daemon).with("authorization", "");
    by_url.url = format!(
        "{}?token={}&ticket={}",
        by_url.url, daemon.token, daemon.token
    );
    assert_eq!(by_url.post(&ping).0, 401);
}

/// Every body gets a response, and the next request still works.
#[test]
fn invalid_bodies() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    let mut web = daemon.client();
    let mut huge = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""#.to_vec();
    huge.resize(5 << 20, b'x');
    huge.extend_from_slice(b"\"}}");
    let none = json!({});
    for (body, wanted) in [
        (&b"garbage"[..], 400..=415),
        (b"", 400..=415),
        (b"[]", 400..=422),
        (
            b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
            400..=422,
        ),
        (b"\xff\xfe", 400..=415),
        (&huge, 413..=413),
    ] {
        let (status, text) = web.post_bytes(&none, body);
        assert!(wanted.contains(&status), "{status} {text}");
        web.done("list_agent_sessions", json!({}));
    }
    let plain = web
        .agent
        .post(&web.url)
        .header("authorization", format!("Bearer {}", daemon.token))
        .header("content-type", "text/plain")
        .header("accept", "application/json, text/event-stream")
        .send("{}")
        .expect("an answer");
    assert_eq!(plain.status().as_u16(), 415);
    let odd = Web::new(&daemon).with("mcp-protocol-version", "1999-01-01");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut odd = odd;
    assert_eq!(odd.post(&ping).0, 400);
    let mut lost = Web::new(&daemon);
    lost.session = Some("00000000-0000-0000-0000-000000000000".to_owned());
    assert_eq!(lost.post(&ping).0, 404);
}

/// A client that disconnects during a call does not end the daemon or its sessions. An open stream
/// does not stop the daemon from exiting.
#[test]
fn disconnected_clients_and_open_streams() {
    let place = Place::new();
    let mut daemon = Daemon::start(&place, &[]);
    let mut web = daemon.client();
    let session = web.session.clone().expect("a session");
    let mut stream = web
        .agent
        .get(&web.url)
        .header("authorization", format!("Bearer {}", daemon.token))
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("mcp-protocol-version", "2025-11-25")
        .call()
        .expect("a stream");
    assert_eq!(stream.status().as_u16(), 200);
    let start = json!({ "adapter": "mock-acp", "cwd": place.work(), "prompt": "be slow" });
    let started = web.done("start_agent_session", start);
    // Sends its request and disconnects.
    let kill = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
        "name": "kill_agent_session", "arguments": { "sessionId": started["id"] } } });
    let body = kill.to_string();
    let host = daemon.url.trim_start_matches("http://").to_owned();
    let mut socket = std::net::TcpStream::connect(&host).expect("connected");
    use std::io::Write;
    write!(
        socket,
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\nmcp-session-id: {session}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        daemon.token,
        body.len()
    )
    .expect("written");
    drop(socket);
    let begun = Instant::now();
    let id = started["id"].as_str().expect("an id");
    loop {
        let (_, now) = daemon.http("GET", &format!("/sessions/{id}"), None);
        // The status is `error` if the agent was not ready yet.
        if now["endedAt"].is_string() {
            break;
        }
        assert!(begun.elapsed() < HANG, "{now}");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(daemon.stop(), Some(143));
    let mut rest = Vec::new();
    let _ = stream.body_mut().as_reader().read_to_end(&mut rest);
}
