//! Starts a run through one of the doors, on one of the backends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use agentproto_sandbox::Backend;
use serde_json::{Value, json};

use super::preparation::{Door, Kind, Preparation};
use super::world::{World, binary};
use crate::world::probe;

/// A time limit that only a hang reaches.
const HANG: Duration = Duration::from_secs(40);

/// The result of one run.
#[derive(Debug)]
pub enum Ran {
    /// The steps were carried out. The text has a line for each.
    Steps(Vec<StepResult>, String),
    /// Nothing was carried out: the typed error and the whole output.
    Refused { code: String, text: String },
    /// Neither, which is always a failure.
    Broken(String),
}

#[derive(Debug)]
pub struct StepResult {
    pub step: String,
    pub ok: bool,
    pub how: String,
}

impl Ran {
    /// Reads the lines that the probe printed, and otherwise the typed error.
    fn new(lines: &str, error: Option<(String, bool)>, whole: String) -> Ran {
        let steps = step_results(lines);
        match error {
            _ if !steps.is_empty() => Ran::Steps(steps, whole),
            Some((code, true)) => Ran::Refused { code, text: whole },
            _ => Ran::Broken(whole),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Ran::Steps(_, text) | Ran::Refused { text, .. } | Ran::Broken(text) => text,
        }
    }

    pub fn first_failure(&self) -> Option<&StepResult> {
        match self {
            Ran::Steps(steps, _) => steps.iter().find(|step| !step.ok),
            _ => None,
        }
    }
}

pub fn step_results(lines: &str) -> Vec<StepResult> {
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line.trim()).ok()?;
        let words = value.get("step")?.as_array()?.iter();
        let words: Vec<&str> = words.filter_map(Value::as_str).collect();
        Some(StepResult {
            step: words.join(" "),
            ok: value["ok"].as_bool()?,
            how: value["how"].as_str()?.to_owned(),
        })
    };
    lines.lines().filter_map(parse).collect()
}

/// Refusals that are decisions about the sandbox, its manifest or its directory, with the exit code
/// of the command line.
const REFUSALS: [(&str, i32); 6] = [
    ("sandbox_unenforceable", 69),
    ("sandbox_ref_unresolvable", 65),
    ("manifest_invalid", 65),
    ("manifest_unreadable", 66),
    ("target_unknown", 66),
    ("state_unwritable", 73),
];

/// Error codes of the daemon for the same decisions.
const REFUSED_STATUS: [u16; 4] = [403, 404, 409, 422];

