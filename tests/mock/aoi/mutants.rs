//! Each mutant shows its defect in the run that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use agentproto_mock::mutants::aoi::{AoiMutant, RunCondition, all};

use crate::aoi::runner::{Ground, LONG, ends_within, feed, send};

/// How long a mutant that hangs is watched. The value affects only the duration of the test.
const A_WHILE: Duration = Duration::from_millis(700);

/// The observable result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    stdout: String,
    stderr: String,
    code: Option<i32>,
    signal: Option<i32>,
    hangs: bool,
    files: BTreeMap<PathBuf, String>,
}

#[test]
fn ids_are_unique_and_every_check_has_mutants() {
    let ids: BTreeSet<&str> = all().map(|mutant| mutant.id).collect();
    assert_eq!(ids.len(), all().count());
    let count = |check: Option<u8>| all().filter(|mutant| mutant.check() == check).count();
    let numbered: usize = (1..=13).map(|check| count(Some(check))).sum();
    assert!(numbered >= 160, "{numbered}");
    assert_eq!(
        numbered + count(None),
        ids.len(),
        "there are only 13 checks"
    );
    for check in 1..=13 {
        let wanted = if [2, 3, 5, 9, 10, 11, 12].contains(&check) {
            12
        } else {
            6
        };
        assert!(
            count(Some(check)) >= wanted,
            "check {check}: {}",
            count(Some(check))
        );
    }
    assert!(count(None) >= 20);
    for mutant in all() {
        assert!(mutant.defect.ends_with('.'), "{}", mutant.id);
        let (family, name) = mutant.requirement.split_once('.').expect("a rule");
        assert!(!name.is_empty(), "{}", mutant.id);
        match mutant.check() {
            Some(check) => assert_eq!(family, format!("AOI-{check:02}"), "{}", mutant.id),
            None => assert!(mutant.id.starts_with("aoi-advisory-"), "{}", mutant.id),
        }
    }
}

#[test]
fn each_mutant_differs_from_the_conforming_tool() {
    let queue = Mutex::new(all());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic inside").next();
                    let Some(mutant) = next else {
                        return;
                    };
                    if let Err(complaint) = differs(mutant) {
                        wrong.lock().expect("no panic inside").push(complaint);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic inside");
    assert!(
        wrong.is_empty(),
        "{} failures:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn differs(mutant: &AoiMutant) -> Result<(), String> {
    let Some(right) = seen(Ground::new(), mutant, false) else {
        eprintln!(
            "{}: not tested: this machine cannot provide the environment",
            mutant.id
        );
        return Ok(());
    };
    let Some(wrong) = seen(Ground::mutant(mutant.id), mutant, true) else {
        return Err(format!("{}: the mutant does not start", mutant.id));
    };
    if right.hangs {
        return Err(format!("{}: the conforming tool hangs", mutant.id));
    }
    if wrong.hangs != mutant.setup.hangs {
        return Err(format!("{}: hangs: {}", mutant.id, wrong.hangs));
    }
    if wrong.stderr.contains("crates/mock/") {
        return Err(format!("{}: {}", mutant.id, wrong.stderr));
    }
    match right == wrong {
        true => Err(format!(
            "{}: same result as the conforming tool: {right:?}",
            mutant.id
        )),
        false => Ok(()),
    }
}

fn seen(ground: Ground, mutant: &AoiMutant, is_mutant: bool) -> Option<Seen> {
    let setup = mutant.setup;
    for args in setup.before {
        ground.fed(args, setup.input);
    }
    let mut command = ground.command(mutant.run_args);
    if let Some((name, value)) = setup.env {
        command.env(name, value);
    }
    if setup.input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut master = None;
    match setup.condition {
        RunCondition::ClosedPipe => {
            command.stdout(unread());
        }
        RunCondition::ClosedStderr => {
            command.stderr(unread());
        }
        RunCondition::FullDevice => {
            let full = OpenOptions::new().write(true).open("/dev/full").ok()?;
            command.stdout(full);
        }
        RunCondition::NoNetwork => without_network(&mut command),
        RunCondition::Terminal => master = Some(on_terminal(&mut command)),
        RunCondition::Browser => ground.install_browser(),
        RunCondition::SlowReader => return slow(ground, command, is_mutant),
        RunCondition::Plain | RunCondition::Signal(_) | RunCondition::FirstLine => {}
    }
    let mut child = command.spawn().ok()?;
    // The command holds the other ends of pipes and terminals.
    drop(command);
    feed(&mut child, setup.input);
    let stderr = child.stderr.take().map(collect);
    let hangs = is_mutant && setup.hangs;
    let (stdout, is_late) = match (setup.condition, child.stdout.take(), master) {
        (RunCondition::Signal(signal), Some(stdout), _) => {
            let mut stdout = BufReader::new(stdout);
            let mut first = Vec::new();
            let _ = stdout.read_until(b'\n', &mut first);
            send(&child, signal);
            let is_late = waits(&mut child, hangs);
            let _ = stdout.read_to_end(&mut first);
            (steady(&first), is_late)
        }
        (RunCondition::FirstLine, Some(stdout), _) => {
            let line = first_line(stdout, if hangs { A_WHILE } else { LONG });
            send(&child, libc::SIGKILL);
            let is_late = line.is_none();
            (line.unwrap_or_default(), is_late)
        }
        (_, Some(stdout), _) => {
            let stdout = collect(stdout);
            let is_late = waits(&mut child, hangs);
            (stdout.recv().unwrap_or_default(), is_late)
        }
        (_, None, Some(master)) => {
            let stdout = collect(std::fs::File::from(master));
            let is_late = waits(&mut child, hangs);
            (stdout.recv().unwrap_or_default(), is_late)
        }
        (_, None, None) => (String::new(), waits(&mut child, hangs)),
    };
    let status = child.wait().expect("it ends");
    let stderr = stderr
        .and_then(|stderr| stderr.recv().ok())
        .unwrap_or_default();
    let is_killed = is_late || setup.condition == RunCondition::FirstLine;
    Some(Seen {
        stdout: masked(&stdout),
        stderr,
        code: status.code(),
        signal: status.signal().filter(|_| !is_killed),
        hangs: is_late,
        files: ground.files(),
    })
}

/// Waits for the exit. Returns whether the process had to be killed.
fn waits(child: &mut Child, hangs: bool) -> bool {
    let is_late = !ends_within(child, if hangs { A_WHILE } else { LONG });
    if is_late {
        send(child, libc::SIGKILL);
    }
    is_late
}

fn collect(mut pipe: impl Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Reading a terminal ends with an error.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn first_line(pipe: impl Read + Send + 'static, time: Duration) -> Option<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(pipe).read_line(&mut line);
        let _ = sender.send(line);
    });
    receiver.recv_timeout(time).ok()
}

/// A pipe whose reader is closed.
fn unread() -> std::io::PipeWriter {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer
}

/// The conforming tool waits for its reader. The mutant does not wait, and exits before the output
/// is read.
fn slow(ground: Ground, mut command: Command, is_mutant: bool) -> Option<Seen> {
    let (reader, writer) = std::io::pipe().ok()?;
    #[cfg(target_os = "linux")]
    // SAFETY: a plain call on a descriptor that we own.
    unsafe {
        libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096);
    }
    let mut child = command.stdout(writer).spawn().ok()?;
    drop(command);
    let mut kept = None;
    let mut stdout = String::new();
    if is_mutant {
        // Read everything but the summary in time.
        let mut reader = BufReader::new(reader);
        while !stdout.contains("doc-019") {
            reader.read_line(&mut stdout).ok()?;
        }
        kept = Some(reader);
        ends_within(&mut child, LONG);
        kept.as_mut()?.read_to_string(&mut stdout).ok()?;
    } else {
        BufReader::new(reader).read_to_string(&mut stdout).ok()?;
    }
    drop(kept);
    let status = child.wait().ok()?;
    Some(Seen {
        stdout: masked(&stdout),
        stderr: String::new(),
        code: status.code(),
        signal: status.signal(),
        hangs: false,
        files: ground.files(),
    })
}

