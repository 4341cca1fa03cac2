//! The HTTP routes, over a socket (A46-HTTP, A46-SPAWN, A46-TURN, A46-MODEL).

use super::served::{Answer, Served, work};
use serde_json::{Value, json};
use tempfile::TempDir;

// A46-HTTP-01 to 08, A46-MODEL-01 to 10, A46-SPAWN-01 to 05, A46-TURN-01 to 04, A46-TURN-06,
// A46-STATUS-01, 04, 05: a session from spawn to delete.
#[test]
fn a_session_from_spawn_to_delete() {
    agentproto_suites::proves!(
        "A46-SPAWN-03",
        "A46-SPAWN-04",
        "A46-SPAWN-05",
        "A46-TURN-06",
        "A46-MODEL-12",
        "A46-REF-01"
    );
    let host = Served::new();
    assert_eq!(host.get("/sessions").json(), json!({ "sessions": [] }));
    let cwd = work(host.dir.path());
    let body = json!({
        "adapter": "mock-acp", "cwd": cwd, "label": "a label", "prompt": "first", "unknown": [1],
    });
    let spawned = host.post("/sessions/agent", &body);
    assert_eq!(spawned.status, 201, "{spawned:?}");
    let session = spawned.json();
    let id = session["id"].as_str().expect("an id").to_owned();
    assert!(
        spawned.head.contains(&format!("location: /sessions/{id}")),
        "{spawned:?}"
    );
    assert_eq!(session["adapterSlug"], "mock-acp");
    assert_eq!(session["workspaceSlug"], "default");
    assert_eq!(session["cwd"], json!(cwd));
    assert_eq!(session["status"], "starting");
    assert_eq!(session["label"], "a label");
    assert!(is_time(&session["startedAt"]), "{session}");
    assert!(session.get("endedAt").is_none() && session.get("exitCode").is_none());

    let mut stream = host.stream(&id, "", "");
    assert!(
        stream.head.contains("content-type: text/event-stream"),
        "{}",
        stream.head
    );
    assert!(
        stream.head.contains("x-accel-buffering: no"),
        "{}",
        stream.head
    );
    let seen = stream.until(|_, data| data["line"] == "── turn-end (end_turn) ──");
    assert!(
        seen.iter().any(|m| m.data["line"] == "You said: first"),
        "{seen:?}"
    );
    assert!(seen.iter().all(|m| m.id.is_some()));
    stream.until(|event, data| event == "status" && data["busy"] == false);

    let path = format!("/sessions/{id}/prompt");
    let taken = host.post(&path, &json!({ "prompt": "be slow" }));
    assert_eq!(
        (taken.status, taken.json()),
        (200, json!({ "ok": true, "id": id }))
    );
    let second = host.post(&path, &json!({ "prompt": "again" }));
    assert_eq!(second.refusal(409), "session_busy");
    let interrupt = format!("/sessions/{id}/interrupt");
    let ended = host.post(&interrupt, &json!({}));
    assert_eq!(
        ended.json(),
        json!({ "ok": true, "id": id, "wasBusy": true })
    );
    stream.until(|_, data| data["line"] == "── turn-end (cancelled) ──");
    stream.until(|event, data| event == "status" && data["busy"] == false);
    let again = host.ask("POST", &interrupt, &host.bearer(), "");
    assert_eq!(again.json()["wasBusy"], false, "{again:?}");

    host.turn(&id, "apple");
    host.turn(&id, "what did I say before?");
    let lines = host.lines(&id);
    assert!(
        lines
            .iter()
            .any(|l| l.contains("Before: ") && l.contains("apple")),
        "{lines:?}"
    );
    let now = host.get(&format!("/sessions/{id}")).json();
    assert_eq!(
        (&now["status"], &now["turns"]),
        (&json!("running"), &json!(4))
    );
    assert!(is_time(&now["lastOutputAt"]), "{now}");
    assert_eq!(
        host.get("/sessions?alive=true").json()["sessions"][0]["id"],
        id.as_str()
    );

    let kill = format!("/sessions/{id}/kill");
    assert_eq!(
        host.post(&kill, &json!({})).json(),
        json!({ "ok": true, "id": id })
    );
    assert_eq!(
        host.ask("POST", &kill, &host.bearer(), "").json()["ok"],
        false
    );
    let now = host.get(&format!("/sessions/{id}")).json();
    assert_eq!(now["status"], "killed");
    assert!(is_time(&now["endedAt"]), "{now}");
    assert_eq!(
        host.post(&path, &json!({ "prompt": "x" })).refusal(409),
        "session_ended"
    );
    let rest = stream.read_out();
    let last = rest.last().expect("an end");
    assert_eq!(
        (last.event.as_str(), &last.data["status"]),
        ("end", &json!("killed"))
    );

    let forgotten = host.delete(&format!("/sessions/{id}"));
    assert_eq!(forgotten.json(), json!({ "ok": true, "id": id }));
    assert_eq!(
        host.get(&format!("/sessions/{id}")).refusal(404),
        "session_not_found"
    );
    assert_eq!(
        host.delete(&format!("/sessions/{id}")).refusal(404),
        "session_not_found"
    );
    assert_eq!(host.get("/sessions").json(), json!({ "sessions": [] }));
}

