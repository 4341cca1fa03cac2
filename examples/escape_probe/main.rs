//! Makes one attempt to escape from a sandbox and prints the outcome as one line of JSON. The
//! tests in `tests/escape` run it inside a sandbox, where it must be blocked, and outside, where
//! it must succeed. A probe that can never succeed would verify nothing.

#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod steps;

/// Contents of every denied file.
pub const SECRET: &str = "the-secret-of-the-host";

pub enum Outcome {
    Blocked(String),
    Escaped(String),
    /// The attempt could not be made: the arguments are invalid, or the kernel does not support it.
    Error(String),
}
pub use Outcome::{Blocked, Error, Escaped};

/// The last error of the operating system, as a blocked attempt.
pub fn refused(what: &str) -> Outcome {
    let error = std::io::Error::last_os_error();
    Blocked(format!("{what}: {error}"))
}

/// Like `refused`, for calls that the kernel may not support. An unsupported call is not blocked.
pub fn refused_or_absent(what: &str) -> Outcome {
    let error = std::io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EOPNOTSUPP) => {
            Error(format!("{what}: absent: {error}"))
        }
        _ => Blocked(format!("{what}: {error}")),
    }
}

/// The outcome of a call that returns a negative number on failure.
pub fn judged(what: &str, result: libc::c_long) -> Outcome {
    if result < 0 {
        refused_or_absent(what)
    } else {
        Escaped(format!("{what} returned {result}"))
    }
}

pub fn c(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).unwrap_or_default()
}

pub fn number(text: &str) -> i64 {
    text.parse().unwrap_or(-1)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        eprintln!("usage: escape_probe NAME ARGS...");
        std::process::exit(64);
    };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    #[cfg(target_os = "linux")]
    match (name.as_str(), rest.as_slice()) {
        ("steps", [list]) => return print!("{}", steps::run(list, &mut steps::Direct)),
        // The interpreter of a script gets more arguments.
        ("agent", _) => return steps::agent(),
        ("version", []) => return println!("1.0.0"),
        _ => {}
    }
    tell(name, attempt(name, &rest));
}

#[cfg(target_os = "linux")]
fn attempt(name: &str, args: &[&str]) -> Outcome {
    let known = files::attempt(name, args)
        .or_else(|| network::attempt(name, args))
        .or_else(|| exec::attempt(name, args))
        .or_else(|| process::attempt(name, args))
        .or_else(|| kernel::attempt(name, args));
    known.unwrap_or_else(|| Error(format!("unknown probe or invalid arguments: {args:?}")))
}

#[cfg(not(target_os = "linux"))]
fn attempt(_: &str, _: &[&str]) -> Outcome {
    Error("supported only on Linux".into())
}

pub fn tell(name: &str, outcome: Outcome) {
    let (word, how) = match outcome {
        Blocked(how) => ("blocked", how),
        Escaped(how) => ("escaped", how),
        Error(how) => ("error", how),
    };
    println!(
        r#"{{"probe":{},"outcome":"{word}","how":{}}}"#,
        quoted(name),
        quoted(&how)
    );
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
