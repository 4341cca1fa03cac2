//! Compares this machine with `requires` (A29-OPT-10 to A29-OPT-12, A29-INSTALL-16).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use agentproto_manifest::Node;

/// Properties of this machine. Names of systems and architectures are those of AIP-29.
pub struct Machine {
    pub os: &'static str,
    pub arch: &'static str,
    pub memory_mb: Option<u64>,
    /// Free space where tools are installed.
    pub disk_mb: Option<u64>,
}

/// A part of `requires` that this machine does not meet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct UnmetRequirement {
    /// The key below `requires`.
    pub key: &'static str,
    /// The required and the actual value, as text.
    pub why: String,
}

impl Machine {
    pub fn here(tools: &Path) -> Machine {
        Machine {
            os: match std::env::consts::OS {
                "macos" => "darwin",
                other => other,
            },
            arch: match std::env::consts::ARCH {
                "x86_64" => "x64",
                "aarch64" => "arm64",
                other => other,
            },
            memory_mb: memory_mb(),
            disk_mb: tools.ancestors().find_map(free_mb),
        }
    }

    /// Why this machine does not meet `requires`, with the required and the actual value.
    pub fn unmet_requirement(&self, requires: Option<&Node>) -> Option<UnmetRequirement> {
        let requires = requires?;
        for (key, here) in [("os", self.os), ("arch", self.arch)] {
            let required = texts(requires.get(key));
            if !required.is_empty() && !required.contains(&here) {
                let required = required.join(", ");
                let why = format!("`requires.{key}` is {required}, but this machine is {here}");
                return Some(UnmetRequirement { key, why });
            }
        }
        for (key, here, what) in [
            ("min_disk_mb", self.disk_mb, "are free"),
            ("min_memory_mb", self.memory_mb, "of memory are available"),
        ] {
            let required = requires.get(key).and_then(Node::as_int);
            let required = required.and_then(|mb| u64::try_from(mb).ok());
            if let (Some(required), Some(here)) = (required, here)
                && here < required
            {
                let why = format!("`requires.{key}` is {required} MB, but only {here} MB {what}");
                return Some(UnmetRequirement { key, why });
            }
        }
        None
    }
}

/// The items of a list, or a single text as the only item.
fn texts(node: Option<&Node>) -> Vec<&str> {
    let Some(node) = node else {
        return Vec::new();
    };
    match node.as_str() {
        Some(one) => vec![one],
        None => node.items().iter().filter_map(Node::as_str).collect(),
    }
}

fn memory_mb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kb: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kb / 1024)
}

fn free_mb(dir: &Path) -> Option<u64> {
    let path = CString::new(dir.as_os_str().as_bytes()).ok()?;
    // SAFETY: the kernel fills the zeroed structure in; the path outlives the call.
    let stat = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat) == 0).then_some(stat)?
    };
    Some(stat.f_bavail.saturating_mul(stat.f_frsize) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_manifest::Document;

    fn unmet_requirement(requires: &str) -> Option<UnmetRequirement> {
        let here = Machine {
            os: "linux",
            arch: "arm64",
            memory_mb: Some(1000),
            disk_mb: Some(500),
        };
        let doc = Document::parse("CLI.md", format!("---\nrequires: {requires}\n---\n"));
        here.unmet_requirement(doc.root.as_ref().and_then(|r| r.get("requires")))
    }

    /// A29-INSTALL-16.
    #[test]
    fn unmet_requirements_are_reported_with_both_values() {
        for fine in [
            "{}",
            "{os: []}",
            "{os: [darwin, linux], arch: [arm64]}",
            "{os: linux}",
            "{min_disk_mb: 500, min_memory_mb: 1000}",
            "{min_disk_mb: -1}",
        ] {
            assert_eq!(unmet_requirement(fine), None, "{fine}");
        }
        let why = |requires| unmet_requirement(requires).expect("refused").why;
        assert!(why("{os: [darwin, windows]}").contains("darwin, windows"));
        assert!(why("{os: darwin}").contains("linux"));
        assert!(why("{arch: [x64]}").contains("arm64"));
        assert!(why("{min_disk_mb: 501}").contains("501 MB, but only 500 MB"));
        assert!(why("{min_memory_mb: 2000}").contains("2000 MB, but only 1000 MB"));
    }

    #[test]
    fn this_machine_is_measured() {
        let here = Machine::here(Path::new("/nonexistent/below"));
        assert!(here.memory_mb.is_some_and(|mb| mb > 0));
        assert!(here.disk_mb.is_some());
    }
}
