//! A policy under construction: grants are collected, denials applied, and the rest is sorted.

use std::path::{Path, PathBuf};

use super::paths::{self, Found, NoSpot, Scope};
use super::refusal::Refusal;
use super::{Access, Denial, Grant, Link, Shape};
use crate::clause::Clause;
use crate::policy::block::Said;
use crate::programs::Program;
use crate::programs::links::{Trail, Walked};

/// Why something is granted, for the message when a denial removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A clause of the manifest.
    Declared,
    /// Executed or mapped; the program does not start without it.
    Program,
    /// Data that programs of this kind load.
    Companion,
    /// What every program may expect: certificates, time zones, terminals.
    System,
}

#[derive(Clone, Debug)]
pub struct Held {
    pub grant: Grant,
    pub role: Role,
}

#[derive(Debug)]
pub struct Draft {
    pub shape: Shape,
    pub held: Vec<Held>,
    pub trail: Trail,
    pub denials: Vec<Denial>,
    pub programs: Vec<PathBuf>,
    pub absent: Vec<(Clause, String)>,
    pub impossible: Vec<(Clause, String)>,
    pub notes: Vec<(Clause, String)>,
    /// Whether some library is found only through the loader's cache.
    pub needs_cache: bool,
    /// Number of directory entries that may still be examined.
    pub left: usize,
}

impl Draft {
    pub fn new(shape: Shape) -> Self {
        Draft {
            shape,
            held: Vec::new(),
            trail: Trail::default(),
            denials: Vec::new(),
            programs: Vec::new(),
            absent: Vec::new(),
            impossible: Vec::new(),
            notes: Vec::new(),
            needs_cache: false,
            left: paths::MOST_ENTRIES,
        }
    }

    fn hold(&mut self, role: Role, source: PathBuf, access: Access, exec: bool) {
        let grant = Grant {
            at: source.clone(),
            source,
            access,
            exec,
            create: false,
            clause: None,
        };
        self.held.push(Held { grant, role });
    }

    /// Grants something that is not declared. A missing path is skipped.
    pub fn provide(&mut self, role: Role, path: &Path, exec: bool) {
        let mut trail = Trail::default();
        if let Ok(real) = trail.follow(path)
            && !paths::is_own(&real)
        {
            self.trail.extend(trail);
            self.hold(role, real, Access::Read, exec);
        }
    }

    /// Grants a program and everything that it needs.
    pub fn provide_program(&mut self, program: &Program) {
        self.trail.extend(Trail {
            links: program.links.clone(),
        });
        let files = program.execute.iter().chain(&program.libraries);
        for file in files {
            self.hold(Role::Program, file.clone(), Access::Read, true);
        }
        for directory in &program.directories {
            let path = directory.path.clone();
            self.hold(Role::Companion, path, Access::Read, directory.exec);
        }
        for file in &program.files {
            self.hold(Role::Companion, file.clone(), Access::Read, false);
        }
        self.programs.extend(program.execute.iter().cloned());
        self.needs_cache |= program.needs_cache;
    }

    /// Grants a path of the manifest, at its own or at another path.
    pub fn declare(
        &mut self,
        said: &Clause,
        source: PathBuf,
        at: PathBuf,
        access: Access,
        exec: bool,
    ) {
        let grant = Grant {
            source,
            at,
            access,
            exec,
            create: false,
            clause: Some(said.clone()),
        };
        self.held.push(Held {
            grant,
            role: Role::Declared,
        });
    }

    /// Grants a glob of `fs.read`, `fs.write` or `auth.state.paths`.
    pub fn grant(
        &mut self,
        said: &Said<String>,
        scope: Scope,
        access: Access,
    ) -> Result<(), Refusal> {
        let spots = match paths::spots(&said.value, scope) {
            Ok(spots) => spots,
            Err(NoSpot::Malformed) => {
                return Err(Refusal::no_glob(said.place.clone(), &said.value));
            }
            Err(NoSpot::Impossible(why)) => {
                self.impossible.push((said.clause.clone(), why));
                return Ok(());
            }
        };
        let before = self.held.len();
        let failed = self.impossible.len();
        let mut missing = false;
        for spot in spots {
            let mut trail = Trail::default();
            let walked = match trail.follow_lenient(&spot.base) {
                Ok(walked) => walked,
                Err(error) => {
                    let why = format!("{}: {error}", spot.base.display());
                    self.impossible.push((said.clause.clone(), why));
                    continue;
                }
            };
            if paths::is_common_device(&walked.real) && spot.pattern.is_empty() {
                let why = "every sandbox has this device".to_owned();
                self.absent.push((said.clause.clone(), why));
                return Ok(());
            }
            if paths::is_own(&walked.real) {
                let why = "the sandbox has its own /proc, /sys and /dev; those of the host are not visible";
                self.impossible.push((said.clause.clone(), why.to_owned()));
                continue;
            }
            self.trail.extend(trail);
            if spot.is_subtree() {
                missing |= !self.grant_tree(said, &walked, spot.means_directory(), access);
            } else if walked.rest.as_os_str().is_empty() {
                self.grant_matches(said, &walked.real, &spot.pattern, access);
            }
        }
        if self.held.len() == before && self.impossible.len() == failed {
            let why = match (missing, access) {
                (true, Access::Write) => {
                    "it does not exist, and it may be a file or a directory: create it, or append `/**`"
                }
                _ => "nothing on this machine matches",
            };
            self.absent.push((said.clause.clone(), why.to_owned()));
        }
        Ok(())
    }

