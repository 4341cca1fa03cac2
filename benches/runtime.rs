//! Measures the runtime: CPU time per event compared with a bare loop, memory per idle session,
//! and the time to cancel a turn and to close a session. `cargo bench --bench runtime`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentproto_runtime::StreamEvent;
use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::OptionValue;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::observe::Silent;
use agentproto_sandbox::helper;
use serde::Deserialize;
use serde_json::value::RawValue;

const BINARY: &str = env!("CARGO_BIN_EXE_agentproto");
/// Number of events in the mock's flood scenario.
const EVENTS: u32 = 100_000;
const ROUNDS: usize = 5;
const SESSIONS: usize = 50;

/// The minimum of a message that any client must parse.
#[derive(Deserialize)]
struct Envelope<'l> {
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'l, str>>,
    #[serde(borrow)]
    params: Option<&'l RawValue>,
}

fn main() {
    helper::use_binary(BINARY);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let place = tempfile::tempdir().expect("a directory");
    // Measure this first, because memory that was used before would hide what sessions take.
    let idle = runtime.block_on(idle(place.path()));
    let (mut ours, mut bare, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    let lines = flood_lines(place.path());
    for _ in 0..ROUNDS {
        bare.push(floor(&lines));
        let (cpu, wall) = runtime.block_on(flood(place.path()));
        ours.push(cpu);
        rate.push(f64::from(EVENTS) / wall.as_secs_f64());
    }
    let (bare, ours) = (median(bare), median(ours));
    let each = |t: f64| t * 1e6 / f64::from(EVENTS);
    println!(
        "     bare {:.2} µs, ours {:.2} µs of CPU time per event",
        each(bare),
        each(ours)
    );
    let (cancel, close) =
        runtime.block_on(async { (cancel(place.path()).await, close(place.path()).await) });
    let within = [
        at_most("CPU time per event / bare loop", ours / bare, 3.0),
        at_least("events per second of one session", median(rate), 100_000.0),
        at_most("kB per idle session", idle, 100.0),
        at_most(
            "ms until a canceled turn ends, with a silent agent",
            cancel,
            1000.0,
        ),
        at_most(
            "ms until a session is closed, with a cooperative agent",
            close,
            100.0,
        ),
    ];
    if within.contains(&false) {
        std::process::exit(1);
    }
}

fn at_most(what: &str, value: f64, most: f64) -> bool {
    verdict(what, value, value <= most, &format!("<= {most}"))
}

fn at_least(what: &str, value: f64, least: f64) -> bool {
    verdict(what, value, value >= least, &format!(">= {least}"))
}

fn verdict(what: &str, value: f64, holds: bool, limit: &str) -> bool {
    let mark = if holds { "ok  " } else { "MISS" };
    println!("{mark} {what}: {value:.2} (limit {limit})");
    holds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes the flood that the mock sends to a file.
fn flood_lines(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("flood");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    let session = "mock-0e35b6930b435a26911efc6b4e7e1f99";
    for n in 1..=EVENTS {
        writeln!(
            out,
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{n} "}}}}}}}}"#
        )
        .expect("written");
    }
    out.flush().expect("written");
    path
}

/// CPU seconds of a loop that reads lines from a child's pipe and parses the envelope.
fn floor(lines: &Path) -> f64 {
    let mut child = Command::new("cat")
        .arg(lines)
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat");
    let mut reader = BufReader::with_capacity(64 << 10, child.stdout.take().expect("a pipe"));
    let before = cpu();
    let (mut line, mut count) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut line).expect("read") > 0 {
        let envelope: Envelope = serde_json::from_slice(&line).expect("JSON");
        assert!(envelope.method.is_some() && envelope.params.is_some());
        count += 1;
        line.clear();
    }
    let spent = cpu() - before;
    child.wait().expect("ended");
    assert_eq!(count, EVENTS);
    spent
}

/// CPU seconds of this process so far.
fn cpu() -> f64 {
    // SAFETY: plain data, filled in by the kernel.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn agent(dir: &Path, scenario: &str) -> Agent {
    let home = Home::new(dir.join("home"));
    let bundle = Bundle::discover("mock-acp", &[], &home).expect("bundled");
    let setting = ContextOptions {
        home,
        cwd: dir.to_owned(),
        host_env: std::sync::Arc::new(std::env::vars_os().collect()),
        sandboxing: Sandboxing::Auto,
        sandbox: Default::default(),
        yes: true,
        observer: Arc::new(Silent),
        interact: Arc::new(Headless),
    };
    let mut options = AgentOptions::default();
    let requested = OptionValue::Text(scenario.to_owned());
    options
        .choices
        .options
        .push(("scenario".to_owned(), requested));
    let context = Context::new(bundle, setting).expect("a context");
    Agent::load(context, options).expect("loaded")
}

/// CPU seconds and wall time of one turn with the flood.
async fn flood(dir: &Path) -> (f64, Duration) {
    let session = agent(dir, "flood").start().await.expect("started");
    let (before, began) = (cpu(), Instant::now());
    let mut turn = session.send("go").expect("sent");
    let mut count = 0;
    while let Some(event) = turn.next().await {
        match event {
            StreamEvent::TextDelta { .. } => count += 1,
            StreamEvent::TurnEnd { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    let spent = (cpu() - before, began.elapsed());
    assert_eq!(count, EVENTS);
    session.close().await.expect("closed");
    spent
}

/// Kilobytes of memory that each of many idle sessions adds to this process.
async fn idle(dir: &Path) -> f64 {
    let agent = agent(dir, "default");
    let mut sessions = vec![agent.start().await.expect("started")];
    let before = resident();
    for _ in 0..SESSIONS {
        let session = agent.start().await.expect("started");
        let mut turn = session.send("hello").expect("sent");
        while turn.next().await.is_some() {}
        sessions.push(session);
    }
    let grown = resident().saturating_sub(before) as f64 / SESSIONS as f64;
    for session in sessions {
        session.close().await.expect("closed");
    }
    grown
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = text
        .lines()
        .find(|l| l.starts_with("VmRSS:"))
        .expect("there");
    let number = line.split_whitespace().nth(1).expect("a number");
    number.parse().expect("a number")
}

async fn cancel(dir: &Path) -> f64 {
    let session = agent(dir, "hang").start().await.expect("started");
    let mut turn = session.send("go").expect("sent");
    turn.next().await.expect("an event");
    let began = Instant::now();
    session.cancel().await.expect("cancelled");
    while turn.next().await.is_some() {}
    let took = began.elapsed();
    drop(session);
    took.as_secs_f64() * 1000.0
}

async fn close(dir: &Path) -> f64 {
    let agent = agent(dir, "default");
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let session = agent.start().await.expect("started");
        let began = Instant::now();
        session.close().await.expect("closed");
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    median(times)
}
