//! Measures the daemon, as ratios within one run: the start of a session and the round trip of a
//! prompt over HTTP and SSE compared with another server and with the agent's own pipes, many
//! sessions, many readers, a flood of output, and an idle daemon. `cargo bench --bench daemon` needs
//! npm, and installs the other server in `target/bench-peer`. `-- --no-peer` skips it. `-- PART…`
//! measures only these parts: `turns`, `starts`, `readers`, `flood`, `sessions`.

mod http;
mod peer;
mod stdio;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::{Client, Events};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_agentproto");
/// The command of the `mock-acp` bundle. All measurements use the same agent.
const AGENT: [&str; 4] = ["mock", "acp", "--state", ".mock-agent"];
const TURNS: usize = 400;
const WARM: usize = 50;
const SESSIONS: usize = 500;
const READERS: usize = 1000;
const STARTS: usize = 100;
/// Turns of 64 MiB of output, 1 GiB in total.
const FLOODS: usize = 16;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let peers = !args.iter().any(|arg| arg == "--no-peer");
    let parts: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let runs = |part: &str| parts.is_empty() || parts.iter().any(|name| *name == part);
    let mut within = Vec::new();
    if runs("turns") {
        let dir = tempfile::tempdir().expect("a directory");
        let daemon = Daemon::start(dir.path());
        let idle = daemon.idle();
        within.push(at_most("CPU ticks of an idle daemon in 3 s", idle, 0.0));
        let peer = peers.then(|| peer::Peer::start(dir.path()));
        within.extend(daemon.turns(dir.path(), peer));
    }
    if runs("starts") && peers {
        let dir = tempfile::tempdir().expect("a directory");
        let daemon = Daemon::start(dir.path());
        within.extend(daemon.starts(&mut peer::Peer::start(dir.path())));
    }
    if runs("readers") {
        let dir = tempfile::tempdir().expect("a directory");
        within.extend(Daemon::start(dir.path()).readers());
    }
    if runs("flood") {
        let dir = tempfile::tempdir().expect("a directory");
        let daemon = Daemon::start(dir.path());
        within.extend(daemon.flood());
        let began = Instant::now();
        drop(daemon);
        let stopped = began.elapsed().as_secs_f64();
        within.push(at_most(
            "seconds to stop after a gigabyte was deleted",
            stopped,
            3.0,
        ));
    }
    if runs("sessions") {
        let dir = tempfile::tempdir().expect("a directory");
        within.extend(Daemon::start(dir.path()).many_sessions());
    }
    if within.contains(&false) {
        std::process::exit(1);
    }
}

fn at_most(what: &str, value: f64, most: f64) -> bool {
    let holds = value <= most;
    let mark = if holds { "ok  " } else { "MISS" };
    println!("{mark} {what}: {value:.2} (limit <= {most})");
    holds
}

fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() - 1) as f64 * part).round() as usize;
    values[at]
}

struct Daemon {
    child: Child,
    home: PathBuf,
    work: PathBuf,
    address: String,
    token: String,
}

