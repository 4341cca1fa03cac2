//! A policy as a profile for `sandbox-exec` of macOS: text only. It is written from Apple's
//! own profiles and has never run on a Mac; nothing claims enforcement by it.
//!
//! In a profile the last matching rule wins. So grants come first, then the programs, then
//! the denials, and what keeps denials from being moved away.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::policy::{Access, Exec, Hidden, Policy};

/// Beside the policy: what only the runner knows.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the egress proxy listens on this machine's loopback.
    pub proxy_port: Option<u16>,
    /// Denials as absolute globs: here they hold for files that do not exist yet.
    pub deny_globs: Vec<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProfileError {
    #[error(
        "the path {0:?} cannot stand in a seatbelt profile: only text without control \
         characters can; rename it or take it out of the policy"
    )]
    Path(PathBuf),
    #[error("the glob `{0}` is not absolute; a seatbelt profile knows no working directory")]
    RelativeGlob(String),
    #[error("{} cannot appear at {}: macOS shows every path where it is", .0.display(), .1.display())]
    Moved(PathBuf, PathBuf),
}

/// What every program needs before its first line: its own image, time zones, randomness.
const BASICS: &str = r#"(version 1)
(deny default)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read* (literal "/") (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* file-write* (literal "/dev/null") (literal "/dev/zero"))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
"#;

/// The profile of a policy.
pub fn profile(policy: &Policy, settings: &Settings) -> Result<String, ProfileError> {
    let mut text = BASICS.to_owned();
    if policy.tty.is_some() {
        text.push_str("(allow pseudo-tty)\n");
        rule(
            &mut text,
            "allow file-read* file-write* file-ioctl",
            ["(literal \"/dev/tty\")", "(regex #\"^/dev/ttys[0-9]+$\")"],
        );
    }
    grants(policy, &mut text)?;
    programs(policy, &mut text)?;
    network(policy, settings, &mut text);
    denials(policy, settings, &mut text)?;
    Ok(text)
}

fn rule(text: &mut String, verb: &str, filters: impl IntoIterator<Item = impl AsRef<str>>) {
    let mut filters = filters.into_iter().peekable();
    // A rule without a filter would match everything.
    if filters.peek().is_none() {
        return;
    }
    let _ = write!(text, "({verb}");
    for filter in filters {
        let _ = write!(text, "\n  {}", filter.as_ref());
    }
    text.push_str(")\n");
}

fn grants(policy: &Policy, text: &mut String) -> Result<(), ProfileError> {
    if let Some(moved) = policy.grants.iter().find(|g| g.at != g.source) {
        return Err(ProfileError::Moved(moved.source.clone(), moved.at.clone()));
    }
    let below = |grants: Vec<&PathBuf>| -> Result<Vec<String>, ProfileError> {
        grants.into_iter().map(|p| subpath(p)).collect()
    };
    let read = policy.grants.iter().map(|g| &g.source).collect();
    rule(text, "allow file-read*", below(read)?);
    let writable = policy.grants.iter().filter(|g| g.access == Access::Write);
    rule(
        text,
        "allow file-write*",
        below(writable.map(|g| &g.source).collect())?,
    );
    let mapped = policy.grants.iter().filter(|g| g.exec);
    rule(
        text,
        "allow file-map-executable",
        below(mapped.map(|g| &g.source).collect())?,
    );
    Ok(())
}

fn programs(policy: &Policy, text: &mut String) -> Result<(), ProfileError> {
    match &policy.exec {
        Exec::Visible => {
            text.push_str("(allow process-fork)\n");
            let places = policy.grants.iter().filter(|g| g.exec);
            let places: Result<Vec<_>, _> = places.map(|g| subpath(&g.source)).collect();
            rule(text, "allow process-exec*", places?);
        }
        Exec::Listed { fork, programs, .. } => {
            if *fork {
                text.push_str("(allow process-fork)\n");
            }
            let files: Result<Vec<_>, _> = programs.iter().map(|p| literal(p)).collect();
            rule(text, "allow process-exec*", files?);
        }
    }
    Ok(())
}

fn network(policy: &Policy, settings: &Settings, text: &mut String) {
    if let (false, Some(port)) = (policy.egress.is_empty(), settings.proxy_port) {
        let proxy = format!("(remote tcp \"localhost:{port}\")");
        rule(text, "allow network-outbound", [proxy]);
    }
    if !policy.ingress.is_empty() {
        let own = ["(local tcp \"localhost:*\")"];
        rule(text, "allow network-bind network-inbound", own);
    }
}