fn is_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() >= 20 && text.as_bytes()[10] == b'T' && text.ends_with('Z')
}

// A46-STATUS-05: DELETE ends a live session and the streams that follow it.
#[test]
fn deleting_a_live_session_ends_its_streams() {
    let host = Served::new();
    let id = host.running("default");
    let stream = host.stream(&id, "?from=now", "");
    assert_eq!(host.delete(&format!("/sessions/{id}")).json()["ok"], true);
    let seen = stream.read_out();
    let killed = seen
        .iter()
        .any(|m| m.event == "status" && m.data["status"] == "killed");
    assert!(killed, "{seen:?}");
}

#[test]
fn a_question_is_answered_over_http() {
    let host = Served::new();
    let id = host.running("default");
    let mut stream = host.stream(&id, "?from=now", "");
    host.post(
        &format!("/sessions/{id}/prompt"),
        &json!({ "prompt": "ask for permission" }),
    );
    let asked = stream.until(|event, _| event == "permission");
    let question = asked.last().expect("one").data.clone();
    let pending = host.get(&format!("/sessions/{id}")).json()["pendingPermissions"].clone();
    assert_eq!(pending, json!([question]));
    assert_eq!(question["tool"]["input"]["path"], "notes.txt", "{question}");
    let change = &question["tool"]["content"][0];
    assert_eq!(change["oldText"], "one\ntwo\n", "{question}");
    assert_eq!(change["newText"], "one\nthree\n", "{question}");
    let path = format!(
        "/sessions/{id}/permissions/{}",
        question["id"].as_str().expect("an id")
    );
    for odd in [
        json!({}),
        json!({ "optionId": "odd" }),
        json!({ "optionId": "x", "cancelled": true }),
    ] {
        assert_eq!(host.post(&path, &odd).refusal(400), "bad_request", "{odd}");
    }
    let elsewhere = format!("/sessions/{id}/permissions/odd");
    let cancelled = json!({ "cancelled": true });
    assert_eq!(
        host.post(&elsewhere, &cancelled).refusal(404),
        "permission_not_found"
    );
    let options = question["options"].as_array().expect("options");
    let allow = options.iter().find(|o| o["kind"] == "allow_once");
    let allow = &allow.expect("offered")["id"];
    assert_eq!(
        host.post(&path, &json!({ "optionId": allow })).json()["ok"],
        true
    );
    let rest = stream.until(|event, data| event == "status" && data["busy"] == false);
    let closed = rest.iter().find(|m| m.event == "permission");
    let closed = &closed.expect("closed").data;
    assert_eq!(closed["closed"], true);
    assert_eq!(closed["answer"]["kind"], "allow_once", "{closed}");
    assert!(
        rest.iter().any(|m| m.data["line"] == "You allowed it."),
        "{rest:?}"
    );
    assert_eq!(
        host.post(&path, &cancelled).refusal(404),
        "permission_not_found"
    );
}

/// With a policy the host answers, and the event says how.
#[test]
fn a_session_with_a_permission_policy_asks_nobody() {
    let host = Served::new();
    let start = |permissions: Value| {
        let work = work(host.dir.path());
        let body = json!({ "adapter": "mock-acp", "cwd": work, "permissions": permissions });
        host.post("/sessions/agent", &body)
    };
    let refused = start(json!("never"));
    assert_eq!(refused.json()["error"]["details"]["field"], "permissions");
    assert_eq!(refused.refusal(400), "bad_request");
    for permissions in [Value::Null, json!("ask")] {
        assert_eq!(start(permissions).json().get("permissions"), None);
    }
    for (policy, said) in [
        ("allow", "You allowed it."),
        ("deny", "You did not allow it."),
    ] {
        let started = start(json!(policy)).json();
        assert_eq!(started["permissions"], policy, "{started}");
        let id = started["id"].as_str().expect("an id");
        host.turn(id, "ask for permission");
        let lines = host.lines(id);
        assert!(lines.iter().any(|line| line == said), "{lines:?}");
        let events = host
            .get(&format!("/sessions/{id}/events?limit=1000"))
            .json();
        let events = events["events"].as_array().expect("events");
        let asked = events.iter().find(|e| e["data"]["type"] == "agent-prompt");
        assert_eq!(asked.expect("asked")["data"]["decision"], policy);
        assert!(
            events.iter().all(|e| e["event"] != "permission"),
            "{events:?}"
        );
    }
}

