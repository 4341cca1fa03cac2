//! Finds what a program needs to run by reading it, never by running it.
//!
//! Libraries are granted as single files. A loader runs any ELF file that it may map, so granting
//! whole library directories would make every file in them a program.

mod elf;
mod extra_files;
pub mod find;
mod libraries;
pub(crate) mod links;
mod script;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::policy::Symlink;
pub use extra_files::INSTALL_RECORD;
use extra_files::{Directory, ExtraFiles};
use libraries::{LibraryClosure, LibraryDirs};
use links::FollowedLinks;
use script::Interpreter;

/// Maximum number of nested interpreters, about as many as the kernel follows.
const MAX_INTERPRETERS: usize = 4;
/// Maximum number of files in a directory that are checked for their libraries.
const MAX_SCANNED_FILES: usize = 1000;

/// Libraries that glibc loads by name when a host or user is looked up.
const NAME_SERVICES: [&str; 3] = ["libnss_files.so.2", "libnss_dns.so.2", "libnss_compat.so.2"];

/// What names are looked up with. The caller provides it, so that nothing depends on our own
/// environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    pub path: Vec<PathBuf>,
    pub cwd: PathBuf,
    pub home: PathBuf,
    pub env: Vec<(OsString, OsString)>,
}

impl Lookup {
    fn variable(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.env.iter().rev().find(|(n, _)| n == name)?;
        Some(value)
    }
}

/// The path without symbolic links, and the links on the way to it.
pub fn follow_links(path: &Path) -> std::io::Result<(PathBuf, Vec<Symlink>)> {
    let mut followed = FollowedLinks::default();
    let real = followed.follow(path)?;
    Ok((real, followed.links))
}

/// An error for a program that cannot be read, and therefore cannot be confined.
#[derive(Debug, Error)]
#[error("the program `{}` cannot be read: {why}", path.display())]
pub struct ProgramError {
    /// Path of the program.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// A program and everything that it needs to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// Path without links.
    pub real: PathBuf,
    /// Files that are executed on the way (itself, interpreters, the loader), and directories of
    /// its own helpers.
    pub execute: Vec<PathBuf>,
    /// Files that are mapped as code.
    pub libraries: Vec<PathBuf>,
    pub directories: Vec<Directory>,
    /// Other files that are read.
    pub files: Vec<PathBuf>,
    /// Links by which these files are found.
    pub links: Vec<Symlink>,
    /// Whether libraries are found only through `/etc/ld.so.cache`.
    pub needs_cache: bool,
    pub notes: Vec<String>,
}

/// Inspects several programs, and reads the loader's configuration only once.
pub(crate) struct Inspector<'l> {
    lookup: &'l Lookup,
    directories: LibraryDirs,
}

impl<'l> Inspector<'l> {
    pub fn new(lookup: &'l Lookup) -> Self {
        Inspector {
            lookup,
            directories: LibraryDirs::of_this_machine(),
        }
    }

    pub fn inspect(&self, path: &Path) -> Result<Program, ProgramError> {
        let mut inspection = Inspection {
            lookup: self.lookup,
            directories: &self.directories,
            program: Program::default(),
            followed: FollowedLinks::default(),
            closure: LibraryClosure::default(),
        };
        inspection.program.real = inspection.add(path, 0)?;
        Ok(inspection.finish())
    }
}

struct Inspection<'l> {
    lookup: &'l Lookup,
    directories: &'l LibraryDirs,
    program: Program,
    followed: FollowedLinks,
    closure: LibraryClosure,
}