#[cfg(target_os = "linux")]
fn without_network(command: &mut Command) {
    // SAFETY: only one system call between fork and exec.
    unsafe {
        command.pre_exec(
            || match libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn without_network(_: &mut Command) {}

/// Gives the command a terminal as stdout and controlling terminal. Returns the other end.
fn on_terminal(command: &mut Command) -> OwnedFd {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: both pointers are valid for writes, and the other arguments may be null.
    let made = unsafe { libc::openpty(&mut master, &mut slave, null_mut(), null(), null()) };
    assert_eq!(made, 0, "a terminal");
    // SAFETY: the descriptors are open, and nothing else owns them.
    let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // SAFETY: only async-signal-safe system calls between fork and exec. The flag keeps the child
    // from inheriting the other end, which would keep the terminal open forever.
    unsafe {
        libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(1, libc::TIOCSCTTY as _, 0);
            Ok(())
        });
    }
    command.stdout(slave);
    master
}

/// The output of an interrupted run without the results before the summary, whose number depends on
/// when the signal arrived.
fn steady(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut is_over = false;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let whole: Option<serde_json::Value> = serde_json::from_str(line).ok();
        let kind = whole.and_then(|event| event["type"].as_str().map(str::to_owned));
        let is_result = matches!(
            kind.as_deref(),
            Some("hit" | "tick" | "aoi:progress" | "aoi:heartbeat")
        );
        is_over |= kind.as_deref() == Some("aoi:summary");
        if !is_result || is_over {
            kept.push_str(line);
        }
    }
    mask(&kept, "\"count\":", |c| c.is_ascii_digit())
}

/// The text without the parts that differ in each run.
fn masked(text: &str) -> String {
    let text = mask(text, "\"trace_id\":\"run-", |c| {
        c.is_ascii_hexdigit() || c == '-'
    });
    let text = mask(&text, "\"timestamp\":\"2", |c| c != '"');
    mask(&text, "\"elapsed_ms\":", |c| c.is_ascii_digit())
}

fn mask(text: &str, head: &str, is_varying: fn(char) -> bool) -> String {
    let mut parts = text.split(head);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str(head);
        masked.push('#');
        masked.push_str(part.trim_start_matches(is_varying));
    }
    masked
}
