//! The system clock is set forward and back during live sessions. Only timestamps follow it
//! (A46-MODEL-06 to 08, A46-SSE-06, A46-REF-02).

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::host::Host;
use super::near::Near;
use super::served::{Stream, eventually};
use agentproto_daemon::clock::Clock;
use agentproto_daemon::http::server::ServerLimits;
use agentproto_daemon::http::{ClientRates, Timeouts};
use serde_json::{Value, json};
use tempfile::TempDir;

const YEARS: i64 = 366 * 24 * 60 * 60;

/// The system clock with an adjustable offset.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn set(&self, seconds: i64) {
        self.0.store(seconds, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let hand = self.clone();
        Clock::new(move || {
            let off = hand.0.load(Ordering::SeqCst);
            let now = SystemTime::now();
            let by = Duration::from_secs(off.unsigned_abs());
            match off < 0 {
                // Timeouts before 1970 are clamped to the epoch.
                true => now.checked_sub(by).unwrap_or(UNIX_EPOCH),
                false => now + by,
            }
        })
    }
}

async fn near(dir: TempDir, hand: &Hand) -> Near {
    let host = Host::with(dir, |config| config.clock = hand.clock());
    let times = Timeouts {
        keep_alive: Duration::from_millis(200),
        ..Timeouts::default()
    };
    Near::at(
        "127.0.0.1",
        host,
        ServerLimits::default(),
        ClientRates::default(),
        times,
    )
    .await
}

