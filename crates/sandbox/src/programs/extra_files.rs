//! Files that well-known programs load at run time although their headers do not name them.

use std::path::{Path, PathBuf};

/// A directory that a program needs to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub path: PathBuf,
    /// Whether files in it are mapped as code.
    pub exec: bool,
}

/// The additional files of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraFiles {
    pub directories: Vec<Directory>,
    pub files: Vec<PathBuf>,
    /// Directories of helper programs that it starts, such as `git-core`.
    pub helpers: Vec<PathBuf>,
    /// Directories whose ELF files need libraries of their own.
    pub scanned: Vec<PathBuf>,
}

impl ExtraFiles {
    fn add_directory(&mut self, path: PathBuf, exec: bool) {
        if path.is_dir() && !self.directories.iter().any(|d| d.path == path) {
            self.directories.push(Directory { path, exec });
        }
    }

    fn add_file(&mut self, path: PathBuf) {
        if path.is_file() {
            self.files.push(path);
        }
    }

    fn add_scanned(&mut self, path: PathBuf) {
        if path.is_dir() {
            self.scanned.push(path);
        }
    }

    fn add_helpers(&mut self, path: PathBuf) {
        if path.is_dir() {
            self.add_directory(path.clone(), true);
            self.add_scanned(path.clone());
            self.helpers.push(path);
        }
    }
}

type Finder = fn(&mut ExtraFiles, &Location);

/// The location of a program.
struct Location<'a> {
    /// Path by which it is called, with links. Virtual environments are recognized by it.
    called: &'a Path,
    /// The directory above `bin`.
    prefix: &'a Path,
}

/// Names of programs without version, and the function that finds their additional files.
const TABLE: [(&[&str], Finder); 8] = [
    (&["python"], python),
    (&["node", "nodejs"], node),
    (&["git"], git),
    (&["perl"], perl),
    (&["ruby"], ruby),
    (&["java"], java),
    (
        &[
            "cargo",
            "rustc",
            "rustdoc",
            "rustfmt",
            "cargo-clippy",
            "clippy-driver",
        ],
        rust,
    ),
    (&["gcc", "cc", "g++", "c++", "clang"], compiler),
];