/// The record has the sums of the turns, and keeps them.
#[test]
fn a_session_counts_its_tokens() {
    let host = Served::new();
    let id = host.running("default");
    let path = format!("/sessions/{id}");
    assert_eq!(host.get(&path).json().get("usage"), None);
    for _ in 0..2 {
        host.turn(&id, "report your usage");
        host.turn(&id, "hello");
    }
    let wanted = json!({
        "usage": {
            "inputTokens": 2400, "outputTokens": 600, "thoughtTokens": 200,
            "cachedReadTokens": 100_000, "cachedWriteTokens": 800, "totalTokens": 104_000,
        },
        "cost": { "amount": 0.25, "currency": "USD" },
        "context": { "used": 53_000, "size": 200_000 },
    });
    let check = |record: &Value| {
        for (name, value) in wanted.as_object().expect("members") {
            assert_eq!(&record[name], value, "{record}");
        }
    };
    check(&host.get(&path).json());
    let (_, _, dir) = host.stop();
    let host = Served::on(dir, &[]);
    check(&host.get(&path).json());
}

#[test]
fn invalid_requests_are_refused_with_a_location() {
    agentproto_suites::proves!("A46-SPAWN-01");
    let host = Served::new();
    let post = |body: &str| {
        let headers = format!("{}Content-Type: application/json\r\n", host.bearer());
        host.ask("POST", "/sessions/agent", &headers, body)
    };
    let wrong = post("{\"adapter\": \"mock-acp\",\n \"label\": 7}");
    assert_eq!(wrong.refusal(400), "bad_request");
    assert_eq!(wrong.json()["error"]["details"]["field"], "label");
    let broken = post("{\"adapter\":\n  oops}");
    assert_eq!(broken.refusal(400), "bad_json");
    assert_eq!(
        broken.json()["error"]["details"],
        json!({ "line": 2, "column": 3 })
    );
    assert_eq!(post("").refusal(400), "bad_json");
    assert_eq!(post("{}").refusal(400), "bad_request");
    assert_eq!(
        post("{\"adapter\":\"mock-acp\",\"prompt\":\" \"}").refusal(400),
        "bad_request"
    );
    assert_eq!(
        post("{\"adapter\":\"mock-acq\"}").refusal(404),
        "adapter_not_found"
    );
    assert_eq!(post("{\"adapter\":\"../x\"}").refusal(400), "bad_request");
    let cwd = post("{\"adapter\":\"mock-acp\",\"cwd\":\"/nowhere/at/all\"}");
    assert_eq!(cwd.refusal(422), "cwd_missing");
    assert_eq!(
        host.get("/sessions").json(),
        json!({ "sessions": [] }),
        "a refused request creates no session"
    );

    let form = host.ask("POST", "/sessions/agent", &host.bearer(), "adapter=x");
    assert_eq!(form.refusal(415), "unsupported_media_type");
    let large = format!("{{\"adapter\":\"{}\"}}", "x".repeat((4 << 20) + 1));
    assert_eq!(post(&large).refusal(413), "body_too_large");
    let chunk = "x".repeat(1 << 20);
    let mut chunked = format!(
        "POST /sessions/agent HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        host.address,
        host.bearer()
    );
    for _ in 0..5 {
        chunked += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
    }
    chunked += "0\r\n\r\n";
    assert_eq!(host.raw(chunked.as_bytes()).refusal(413), "body_too_large");

    assert_eq!(host.get("/nowhere").refusal(404), "not_found");
    assert_eq!(host.get("/sessions/%ff").refusal(400), "bad_request");
    assert_eq!(host.get("/sessions/x").refusal(404), "session_not_found");
    for (method, path, allow) in [
        ("PUT", "/sessions", "GET,HEAD"),
        ("POST", "/sessions/x", "GET,HEAD,PATCH,DELETE"),
        ("GET", "/sessions/agent", "POST"),
        ("DELETE", "/healthz", "GET,HEAD"),
    ] {
        let refused = host.ask(method, path, &host.bearer(), "");
        assert_eq!(
            refused.refusal(405),
            "method_not_allowed",
            "{method} {path}"
        );
        assert!(
            refused.head.contains(&format!("allow: {allow}\r\n")),
            "{refused:?}"
        );
    }
    let id = host.running("default");
    for query in ["limit=0", "limit=x", "limit=1001", "after=odd"] {
        let refused = host.get(&format!("/sessions/{id}/events?{query}"));
        assert_eq!(refused.refusal(400), "bad_request", "{query}");
    }
    let refused = host.get(&format!("/sessions/{id}/stream?from=odd"));
    assert_eq!(refused.refusal(400), "bad_request");
}