/// Makes the kernel refuse user namespaces to agentproto, but not to bubblewrap, as AppArmor does
/// on Ubuntu 24.04. Then `run` and `serve`, which have no option for it, choose bubblewrap.
pub fn force(command: &mut Command, backend: Backend) {
    if backend != Backend::Bubblewrap {
        return;
    }
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let filter = [
        line(LOAD, 0, 0, 0),
        line(EQUAL, 0, 3, libc::SYS_unshare as u32),
        // The first argument.
        line(LOAD, 0, 0, 16),
        line(ANY_BIT, 0, 1, libc::CLONE_NEWUSER as u32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let mut filter = filter;
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: plain numbers, and a program that lives until the call returns.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        };
        match done {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec, the closure makes only system calls.
    unsafe { command.pre_exec(install) };
}

/// Why bubblewrap cannot be used on this machine, according to agentproto itself.
pub fn bubblewrap_refused() -> Option<String> {
    crate::world::use_helper();
    agentproto_sandbox::backend::choose(Some(Backend::Bubblewrap)).err()
}

/// One way to start runs in a world. A daemon lives as long as this.
pub struct Opened<'w> {
    world: &'w World,
    preparation: &'w Preparation,
    backend: Backend,
    door: Door,
    daemon: Option<Daemon>,
}

impl<'w> Opened<'w> {
    pub fn new(
        world: &'w World,
        preparation: &'w Preparation,
        door: Door,
        backend: Backend,
    ) -> Self {
        let daemon = (door == Door::Serve).then(|| Daemon::new(world, backend));
        Opened {
            world,
            preparation,
            backend,
            door,
            daemon,
        }
    }

    /// Runs the steps. `second` is whether this is the second run.
    pub fn run(&self, list: &[&[&str]], second: bool) -> Ran {
        let steps = self.world.steps(list);
        match (self.door, &self.daemon) {
            (Door::Sandbox, _) => self.sandbox(&steps),
            (Door::Run, _) => self.agent(&steps, second),
            (Door::Serve, Some(daemon)) => self.session(daemon, &steps, second),
            (Door::Serve, None) => Ran::Broken("no daemon".to_owned()),
        }
    }

    /// What `sandbox run` takes: a file, or the bundle directory.
    fn target(&self) -> String {
        let bundle = &self.world.bundle;
        let target = match self.preparation.kind {
            Kind::Plain | Kind::Tool => bundle.join(self.preparation.kind.manifest()),
            _ => bundle.clone(),
        };
        target.to_string_lossy().into_owned()
    }

    fn sandbox(&self, steps: &str) -> Ran {
        let mut command = self.world.command(&binary());
        command
            .args([
                "sandbox",
                "run",
                "--allow-invalid",
                "--timeout",
                "30",
                "--backend",
            ])
            .arg(self.backend.as_str())
            .arg(self.target())
            .arg("--")
            .arg(probe())
            .args(["steps", steps]);
        let (code, stdout, stderr) = output(&mut command);
        let error = refusal(code, &stderr, "agentproto: ");
        Ran::new(&stdout, error, format!("exit {code}\n{stdout}{stderr}"))
    }

    fn agent(&self, steps: &str, second: bool) -> Ran {
        let mut command = self.world.command(&binary());
        let named = self.preparation.target.filter(|_| second);
        command
            .arg("run")
            .arg(named.map_or_else(|| self.target(), str::to_owned))
            .args([
                "--yes",
                // The manifests are short, and the sandbox must not depend on their other fields.
                "--allow-invalid",
                "--output",
                "jsonl",
                "--turn-timeout",
                "30",
                "--prompt",
            ])
            .arg(steps);
        force(&mut command, self.backend);
        let (code, stdout, stderr) = output(&mut command);
        let events = stdout
            .lines()
            .filter_map(|l| serde_json::from_str::<Value>(l).ok());
        let text: String = events
            .filter(|event| event["type"] == "text-delta")
            .filter_map(|event| event["text"].as_str().map(str::to_owned))
            .collect();
        let error = refusal(code, &stderr, "agentproto: ");
        Ran::new(&text, error, format!("exit {code}\n{text}{stdout}{stderr}"))
    }

    fn session(&self, daemon: &Daemon, steps: &str, second: bool) -> Ran {
        let slug = self.world.bundle.file_name().unwrap_or_default();
        let slug = slug.to_string_lossy().into_owned();
        let named = self.preparation.target.filter(|_| second);
        let mut body = json!({
            "adapter": named.map_or(slug, str::to_owned),
            "prompt": steps,
        });
        match self.preparation.workspace.filter(|_| second) {
            Some(workspace) => body["workspaceSlug"] = json!(workspace),
            None => body["cwd"] = json!(self.world.path("work")),
        }
        let (status, answer) = daemon.ask("POST", "/sessions/agent", &body.to_string());
        let error = |answer: &Value| {
            let code = answer["error"]["code"].as_str().unwrap_or_default();
            let known = REFUSALS.iter().any(|(name, _)| *name == code);
            let typed = known || (REFUSED_STATUS.contains(&status) && !code.is_empty());
            Some((code.to_owned(), typed))
        };
        if status != 201 {
            return Ran::new("", error(&answer), format!("HTTP {status}\n{answer:#}"));
        }
        let id = answer["id"].as_str().expect("an id").to_owned();
        let path = format!("/sessions/{id}");
        let began = Instant::now();
        let session = loop {
            let (_, session) = daemon.ask("GET", &path, "");
            let running = session["status"] == "starting"
                || (session["status"] == "running" && session["busy"] == true);
            if !running || began.elapsed() > HANG {
                break session;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let (_, output) = daemon.ask("GET", &format!("{path}/output?lastN=1000"), "");
        let lines = output["lines"].as_array().into_iter().flatten();
        let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
        let lines = lines.join("\n");
        let whole = format!("{session:#}\n{lines}\n");
        let error = error(&session);
        daemon.ask("DELETE", &path, "");
        Ran::new(&lines, error, whole)
    }
}

/// The typed error of the command line, and whether it is a known refusal with its exit code.
fn refusal(code: i32, stderr: &str, prefix: &str) -> Option<(String, bool)> {
    stderr.lines().find_map(|line| {
        let (name, _) = line.strip_prefix(prefix)?.split_once(':')?;
        let known = REFUSALS.iter().find(|(refusal, _)| *refusal == name)?;
        Some((name.to_owned(), known.1 == code))
    })
}

fn output(command: &mut Command) -> (i32, String, String) {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().expect("agentproto");
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if end.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: plain numbers. The child is not reaped before `ended` is dropped.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().expect("agentproto");
    drop(ended);
    watchdog.join().expect("no panic");
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A daemon with its own state.
struct Daemon {
    child: Child,
    address: String,
    token: String,
}

impl Daemon {
    fn new(world: &World, backend: Backend) -> Daemon {
        let mut command = world.command(&binary());
        let adapters = world.bundle.parent().expect("directory");
        command
            .args(["serve", "--port", "0", "--output", "jsonl"])
            .args(["--allow-invalid", "--adapters"])
            .arg(adapters)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        force(&mut command, backend);
        let mut child = command.spawn().expect("daemon");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let url = loop {
            let mut line = String::new();
            let read = lines.read_line(&mut line).expect("readable");
            assert!(read > 0, "the daemon exited");
            let event: Value = serde_json::from_str(&line).expect("JSON");
            if event["type"] == "listening" {
                break event["url"].as_str().expect("a url").to_owned();
            }
        };
        // The daemon must not block on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let file = std::fs::read(world.state.join("runtime.json")).expect("runtime.json");
        let file: Value = serde_json::from_slice(&file).expect("JSON");
        Daemon {
            child,
            address: url.split_once("://").expect("a url").1.to_owned(),
            token: file["token"].as_str().expect("a token").to_owned(),
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(HANG)).expect("set");
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        let value = serde_json::from_str(body).unwrap_or_else(|_| json!(body));
        (status.unwrap_or(0), value)
    }
}

impl Opened<'_> {
    /// The token of the daemon, which is a secret as well.
    pub fn token(&self) -> Option<&str> {
        self.daemon.as_ref().map(|daemon| daemon.token.as_str())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
