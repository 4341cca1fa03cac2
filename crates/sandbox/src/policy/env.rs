//! The environment of the child: a few variables that every program expects, then what the manifest
//! passes and sets, then what the caller adds. Nothing else is included.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::block::ClauseValue;
use super::error::PolicyError;
use super::host_context::{DEFAULT_PATH, HostContext};
use agentproto_manifest::globs;

/// Variables by name. A later value replaces an earlier one in its position.
#[derive(Debug, Default)]
pub struct Variables(Vec<(OsString, OsString)>);

impl Variables {
    /// PATH, HOME, LANG and LC_*, TERM, TMPDIR.
    pub fn basic(context: &HostContext) -> Self {
        let mut out = Variables::default();
        let path = context.variable("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
        out.set(OsStr::new("PATH"), path);
        out.set(OsStr::new("HOME"), context.home.as_os_str());
        for (name, value) in &context.host_env {
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
    pub fn pass(&mut self, context: &HostContext, names: &[ClauseValue<String>]) {
        for ClauseValue { value: pattern, .. } in names {
            for (name, value) in &context.host_env {
                let is_passed = match name.to_str() {
                    Some(name) => name == pattern || globs::matches(pattern, name),
                    None => false,
                };
                // HOME and TMPDIR have the values of the child's file system, not of the host's.
                if is_passed && name != "TMPDIR" {
                    self.set(name, value);
                }
            }
        }
    }

    pub fn set_all(&mut self, pairs: &[(String, ClauseValue<String>)]) {
        for (name, declared) in pairs {
            self.set(OsStr::new(name), OsStr::new(&declared.value));
        }
    }

    /// The whole environment, with the caller's own variables last.
    pub fn finish(mut self, context: &HostContext) -> Vec<(OsString, OsString)> {
        for (name, value) in &context.extra_env {
            self.set(name, value);
        }
        self.0
    }
}

/// Rejects names that an environment cannot contain, instead of dropping the variable.
pub fn check_name(name: &str, declared: &ClauseValue<String>) -> Result<(), PolicyError> {
    match name.is_empty() || name.contains(['=', '\0']) {
        true => Err(PolicyError::Invalid {
            at: declared.position.clone(),
            what: format!("`{name}` is not a valid variable name"),
        }),
        false => Ok(()),
    }
}

/// The note on `*`.
pub const WHOLE_ENVIRONMENT: &str =
    "the program gets the whole environment of this process, including secrets";

/// A note on a name in the list, if it needs one.
pub fn note(name: &str) -> Option<&'static str> {
    if name.bytes().all(|b| b == b'*') {
        Some(WHOLE_ENVIRONMENT)
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