// A46-COMPAT-03.
#[test]
fn a_host_without_adapters_responds_501_with_a_command() {
    let dir = TempDir::new().expect("a directory");
    let host = Served::on(dir, &["--no-bundled"]);
    let refused = host.post("/sessions/agent", &json!({ "adapter": "mock-acp" }));
    assert_eq!(refused.refusal(501), "no_adapters");
    let hint = refused.json()["error"]["hint"]
        .as_str()
        .expect("a hint")
        .to_owned();
    assert!(hint.contains("agentproto install"), "{hint}");
    assert_eq!(
        host.get("/sessions").status,
        200,
        "the other routes still work"
    );
    assert_eq!(
        host.get("/adapters").json(),
        json!({ "adapters": [], "details": {} })
    );
}

// Validates every response of the routes in this test against the OpenAPI document that the host
// serves.
#[test]
fn responses_match_the_openapi_document() {
    let host = Served::new();
    let document = host.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut judge = Judge {
        document,
        seen: Vec::new(),
    };
    let id = host.running("default");
    let ended = host.running("default");
    host.post(&format!("/sessions/{ended}/kill"), &json!({}));
    host.turn(&id, "hello");
    let json_type = format!("{}Content-Type: application/json\r\n", host.bearer());
    let large = format!("{{\"prompt\":\"{}\"}}", "x".repeat(4 << 20));
    for (method, template) in judge.operations() {
        let path = template.replace("{id}", &id).replace("{rid}", "odd");
        let gone = template.replace("{id}", "ses_0").replace("{rid}", "odd");
        let has_body = judge
            .operation(&method, &template)
            .get("requestBody")
            .is_some();
        let ask = |path: &str, headers: &str, body: &str| host.ask(&method, path, headers, body);
        if template != "/" && template != "/healthz" && template != "/login" {
            judge.hold(&method, &template, &ask(&path, "", ""), 401);
        }
        let evil = "Origin: http://evil.example\r\n";
        judge.hold(&method, &template, &ask(&path, evil, ""), 403);
        if template.contains("{id}") {
            let body = if has_body {
                "{\"prompt\":\"x\",\"cancelled\":true}"
            } else {
                ""
            };
            judge.hold(&method, &template, &ask(&gone, &json_type, body), 404);
        }
        if has_body {
            judge.hold(&method, &template, &ask(&path, &json_type, "{"), 400);
            judge.hold(&method, &template, &ask(&path, &host.bearer(), "x"), 415);
            judge.hold(&method, &template, &ask(&path, &json_type, &large), 413);
        }
    }
    let cwd = work(host.dir.path());
    let spawn = json!({ "adapter": "mock-acp", "cwd": cwd });
    judge.hold(
        "post",
        "/sessions/agent",
        &host.post("/sessions/agent", &spawn),
        201,
    );
    let post = |path: &str, body: Value| host.post(&path.replace("{id}", &id), &body);
    let slow = post(
        "/sessions/{id}/prompt",
        json!({ "prompt": "ask for permission" }),
    );
    judge.hold("post", "/sessions/{id}/prompt", &slow, 200);
    judge.hold(
        "post",
        "/sessions/{id}/prompt",
        &post("/sessions/{id}/prompt", json!({ "prompt": "x" })),
        409,
    );
    let mut stream = host.stream(&id, "", "");
    let asked = stream.until(|event, _| event == "permission");
    let question = asked.last().expect("one").data["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    judge.hold(
        "get",
        "/sessions/{id}",
        &host.get(&format!("/sessions/{id}")),
        200,
    );
    let answer = post(
        &format!("/sessions/{{id}}/permissions/{question}"),
        json!({ "cancelled": true }),
    );
    judge.hold("post", "/sessions/{id}/permissions/{rid}", &answer, 200);
    stream.until(|event, data| event == "status" && data["busy"] == false);
    for path in [
        "/",
        "/healthz",
        "/openapi.json",
        "/adapters",
        "/workspaces",
        "/sessions",
    ] {
        judge.hold("get", path, &host.get(path), 200);
    }
    for (path, status) in [("events", 200), ("output", 200)] {
        let answer = host.get(&format!("/sessions/{id}/{path}"));
        judge.hold("get", &format!("/sessions/{{id}}/{path}"), &answer, status);
    }
    let trees = host.post("/markdown", &json!({ "texts": ["# a\n\n- [x] b", "x"] }));
    judge.hold("post", "/markdown", &trees, 200);
    let label = json!({ "label": "new" }).to_string();
    let renamed = host.ask("PATCH", &format!("/sessions/{id}"), &json_type, &label);
    judge.hold("patch", "/sessions/{id}", &renamed, 200);
    let bad = host.get(&format!("/sessions/{id}/events?limit=0"));
    judge.hold("get", "/sessions/{id}/events", &bad, 400);
    let ended_stream = host.get(&format!("/sessions/{ended}/stream"));
    judge.hold("get", "/sessions/{id}/stream", &ended_stream, 200);
    judge.hold(
        "post",
        "/sessions/{id}/tickets",
        &post("/sessions/{id}/tickets", json!({})),
        201,
    );
    judge.hold(
        "post",
        "/sessions/{id}/resume",
        &post("/sessions/{id}/resume", json!({})),
        409,
    );
    let resumed = host.post(&format!("/sessions/{ended}/resume"), &json!({}));
    judge.hold("post", "/sessions/{id}/resume", &resumed, 201);
    let spent = host.post("/login", &json!({ "code": "odd" }));
    judge.hold("post", "/login", &spent, 401);
    judge.hold(
        "post",
        "/sessions/{id}/interrupt",
        &post("/sessions/{id}/interrupt", json!({})),
        200,
    );
    judge.hold(
        "post",
        "/sessions/{id}/kill",
        &post("/sessions/{id}/kill", json!({})),
        200,
    );
    let gone = host.delete(&format!("/sessions/{id}"));
    judge.hold("delete", "/sessions/{id}", &gone, 200);
    let issued = host.post("/login/codes", &json!({}));
    judge.hold("post", "/login/codes", &issued, 201);
    let rotated = host.post("/token/rotate", &json!({}));
    judge.hold("post", "/token/rotate", &rotated, 200);
    // Every operation succeeded at least once. A successful login needs a link; another test covers
    // it.
    for (method, template) in judge.operations() {
        let done = judge
            .seen
            .iter()
            .any(|(m, t, s)| *m == method && *t == template && *s < 300);
        assert!(done || template == "/login", "{method} {template}");
    }
}