    /// Grants a path. Returns whether there was something to grant.
    fn grant_tree(
        &mut self,
        said: &Said<String>,
        walked: &Walked,
        directory: bool,
        access: Access,
    ) -> bool {
        if !walked.rest.as_os_str().is_empty() {
            if access == Access::Read || !directory {
                return false;
            }
            let path = walked.whole();
            self.declare(&said.clause, path.clone(), path, access, false);
            if let Some(held) = self.held.last_mut() {
                held.grant.create = true;
            }
            return true;
        }
        if walked.real == Path::new("/") {
            self.grant_root(said, access);
            return true;
        }
        let real = walked.real.clone();
        if is_socket(&real) {
            let note = "this is a socket of the host: the process that listens there acts outside the sandbox";
            self.notes.push((said.clause.clone(), note.to_owned()));
        }
        self.declare(&said.clause, real.clone(), real, access, false);
        true
    }

    /// Grants everything, entry by entry, because the sandbox has some entries of its own.
    fn grant_root(&mut self, said: &Said<String>, access: Access) {
        let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
        for path in entries.map(|e| e.path()) {
            let mut trail = Trail::default();
            let Ok(real) = trail.follow(&path) else {
                continue;
            };
            if paths::is_own(&real) || real == Path::new("/tmp") || real == Path::new("/run") {
                continue;
            }
            self.trail.extend(trail);
            self.declare(&said.clause, real.clone(), real, access, false);
        }
        let note = "this shows the whole machine, except /proc, /sys, /dev and /tmp, which are the sandbox's own, and /run, where services have their sockets";
        self.notes.push((said.clause.clone(), note.to_owned()));
    }

    fn grant_matches(
        &mut self,
        said: &Said<String>,
        dir: &Path,
        pattern: &agentproto_manifest::globs::Pattern,
        access: Access,
    ) {
        let found = match paths::expand(dir, pattern, pattern.start(), &mut self.left) {
            Ok(found) => found,
            Err(error) => {
                self.impossible
                    .push((said.clause.clone(), error.to_string()));
                return;
            }
        };
        if self.held.len() + found.len() > paths::MOST_MOUNTS {
            let why = format!(
                "{} files match, which is too many to show one by one; grant their directory with `/**`",
                found.len()
            );
            self.impossible.push((said.clause.clone(), why));
            return;
        }
        let mut passed_over = 0;
        for found in found {
            match found {
                Found::File(path) | Found::Tree(path) if !paths::is_own(&path) => {
                    self.declare(&said.clause, path.clone(), path, access, false);
                }
                _ => passed_over += 1,
            }
        }
        let later = match access {
            Access::Read => {
                "matches are looked up once, before the start: later files are not visible"
            }
            Access::Write => {
                "matches are looked up once, before the start: to create new files, grant a directory with `/**`"
            }
        };
        self.notes.push((said.clause.clone(), later.to_owned()));
        if passed_over > 0 {
            let note = format!(
                "{passed_over} matching links or directories are not visible: list them, or append `/**`"
            );
            self.notes.push((said.clause.clone(), note));
        }
    }