fn spawned(near: &Near) -> String {
    let body = json!({ "adapter": "mock-acp", "cwd": near.host.dir.path().join("work") });
    let answer = near.post("/sessions/agent", &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["id"].as_str().expect("an id").to_owned()
}

fn ticket(near: &Near, id: &str) -> String {
    let issued = near.post(&format!("/sessions/{id}/tickets"), &json!({}));
    assert_eq!(issued.status, 201, "{issued:?}");
    issued.json()["ticket"].as_str().expect("text").to_owned()
}

/// A stream opened with a ticket.
fn opened(near: &Near, id: &str, ticket: &str) -> Stream {
    let mut stream: TcpStream = near.open();
    let request = format!(
        "GET /sessions/{id}/stream?ticket={ticket} HTTP/1.1\r\nHost: {}\r\n\r\n",
        near.address
    );
    stream.write_all(request.as_bytes()).expect("sent");
    Stream::new(stream)
}

fn record(near: &Near, id: &str) -> Value {
    near.get(&format!("/sessions/{id}")).json()
}

/// Runs one turn over HTTP and watches it on the stream. Returns the sequence numbers of its
/// events.
fn turn(near: &Near, stream: &mut Stream, id: &str, prompt: &str) -> Vec<u64> {
    let path = format!("/sessions/{id}/prompt");
    let taken = near.post(&path, &json!({ "prompt": prompt }));
    assert_eq!(taken.status, 200, "{taken:?}");
    stream.until(|event, data| event == "line" && data["line"] == format!("You said: {prompt}"));
    let seen = stream.until(|event, data| event == "status" && data["busy"] == false);
    let number = |id: &str| {
        id.split_once('-')
            .expect("an id")
            .1
            .parse()
            .expect("a number")
    };
    seen.iter()
        .filter_map(|m| Some(number(m.id.as_deref()?)))
        .collect()
}

/// Waits for a keep-alive on the stream.
fn breathes(stream: &mut Stream) {
    while stream.line().expect("a line") != ": keep-alive" {}
}

fn listed(near: &Near) -> Vec<Value> {
    let all = near.get("/sessions").json();
    all["sessions"].as_array().expect("a list").clone()
}

fn ids(sessions: &[Value]) -> Vec<&str> {
    sessions.iter().filter_map(|s| s["id"].as_str()).collect()
}

fn year(time: &Value) -> i64 {
    let time = time.as_str().expect("a time");
    time[..4].parse().expect("a year")
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_the_clock_does_not_affect_live_sessions() {
    agentproto_suites::proves!("A46-REF-02");
    let hand = Hand::default();
    let near = near(TempDir::new().expect("a directory"), &hand).await;
    let first = spawned(&near);
    let this_year = year(&record(&near, &first)["startedAt"]);
    let (early, late) = (ticket(&near, &first), ticket(&near, &first));
    let mut stream = opened(&near, &first, &ticket(&near, &first));
    stream.until(|event, data| event == "status" && data["status"] == "running");
    let mut numbers = turn(&near, &mut stream, &first, "before");

    // Forward: a ticket expires after elapsed seconds, not at a date.
    hand.set(10 * YEARS);
    opened(&near, &first, &early).until(|event, _| event == "status");
    numbers.extend(turn(&near, &mut stream, &first, "far ahead"));
    breathes(&mut stream);
    let ahead = spawned(&near);
    assert_eq!(year(&record(&near, &first)["lastOutputAt"]), this_year + 10);
    assert_eq!(year(&record(&near, &ahead)["startedAt"]), this_year + 10);

    // Back, to before the start.
    hand.set(-20 * YEARS);
    opened(&near, &first, &late).until(|event, _| event == "status");
    numbers.extend(turn(&near, &mut stream, &first, "long ago"));
    breathes(&mut stream);
    let past = spawned(&near);
    assert!(year(&record(&near, &past)["startedAt"]) < this_year - 18);
    // The state file is still written, a moment later.
    let file = near.host.dir.path().join("home/sessions.json");
    eventually("sessions.json follows", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&past))
    });
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");

    // Within a session, timestamps never decrease.
    for id in [&first, &ahead, &past] {
        near.post(&format!("/sessions/{id}/kill"), &json!({}));
        let ended = record(&near, id);
        let time = |name: &str| ended[name].as_str().unwrap_or_default().to_owned();
        let (began, said, over) = (time("startedAt"), time("lastOutputAt"), time("endedAt"));
        assert!(said.is_empty() || began <= said, "{ended}");
        assert!(began <= over && said <= over && !over.is_empty(), "{ended}");
    }
    let before = listed(&near);
    assert_eq!(ids(&before), [&first, &ahead, &past], "oldest first");

    // After a restart with the clock still wrong, the sessions and their order are the same, and a
    // reader resumes where it stopped.
    let seen = near
        .get(&format!("/sessions/{first}/events?limit=1000"))
        .json();
    let seen = seen["events"].as_array().expect("events").clone();
    let Near { host, stop, .. } = near;
    let _ = stop.send(true);
    host.registry.shutdown().await;
    let Host { dir, registry, .. } = host;
    drop(registry);
    let again = self::near(dir, &hand).await;
    assert_eq!(ids(&listed(&again)), ids(&before));
    let middle = seen[seen.len() / 2]["id"].as_str().expect("an id");
    let rest = again.get(&format!(
        "/sessions/{first}/events?limit=1000&after={middle}"
    ));
    assert_eq!(rest.json()["events"], json!(seen[seen.len() / 2 + 1..]));
    let new = spawned(&again);
    assert_eq!(ids(&listed(&again)).last(), Some(&new.as_str()));
}

/// A machine without a clock reports the same time after every restart.
#[tokio::test(flavor = "multi_thread")]
async fn event_ids_stay_unique_across_restarts_at_the_same_time() {
    let stopped = || Clock::new(|| UNIX_EPOCH);
    let mut dir = TempDir::new().expect("a directory");
    let mut lives = Vec::new();
    for _ in 0..2 {
        let host = Host::with(dir, |config| config.clock = stopped());
        let session = host.running("default").await;
        let events = host
            .registry
            .events(&session.id, None, 1)
            .await
            .expect("there");
        lives.push(events.items[0].epoch);
        assert_eq!(session.started_at, "1970-01-01T00:00:00.000Z");
        host.registry.shutdown().await;
        let Host {
            dir: left,
            registry,
            ..
        } = host;
        drop(registry);
        dir = left;
    }
    assert_ne!(lives[0], lives[1]);
}
