//! Inspects the agent's process through `/proc`: its command line, its environment, and its
//! confinement.

use super::context::MARKER;

/// A process with the marker of a case in its environment.
#[derive(Clone, Debug)]
pub struct ProcessInfo {
    pub pid: u32,
    parent: u32,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub confinement: Confinement,
}

impl ProcessInfo {
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut all = self.env.iter();
        let found = all.find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The confinement of a process.
#[derive(Clone, Debug, Default)]
pub struct Confinement {
    /// Kinds of namespaces that it does not share with the harness.
    pub own: Vec<&'static str>,
    /// Kinds of namespaces that it shares with the harness.
    pub shared: Vec<&'static str>,
    pub no_new_privileges: Option<String>,
    pub seccomp: Option<String>,
}

impl Confinement {
    fn of(pid: u32, status: &str) -> Confinement {
        let mut confinement = Confinement {
            no_new_privileges: field_of(status, "NoNewPrivs"),
            seccomp: field_of(status, "Seccomp"),
            ..Confinement::default()
        };
        for kind in ["mnt", "net", "pid", "user", "ipc", "uts"] {
            let theirs = std::fs::read_link(format!("/proc/{pid}/ns/{kind}"));
            let ours = std::fs::read_link(format!("/proc/self/ns/{kind}"));
            match (theirs, ours) {
                (Ok(theirs), Ok(ours)) if theirs == ours => confinement.shared.push(kind),
                (Ok(_), Ok(_)) => confinement.own.push(kind),
                _ => {}
            }
        }
        confinement
    }
}

fn field_of(status: &str, field: &str) -> Option<String> {
    let mut lines = status.lines();
    lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then(|| value.trim().to_owned())
    })
}

/// All processes with the marker. `None` if `/proc` is not readable.
pub fn all(marker: &str) -> Option<Vec<ProcessInfo>> {
    let wanted = format!("{MARKER}={marker}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(environ) = std::fs::read(entry.path().join("environ")) else {
            continue;
        };
        if !environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes()) {
            continue;
        }
        let status = std::fs::read_to_string(entry.path().join("status"));
        let status = status.unwrap_or_default();
        let parent = field_of(&status, "PPid").and_then(|p| p.parse().ok());
        let argv = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        found.push(ProcessInfo {
            pid,
            parent: parent.unwrap_or(0),
            argv: texts(&argv),
            confinement: Confinement::of(pid, &status),
            env: texts(&environ)
                .into_iter()
                .filter_map(|v| {
                    let (name, value) = v.split_once('=')?;
                    Some((name.to_owned(), value.to_owned()))
                })
                .collect(),
        });
    }
    Some(found)
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    let parts = bytes.split(|b| *b == 0);
    parts
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// The outermost process with the marker: the agent itself, not its children.
pub fn agent(marker: &str) -> Option<ProcessInfo> {
    let all = all(marker)?;
    let is_outer = |seen: &&ProcessInfo| !all.iter().any(|other| other.pid == seen.parent);
    let mut running = all.iter().filter(|seen| !seen.argv.is_empty());
    running.find(is_outer).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(texts(b"a\0b c\0\0d\0"), ["a", "b c", "", "d"]);
        assert!(texts(b"").is_empty());
        let status = "Name:\tx\nPPid:\t12\nNoNewPrivs:\t1\n";
        assert_eq!(field_of(status, "PPid").as_deref(), Some("12"));
        assert_eq!(field_of(status, "NoNewPrivs").as_deref(), Some("1"));
        assert_eq!(field_of(status, "Pid"), None);
    }

    #[test]
    fn no_process_has_an_unknown_marker() {
        if let Some(all) = all("no such marker") {
            assert!(all.is_empty());
        }
    }
}
