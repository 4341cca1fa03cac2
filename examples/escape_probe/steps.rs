//! A list of steps on files, as JSON: `[["write","a","text"],["rename","a","b"]]`. The second
//! escape matrix uses it as a command (`escape_probe steps LIST`) and as an agent that speaks ACP
//! (`escape_probe agent`), which takes the list as its prompt.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::c;

/// Runs each step, and returns one line of JSON for each: the step, whether it worked, and the
/// text that it read or the error.
pub fn run(list: &str, client: &mut dyn Client) -> String {
    let steps: Vec<Vec<String>> = match serde_json::from_str(list) {
        Ok(steps) => steps,
        Err(error) => return format!("not a list of steps: {error}: {list}\n"),
    };
    let mut out = String::new();
    for step in steps {
        let words: Vec<&str> = step.iter().map(String::as_str).collect();
        let (ok, how) = match client.step(&words) {
            Ok(text) => (true, text),
            Err(error) => (false, error.to_string()),
        };
        // The text of a planted file is long, and only its name matters here.
        let named: Vec<&&str> = words.iter().filter(|w| w.len() < 200).collect();
        out += &json!({ "step": named, "ok": ok, "how": how }).to_string();
        out.push('\n');
    }
    out
}

/// What carries out the steps of an agent's client.
pub trait Client {
    fn step(&mut self, words: &[&str]) -> io::Result<String>;
}

/// No client: the steps of a client are carried out directly.
pub struct Direct;

impl Client for Direct {
    fn step(&mut self, words: &[&str]) -> io::Result<String> {
        match words {
            ["acp_write", rest @ ..] => step(&[&["write"], rest].concat()),
            ["acp_read", rest @ ..] => step(&[&["read"], rest].concat()),
            ["terminal", rest @ ..] => step(&[&["run"], rest].concat()),
            words => step(words),
        }
    }
}

fn done(result: io::Result<()>) -> io::Result<String> {
    result.map(|()| String::new())
}

