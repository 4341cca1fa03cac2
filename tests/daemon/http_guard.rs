//! Access control and limits (A46-SEC-01, 02, 06).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::near::Near;
use super::network;
use super::served::{Answer, Served, command, eventually, work};
use agentproto_daemon::http::server::ServerLimits;
use agentproto_daemon::http::{ClientRates, Rate, Timeouts};
use serde_json::json;
use tempfile::TempDir;

// A46-SEC-02: every route with data requires the token.
#[test]
fn every_data_route_requires_the_token() {
    agentproto_suites::proves!("A45-SEC-06");
    let host = Served::new();
    let id = host.running("default");
    let wrong = format!("Authorization: Bearer {}0\r\n", &host.token[1..]);
    let basic = format!("Authorization: Basic {}\r\n", host.token);
    let query = format!("/sessions?token={0}&access_token={0}", host.token);
    for path in [
        "/sessions",
        "/openapi.json",
        "/adapters",
        "/mcp",
        "/nowhere",
        &query,
    ] {
        for headers in ["", "Authorization: Bearer\r\n", &wrong, &basic] {
            let refused = host.ask("GET", path, headers, "");
            assert_eq!(refused.refusal(401), "unauthorized", "{path} {headers}");
            assert!(
                refused.head.contains("www-authenticate: Bearer"),
                "{refused:?}"
            );
        }
    }
    let lower = format!("authorization: bearer {}\r\n", host.token);
    assert_eq!(host.ask("GET", "/sessions", &lower, "").status, 200);
    let health = host.ask("GET", "/healthz", "", "");
    assert_eq!((health.status, &health.json()["ok"]), (200, &json!(true)));
    let page = host.ask("GET", "/", "", "");
    assert_eq!(page.status, 200);
    assert!(
        page.head
            .contains("content-security-policy: default-src 'none'; script-src 'sha256-")
    );
    for secret in [&host.token, &id] {
        assert!(
            !page.text.contains(secret.as_str()),
            "the page contains data"
        );
    }
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        let file = std::fs::metadata(host.home().join(name)).expect("there");
        file.permissions().mode() & 0o777
    };
    assert_eq!((mode("runtime.json"), mode("sessions.db")), (0o600, 0o600));
    assert_eq!(host.token.len(), 64, "256 bits");
}

#[test]
fn a_foreign_host_or_origin_is_refused_on_every_route() {
    let host = Served::new();
    let (_, port) = host.address.split_once(':').expect("a port");
    let ask = |path: &str, headers: &str| {
        let head = format!(
            "GET {path} HTTP/1.1\r\nConnection: close\r\n{}",
            host.bearer()
        );
        host.raw(format!("{head}{headers}\r\n").as_bytes())
    };
    for path in ["/", "/healthz", "/mcp", "/sessions", "/login", "/nowhere"] {
        let evil = format!("Host: evil.example:{port}\r\n");
        assert_eq!(ask(path, &evil).refusal(403), "host_forbidden", "{path}");
        assert_eq!(ask(path, "").refusal(400), "host_missing", "{path}");
        let own = format!("Host: {}\r\n", host.address);
        assert_eq!(
            ask(path, &format!("{own}{own}")).refusal(400),
            "host_missing",
            "{path}"
        );
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1",
            "http://localhost:1",
        ] {
            let headers = format!("{own}Origin: {origin}\r\n");
            assert_eq!(
                ask(path, &headers).refusal(403),
                "origin_forbidden",
                "{path} {origin}"
            );
        }
        if path != "/" {
            let headers = format!("{own}Sec-Fetch-Site: cross-site\r\n");
            assert_eq!(
                ask(path, &headers).refusal(403),
                "origin_forbidden",
                "{path}"
            );
        }
    }
    let same = format!(
        "Host: {0}\r\nOrigin: http://{0}\r\nSec-Fetch-Site: same-origin\r\n",
        host.address
    );
    assert_eq!(ask("/sessions", &same).status, 200);
    assert_eq!(
        ask("/sessions", &format!("Host: localhost:{port}\r\n")).status,
        200
    );
    let absolute = format!(
        "GET http://evil.example/healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        host.address
    );
    assert_eq!(host.raw(absolute.as_bytes()).refusal(400), "host_missing");
    let preflight = format!(
        "OPTIONS /sessions HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.example\r\n\
         Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n",
        host.address
    );
    let preflight = host.raw(preflight.as_bytes());
    assert_eq!(preflight.refusal(403), "origin_forbidden");
    assert!(!preflight.head.contains("access-control"), "{preflight:?}");
}

