//! The environment of the child: a few variables that every program expects, then what the manifest
//! passes and sets, then what the caller adds. Nothing else is included.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::block::Said;
use super::refusal::Refusal;
use super::surroundings::{DEFAULT_PATH, Surroundings};
use agentproto_manifest::globs;

/// Variables by name. A later value replaces an earlier one in its position.
#[derive(Debug, Default)]
pub struct Variables(Vec<(OsString, OsString)>);

impl Variables {
    /// PATH, HOME, LANG and LC_*, TERM, TMPDIR.
    pub fn basic(surroundings: &Surroundings) -> Self {
        let mut out = Variables::default();
        let path = surroundings
            .variable("PATH")
            .unwrap_or(OsStr::new(DEFAULT_PATH));
        out.set(OsStr::new("PATH"), path);
        out.set(OsStr::new("HOME"), surroundings.home.as_os_str());
        for (name, value) in &surroundings.host_env {
            let bytes = name.as_bytes();
            if bytes.starts_with(b"LC_") || matches!(bytes, b"LANG" | b"LANGUAGE" | b"TERM") {
                out.set(name, value);
            }
        }
        out.set(OsStr::new("TMPDIR"), OsStr::new("/tmp"));
        out
    }

    pub fn set(&mut self, name: &OsStr, value: &OsStr) {
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value.to_owned(),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Passes variables of the host, by name or glob.
    pub fn pass(&mut self, surroundings: &Surroundings, names: &[Said<String>]) {
        for Said { value: pattern, .. } in names {
            for (name, value) in &surroundings.host_env {
                let taken = match name.to_str() {
                    Some(name) => name == pattern || globs::matches(pattern, name),
                    None => false,
                };
                // HOME and TMPDIR have the values of the child's file system, not of the host's.
                if taken && name != "TMPDIR" {
                    self.set(name, value);
                }
            }
        }
    }

    pub fn fix(&mut self, pairs: &[(String, Said<String>)]) {
        for (name, said) in pairs {
            self.set(OsStr::new(name), OsStr::new(&said.value));
        }
    }

    /// The whole environment, with the caller's own variables last.
    pub fn finish(mut self, surroundings: &Surroundings) -> Vec<(OsString, OsString)> {
        for (name, value) in &surroundings.extra_env {
            self.set(name, value);
        }
        self.0
    }
}

/// Rejects names that an environment cannot contain, instead of dropping the variable.
pub fn check_name(name: &str, said: &Said<String>) -> Result<(), Refusal> {
    match name.is_empty() || name.contains(['=', '\0']) {
        true => Err(Refusal::Invalid {
            at: said.place.clone(),
            what: format!("`{name}` is not a valid variable name"),
        }),
        false => Ok(()),
    }
}

/// A note on a name in the list, if it needs one.
pub fn note(name: &str) -> Option<&'static str> {
    if name.bytes().all(|b| b == b'*') {
        Some("the whole environment of the host is passed, including its secrets")
    } else if loads_code(name) {
        Some("this variable can make the program load other code")
    } else {
        None
    }
}

/// Whether the variable makes the loader or an interpreter run other code.
fn loads_code(name: &str) -> bool {
    name.starts_with("LD_")
        || matches!(
            name,
            "NODE_OPTIONS"
                | "PYTHONPATH"
                | "PYTHONSTARTUP"
                | "PERL5OPT"
                | "PERL5LIB"
                | "RUBYOPT"
                | "BASH_ENV"
                | "ENV"
                | "GIT_EXEC_PATH"
        )
}
