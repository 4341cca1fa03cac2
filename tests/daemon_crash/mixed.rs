//! A full disk, jumps of the system clock and SIGKILL, mixed at random during twenty sessions. Every
//! finished turn is in the history afterwards, or a gap in the history announces that it is missing.
//!
//! Needs a mount namespace of its own, and libfaketime in `FAKETIME`. `tests/daemon_faults/run`
//! provides both.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::served::{Served, command, eventually, processes_of, work};
use super::{follow, prompt};

const SESSIONS: usize = 20;
/// Size of the disk, in bytes. The audit log, which is never cut, grows by about 200 kB per round.
const DISK: u64 = 128 << 20;

/// Random numbers whose seed is printed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a client saw on the stream.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Prompt,
    End,
    Gap,
}

/// A turn whose end a client has seen.
struct Turn {
    text: String,
    /// The stream went on without a gap, so the turn is stored.
    is_stored: bool,
}

/// The finished turns. After the first gap, the stream does not say which turns are stored.
fn finished_turns(texts: Vec<String>, marks: &[Mark]) -> Vec<Turn> {
    let first_gap = marks.iter().position(|mark| *mark == Mark::Gap);
    let mut ends = marks
        .iter()
        .enumerate()
        .filter(|(_, mark)| **mark == Mark::End);
    let mut turns = Vec::new();
    for text in texts {
        let Some((at, _)) = ends.next() else { break };
        let goes_on = marks.get(at + 1) == Some(&Mark::Prompt);
        let is_stored = goes_on && first_gap.is_none_or(|gap| at < gap);
        turns.push(Turn { text, is_stored });
    }
    turns
}

/// The disk of the daemon, and its clock.
struct World {
    home: PathBuf,
    clock: PathBuf,
}

impl World {
    fn mounted(dir: &Path) -> World {
        let home = dir.join("home");
        std::fs::create_dir_all(&home).expect("made");
        let options = format!("size={DISK},mode=700");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&home)
            .status();
        assert!(
            mount.expect("mount is installed").success(),
            "the test needs a mount namespace: use tests/daemon_faults/run"
        );
        let clock = dir.join("clock");
        let world = World { home, clock };
        world.set_clock(0);
        world
    }

    fn ballast(&self) -> PathBuf {
        self.home.join("ballast")
    }

    fn fill(&self) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.ballast())
            .expect("opened");
        for size in [1 << 20, 4096] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn free(&self) {
        let _ = std::fs::remove_file(self.ballast());
    }

    fn set_clock(&self, days: i64) {
        let mut next = self.clock.clone();
        next.set_extension("next");
        std::fs::write(&next, format!("{days:+}d\n")).expect("written");
        std::fs::rename(&next, &self.clock).expect("renamed");
    }

    /// The daemon, with this clock.
    fn command(&self, dir: &Path) -> Command {
        let library = std::env::var_os("FAKETIME").expect("FAKETIME: use tests/daemon_faults/run");
        let mut command = command(dir);
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.home).status();
    }
}

/// Prompts until the daemon is gone.
fn talk(
    address: &str,
    bearer: &str,
    id: &str,
    finished: &AtomicUsize,
    is_over: &AtomicBool,
) -> Vec<Turn> {
    let (mut texts, mut marks) = (Vec::new(), Vec::new());
    let mut run = || -> Option<()> {
        let mut lines = follow(address, bearer, id)?;
        loop {
            let text = format!("turn {}: {}", texts.len(), noise(texts.len()));
            loop {
                match prompt(address, bearer, id, &text)? {
                    200 => break,
                    _ if is_over.load(Ordering::SeqCst) => return None,
                    // The disk is full, so the turn cannot be audited.
                    507 => std::thread::sleep(Duration::from_millis(10)),
                    other => panic!("{id}: status {other}"),
                }
            }
            texts.push(text);
            let mut is_ended = false;
            loop {
                let line = lines.next()?.ok()?;
                if line == "event: prompt" {
                    marks.push(Mark::Prompt);
                } else if line == "event: gap" {
                    marks.push(Mark::Gap);
                } else if line.contains("\"line\":\"── turn-end (end_turn)") {
                    marks.push(Mark::End);
                    finished.fetch_add(1, Ordering::Relaxed);
                    is_ended = true;
                } else if is_ended && line.contains("\"busy\":false") {
                    break;
                }
            }
        }
    };
    run();
    finished_turns(texts, &marks)
}

/// Text that does not compress well.
fn noise(seed: usize) -> String {
    let mut random = Random(seed as u64 + 1);
    (0..200)
        .map(|_| format!("{:04x}", random.below(1 << 16)))
        .collect()
}