    /// The grants in order, parents first. Grants at the same path get the same rights.
    pub fn finish(&mut self) -> (Vec<Grant>, Vec<Link>) {
        // Declared before provided, so that a stable sort keeps the clause first.
        self.held.sort_by(|a, b| {
            let key = |h: &Held| (h.grant.at.clone(), h.role != Role::Declared);
            key(a).cmp(&key(b))
        });
        if self.shape == Shape::Aip29 {
            self.reading_goes_with_writing();
        }
        self.agree();
        let mut grants: Vec<Grant> = Vec::new();
        for Held { grant, .. } in std::mem::take(&mut self.held) {
            if grant.clause.is_some() || !is_redundant(&grants, &grant) {
                grants.push(grant);
            }
        }
        let pins = self.pins(&grants);
        grants.extend(pins);
        grants.sort_by(|a, b| a.at.cmp(&b.at));
        let shown = |link: &Link| {
            let outer = innermost(&grants, &link.at);
            outer.is_some_and(|g| g.at == g.source && g.at != link.at)
        };
        let mut links = std::mem::take(&mut self.trail.links);
        links.retain(|link| !shown(link) && !grants.iter().any(|g| g.at == link.at));
        // A link for a shim replaces the host's own link with the same name.
        let mut seen = std::collections::HashSet::new();
        links.reverse();
        links.retain(|link| seen.insert(link.at.clone()));
        links.sort_by(|a, b| a.at.cmp(&b.at));
        (grants, links)
    }

    /// Makes declared paths inside writable paths writable.
    fn reading_goes_with_writing(&mut self) {
        let writable: Vec<PathBuf> = self
            .held
            .iter()
            .filter(|h| h.grant.access == Access::Write)
            .map(|h| h.grant.at.clone())
            .collect();
        for held in &mut self.held {
            let inside = writable.iter().any(|w| held.grant.at.starts_with(w));
            if held.role == Role::Declared && inside {
                held.grant.access = Access::Write;
            }
        }
    }

    /// Gives all grants at one path the same rights. Under AIP-29 nothing is both writable and
    /// executable.
    fn agree(&mut self) {
        let mut start = 0;
        while let Some(first) = self.held.get(start) {
            let at = first.grant.at.clone();
            let end = start
                + self
                    .held
                    .iter()
                    .skip(start)
                    .take_while(|h| h.grant.at == at)
                    .count();
            let Some(same) = self.held.get_mut(start..end) else {
                return;
            };
            let mut write = same.iter().any(|h| h.grant.access == Access::Write);
            let mut exec = same.iter().any(|h| h.grant.exec);
            if self.shape == Shape::Aip29 && write && exec {
                let program = same.iter().any(|h| h.role == Role::Program);
                write = !program;
                exec = program;
                let note = match program {
                    true => format!(
                        "`{}` is a program that runs, so it stays read-only",
                        at.display()
                    ),
                    false => format!(
                        "nothing in `{}` can be executed or loaded as code, because it is writable",
                        at.display()
                    ),
                };
                let clause = same.iter().find_map(|h| h.grant.clause.clone());
                self.notes.extend(clause.map(|c| (c, note)));
            }
            for held in same {
                held.grant.access = if write { Access::Write } else { Access::Read };
                held.grant.exec = exec;
            }
            start = end;
        }
    }

    /// Additional mounts for directories on the way to a denied path or to a read-only file.
    /// Without them, such a directory could be renamed and the path created again.
    fn pins(&self, grants: &[Grant]) -> Vec<Grant> {
        let writable = |at: &&Grant| at.access == Access::Write;
        let fixed = grants
            .iter()
            .filter(|g| g.access == Access::Read)
            .map(|g| &g.at);
        let held: Vec<&PathBuf> = self.denials.iter().map(|d| &d.path).chain(fixed).collect();
        let mut pins: Vec<Grant> = Vec::new();
        for path in held {
            for outer in grants.iter().filter(writable) {
                let between = path
                    .ancestors()
                    .skip(1)
                    .take_while(|dir| *dir != outer.at && dir.starts_with(&outer.at));
                for dir in between {
                    let Some(around) = innermost(grants, dir).filter(writable) else {
                        continue;
                    };
                    let Ok(rest) = dir.strip_prefix(&around.at) else {
                        continue;
                    };
                    if around.at != dir && !pins.iter().any(|p| p.at == dir) {
                        pins.push(Grant {
                            source: around.source.join(rest),
                            at: dir.to_owned(),
                            create: false,
                            clause: None,
                            ..around.clone()
                        });
                    }
                }
            }
        }
        pins
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

/// The grant that decides about a path inside.
pub fn innermost<'g>(grants: &'g [Grant], path: &Path) -> Option<&'g Grant> {
    let around = grants.iter().filter(|g| path.starts_with(&g.at));
    around.max_by_key(|g| g.at.components().count())
}

/// Whether the surrounding grant shows the same with the same rights.
fn is_redundant(grants: &[Grant], grant: &Grant) -> bool {
    innermost(grants, &grant.at).is_some_and(|outer| {
        let same_file = grant.at.strip_prefix(&outer.at).is_ok_and(|rest| {
            outer.source.join(rest) == grant.source || rest.as_os_str().is_empty()
        });
        same_file && outer.access == grant.access && outer.exec == grant.exec
    })
}