#[test]
fn a_ticket_opens_one_stream_once_only() {
    let host = Served::new();
    let (id, other) = (host.running("default"), host.running("default"));
    let ticket = |id: &str| {
        let issued = host.post(&format!("/sessions/{id}/tickets"), &json!({}));
        assert_eq!(issued.status, 201, "{issued:?}");
        issued.json()["ticket"]
            .as_str()
            .expect("a ticket")
            .to_owned()
    };
    let open = |id: &str, ticket: &str| {
        let mut stream = host.open();
        let path = format!("/sessions/{id}/stream?ticket={ticket}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", host.address);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("an answer");
        String::from_utf8_lossy(&first).into_owned()
    };
    let one = ticket(&id);
    assert_eq!(open(&id, &one), "HTTP/1.1 200");
    assert_eq!(open(&id, &one), "HTTP/1.1 401", "once");
    let one = ticket(&id);
    assert_eq!(
        open(&other, &one),
        "HTTP/1.1 401",
        "a ticket is valid for its own session only"
    );
    let one = ticket(&id);
    let elsewhere = host.ask("GET", &format!("/sessions/{id}?ticket={one}"), "", "");
    assert_eq!(elsewhere.refusal(401), "unauthorized");
}

#[test]
fn the_open_link_logs_in_once() {
    let dir = TempDir::new().expect("a directory");
    let mut child = command(dir.path())
        .args(["serve", "--port", "0", "--open"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut said = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    while !said.contains("#code=") {
        let read = std::io::BufRead::read_line(&mut out, &mut said).expect("readable");
        assert!(read > 0, "{said}");
    }
    let link = said.split_whitespace().find(|word| word.contains("#code="));
    let (url, code) = link.expect("a link").split_once("/#code=").expect("a code");
    let address = url.strip_prefix("http://").expect("a url");
    let login = || {
        let body = json!({ "code": code }).to_string();
        let mut stream = TcpStream::connect(address).expect("connected");
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Answer::read(stream)
    };
    let first = login();
    let file = std::fs::read_to_string(dir.path().join("home/runtime.json")).expect("there");
    let token = first.json()["token"].as_str().expect("a token").to_owned();
    assert!(file.contains(&token) && !said.contains(&token), "{said}");
    assert_eq!(login().refusal(401), "link_spent");
    child.kill().expect("killed");
    child.wait().expect("waited");
}

/// Anyone can send a login, so its body is small.
#[test]
fn a_login_has_a_small_body() {
    let host = Served::new();
    let login = |length: usize| {
        let body = json!({ "code": "x".repeat(length) }).to_string();
        let headers = "Content-Type: application/json\r\n";
        host.ask("POST", "/login", headers, &body)
    };
    assert_eq!(login(4000).refusal(401), "link_spent");
    assert_eq!(login(5000).refusal(413), "body_too_large");
    // Without a length.
    let chunk = "x".repeat(5000);
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{chunk}\r\n0\r\n\r\n",
        host.address,
        chunk.len()
    );
    let answer = host.raw(request.as_bytes());
    assert_eq!(answer.refusal(413), "body_too_large");
}

const SOON: Duration = Duration::from_millis(200);

// Slow request heads, idle connections and slow bodies are cut off, and other clients do not wait.
#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_cut_off() {
    let limits = ServerLimits {
        head: SOON,
        ..ServerLimits::default()
    };
    let times = Timeouts {
        body: SOON,
        ..Timeouts::default()
    };
    let near = Near::new(limits, ClientRates::default(), times).await;
    let mut silent = near.open();
    let mut half = near.open();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        .expect("sent");
    let mut idle = near.open();
    let whole = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", near.address);
    idle.write_all(whole.as_bytes()).expect("sent");
    let mut body = near.open();
    let head = format!(
        "POST /sessions/agent HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{{",
        near.address
    );
    body.write_all(head.as_bytes()).expect("sent");
    assert_eq!(
        near.ask("/healthz", "").status,
        200,
        "other clients are served"
    );
    for (name, stream) in [
        ("silent", &mut silent),
        ("half", &mut half),
        ("idle", &mut idle),
    ] {
        let mut rest = Vec::new();
        stream
            .read_to_end(&mut rest)
            .unwrap_or_else(|e| panic!("{name} was not closed: {e}"));
    }
    assert_eq!(Answer::read(body).refusal(408), "body_timeout");
    near.stop.send(true).expect("sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_request_heads_are_limited() {
    let limits = ServerLimits {
        connections: 3,
        head_bytes: 16 << 10,
        headers: 20,
        ..ServerLimits::default()
    };
    let near = Near::new(limits, ClientRates::default(), Timeouts::default()).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut stream = near.open();
        let whole = format!(
            "GET /sessions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\r\n",
            near.address
        );
        stream.write_all(whole.as_bytes()).expect("sent");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("an answer");
        kept.push(stream);
    }
    assert_eq!(
        near.ask("/healthz", "").refusal(503),
        "too_many_connections"
    );
    kept.clear();
    eventually("room again", || near.ask("/healthz", "").status == 200);
    for head in [
        format!("X-Long: {}\r\n", "x".repeat(32 << 10)),
        "X-Many: x\r\n".repeat(40),
    ] {
        let mut stream = near.open();
        let request = format!(
            "GET /healthz HTTP/1.1\r\nHost: {}\r\n{head}\r\n",
            near.address
        );
        let _ = stream.write_all(request.as_bytes());
        let refused = Answer::read(stream);
        assert_eq!(refused.status, 431, "{refused:?}");
    }
    assert_eq!(near.ask("/healthz", "").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_logins_have_a_lower_rate_limit() {
    let never = |burst| Rate {
        per_second: 1e-9,
        burst,
    };
    let rates = ClientRates {
        local: never(30.0),
        failed: never(5.0),
        ..ClientRates::default()
    };
    let near = Near::new(ServerLimits::default(), rates, Timeouts::default()).await;
    for _ in 0..5 {
        assert_eq!(near.ask("/sessions", "guess").refusal(401), "unauthorized");
    }
    let slow = near.ask("/sessions", "guess");
    assert_eq!(slow.refusal(429), "too_many_requests");
    assert!(slow.head.contains("retry-after:"), "{slow:?}");
    for _ in 0..30 {
        assert_eq!(near.ask("/sessions", "secret").status, 200);
    }
    assert_eq!(
        near.ask("/sessions", "secret").refusal(429),
        "too_many_requests"
    );
}

// A46-SSE-06.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_sends_keep_alives() {
    assert_eq!(Timeouts::default().keep_alive, Duration::from_secs(25));
    let times = Timeouts {
        keep_alive: SOON,
        ..Timeouts::default()
    };
    let near = Near::new(ServerLimits::default(), ClientRates::default(), times).await;
    let session = near.host.running("default").await;
    let mut stream = near.open();
    let request = format!(
        "GET /sessions/{}/stream?from=now HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer secret\r\n\r\n",
        session.id, near.address
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut seen = String::new();
    let mut bytes = [0; 512];
    while seen.matches(": keep-alive\n\n").count() < 3 {
        let read = stream.read(&mut bytes).expect("in time");
        assert!(read > 0, "{seen}");
        seen += &String::from_utf8_lossy(&bytes[..read]);
    }
}

#[test]
fn a_public_address_requires_tls_or_a_flag() {
    let dir = TempDir::new().expect("a directory");
    let refused = command(dir.path())
        .args(["serve", "--port", "0", "--bind", "0.0.0.0"])
        .output()
        .expect("run");
    assert_eq!(refused.status.code(), Some(64));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("--tls-cert") && said.contains("--insecure-bind"),
        "{said}"
    );
    assert!(!dir.path().join("home/runtime.json").exists());
}

// A46-SEC-06: remote clients can only use registered workspaces.
#[test]
fn remote_clients_can_only_use_registered_workspaces() {
    agentproto_suites::proves!("A46-SEC-06");
    if !network::entered("http_guard::remote_clients_can_only_use_registered_workspaces") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let inside = dir.path().join("project");
    std::fs::create_dir_all(inside.join("deep")).expect("made");
    std::os::unix::fs::symlink("/", inside.join("out")).expect("linked");
    let added = command(dir.path())
        .args(["workspace", "add"])
        .arg(&inside)
        .output()
        .expect("run");
    assert!(added.status.success(), "{added:?}");
    let host = Served::on(dir, &["--bind", "0.0.0.0", "--insecure-bind"]);
    let (_, port) = host.address.split_once(':').expect("a port");
    let there = format!("{}:{port}", network::HERE);
    let spawn = |cwd: &std::path::Path| {
        let body = json!({ "adapter": "mock-acp", "cwd": cwd }).to_string();
        let mut stream = TcpStream::connect(&there).expect("connected");
        let from = stream.local_addr().expect("an address").ip();
        assert!(!from.is_loopback(), "{from} is a loopback address");
        let request = format!(
            "POST /sessions/agent HTTP/1.1\r\nHost: {there}\r\nConnection: close\r\n{}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            host.bearer(),
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Answer::read(stream)
    };
    for (path, code) in [
        (work(host.dir.path()), "cwd_outside_workspaces"),
        (inside.join(".."), "cwd_outside_workspaces"),
        (inside.join("out/tmp"), "cwd_link"),
    ] {
        assert_eq!(spawn(&path).refusal(403), code, "{path:?}");
    }
    let spawned = spawn(&inside.join("deep"));
    assert_eq!(spawned.status, 201, "{spawned:?}");
    let body = json!({ "adapter": "mock-acp", "cwd": work(host.dir.path()) });
    assert_eq!(
        host.post("/sessions/agent", &body).status,
        201,
        "the local user may use any directory"
    );
}

#[test]
fn tls_with_a_self_signed_certificate() {
    let dir = TempDir::new().expect("a directory");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]);
    let made = made.expect("a certificate");
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let wrong = command(dir.path())
        .args(["serve", "--port", "0", "--tls-cert"])
        .arg(&cert)
        .arg("--tls-key")
        .arg(&cert)
        .output()
        .expect("run");
    assert_eq!(wrong.status.code(), Some(78), "{wrong:?}");
    let args = [
        "--tls-cert",
        cert.to_str().expect("text"),
        "--tls-key",
        key.to_str().expect("text"),
    ];
    let host = Served::on(dir, &args);
    // The built-in client trusts the certificate that `runtime.json` names.
    let listed = command(host.dir.path())
        .args(["sessions", "--json"])
        .output()
        .expect("run");
    assert!(listed.status.success(), "{listed:?}");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed, json!({ "sessions": [] }));
    let plain = host.ask("GET", "/healthz", "", "");
    assert_ne!(plain.status, 200, "plain HTTP is refused: {plain:?}");
}