/// Every event of a session.
fn history(host: &Served, id: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut after = String::new();
    loop {
        let page = host
            .get(&format!("/sessions/{id}/events?limit=1000{after}"))
            .json();
        events.extend(page["events"].as_array().expect("events").iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return events,
        }
    }
}

/// Checks the history against what the client saw. Returns the number of missing turns.
fn check(host: &Served, id: &str, turns: &[Turn]) -> usize {
    let events = history(host, id);
    let position = |turn: &Turn| {
        let answer = format!(
            "You said: {}",
            turn.text.chars().take(40).collect::<String>()
        );
        events.iter().position(|event| {
            let line = event["data"]["line"].as_str();
            line.is_some_and(|line| line.starts_with(&answer))
        })
    };
    let mut missing = 0;
    let mut from = 0;
    for (number, turn) in turns.iter().enumerate() {
        if let Some(at) = position(turn) {
            assert!(at >= from, "{id}: turn {number} is out of order");
            from = at;
            continue;
        }
        missing += 1;
        assert!(!turn.is_stored, "{id}: the stored turn {number} is missing");
        let next = turns[number..].iter().find_map(position);
        let between = &events[from..next.unwrap_or(events.len())];
        assert!(
            between.iter().any(|event| event["event"] == "gap"),
            "{id}: turn {number} is missing without a gap"
        );
    }
    missing
}

/// Counts of all rounds.
#[derive(Default, Debug)]
struct Counts {
    finished: usize,
    stored: usize,
    missing: usize,
    full: usize,
    jumps: usize,
    kills: usize,
}

fn round(dir: TempDir, world: &World, random: &mut Random, counts: &mut Counts) -> TempDir {
    let host = Served::started(dir, world.command(world.home.parent().expect("there")), &[]);
    let spawn = json!({ "adapter": "mock-acp", "cwd": work(host.dir.path()) });
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
    let (finished, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (address, bearer) = (host.address.clone(), host.bearer());
    let turns: Vec<Vec<Turn>> = std::thread::scope(|scope| {
        let talks: Vec<_> = ids
            .iter()
            .map(|id| scope.spawn(|| talk(&address, &bearer, id, &finished, &is_over)))
            .collect();
        eventually("the sessions work", || {
            finished.load(Ordering::Relaxed) > SESSIONS
        });
        for _ in 0..1 + random.below(5) {
            match random.below(4) {
                0 | 1 => {
                    world.fill();
                    counts.full += 1;
                }
                2 => world.free(),
                _ => {
                    let days = i64::try_from(random.below(801)).expect("small") - 400;
                    world.set_clock(days);
                    counts.jumps += 1;
                }
            }
            std::thread::sleep(Duration::from_millis(random.below(200)));
        }
        is_over.store(true, Ordering::SeqCst);
        match random.below(4) {
            0 => host.signal(libc::SIGTERM),
            _ => {
                host.signal(libc::SIGKILL);
                counts.kills += 1;
            }
        }
        let talks = talks.into_iter();
        talks.map(|t| t.join().expect("no panic")).collect()
    });
    let (_, _, dir) = host.ended();
    let place = dir.path().to_owned();
    eventually("no agent survives its host", || {
        processes_of(&place).is_empty()
    });
    world.free();
    let again = Served::started(dir, world.command(&place), &[]);
    for (id, turns) in ids.iter().zip(&turns) {
        let session = again.get(&format!("/sessions/{id}")).json();
        assert!(
            matches!(session["status"].as_str(), Some("error" | "killed")),
            "{session}"
        );
        counts.missing += check(&again, id, turns);
        counts.finished += turns.len();
        counts.stored += turns.iter().filter(|turn| turn.is_stored).count();
        assert_eq!(again.delete(&format!("/sessions/{id}")).status, 200);
    }
    again.stop().2
}

#[test]
fn mixed_faults_lose_nothing_silently() {
    let rounds = super::number("MIXED_ROUNDS", 200);
    let seed = super::number("SEED", u64::from(std::process::id()));
    println!("SEED={seed}");
    let mut random = Random(seed.max(1));
    let mut dir = TempDir::new().expect("a directory");
    let world = World::mounted(dir.path());
    let mut counts = Counts::default();
    for number in 1..=rounds {
        dir = round(dir, &world, &mut random, &mut counts);
        println!("round {number}: {counts:?}");
    }
    drop(world);
    assert!(counts.stored > 0 && counts.kills > 0, "{counts:?}");
    assert!(counts.missing > 0, "no disk was full at a kill: {counts:?}");
}