fn denials(policy: &Policy, settings: &Settings, text: &mut String) -> Result<(), ProfileError> {
    let mut filters = Vec::new();
    let mut ways = BTreeSet::new();
    for denial in &policy.denials {
        filters.push(match denial.kind {
            Hidden::File => literal(&denial.path)?,
            // A subpath takes in the path itself, whatever it will be.
            Hidden::Directory | Hidden::Missing => subpath(&denial.path)?,
        });
        ways.extend(ways_to(policy, &denial.path));
    }
    for glob in &settings.deny_globs {
        filters.push(format!("(regex #\"{}\")", glob_regex(glob)?));
        ways.extend(ways_to(policy, Path::new(literal_prefix(glob))));
    }
    rule(text, "deny file-read* file-write* process-exec*", filters);
    // Moving a directory would carry what is denied in it to a name that is not.
    let ways: Result<Vec<_>, _> = ways.into_iter().map(literal).collect();
    rule(text, "deny file-write-unlink", ways?);
    Ok(())
}

/// The directories above a path, as far as they lie in a writable grant.
fn ways_to<'a>(policy: &'a Policy, path: &'a Path) -> impl Iterator<Item = &'a Path> {
    path.ancestors().skip(1).filter(|above| {
        let mut writable = policy.grants.iter().filter(|g| g.access == Access::Write);
        writable.any(|grant| above.starts_with(&grant.source))
    })
}

fn literal(path: &Path) -> Result<String, ProfileError> {
    Ok(format!("(literal {})", quoted(path)?))
}

fn subpath(path: &Path) -> Result<String, ProfileError> {
    Ok(format!("(subpath {})", quoted(path)?))
}

fn quoted(path: &Path) -> Result<String, ProfileError> {
    let refuse = || ProfileError::Path(path.to_owned());
    let text = OsStr::to_str(path.as_os_str()).ok_or_else(refuse)?;
    if text.chars().any(char::is_control) {
        return Err(refuse());
    }
    Ok(format!(
        "\"{}\"",
        text.replace('\\', "\\\\").replace('"', "\\\"")
    ))
}

/// The directories of a glob before its first wildcard.
fn literal_prefix(glob: &str) -> &str {
    let end = glob.find(['*', '?', '[', '{']).unwrap_or(glob.len());
    let end = glob
        .get(..end)
        .and_then(|head| head.rfind('/'))
        .unwrap_or(0);
    glob.get(..=end).unwrap_or("/")
}

/// A glob as an anchored expression: `*` and `?` stop at `/`, `**/` takes in any number of
/// directories. What cannot be said exactly is said wider: this is for denials.
pub fn glob_regex(glob: &str) -> Result<String, ProfileError> {
    if !glob.starts_with('/') {
        return Err(ProfileError::RelativeGlob(glob.to_owned()));
    }
    let mut regex = String::from("^");
    let mut rest = glob;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            regex.push_str("(.*/)?");
            rest = after;
            continue;
        }
        // Everything below, and the directory itself.
        if rest == "/**" {
            regex.push_str("(/.*)?");
            break;
        }
        if let Some(after) = rest.strip_prefix("**") {
            regex.push_str(".*");
            rest = after;
            continue;
        }
        match next {
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' | ']' | '{' | '}' | ',' if has_choice(glob) => {
                // A choice is widened to anything within the name.
                let close = if next == '[' { ']' } else { '}' };
                if matches!(next, '[' | '{')
                    && let Some(end) = rest.find(close)
                {
                    regex.push_str(".*");
                    rest = rest.get(end + close.len_utf8()..).unwrap_or_default();
                    continue;
                }
                regex.push('.');
            }
            '.' | '+' | '(' | ')' | '|' | '^' | '$' | '\\' => {
                regex.push('\\');
                regex.push(next);
            }
            // Neither can be written inside of the expression.
            '"' => regex.push('.'),
            control if control.is_control() => regex.push('.'),
            plain => regex.push(plain),
        }
        rest = rest.get(next.len_utf8()..).unwrap_or_default();
    }
    regex.push('$');
    Ok(regex)
}

