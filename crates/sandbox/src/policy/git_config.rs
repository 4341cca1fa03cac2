//! The part of git's configuration that names code or further configuration. It is read without
//! calling git, because git would obey it.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use super::repository::read;

/// Maximum number of files that are read for one configuration, including included ones.
const MAX_FILES: usize = 50;

/// What a configuration names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CodePaths {
    /// Values of `core.hooksPath`. They are relative to the working tree.
    pub hooks: Vec<PathBuf>,
    /// Files that are included, as absolute paths.
    pub included: Vec<PathBuf>,
}

impl CodePaths {
    /// Reads a configuration and everything that it includes.
    pub fn of(config: &Path, home: &Path) -> CodePaths {
        let mut found = CodePaths::default();
        found.add(config, home);
        found
    }

    /// Reads the configuration of the user and of the machine.
    pub fn of_user(home: &Path) -> CodePaths {
        let mut found = CodePaths::default();
        for config in [
            Path::new("/etc/gitconfig"),
            &home.join(".config/git/config"),
            &home.join(".gitconfig"),
        ] {
            found.add(config, home);
        }
        found
    }

    fn add(&mut self, config: &Path, home: &Path) {
        let mut pending = vec![config.to_owned()];
        let mut seen = 0;
        while let Some(file) = pending.pop() {
            seen += 1;
            if seen > MAX_FILES {
                return;
            }
            let dir = file.parent().unwrap_or(Path::new("/"));
            for setting in settings(&read(&file)) {
                let path = match setting.value.strip_prefix("~/") {
                    Some(rest) => home.join(rest),
                    None => PathBuf::from(&setting.value),
                };
                match (setting.section.as_str(), setting.key.as_str()) {
                    _ if setting.value.is_empty() => {}
                    ("core", "hookspath") => self.hooks.push(path),
                    ("include" | "includeif", "path") => {
                        let path = agentproto_manifest::normalize(&dir.join(path));
                        if !self.included.contains(&path) {
                            self.included.push(path.clone());
                            pending.push(path);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// A line of a configuration. Section and key are in lower case.
struct Setting {
    section: String,
    key: String,
    value: String,
}

fn settings(text: &str) -> Vec<Setting> {
    let mut chars = text.chars().peekable();
    let mut section = String::new();
    let mut found = Vec::new();
    while let Some(&next) = chars.peek() {
        match next {
            '#' | ';' => skip_line(&mut chars),
            '[' => section = header(&mut chars),
            c if c.is_ascii_alphanumeric() => {
                let key = word(&mut chars);
                while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                if chars.next_if_eq(&'=').is_some() {
                    let value = value(&mut chars);
                    found.push(Setting {
                        section: section.clone(),
                        key,
                        value,
                    });
                }
            }
            _ => drop(chars.next()),
        }
    }
    found
}

fn skip_line(chars: &mut Peekable<Chars>) {
    chars.by_ref().find(|c| *c == '\n');
}

fn word(chars: &mut Peekable<Chars>) -> String {
    let mut word = String::new();
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
        word.push(c.to_ascii_lowercase());
    }
    word
}

/// Reads `[section]`, `[section "subsection"]` or `[section.subsection]`, and returns the section.
fn header(chars: &mut Peekable<Chars>) -> String {
    chars.next();
    let section = word(chars);
    let mut is_quoted = false;
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\\' if is_quoted => drop(chars.next()),
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => break,
            _ => {}
        }
    }
    section
}

/// Reads a value with quotes, escapes, continued lines and comments.
fn value(chars: &mut Peekable<Chars>) -> String {
    let mut value = String::new();
    // Length without unquoted white space at the end.
    let mut length = 0;
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        let c = match c {
            '\n' => break,
            '#' | ';' if !is_quoted => {
                skip_line(chars);
                break;
            }
            '"' => {
                is_quoted = !is_quoted;
                continue;
            }
            '\\' => match chars.next() {
                Some('\n') | None => continue,
                Some('n') => '\n',
                Some('t') => '\t',
                Some(c) => c,
            },
            c if c.is_whitespace() && !is_quoted => {
                if !value.is_empty() {
                    value.push(c);
                }
                continue;
            }
            c => c,
        };
        value.push(c);
        length = value.len();
    }
    value.truncate(length);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("config");
        std::fs::write(&config, text).expect("written");
        let found = CodePaths::of(&config, Path::new("/home/u"));
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        found.hooks.iter().map(text).collect()
    }

    #[test]
    fn hooks_are_found_in_every_way_to_write_them() {
        for text in [
            "[core]\n\thooksPath = my hooks\n",
            "[core] hooksPath = my hooks",
            "[CORE]\nHOOKSPATH=my hooks  # ours\n",
            "[core]\nhooksPath = \"my hooks\" ; ours\n",
            "[core]\nhooksPath = \"my\" hooks\r\n",
            "[core]\nhooksPath = my\\\n hooks\n",
            "; x\n[core]\n# y\nbare\nhooksPath = my hooks\n[user]\n",
            "[a \"]\"]\nb = c\n[core]\nhooksPath = my hooks",
        ] {
            assert_eq!(hooks(text), ["my hooks"], "{text}");
        }
        assert_eq!(hooks("[core]\nhooksPath = ~/h\n"), ["/home/u/h"]);
        assert!(hooks("[other]\nhooksPath = x\n[core]\n#hooksPath = y\n").is_empty());
    }

    #[test]
    fn included_files_are_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("written");
        };
        file(
            "config",
            "[include]\npath = a\n[includeIf \"gitdir:x/\"] path = b\n",
        );
        file("a", "[core]\nhooksPath = from-a\n");
        file(
            "b",
            "[include]\npath = config\n[core]\nhooksPath = from-b\n",
        );
        let found = CodePaths::of(&dir.path().join("config"), Path::new("/home/u"));
        assert_eq!(found.hooks.len(), 2);
        for name in ["a", "b", "config"] {
            assert!(found.included.contains(&dir.path().join(name)), "{name}");
        }
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        for text in [
            "[", "[a", "[a \"", "a=", "a=\"", "a=\\", "\\", "=", "é = é", "[]]\0=",
        ] {
            hooks(text);
        }
    }
}