fn call(result: libc::c_long) -> io::Result<String> {
    match result {
        0.. => Ok(String::new()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn step(words: &[&str]) -> io::Result<String> {
    match *words {
        ["write", path, text] => done(fs::write(path, text)),
        ["append", path, text] => {
            let mut file = fs::OpenOptions::new().append(true).open(path)?;
            done(file.write_all(text.as_bytes()))
        }
        ["replace", path, old, new] => done(fs::write(path, read(path)?.replace(old, new))),
        // Without waiting, because the path may be a FIFO.
        ["read", path] => read(path),
        // Backwards, so that no mask of the host recognizes a secret in it.
        ["reveal", path] => read(path).map(|text| text.chars().rev().collect()),
        ["put", path, text] => {
            let mut options = fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path)?;
            done(file.write_all(text.as_bytes()))
        }
        ["list", path] => {
            let names: io::Result<Vec<String>> = fs::read_dir(path)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect();
            names.map(|names| names.join(" "))
        }
        // A repository, as git recognizes it.
        ["repository", path, config] => {
            fs::create_dir_all(format!("{path}/objects"))?;
            fs::create_dir_all(format!("{path}/refs"))?;
            fs::write(format!("{path}/HEAD"), "ref: refs/heads/main\n")?;
            done(fs::write(format!("{path}/config"), config))
        }
        ["mkdir", path] => done(fs::create_dir_all(path)),
        ["unlink", path] => done(fs::remove_file(path)),
        ["rmdir", path] => done(fs::remove_dir(path)),
        ["rmtree", path] => done(fs::remove_dir_all(path)),
        ["rename", from, to] => done(fs::rename(from, to)),
        ["symlink", to, at] => done(symlink(to, at)),
        ["link", from, to] => done(fs::hard_link(from, to)),
        ["copy", from, to] => fs::copy(from, to).map(|_| String::new()),
        ["chmod", path, mode] => {
            let mode = u32::from_str_radix(mode, 8).map_err(io::Error::other)?;
            done(fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        }
        // SAFETY: the path is a live C string.
        ["fifo", path] => call(unsafe { libc::mkfifo(c(path).as_ptr(), 0o666) }.into()),
        ["device", path] => {
            let null = libc::makedev(1, 3);
            // SAFETY: as above.
            call(unsafe { libc::mknod(c(path).as_ptr(), libc::S_IFCHR | 0o666, null) }.into())
        }
        ["socket", path] => UnixListener::bind(path).map(|_| String::new()),
        ["env", name] => std::env::var(name).map_err(io::Error::other),
        ["run", program, ref args @ ..] => {
            let output = Command::new(program).args(args).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            match output.status.success() {
                true => Ok(text),
                false => Err(io::Error::other(format!("{}: {text}", output.status))),
            }
        }
        ["exchange", one, other] => exchange(one, other),
        ["swap", one, other, until] => swap(one, other, until),
        _ => Err(io::Error::other("unknown step")),
    }
}

fn read(path: &str) -> io::Result<String> {
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let mut text = Vec::new();
    file.take(1 << 20).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn exchange(one: &str, other: &str) -> io::Result<String> {
    // SAFETY: both paths are live C strings.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            c(one).as_ptr(),
            libc::AT_FDCWD,
            c(other).as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    call(done)
}

/// Exchanges two names until the file `until` exists. Returns how often it worked.
fn swap(one: &str, other: &str, until: &str) -> io::Result<String> {
    let mut worked = 0_u64;
    while !Path::new(until).exists() {
        for _ in 0..20 {
            worked += u64::from(exchange(one, other).is_ok());
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    Ok(worked.to_string())
}

/// An ACP agent on stdin and stdout.
struct Agent {
    lines: io::Lines<io::StdinLock<'static>>,
    requests: u64,
}

const SESSION: &str = "twice";

/// Answers the client until it closes stdin.
pub fn agent() {
    let mut agent = Agent {
        lines: io::stdin().lock().lines(),
        requests: 0,
    };
    while let Some(message) = agent.receive() {
        let Some(id) = message.get("id").cloned() else {
            continue;
        };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": 1, "agentCapabilities": {} }),
            Some("session/new") => json!({ "sessionId": SESSION }),
            Some("session/prompt") => {
                let list = message["params"]["prompt"][0]["text"].as_str();
                let text = run(list.unwrap_or_default(), &mut agent);
                let content = json!({ "type": "text", "text": text });
                let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
                let params = json!({ "sessionId": SESSION, "update": update });
                send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
                json!({ "stopReason": "end_turn" })
            }
            _ => json!({}),
        };
        send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }
}

fn send(message: &Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

impl Agent {
    fn receive(&mut self) -> Option<Value> {
        let line = self.lines.next()?.ok()?;
        serde_json::from_str(&line).ok()
    }

    fn request(&mut self, method: &str, mut params: Value) -> io::Result<Value> {
        self.requests += 1;
        let id = self.requests;
        params["sessionId"] = json!(SESSION);
        send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        while let Some(mut answer) = self.receive() {
            if answer["id"] != id || answer.get("method").is_some() {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(io::Error::other(error.to_string())),
                None => Ok(answer["result"].take()),
            };
        }
        Err(io::Error::other("the client is gone"))
    }
}

impl Client for Agent {
    fn step(&mut self, words: &[&str]) -> io::Result<String> {
        let absolute = |path: &str| std::path::absolute(path);
        match *words {
            ["acp_write", path, text] => {
                let params = json!({ "path": absolute(path)?, "content": text });
                self.request("fs/write_text_file", params)?;
                Ok(String::new())
            }
            ["acp_read", path] => {
                let answer =
                    self.request("fs/read_text_file", json!({ "path": absolute(path)? }))?;
                Ok(answer["content"].as_str().unwrap_or_default().to_owned())
            }
            ["terminal", program, ref args @ ..] => {
                let params = json!({ "command": program, "args": args });
                let made = self.request("terminal/create", params)?;
                let terminal = json!({ "terminalId": made["terminalId"] });
                let exit = self.request("terminal/wait_for_exit", terminal.clone())?;
                let output = self.request("terminal/output", terminal.clone())?;
                self.request("terminal/release", terminal)?;
                let text = output["output"].as_str().unwrap_or_default().to_owned();
                match exit["exitCode"].as_i64() {
                    Some(0) => Ok(text),
                    _ => Err(io::Error::other(format!("{exit}: {text}"))),
                }
            }
            ref words => step(words),
        }
    }
}