fn has_choice(glob: &str) -> bool {
    glob.contains(['[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::sandbox::Clause;
    use crate::runtime::sandbox::policy::{Denial, Grant, Shape};

    fn clause() -> Clause {
        Clause::new("/sandbox", "sandbox")
    }

    fn grant(path: &str, access: Access, exec: bool) -> Grant {
        Grant {
            source: path.into(),
            at: path.into(),
            access,
            exec,
            create: false,
            clause: None,
        }
    }

    fn policy() -> Policy {
        Policy {
            shape: Shape::Aip29,
            egress: vec![],
            ingress: vec![],
            grants: vec![
                grant("/usr/lib", Access::Read, true),
                grant("/Users/me/project", Access::Write, false),
            ],
            links: vec![],
            denials: vec![],
            absent: vec![],
            exec: Exec::Listed {
                fork: false,
                programs: vec!["/usr/bin/git".into()],
                clause: clause(),
            },
            env: vec![],
            env_clauses: vec![],
            tty: None,
            limits: vec![],
            cwd: "/Users/me/project".into(),
            home: "/Users/me".into(),
            impossible: vec![],
            notes: vec![],
        }
    }

    fn written(policy: &Policy, settings: &Settings) -> String {
        profile(policy, settings).expect("a profile")
    }

    #[test]
    fn everything_is_denied_but_what_is_granted() {
        let text = written(&policy(), &Settings::default());
        assert!(text.starts_with("(version 1)\n(deny default)\n"));
        let tail = text.strip_prefix(BASICS).expect("basics first");
        assert_eq!(
            tail,
            r#"(allow file-read*
  (subpath "/usr/lib")
  (subpath "/Users/me/project"))
(allow file-write*
  (subpath "/Users/me/project"))
(allow file-map-executable
  (subpath "/usr/lib"))
(allow process-exec*
  (literal "/usr/bin/git"))
"#
        );
        assert!(!text.contains("network") && !text.contains("process-fork"));
    }

    #[test]
    fn the_only_way_out_is_the_proxy() {
        let mut policy = policy();
        let settings = Settings {
            proxy_port: Some(4321),
            ..Settings::default()
        };
        assert!(!written(&policy, &settings).contains("network"));
        policy.egress = vec![(clause(), "example.com".to_owned())];
        let text = written(&policy, &settings);
        assert!(text.contains("(allow network-outbound\n  (remote tcp \"localhost:4321\"))"));
        assert_eq!(text.matches("network").count(), 1);
    }

    #[test]
    fn denials_come_last_and_cannot_be_moved_away() {
        let mut policy = policy();
        policy.denials = vec![
            Denial {
                path: "/Users/me/project/a/.env".into(),
                kind: Hidden::File,
                clause: clause(),
            },
            Denial {
                path: "/Users/me/project/keys".into(),
                kind: Hidden::Missing,
                clause: clause(),
            },
        ];
        let settings = Settings {
            deny_globs: vec!["/Users/me/project/**/*.pem".to_owned()],
            ..Settings::default()
        };
        let text = written(&policy, &settings);
        assert!(
            text.ends_with(
                r#"(deny file-read* file-write* process-exec*
  (literal "/Users/me/project/a/.env")
  (subpath "/Users/me/project/keys")
  (regex #"^/Users/me/project/(.*/)?[^/]*\.pem$"))
(deny file-write-unlink
  (literal "/Users/me/project")
  (literal "/Users/me/project/a"))
"#
            ),
            "{text}"
        );
    }

    #[test]
    fn visible_programs_and_terminals() {
        let mut policy = policy();
        policy.exec = Exec::Visible;
        policy.tty = Some(clause());
        let text = written(&policy, &Settings::default());
        assert!(
            text.contains("(allow process-fork)\n(allow process-exec*\n  (subpath \"/usr/lib\"))")
        );
        assert!(text.contains("(allow pseudo-tty)"));
    }

    #[test]
    fn globs_become_expressions() {
        for (glob, regex) in [
            ("/a/*.key", r"^/a/[^/]*\.key$"),
            ("/a/**", r"^/a(/.*)?$"),
            ("/**/.ssh/?", r"^/(.*/)?\.ssh/[^/]$"),
            ("/a/[bc]d", r"^/a/.*d$"),
            ("/a/{b,c}", r"^/a/.*$"),
            ("/a\"b(c)", r"^/a.b\(c\)$"),
        ] {
            assert_eq!(glob_regex(glob).expect("absolute"), regex, "{glob}");
        }
        let relative = glob_regex("a/*");
        assert_eq!(relative, Err(ProfileError::RelativeGlob("a/*".to_owned())));
    }

    #[test]
    fn paths_cannot_write_rules() {
        let mut policy = policy();
        policy.grants = vec![grant("/x\")(allow default)", Access::Read, false)];
        let text = written(&policy, &Settings::default());
        assert!(text.contains(r#"(subpath "/x\")(allow default)")"#));
        policy.grants = vec![Grant {
            at: "/workspace".into(),
            ..grant("/x", Access::Read, false)
        }];
        let moved = profile(&policy, &Settings::default());
        assert!(matches!(moved, Err(ProfileError::Moved(..))));
        policy.grants = vec![grant("/x\ny", Access::Read, false)];
        let error = profile(&policy, &Settings::default());
        assert_eq!(error, Err(ProfileError::Path("/x\ny".into())));
    }
}
