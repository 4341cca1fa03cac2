//! The disk is full, or a file of the log is damaged: finished turns are kept, and what is missing is
//! announced as a gap.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::served::{Served, command, eventually};

/// Files cannot grow beyond this size. The marker of the log fits.
const FULL: u64 = 64 << 10;

/// A daemon whose disk can be filled.
fn served(dir: TempDir) -> Served {
    let mut command = command(dir.path());
    // SAFETY: only an async-signal-safe call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    Served::started(dir, command, &[])
}

/// Limits the size of the daemon's files.
fn limit(host: &Served, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    let pid = i32::try_from(host.child.id()).expect("a pid");
    // SAFETY: the process is our child, and the pointers are valid.
    let done = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn health(host: &Served) -> String {
    let health = host.get("/healthz").json();
    health["status"].as_str().expect("a status").to_owned()
}

fn events(host: &Served, id: &str) -> Vec<Value> {
    let page = host
        .get(&format!("/sessions/{id}/events?limit=1000"))
        .json();
    page["events"].as_array().expect("events").clone()
}

fn gaps(events: &[Value]) -> Vec<&Value> {
    let gaps = events.iter().filter(|event| event["event"] == "gap");
    gaps.map(|event| &event["data"]).collect()
}

/// Whether the history has the answer to a prompt.
fn has_answer(events: &[Value], prompt: &str) -> bool {
    // Long lines are cut.
    let answer: String = format!("You said: {prompt}").chars().take(200).collect();
    let mut lines = events
        .iter()
        .filter_map(|event| event["data"]["line"].as_str());
    lines.any(|line| line.starts_with(&answer))
}

/// Text that does not compress, and has no word that the mock agent knows.
fn noise(length: usize) -> String {
    let mut state: u64 = 1;
    let mut letter = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        char::from(b"0123456789+-*/=_"[usize::try_from(state >> 60).expect("small")])
    };
    (0..length).map(|_| letter()).collect()
}

/// A session with one turn that is stored, and one that does not fit on the disk.
fn with_a_turn_on_a_full_disk() -> (Served, String, String) {
    let host = served(TempDir::new().expect("a directory"));
    let id = host.running("default");
    host.turn(&id, "hello");
    limit(&host, FULL);
    let long = noise(200_000);
    let mut stream = host.stream(&id, "?from=now", "");
    host.turn(&id, &long);
    let seen = stream.until(|event, _| event == "gap");
    let gap = seen.last().expect("a gap");
    assert_eq!(gap.data, json!({ "missed": 0, "reason": "not_stored" }));
    assert_eq!(health(&host), "degraded");
    (host, id, long)
}

#[test]
fn turns_on_a_full_disk_are_stored_when_there_is_room_again() {
    let (host, id, long) = with_a_turn_on_a_full_disk();
    limit(&host, libc::RLIM_INFINITY);
    eventually("the daemon recovers by itself", || health(&host) == "ok");
    host.signal(libc::SIGKILL);
    let (_, _, dir) = host.ended();
    let host = Served::on(dir, &[]);
    let events = events(&host, &id);
    assert!(has_answer(&events, "hello"));
    assert!(has_answer(&events, &long));
    assert_eq!(
        gaps(&events),
        [&json!({ "missed": 0, "reason": "not_stored" })]
    );
}

#[test]
fn a_crash_on_a_full_disk_leaves_a_gap() {
    let (host, id, long) = with_a_turn_on_a_full_disk();
    host.signal(libc::SIGKILL);
    let (_, _, dir) = host.ended();
    let host = Served::on(dir, &[]);
    let events = events(&host, &id);
    assert!(has_answer(&events, "hello"), "{events:?}");
    assert!(!has_answer(&events, &long));
    assert_eq!(gaps(&events), [&json!({ "missed": null })], "{events:?}");
    // Readers of the stream also see it.
    let streamed = host.stream(&id, "", "").read_out();
    assert!(streamed.iter().any(|message| message.event == "gap"));
}

#[test]
fn a_clean_stop_leaves_everything_in_the_database() {
    let host = served(TempDir::new().expect("a directory"));
    let id = host.running("default");
    host.turn(&id, "hello");
    let (_, _, dir) = host.stop();
    let log = dir.path().join("home/sessions.db-wal");
    assert!(!log.exists(), "{:?}", std::fs::metadata(&log));
    let host = Served::on(dir, &[]);
    let events = events(&host, &id);
    assert!(has_answer(&events, "hello"));
    assert!(gaps(&events).is_empty());
}

#[test]
fn a_damaged_or_missing_write_ahead_log_is_reported() {
    for is_missing in [true, false] {
        let host = served(TempDir::new().expect("a directory"));
        let id = host.running("default");
        host.turn(&id, "hello");
        eventually("the list of sessions is written", || {
            let text = std::fs::read_to_string(host.home().join("sessions.json"));
            text.is_ok_and(|text| text.contains(&id))
        });
        std::thread::sleep(Duration::from_millis(500));
        host.signal(libc::SIGKILL);
        let (_, _, dir) = host.ended();
        let log = dir.path().join("home/sessions.db-wal");
        assert!(log.exists());
        match is_missing {
            true => std::fs::remove_file(&log).expect("removed"),
            false => std::fs::write(&log, vec![7; 100_000]).expect("written"),
        }
        let host = Served::on(dir, &[]);
        let said = format!("{:?}", host.said);
        assert!(said.contains("write-ahead log"), "{said}");
        let events = events(&host, &id);
        assert_eq!(gaps(&events).len(), 1, "{events:?}");
    }
}

fn stored_bytes(home: &Path) -> u64 {
    let files = std::fs::read_dir(home).expect("readable").flatten();
    let ours = files.filter(|file| {
        file.file_name()
            .to_string_lossy()
            .starts_with("sessions.db")
    });
    ours.map(|file| file.metadata().map_or(0, |data| data.len()))
        .sum()
}

#[test]
fn forgotten_output_is_deleted_from_the_disk_and_its_space_is_returned() {
    let host = served(TempDir::new().expect("a directory"));
    let id = host.running("default");
    let long = noise(1_000_000);
    for at in (0..long.len()).step_by(50_000) {
        host.turn(&id, &long[at..at + 50_000]);
    }
    let stored = stored_bytes(&host.home());
    assert!(stored > 800_000, "{stored}");
    let other = host.running("default");
    host.turn(&other, "hello");
    assert_eq!(host.delete(&format!("/sessions/{id}")).json()["ok"], true);
    eventually("the space is returned", || {
        stored_bytes(&host.home()) < 300_000
    });
    let home = host.home();
    let started = Instant::now();
    let (_, _, dir) = host.stop();
    assert!(started.elapsed() < Duration::from_secs(3));
    let log = Connection::open(home.join("sessions.db")).expect("opened");
    let count = |table: &str| -> i64 {
        let query = format!("SELECT count(DISTINCT session) FROM {table}");
        log.query_row(&query, [], |row| row.get(0))
            .expect("a number")
    };
    assert_eq!((count("blocks"), count("deleted")), (1, 0));
    drop(dir);
}
