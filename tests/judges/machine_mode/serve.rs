//! `agentproto serve` and the readers of its events.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::machine_mode::Place;
use crate::machine_mode::host::ask;

const SOON: Duration = Duration::from_secs(20);
/// Long enough for a host to notice that its reader is gone.
const LONG: Duration = Duration::from_secs(2);

fn serve(place: &Place, output: &str, stdout: Stdio) -> Child {
    let mut command = place.command(&["serve", "--port", "0", "--output", output]);
    let command = command.stdin(Stdio::null()).stdout(stdout);
    command.stderr(Stdio::inherit()).spawn().expect("started")
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn runtime(place: &Place) -> PathBuf {
    place.state().join("runtime.json")
}

/// URL and token of the host, once it runs.
fn door(place: &Place) -> (String, String) {
    let runtime_file = until("runtime.json comes", || {
        let text = std::fs::read(runtime(place)).ok()?;
        serde_json::from_slice::<serde_json::Value>(&text).ok()
    });
    let text = |key: &str| runtime_file[key].as_str().expect("a text").to_owned();
    (text("url"), text("token"))
}

fn session(place: &Place) {
    let (url, token) = door(place);
    let body = serde_json::json!({ "adapter": "mock-acp", "cwd": place.0.path() });
    let answer = ask(&url, &token, "POST", "/sessions/agent", &body.to_string());
    assert!(answer.starts_with('2'), "{answer}");
}

/// A process, identified by its id and start time, because ids are reused.
#[derive(Clone, Debug, PartialEq)]
struct Process {
    id: String,
    parent: String,
    started: String,
}

/// All running processes.
fn processes() -> Vec<Process> {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|stat| process(&stat)).collect()
}

/// Parses `PID (NAME) STATE PARENT …`, where the name may contain spaces. Returns `None` for dead
/// processes.
fn process(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let process = Process {
        id: head.split(' ').next()?.to_owned(),
        parent: fields.get(1)?.to_string(),
        started: fields.get(19)?.to_string(),
    };
    (fields[0] != "Z").then_some(process)
}

/// All descendants of a process.
fn below(child: &Child) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut pending = vec![child.id().to_string()];
    while let Some(parent) = pending.pop() {
        for one in all.iter().filter(|one| one.parent == parent) {
            pending.push(one.id.clone());
            found.push(one.clone());
        }
    }
    found
}

/// Waits until the host exits with this code, and checks that nothing is left.
fn gone(place: &Place, child: &mut Child, agents: &[Process], code: i32) {
    let status = until("it ends", || child.try_wait().expect("known"));
    assert_eq!(status.code(), Some(code));
    assert!(!runtime(place).exists(), "runtime.json was not removed");
    let left: Vec<Process> = processes()
        .into_iter()
        .filter(|one| {
            agents
                .iter()
                .any(|agent| agent.id == one.id && agent.started == one.started)
        })
        .collect();
    assert_eq!(left, Vec::new(), "agents are still running");
    // A new host can start.
    let mut next = serve(place, "jsonl", Stdio::null());
    until("a new host starts", || {
        assert_eq!(next.try_wait().expect("known"), None);
        runtime(place).exists().then_some(())
    });
    end(&mut next);
}

fn end(child: &mut Child) {
    let pid = i32::try_from(child.id()).expect("a pid");
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let status = until("it ends", || child.try_wait().expect("known"));
    assert_eq!(status.code(), Some(143));
}

/// AOI-7-01: also between two events, when no write could fail.
#[test]
fn a_host_exits_cleanly_when_its_reader_is_gone() {
    let place = Place::new();
    let mut child = serve(&place, "jsonl", Stdio::piped());
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("\"listening\"") {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("a line"), 0);
    }
    session(&place);
    let agents = until("an agent runs", || {
        let agents = below(&child);
        (!agents.is_empty()).then_some(agents)
    });
    drop(lines);
    gone(&place, &mut child, &agents, 0);
}

/// AOI-7-01: the reader is gone before the first event.
#[test]
fn a_host_without_a_reader_exits() {
    let place = Place::new();
    let mut child = serve(&place, "jsonl", Stdio::piped());
    drop(child.stdout.take());
    gone(&place, &mut child, &[], 0);
}

#[test]
fn a_host_without_a_pipe_keeps_running() {
    for kind in ["/dev/null", "a file"] {
        let place = Place::new();
        let output = match kind {
            "/dev/null" => File::create(kind).expect("a device"),
            _ => File::create(place.0.path().join("events")).expect("a file"),
        };
        let mut child = serve(&place, "jsonl", Stdio::from(output));
        session(&place);
        std::thread::sleep(LONG);
        assert_eq!(child.try_wait().expect("known"), None, "{kind}");
        let (url, token) = door(&place);
        let answer = ask(&url, &token, "GET", "/sessions", "");
        assert!(answer.starts_with("200"), "{kind}: {answer}");
        end(&mut child);
        assert!(!runtime(&place).exists(), "{kind}");
    }
}

/// Human output is only informational, so the host does not depend on its reader.
#[test]
fn a_host_with_human_output_keeps_running() {
    let place = Place::new();
    let mut child = serve(&place, "human", Stdio::piped());
    door(&place);
    drop(child.stdout.take());
    std::thread::sleep(LONG);
    assert_eq!(child.try_wait().expect("known"), None);
    end(&mut child);
}