impl Daemon {
    fn start(dir: &Path) -> Daemon {
        let (home, work) = (dir.join("home"), dir.join("work"));
        std::fs::create_dir_all(&work).expect("made");
        let child = Command::new(BINARY)
            .args(["serve", "--port", "0", "--max-sessions", "2000"])
            .env("AGENTPROTO_HOME", &home)
            .current_dir(&work)
            .stdout(Stdio::null())
            .spawn()
            .expect("started");
        let began = Instant::now();
        let file = loop {
            match std::fs::read(home.join("runtime.json")) {
                Ok(bytes) => break serde_json::from_slice::<Value>(&bytes).expect("JSON"),
                Err(_) => assert!(began.elapsed() < Duration::from_secs(20), "it serves"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let url = file["url"].as_str().expect("a url");
        Daemon {
            child,
            work,
            home,
            address: url
                .trim_start_matches("http://")
                .trim_end_matches('/')
                .to_owned(),
            token: file["token"].as_str().expect("a token").to_owned(),
        }
    }

    fn client(&self) -> Client {
        Client::new(&self.address, &self.token)
    }

    fn events(&self, id: &str) -> Events {
        Events::open(
            &self.address,
            &self.token,
            &format!("/sessions/{id}/stream?from=now"),
        )
    }

    fn spawn(&self, client: &mut Client) -> String {
        let body = json!({ "adapter": "mock-acp", "cwd": self.work });
        let (status, session) = client.post("/sessions/agent", &body);
        assert_eq!(status, 201, "{session}");
        session["id"].as_str().expect("an id").to_owned()
    }

    fn running(&self, client: &mut Client, id: &str) {
        let began = Instant::now();
        loop {
            let (_, session) = client.get(&format!("/sessions/{id}"));
            match session["status"].as_str() {
                Some("running") => return,
                Some("starting") => {}
                other => panic!("{other:?}: {session}"),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{session}");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Round trips of a prompt. The measurements alternate, so that other load affects all of them.
    fn turns(&self, dir: &Path, peer: Option<peer::Peer>) -> Vec<bool> {
        let mut direct = stdio::Direct::start(dir);
        let mut ours = self.session();
        let mut peer = peer.map(|mut peer| {
            let session = peer.session("bench");
            let events = peer.events(&session);
            (peer, session, events)
        });
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..WARM + TURNS {
            let direct = direct.turn();
            let ours = ours.turn();
            let peer = peer.as_mut();
            let peer = peer.map(|(peer, session, events)| peer.turn(session, events));
            if n >= WARM {
                a.push(direct);
                b.push(ours);
                c.extend(peer);
            }
        }
        let (direct, ours) = (percentile(&mut a, 0.5), percentile(&mut b, 0.5));
        println!("     round trip p50: pipes {direct:.2} ms, ours {ours:.2} ms");
        let mut within = vec![at_most(
            "additional ms compared with the agent's own pipes, p50",
            ours - direct,
            1.0,
        )];
        if peer.is_some() {
            let peer = percentile(&mut c, 0.5);
            println!("     round trip p50 of the peer: {peer:.2} ms");
            within.push(at_most("round trip / peer, p50", ours / peer, 1.0));
        }
        within
    }

    /// Starts sessions here and in the peer in turn. Each has one turn, and stays alive.
    fn starts(&self, peer: &mut peer::Peer) -> Vec<bool> {
        // Like the peer's client, it keeps one connection.
        let mut ours = self.session();
        let [mut ready, mut turns, mut peer_ready, mut peer_turns] = [const { Vec::new() }; 4];
        for n in 0..WARM / 10 + STARTS {
            let began = Instant::now();
            ours.id = self.spawn(&mut ours.client);
            self.running(&mut ours.client, &ours.id);
            let time = began.elapsed().as_secs_f64() * 1000.0;
            ours.events = self.events(&ours.id);
            ours.events.answered();
            let turn = ours.turn();
            let began = Instant::now();
            let session = peer.session(&format!("start-{n}"));
            let peer_time = began.elapsed().as_secs_f64() * 1000.0;
            let mut events = peer.events(&session);
            let peer_turn = peer.turn(&session, &mut events);
            if n >= WARM / 10 {
                ready.push(time);
                turns.push(turn);
                peer_ready.push(peer_time);
                peer_turns.push(peer_turn);
            }
        }
        let compare = |what: &str, ours: &mut Vec<f64>, peer: &mut Vec<f64>| {
            let both = [0.5, 0.95].map(|part| (percentile(ours, part), percentile(peer, part)));
            let [(ours, peer), (late, peer_late)] = both;
            println!(
                "     {what}, p50 / p95: ours {ours:.1} / {late:.1} ms, peer {peer:.1} / {peer_late:.1} ms"
            );
            at_most(&format!("{what} / peer, p50"), ours / peer, 1.0)
        };
        vec![
            compare("start of a session", &mut ready, &mut peer_ready),
            compare("first turn of a session", &mut turns, &mut peer_turns),
        ]
    }

    /// CPU time of the daemon for a gigabyte of output, and the turns of another session meanwhile.
    fn flood(&self) -> Vec<bool> {
        let mut client = self.client();
        let body = json!({ "adapter": "mock-acp", "cwd": self.work, "options": { "scenario": "flood-bytes" } });
        let (status, session) = client.post("/sessions/agent", &body);
        assert_eq!(status, 201, "{session}");
        let id = session["id"].as_str().expect("an id").to_owned();
        self.running(&mut client, &id);
        let mut other = self.session();
        let mut idle: Vec<f64> = (0..TURNS).map(|_| other.turn()).collect();
        let before = self.ticks();
        let mut busy = Vec::new();
        for _ in 0..FLOODS {
            let prompt = json!({ "prompt": "flood" });
            let (status, body) = client.post(&format!("/sessions/{id}/prompt"), &prompt);
            assert_eq!(status, 200, "{body}");
            loop {
                busy.push(other.turn());
                let (_, session) = client.get(&format!("/sessions/{id}"));
                assert_eq!(session["status"], "running", "{session}");
                if session["busy"] == false {
                    break;
                }
            }
        }
        // A tick is 10 ms.
        let seconds = (self.ticks() - before) / 100.0;
        let hundreds = (FLOODS * 64 * 1024 * 1024) as f64 / 100e6;
        let (idle, busy) = (percentile(&mut idle, 0.5), percentile(&mut busy, 0.5));
        println!(
            "     turn of another session, p50: idle {idle:.2} ms, during the flood {busy:.2} ms"
        );
        let stored = self.stored_bytes() as f64 / (hundreds * 100e6);
        // The daemon is stopped right after this.
        let (status, _) = client.delete(&format!("/sessions/{id}"));
        assert_eq!(status, 200);
        vec![
            at_most("CPU seconds per 100 MB of output", seconds / hundreds, 4.0),
            at_most(
                "turn of another session, flood / idle, p50",
                busy / idle,
                3.0,
            ),
            at_most("stored bytes / bytes of output", stored, 1.5),
        ]
    }

    fn stored_bytes(&self) -> u64 {
        let files = std::fs::read_dir(&self.home).expect("readable").flatten();
        let history = files.filter(|file| {
            let name = file.file_name();
            name.to_string_lossy().starts_with("sessions.")
        });
        history
            .map(|file| file.metadata().map_or(0, |data| data.len()))
            .sum()
    }

    fn session(&self) -> Ours {
        let mut client = self.client();
        let id = self.spawn(&mut client);
        self.running(&mut client, &id);
        Ours {
            events: self.events(&id),
            client,
            id,
        }
    }

    /// Memory of the daemon in kB. `RssAnon` is its own memory. `VmRSS` also counts pages of the
    /// program file, which all processes share and the system can reclaim.
    fn resident(&self, what: &str) -> f64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("readable");
        let line = text.lines().find(|l| l.starts_with(what)).expect("there");
        line.split_whitespace()
            .nth(1)
            .expect("a number")
            .parse()
            .expect("a number")
    }

    fn ticks(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).expect("readable");
        let rest = text.rsplit_once(") ").expect("a name").1;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |n: usize| fields[n].parse::<f64>().expect("a number");
        number(11) + number(12)
    }

    fn idle(&self) -> f64 {
        std::thread::sleep(Duration::from_millis(700));
        let before = self.ticks();
        std::thread::sleep(Duration::from_secs(3));
        self.ticks() - before
    }

    /// Lets 1,000 readers follow one session.
    fn readers(&self) -> Vec<bool> {
        let mut ours = self.session();
        let mut readers: Vec<Events> = (0..READERS).map(|_| self.events(&ours.id)).collect();
        // A reader is connected once the server has responded.
        for reader in &mut readers {
            reader.answered();
        }
        for _ in 0..20 {
            ours.turn();
        }
        let (status, _) = ours
            .client
            .post(&format!("/sessions/{}/kill", ours.id), &json!({}));
        assert_eq!(status, 200);
        let counts: Vec<(usize, usize)> = readers.into_iter().map(Events::until_end).collect();
        let most = counts.iter().map(|c| c.0).max().unwrap_or(0);
        assert!(most > 100, "{most}");
        let lost = counts
            .iter()
            .filter(|c| c.1 == 0)
            .map(|c| most - c.0)
            .sum::<usize>();
        let gaps: usize = counts.iter().map(|c| c.1).sum();
        println!("     gaps announced: {gaps}");
        vec![at_most(
            "items lost by 1000 readers without a gap",
            lost as f64,
            0.0,
        )]
    }

    /// Measures 500 live sessions.
    fn many_sessions(&self) -> Vec<bool> {
        let mut client = self.client();
        let get = |client: &mut Client, id: &str, rounds: usize| {
            let mut times = Vec::new();
            for _ in 0..rounds {
                let began = Instant::now();
                let (status, _) = client.get(&format!("/sessions/{id}"));
                times.push(began.elapsed().as_secs_f64() * 1000.0);
                assert_eq!(status, 200);
            }
            percentile(&mut times, 0.99)
        };
        let ids: Vec<String> = (0..SESSIONS).map(|_| self.spawn(&mut client)).collect();
        for id in &ids {
            self.running(&mut client, id);
        }
        let still = get(&mut client, &ids[0], 2000);
        for id in &ids {
            let (status, body) = client.post(
                &format!("/sessions/{id}/prompt"),
                &json!({ "prompt": "hello" }),
            );
            assert_eq!(status, 200, "{body}");
        }
        let busy = get(&mut client, &ids[0], 2000);
        let mut answered = 0;
        let began = Instant::now();
        for id in &ids {
            loop {
                let (_, session) = client.get(&format!("/sessions/{id}"));
                if session["busy"] == false {
                    answered +=
                        usize::from(session["turns"] == 1 && session["status"] == "running");
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(60), "{session}");
            }
        }
        let memory = self.resident("RssAnon:");
        println!(
            "     {SESSIONS} sessions: {:.1} MB own memory, {:.1} MB with the program's pages; GET p99 {still:.2} ms idle, {busy:.2} ms busy",
            memory / 1024.0,
            self.resident("VmRSS:") / 1024.0
        );
        let budget = 15.0 * 1024.0 + 100.0 * SESSIONS as f64;
        let all = at_most(
            "sessions of 500 that do not respond",
            (SESSIONS - answered) as f64,
            0.0,
        );
        let size = at_most(
            "own memory / (15 MB + 100 kB per session)",
            memory / budget,
            1.0,
        );
        let quick = at_most("p99 of a GET, busy / idle", busy / still, 5.0);
        for id in &ids {
            client.post(&format!("/sessions/{id}/kill"), &json!({}));
        }
        vec![all, size, quick]
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // SAFETY: the pid is that of our own child.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
        let left = std::fs::read_dir(&self.home)
            .map(|d| d.count())
            .unwrap_or(0);
        let _ = writeln!(std::io::stderr(), "     stopped; {left} files of state");
    }
}

struct Ours {
    client: Client,
    events: Events,
    id: String,
}

impl Ours {
    /// Time from the prompt to its turn-end line, in ms.
    fn turn(&mut self) -> f64 {
        let began = Instant::now();
        let path = format!("/sessions/{}/prompt", self.id);
        let (status, body) = self.client.post(&path, &json!({ "prompt": "hello" }));
        assert_eq!(status, 200, "{body}");
        self.events.until("turn-end (");
        began.elapsed().as_secs_f64() * 1000.0
    }
}