impl Inspection<'_> {
    fn add(&mut self, path: &Path, depth: usize) -> Result<PathBuf, ProgramError> {
        let fail = |why: String| ProgramError {
            path: path.to_owned(),
            why,
        };
        let path = &self.replace_shim(path);
        let real = self
            .followed
            .follow(path)
            .map_err(|e| fail(e.to_string()))?;
        if !real.is_file() {
            return Err(fail("it is not a file".into()));
        }
        if self.program.execute.contains(&real) {
            return Ok(real);
        }
        self.program.execute.push(real.clone());
        self.add_extra_files(extra_files::of_installation(&real));
        if let Some(elf) = elf::read(&real).map_err(|e| fail(e.to_string()))? {
            self.add_elf(&elf);
            self.add_extra_files(extra_files::of_program(path, &real));
            return Ok(real);
        }
        let interpreter = script::read(&real).map_err(|e| fail(e.to_string()))?;
        if depth >= MAX_INTERPRETERS {
            return Err(fail("its interpreters are nested too deeply".into()));
        }
        match interpreter {
            None => {
                return Err(fail(
                    "it is neither an ELF file nor a script with `#!`".into(),
                ));
            }
            Some(Interpreter::Path(path)) => {
                self.add(&path, depth + 1)?;
            }
            Some(Interpreter::Env { env, name }) => {
                self.add(&env, depth + 1)?;
                let found = find::find(self.lookup, name.as_os_str()).ok_or_else(|| {
                    fail(format!(
                        "its interpreter `{}` is not in PATH",
                        name.display()
                    ))
                })?;
                self.add(&found, depth + 1)?;
            }
        }
        self.add_extra_files(extra_files::of_script(&real, &self.lookup.home));
        Ok(real)
    }

    /// Replaces a shim by a link to the program that it would start.
    fn replace_shim(&mut self, path: &Path) -> PathBuf {
        let program = find::resolve_shim(self.lookup, path);
        let (Some(program), Some(dir), Some(name)) = (program, path.parent(), path.file_name())
        else {
            return path.to_owned();
        };
        let Ok(dir) = self.followed.follow(dir) else {
            return path.to_owned();
        };
        let note = format!("`{}` is a shim for `{}`", path.display(), program.display());
        self.program.notes.push(note);
        self.followed.links.push(Symlink {
            at: dir.join(name),
            to: program.clone(),
        });
        // Tools of one toolchain call each other by name.
        for tool in find::RUST_TOOLS {
            let (shim, tool) = (path.with_file_name(tool), program.with_file_name(tool));
            if tool != program && find::resolve_shim(self.lookup, &shim).as_ref() == Some(&tool) {
                self.followed.links.push(Symlink {
                    at: dir.join(shim.file_name().unwrap_or_default()),
                    to: tool,
                });
            }
        }
        program
    }

    fn add_elf(&mut self, elf: &elf::Elf) {
        if let Some(loader) = &elf.loader {
            match self.closure.add_file(loader) {
                Some(real) if !self.program.execute.contains(&real) => {
                    self.program.execute.push(real);
                }
                Some(_) => {}
                None => self.program.notes.push(format!(
                    "its loader `{}` is missing on this machine",
                    loader.display()
                )),
            }
        }
        self.closure.add(self.directories, elf);
        if elf.needed.iter().any(|n| n == Path::new("libc.so.6")) {
            for name in NAME_SERVICES {
                self.closure.add_by_name(self.directories, elf.kind, name);
            }
        }
    }

    fn add_extra_files(&mut self, found: ExtraFiles) {
        for Directory { path, exec } in found.directories {
            if let Ok(path) = self.followed.follow(&path) {
                self.program.directories.push(Directory { path, exec });
            }
        }
        for file in found.files {
            if let Ok(real) = self.followed.follow(&file) {
                self.program.files.push(real);
            }
        }
        for helper in found.helpers {
            if let Ok(real) = self.followed.follow(&helper) {
                self.program.execute.push(real);
            }
        }
        let mut seen = std::collections::HashSet::new();
        for dir in found.scanned {
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            for entry in entries.take(MAX_SCANNED_FILES) {
                use std::os::unix::fs::DirEntryExt;
                // Helpers are often one file with many names.
                if seen.insert(entry.ino())
                    && let Ok(Some(elf)) = elf::read(&entry.path())
                {
                    self.closure.add_optional(self.directories, &elf);
                }
            }
        }
    }

    fn finish(mut self) -> Program {
        self.followed
            .extend(std::mem::take(&mut self.closure.followed));
        let program = &mut self.program;
        program.links = self.followed.links;
        program.needs_cache = self.closure.configured;
        for name in &self.closure.missing {
            let note = format!(
                "its library `{}` is missing on this machine",
                name.display()
            );
            program.notes.push(note);
        }
        let run = &program.execute;
        let mapped = self.closure.files.into_iter();
        program.libraries = mapped.filter(|f| !run.contains(f)).collect();
        self.program
    }
}

fn bytes_to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(path: &Path, line: &str) {
        std::fs::write(path, line).expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }

    fn lookup(root: &Path) -> Lookup {
        Lookup {
            path: vec![root.to_owned(), "/usr/bin".into(), "/bin".into()],
            cwd: root.to_owned(),
            home: root.join("home"),
            env: Vec::new(),
        }
    }

    #[test]
    fn a_script_includes_its_interpreters_and_their_loader() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("real");
        script(&root.join("inner"), "#!/bin/sh\n");
        script(&root.join("outer"), "#!/usr/bin/env -S inner -x\n");
        let program = Inspector::new(&lookup(&root))
            .inspect(&root.join("outer"))
            .expect("readable");
        let runs = |path: &Path| {
            program
                .execute
                .contains(&path.canonicalize().expect("there"))
        };
        assert!(runs(&root.join("outer")) && runs(&root.join("inner")));
        assert!(runs(Path::new("/bin/sh")) && runs(Path::new("/usr/bin/env")));
        if cfg!(target_env = "gnu") {
            let libc = |f: &PathBuf| f.to_string_lossy().contains("libc.so");
            assert!(program.libraries.iter().any(libc));
            // The loader is executed, so it is not listed as a library.
            let loader = |f: &&PathBuf| f.to_string_lossy().contains("ld-linux");
            assert_eq!(program.execute.iter().filter(loader).count(), 1);
            assert_eq!(program.libraries.iter().filter(loader).count(), 0);
        }
    }

    #[test]
    fn programs_that_cannot_run_have_a_reason() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        script(&root.join("loop"), &format!("#!{}/loop2\n", root.display()));
        script(&root.join("loop2"), &format!("#!{}/text\n", root.display()));
        script(&root.join("text"), "no first line\n");
        script(
            &root.join("lost"),
            "#!/usr/bin/env no-such-program-anywhere\n",
        );
        for (name, why) in [
            ("loop", "neither an ELF file nor a script"),
            ("lost", "not in PATH"),
            ("missing", "No such file"),
            (".", "not a file"),
        ] {
            let error = Inspector::new(&lookup(root))
                .inspect(&root.join(name))
                .expect_err(name);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
