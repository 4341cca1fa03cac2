//! Finds the file for a program name, as a shell would, and looks through the shims of version
//! managers.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Lookup;

/// Search path if the host does not set one.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The directories of `PATH` in an environment. If it is set twice, the last one counts.
pub fn search_path(env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let path = env.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value);
    std::env::split_paths(path).collect()
}

/// Finds a program: a name through PATH, anything with a slash relative to the working directory.
pub(crate) fn find(lookup: &Lookup, name: &OsStr) -> Option<PathBuf> {
    find_in(&lookup.path, &lookup.cwd, name)
}

/// Like `find`, with only the directories of `PATH` and the working directory.
pub fn find_in(path: &[PathBuf], cwd: &Path, name: &OsStr) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() != 1 || name.to_str().is_some_and(|n| n.contains('/')) {
        let path = cwd.join(name);
        return is_program(&path).then_some(path);
    }
    path.iter()
        // An empty or relative entry means the working directory, which does not contain installed
        // programs.
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

/// Whether the path is a file with an executable bit.
pub fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The program behind a shim of pyenv or rustup, which would otherwise start a shell to find it.
/// `None` if the file is not a shim, or if its choice cannot be read.
pub(crate) fn resolve_shim(lookup: &Lookup, path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let dir = path.parent()?;
    if dir.file_name()? == "shims" {
        return resolve_pyenv_shim(lookup, dir.parent()?, name);
    }
    let rustup = std::fs::read_link(path)
        .ok()
        .is_some_and(|to| to.file_name() == Some(OsStr::new("rustup")))
        || is_same_file(path, &dir.join("rustup"));
    (rustup && name != "rustup").then(|| resolve_rustup_shim(lookup, name))?
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// pyenv: `$PYENV_VERSION`, the nearest `.python-version`, then the global `version` file. Several
/// versions may be listed, and the first that has the program counts.
fn resolve_pyenv_shim(lookup: &Lookup, root: &Path, name: &OsStr) -> Option<PathBuf> {
    let selected = lookup
        .variable("PYENV_VERSION")
        .map(|v| v.to_string_lossy().into_owned())
        .or_else(|| {
            let mut dirs = lookup.cwd.ancestors();
            dirs.find_map(|dir| std::fs::read_to_string(dir.join(".python-version")).ok())
        })
        .or_else(|| std::fs::read_to_string(root.join("version")).ok())?;
    let versions = root.join("versions");
    selected
        .split([':', '\n', ' '])
        .map(str::trim)
        .filter(|v| !v.is_empty() && !v.contains('/') && *v != "..")
        .find_map(|version| {
            let exact = versions.join(version).join("bin").join(name);
            if is_program(&exact) {
                return Some(exact);
            }
            // `3.12` means the latest 3.12.x.
            let mut matching: Vec<String> = std::fs::read_dir(&versions)
                .ok()?
                .flatten()
                .filter_map(|e| e.file_name().into_string().ok())
                .filter(|v| v.starts_with(&format!("{version}.")))
                .collect();
            matching.sort_by_key(|v| {
                let number = |p: &str| p.parse::<u32>().unwrap_or(0);
                v.split('.').map(number).collect::<Vec<_>>()
            });
            let program = versions.join(matching.pop()?).join("bin").join(name);
            is_program(&program).then_some(program)
        })
}

/// The programs of a rustup toolchain.
pub(crate) const RUST_TOOLS: [&str; 7] = [
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "clippy-driver",
    "rustc",
    "rustdoc",
    "rustfmt",
];

/// rustup: `$RUSTUP_TOOLCHAIN`, then the default of its settings.
fn resolve_rustup_shim(lookup: &Lookup, name: &OsStr) -> Option<PathBuf> {
    let home = lookup
        .variable("RUSTUP_HOME")
        .map_or_else(|| lookup.home.join(".rustup"), PathBuf::from);
    let toolchain = lookup
        .variable("RUSTUP_TOOLCHAIN")
        .map(|v| v.to_string_lossy().into_owned())
        .or_else(|| {
            let text = std::fs::read_to_string(home.join("settings.toml")).ok()?;
            let settings: toml::Table = text.parse().ok()?;
            Some(settings.get("default_toolchain")?.as_str()?.to_owned())
        })?;
    if toolchain.is_empty() || toolchain.contains('/') || toolchain == ".." {
        return None;
    }
    let toolchains = home.join("toolchains");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&toolchains)
        .ok()?
        .flatten()
        .filter(|e| {
            let have = e.file_name().to_string_lossy().into_owned();
            have == toolchain || have.starts_with(&format!("{toolchain}-"))
        })
        .map(|e| e.path().join("bin").join(name))
        .filter(|p| is_program(p))
        .collect();
    found.sort();
    found.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn program(path: &Path) {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, "#!/bin/sh\n").expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("set");
    }

    #[test]
    fn only_names_are_searched_in_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        program(&root.join("b/tool"));
        program(&root.join("cwd/tool"));
        std::fs::create_dir(root.join("a")).expect("made");
        std::fs::write(root.join("a/tool"), "no program").expect("written");
        let lookup = Lookup {
            path: vec!["".into(), ".".into(), root.join("a"), root.join("b")],
            cwd: root.join("cwd"),
            ..Lookup::default()
        };
        let find = |name: &str| find(&lookup, OsStr::new(name));
        assert_eq!(find("tool"), Some(root.join("b/tool")));
        assert_eq!(find("./tool"), Some(root.join("cwd/./tool")));
        assert_eq!(find("../b/tool"), Some(root.join("cwd/../b/tool")));
        assert_eq!(find("other"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn the_program_behind_a_shim_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path();
        let pyenv = home.join(".pyenv");
        program(&pyenv.join("shims/python3"));
        program(&pyenv.join("versions/3.9.1/bin/python3"));
        program(&pyenv.join("versions/3.12.9/bin/python3"));
        program(&pyenv.join("versions/3.12.10/bin/python3"));
        std::fs::write(pyenv.join("version"), "3.9.1\n").expect("written");
        let mut lookup = Lookup {
            home: home.to_owned(),
            cwd: home.join("work"),
            ..Lookup::default()
        };
        let shim = pyenv.join("shims/python3");
        let version = |v: &str| Some(pyenv.join(format!("versions/{v}/bin/python3")));
        assert_eq!(resolve_shim(&lookup, &shim), version("3.9.1"));
        lookup.env.push(("PYENV_VERSION".into(), "3.12".into()));
        assert_eq!(resolve_shim(&lookup, &shim), version("3.12.10"));

        program(&home.join(".cargo/bin/rustup"));
        symlink("rustup", home.join(".cargo/bin/cargo")).expect("linked");
        let cargo = home.join(".rustup/toolchains/stable-x/bin/cargo");
        program(&cargo);
        std::fs::write(
            home.join(".rustup/settings.toml"),
            "default_toolchain = \"stable\"\n",
        )
        .expect("written");
        let shim = home.join(".cargo/bin/cargo");
        assert_eq!(resolve_shim(&lookup, &shim), Some(cargo));
        let rustup = home.join(".cargo/bin/rustup");
        assert_eq!(resolve_shim(&lookup, &rustup), None);
    }
}
