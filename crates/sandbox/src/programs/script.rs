//! Parses `#!` lines as the kernel and `env` do.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::bytes_to_path;

/// Maximum number of bytes that the kernel reads of the first line.
const MAX_LINE_BYTES: usize = 256;

/// The interpreter of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interpreter {
    Path(PathBuf),
    /// `/usr/bin/env NAME`: `env` itself, and a name that is looked up.
    Env {
        env: PathBuf,
        name: PathBuf,
    },
}

/// The interpreter of a script, or `None` if the file has no `#!` line.
pub fn read(path: &Path) -> io::Result<Option<Interpreter>> {
    let mut head = Vec::with_capacity(MAX_LINE_BYTES);
    File::open(path)?
        .take(MAX_LINE_BYTES as u64)
        .read_to_end(&mut head)?;
    Ok(parse(&head))
}

fn parse(head: &[u8]) -> Option<Interpreter> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|b| *b == b'\n' || *b == 0).next()?;
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r');
    let mut words = line.split(blank).filter(|w| !w.is_empty());
    let program = bytes_to_path(words.next()?);
    if program.file_name().is_none_or(|name| name != "env") {
        return Some(Interpreter::Path(program));
    }
    // Options of env and assignments come before the name.
    let name = words.find_map(|word| {
        let word = word.strip_prefix(b"-S").unwrap_or(word);
        let word = word.strip_prefix(b"--split-string=").unwrap_or(word);
        let skipped = word.is_empty() || word.starts_with(b"-") || word.contains(&b'=');
        (!skipped).then(|| bytes_to_path(word))
    });
    match name {
        Some(name) => Some(Interpreter::Env { env: program, name }),
        None => Some(Interpreter::Path(program)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_parsed() {
        let path = |p: &str| Some(Interpreter::Path(p.into()));
        let env = |name: &str| {
            Some(Interpreter::Env {
                env: "/usr/bin/env".into(),
                name: name.into(),
            })
        };
        for (line, expected) in [
            ("#!/bin/sh\necho", path("/bin/sh")),
            ("#! /usr/bin/perl -w\n", path("/usr/bin/perl")),
            ("#!/usr/bin/env node\n", env("node")),
            ("#!/usr/bin/env -S node --no-warnings\n", env("node")),
            ("#!/usr/bin/env -Snode --x", env("node")),
            ("#!/usr/bin/env -i A=b python3\r\n", env("python3")),
            ("#!/usr/bin/env --split-string=ruby -w\n", env("ruby")),
            ("#!/usr/bin/env\n", path("/usr/bin/env")),
            ("#!\n", None),
            ("#!", None),
            ("", None),
            ("\x7fELF", None),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line:?}");
        }
    }
}
