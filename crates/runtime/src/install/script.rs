//! Shell installers: chooses the shell, and finds the installed program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::home::make_dir;
use agentproto_sandbox::programs::find::is_program;

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// The shell and its options from the first line of the script.
pub fn interpreter(script: &Path) -> Result<Vec<OsString>, String> {
    let mut start = Vec::new();
    let read = File::open(script).and_then(|f| f.take(512).read_to_end(&mut start));
    read.map_err(|e| format!("cannot read the installer: {e}"))?;
    let text = String::from_utf8_lossy(&start);
    let line = text.lines().next().unwrap_or_default();
    let Some(named) = line.strip_prefix("#!") else {
        return match text.trim_start().starts_with('<') {
            true => Err("the download is a web page, not an installer".to_owned()),
            false => Ok(vec!["/bin/sh".into()]),
        };
    };
    let mut words = named.split_whitespace().peekable();
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut shell = base(words.next().unwrap_or_default());
    if shell == "env" {
        shell = base(words.next().unwrap_or_default());
    }
    if !SHELLS.contains(&shell.as_str()) {
        return Err(format!(
            "the download is not a shell installer: its interpreter is `{shell}`"
        ));
    }
    // Only options that still make the shell run the file.
    let option = |word: &str| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        !letters.is_empty() && letters.bytes().all(|b| b"efuvx".contains(&b))
    };
    // `sh` has a fixed path that does not depend on PATH.
    let shell = if shell == "sh" { "/bin/sh" } else { &shell };
    let mut argv = vec![OsString::from(shell)];
    argv.extend(words.filter(|w| option(w)).map(OsString::from));
    Ok(argv)
}

/// Environment of an installer: a private home and temporary directory, and the variables that
/// installers commonly read to find the target directory.
pub fn environment(dir: &Path) -> io::Result<Vec<(OsString, OsString)>> {
    let (home, tmp, bin) = (dir.join("home"), dir.join("tmp"), dir.join("bin"));
    for made in [&home, &tmp, &bin] {
        make_dir(made)?;
    }
    let pairs = [
        ("HOME", &home),
        ("TMPDIR", &tmp),
        ("PREFIX", &dir.to_owned()),
        ("INSTALL_DIR", &bin),
        ("BIN_DIR", &bin),
        ("BINDIR", &bin),
    ];
    let pairs = pairs.map(|(name, path)| (OsString::from(name), path.as_os_str().to_owned()));
    Ok(pairs.into())
}

/// Finds the program in the places where installers put it below their home.
pub fn find_installed(dir: &Path, name: &str) -> Option<PathBuf> {
    let home = dir.join("home");
    let mut places = vec![home.join(".local/bin"), home.join("bin")];
    let mut hidden: Vec<PathBuf> = fs::read_dir(&home)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    hidden.sort();
    for path in hidden {
        places.push(path.join("bin"));
        places.push(path);
    }
    let mut candidates = places.into_iter().map(|place| place.join(name));
    candidates.find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shells_run_installers() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("script");
        let shell_for = |text: &str| {
            fs::write(&script, text).expect("written");
            interpreter(&script).map(|words| {
                let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
                words.join(" ")
            })
        };
        assert_eq!(shell_for("#!/bin/sh\n"), Ok("/bin/sh".to_owned()));
        assert_eq!(shell_for("#!/bin/bash -eu\n"), Ok("bash -eu".to_owned()));
        assert_eq!(shell_for("#!/usr/bin/env bash\nx"), Ok("bash".to_owned()));
        assert_eq!(shell_for("echo hello\n"), Ok("/bin/sh".to_owned()));
        assert_eq!(shell_for(""), Ok("/bin/sh".to_owned()));
        assert!(shell_for("#!/usr/bin/python3\n").is_err());
        assert!(shell_for("#!\n").is_err());
        assert!(shell_for("<!doctype html>").is_err());
        assert_eq!(shell_for("#!/bin/sh -c evil\n"), Ok("/bin/sh".to_owned()));
    }
}