/// The additional files of a program that is at `real` and is called as `called`.
pub fn of_program(called: &Path, real: &Path) -> ExtraFiles {
    let mut out = ExtraFiles::default();
    let name = real.file_name().map(|n| n.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    // `python3.12` → `python`, `x86_64-linux-gnu-gcc-12` → `gcc`.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    let plain = plain.rsplit_once("-gnu-").map_or(plain, |(_, tail)| tail);
    let Some(prefix) = real.parent().and_then(Path::parent) else {
        return out;
    };
    let location = Location { called, prefix };
    for (names, finder) in TABLE {
        if names.contains(&plain) {
            finder(&mut out, &location);
        }
    }
    out
}

/// The package of a script: the nearest directory with a `package.json`, and the outermost
/// `node_modules` around it, which may contain dependencies.
pub fn of_script(script: &Path, home: &Path) -> ExtraFiles {
    let mut out = ExtraFiles::default();
    let package = script
        .ancestors()
        .skip(1)
        .take_while(|dir| !home.starts_with(dir))
        .find(|dir| dir.join("package.json").is_file());
    let modules = script
        .ancestors()
        .filter(|dir| dir.file_name().is_some_and(|name| name == "node_modules"))
        .last();
    for dir in package.into_iter().chain(modules) {
        out.add_directory(dir.to_owned(), true);
    }
    out
}

/// The file that marks an installation of agentproto: `tools/<id>@<major>/<generation>/`.
pub const INSTALL_RECORD: &str = "installed.json";

/// Everything that agentproto installed together with a program, because an archive is more than
/// its binary.
pub fn of_installation(real: &Path) -> ExtraFiles {
    let mut out = ExtraFiles::default();
    let ours = |dir: &&Path| {
        let bundle = dir.parent();
        let named = bundle.and_then(Path::file_name).and_then(|n| n.to_str());
        let tools = bundle.and_then(Path::parent).and_then(Path::file_name);
        named.is_some_and(|n| n.contains('@'))
            && tools.is_some_and(|n| n == "tools")
            && dir.join(INSTALL_RECORD).is_file()
    };
    if let Some(dir) = real.ancestors().skip(1).find(ours) {
        out.add_directory(dir.to_owned(), true);
    }
    out
}

fn python(out: &mut ExtraFiles, location: &Location) {
    let environment = location.called.parent().and_then(Path::parent);
    let mut prefixes = vec![location.prefix];
    if let Some(dir) = environment.filter(|dir| dir.join("pyvenv.cfg").is_file()) {
        out.add_file(dir.join("pyvenv.cfg"));
        prefixes.push(dir);
    }
    if location.prefix == Path::new("/usr") {
        prefixes.push(Path::new("/usr/local"));
    }
    for prefix in prefixes {
        for library in directories_in(&prefix.join("lib"), "python") {
            out.add_scanned(library.join("lib-dynload"));
            out.add_directory(library, true);
        }
    }
}

fn node(out: &mut ExtraFiles, location: &Location) {
    out.add_directory(location.prefix.join("lib/node_modules"), false);
}

fn git(out: &mut ExtraFiles, location: &Location) {
    out.add_helpers(location.prefix.join("libexec/git-core"));
    out.add_helpers(location.prefix.join("lib/git-core"));
    out.add_directory(location.prefix.join("share/git-core"), false);
}

fn perl(out: &mut ExtraFiles, location: &Location) {
    out.add_directory("/etc/perl".into(), false);
    for base in ["share", "lib"] {
        for dir in directories_in(&location.prefix.join(base), "perl") {
            out.add_directory(dir, true);
        }
    }
    for multiarch in multiarch(location.prefix) {
        for dir in directories_in(&multiarch, "perl") {
            out.add_directory(dir, true);
        }
    }
}

fn ruby(out: &mut ExtraFiles, location: &Location) {
    out.add_directory(location.prefix.join("lib/ruby"), true);
    for multiarch in multiarch(location.prefix) {
        out.add_directory(multiarch.join("ruby"), true);
    }
    out.add_directory("/var/lib/gems".into(), true);
}

fn java(out: &mut ExtraFiles, location: &Location) {
    if !location.prefix.join("lib/modules").is_file() {
        return;
    }
    out.add_directory(location.prefix.to_owned(), true);
    out.add_scanned(location.prefix.join("lib"));
    out.add_scanned(location.prefix.join("lib/server"));
    for dir in directories_in(Path::new("/etc"), "java-") {
        out.add_directory(dir, false);
    }
}

/// A toolchain of rustup or of a distribution.
fn rust(out: &mut ExtraFiles, location: &Location) {
    let toolchain = location.prefix.parent().and_then(Path::file_name);
    if toolchain.is_some_and(|name| name == "toolchains") {
        out.add_directory(location.prefix.to_owned(), true);
    } else {
        out.add_directory(location.prefix.join("lib/rustlib"), true);
    }
}

fn compiler(out: &mut ExtraFiles, location: &Location) {
    out.add_helpers(location.prefix.join("lib/gcc"));
    out.add_helpers(location.prefix.join("libexec/gcc"));
    for collection in ["lib/gcc", "libexec/gcc"] {
        for triple in directories_in(&location.prefix.join(collection), "") {
            for version in directories_in(&triple, "") {
                out.add_scanned(version);
            }
        }
    }
    out.add_directory(location.prefix.join("include"), false);
    for dir in multiarch(location.prefix) {
        out.add_directory(dir, false);
    }
}

/// `lib/x86_64-linux-gnu` and similar directories, which only some distributions have.
fn multiarch(prefix: &Path) -> Vec<PathBuf> {
    let mut found = directories_in(&prefix.join("lib"), std::env::consts::ARCH);
    found.retain(|dir| dir.to_string_lossy().contains("-linux-"));
    found
}

/// Directories in a directory whose names start with `start`.
fn directories_in(dir: &Path, start: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with(start))
        .map(|e| e.path())
        .filter(|p| p.is_dir() && !p.is_symlink())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(root: &Path, names: &[&str]) {
        for name in names {
            std::fs::create_dir_all(root.join(name)).expect("made");
        }
    }

    fn relative_directories(found: &ExtraFiles, root: &Path) -> Vec<(String, bool)> {
        let relative = |d: &Directory| {
            let path = d.path.strip_prefix(root).ok()?;
            Some((path.to_string_lossy().into_owned(), d.exec))
        };
        found.directories.iter().filter_map(relative).collect()
    }

    #[test]
    fn an_installation_is_recognized_by_its_path_and_its_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let relative_directories = |directories_in: &str, record: bool| {
            let generation = dir.path().join(directories_in);
            let program = generation.join("archive/bin/tool");
            std::fs::create_dir_all(program.parent().expect("one")).expect("made");
            if record {
                std::fs::write(generation.join(INSTALL_RECORD), "{}").expect("written");
            }
            let relative_directories = of_installation(&program).directories;
            relative_directories.iter().any(|d| d.path == generation)
        };
        assert!(relative_directories("tools/x@1/one", true));
        assert!(!relative_directories("tools/x@1/two", false));
        assert!(!relative_directories("other/x@1/one", true));
        assert!(!relative_directories("tools/x/one", true));
    }

    #[test]
    fn python_includes_its_virtual_environment() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        dirs(
            root,
            &[
                "py/bin",
                "py/lib/python3.12/lib-dynload",
                "py/lib/other",
                "venv/bin",
                "venv/lib/python3.12",
            ],
        );
        std::fs::write(root.join("venv/pyvenv.cfg"), "home = x\n").expect("written");
        let found = of_program(
            &root.join("venv/bin/python"),
            &root.join("py/bin/python3.12"),
        );
        assert_eq!(
            relative_directories(&found, root),
            [
                ("py/lib/python3.12".into(), true),
                ("venv/lib/python3.12".into(), true)
            ]
        );
        assert_eq!(found.files, [root.join("venv/pyvenv.cfg")]);
        assert_eq!(found.scanned, [root.join("py/lib/python3.12/lib-dynload")]);
    }

    #[test]
    fn git_includes_its_helpers() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        dirs(root, &["bin", "libexec/git-core", "share/git-core"]);
        let git = root.join("bin/git");
        let found = of_program(&git, &git);
        assert_eq!(found.helpers, [root.join("libexec/git-core")]);
        assert_eq!(
            relative_directories(&found, root),
            [
                ("libexec/git-core".into(), true),
                ("share/git-core".into(), false)
            ]
        );
        let other = root.join("bin/digit");
        assert_eq!(of_program(&other, &other), ExtraFiles::default());
    }

    #[test]
    fn a_script_includes_its_package_but_never_a_home() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        dirs(root, &["lib/node_modules/agent/dist", "home/bin"]);
        std::fs::write(root.join("lib/node_modules/agent/package.json"), "{}").expect("written");
        std::fs::write(root.join("home/package.json"), "{}").expect("written");
        let home = root.join("home");
        let found = of_script(&root.join("lib/node_modules/agent/dist/cli.js"), &home);
        assert_eq!(
            relative_directories(&found, root),
            [
                ("lib/node_modules/agent".into(), true),
                ("lib/node_modules".into(), true)
            ]
        );
        let found = of_script(&home.join("bin/x.js"), &home);
        assert_eq!(found, ExtraFiles::default());
    }
}
