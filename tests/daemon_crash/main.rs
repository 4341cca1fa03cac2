//! Kills the daemon with SIGKILL during fifty turns, again and again. There must be no orphan, no
//! lost turn, and valid state every time. `tests/daemon_faults/run [ROUNDS]` runs it.
#![cfg(target_os = "linux")]

#[path = "../daemon/served.rs"]
#[allow(dead_code, reason = "the rest is used by other tests")]
mod served;

mod mixed;

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use served::{Served, eventually, processes_of, work};
use tempfile::TempDir;

const SESSIONS: usize = 50;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(usual)
}

/// Sends a prompt, and returns the status. `None` if the host is gone.
fn prompt(address: &str, bearer: &str, id: &str, text: &str) -> Option<u16> {
    let body = json!({ "prompt": text }).to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "POST /sessions/{id}/prompt HTTP/1.1\r\nHost: {address}\r\n{bearer}Connection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status).ok()?;
    status.split(' ').nth(1)?.parse().ok()
}

/// The lines of a stream. The head of the response has arrived, so no later event is missed.
fn follow(address: &str, bearer: &str, id: &str) -> Option<Lines<BufReader<TcpStream>>> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "GET /sessions/{id}/stream?from=now HTTP/1.1\r\nHost: {address}\r\n{bearer}\r\n"
    )
    .ok()?;
    let mut lines = BufReader::new(stream).lines();
    lines.next()?.ok()?;
    Some(lines)
}

/// Prompts until the host is gone. Returns the number of turns it saw end.
fn talk(address: &str, bearer: &str, id: &str, all_run: &Barrier, finished: &AtomicUsize) -> usize {
    let lines = follow(address, bearer, id);
    all_run.wait();
    let Some(mut lines) = lines else {
        return 0;
    };
    let mut ended = 0;
    loop {
        if prompt(address, bearer, id, &format!("turn {ended}")) != Some(200) {
            return ended;
        }
        loop {
            let Some(Ok(line)) = lines.next() else {
                return ended;
            };
            if line.contains("\"line\":\"── turn-end (end_turn)") {
                break;
            }
        }
        ended += 1;
        finished.fetch_add(1, Ordering::Relaxed);
        // A prompt sent before the status changes would collide with the turn that is ending.
        loop {
            let Some(Ok(line)) = lines.next() else {
                return ended;
            };
            if line.contains("\"status\":\"running\"") && line.contains("\"busy\":false") {
                break;
            }
        }
    }
}

/// Runs one round: kills the daemon after `enough` turns have ended.
fn round(dir: TempDir, enough: usize) -> (TempDir, usize) {
    let host = Served::on(dir, &[]);
    let cwd = work(host.dir.path());
    let spawn = json!({ "adapter": "mock-acp", "cwd": cwd });
    let ids: Vec<String> = (0..SESSIONS)
        .map(|_| {
            let spawned = host.post("/sessions/agent", &spawn);
            assert_eq!(spawned.status, 201, "{spawned:?}");
            spawned.json()["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    for id in &ids {
        host.stream(id, "", "")
            .until(|event, data| event == "status" && data["status"] == "running");
    }
    let all_run = Barrier::new(SESSIONS + 1);
    let finished = AtomicUsize::new(0);
    let (address, bearer) = (host.address.clone(), host.bearer());
    let seen: Vec<usize> = std::thread::scope(|scope| {
        let talks: Vec<_> = ids
            .iter()
            .map(|id| scope.spawn(|| talk(&address, &bearer, id, &all_run, &finished)))
            .collect();
        all_run.wait();
        eventually("enough turns have ended", || {
            finished.load(Ordering::Relaxed) >= enough
        });
        host.signal(libc::SIGKILL);
        talks
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    let (_, _, dir) = host.ended();
    let place = dir.path().to_owned();
    eventually("no agent survives its host", || {
        processes_of(&place).is_empty()
    });
    let kept = std::fs::read(dir.path().join("home/sessions.json")).expect("there");
    serde_json::from_slice::<Value>(&kept).expect("valid JSON after every kill");
    let again = Served::on(dir, &[]);
    assert!(
        again.said.iter().all(|e| e["type"] != "aoi:warning"),
        "{:?}",
        again.said
    );
    for (id, seen) in ids.iter().zip(&seen) {
        let session = again.get(&format!("/sessions/{id}")).json();
        assert_eq!(
            (&session["status"], &session["busy"]),
            (&json!("error"), &json!(false)),
            "{session}"
        );
        let lines = again.lines(id);
        let said = lines
            .iter()
            .filter(|l| l.starts_with("You said: turn "))
            .count();
        let ends = lines
            .iter()
            .filter(|l| l.starts_with("── turn-end (end_turn)"))
            .count();
        // Only the last thousand lines are available.
        assert!(
            said >= (*seen).min(300) && ends >= (*seen).min(300),
            "{id}: {seen} seen, {lines:?}"
        );
        let last = lines.last().map(String::as_str);
        let begun = lines.iter().any(|l| l.starts_with("You said"));
        assert!(
            last == Some("── turn-end (error) ──")
                || last.is_some_and(|l| l.starts_with("[error]"))
                || !begun
        );
    }
    for id in &ids {
        assert_eq!(again.delete(&format!("/sessions/{id}")).status, 200);
    }
    let (status, _, dir) = again.stop();
    assert_eq!(status.code(), Some(143));
    (dir, seen.iter().sum())
}

#[test]
fn killed_during_fifty_turns() {
    let rounds = number("ROUNDS", 100);
    let mut dir = TempDir::new().expect("a directory");
    let mut turns = 0;
    for n in 0..rounds {
        // A different point in each round.
        let enough = 1 + usize::try_from(n * 37 % 200).expect("small");
        let finished;
        (dir, finished) = round(dir, enough);
        turns += finished;
        println!("round {}: {finished} turns ended, none lost", n + 1);
    }
    assert!(
        turns > 0,
        "no turn ended before a kill, so nothing was tested"
    );
}