struct Judge {
    document: Value,
    seen: Vec<(String, String, u16)>,
}

impl Judge {
    fn operations(&self) -> Vec<(String, String)> {
        let paths = self.document["paths"].as_object().expect("paths");
        let all = paths.iter().flat_map(|(path, item)| {
            let methods = item.as_object().expect("methods").keys();
            methods.map(|method| (method.to_uppercase(), path.clone()))
        });
        let all: Vec<_> = all.collect();
        assert!(all.len() > 15, "{all:?}");
        all
    }

    fn operation(&self, method: &str, template: &str) -> &Value {
        &self.document["paths"][template][method.to_lowercase()]
    }

    #[track_caller]
    fn hold(&mut self, method: &str, template: &str, answer: &Answer, status: u16) {
        assert_eq!(answer.status, status, "{method} {template}: {answer:?}");
        let declared = &self.operation(method, template)["responses"][status.to_string()];
        let content = declared["content"].as_object();
        let content =
            content.unwrap_or_else(|| panic!("{method} {template} {status} is not declared"));
        let (kind, media) = content.iter().next().expect("one");
        assert!(
            answer.head.contains(&format!("content-type: {kind}")),
            "{kind}: {answer:?}"
        );
        if kind == "application/json" {
            let mut schema = media["schema"].clone();
            schema["components"] = self.document["components"].clone();
            let validator = jsonschema::validator_for(&schema).expect("a schema");
            let value = answer.json();
            let wrong: Vec<String> = validator
                .iter_errors(&value)
                .map(|e| e.to_string())
                .collect();
            assert!(
                wrong.is_empty(),
                "{method} {template} {status}: {wrong:?} {value}"
            );
        }
        self.seen
            .push((method.to_uppercase(), template.to_owned(), status));
    }
}
