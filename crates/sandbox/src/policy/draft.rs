//! A policy under construction: grants are collected, denials applied, and the rest is sorted.

use std::path::{Path, PathBuf};

use super::error::PolicyError;
use super::paths::{self, Found, GlobError, Scope};
use super::protect;
use super::state::StateRules;
use super::{Access, Denial, HiddenKind, NewPath, PathGrant, SandboxSpec, Symlink};
use crate::clause::Clause;
use crate::policy::block::ClauseValue;
use crate::programs::Program;
use crate::programs::links::{FollowedLinks, ResolvedPath};

/// Why something is granted, for the message when a denial removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A clause of the manifest.
    Declared,
    /// Executed or mapped; the program does not start without it.
    Program,
    /// Data that programs of this kind load.
    ExtraFile,
    /// What every program may expect: certificates, time zones, terminals.
    System,
    /// Read-only whatever a clause says, because it decides what later runs may do.
    Protected,
}

#[derive(Clone, Debug)]
pub struct DraftGrant {
    pub grant: PathGrant,
    pub role: Role,
}

#[derive(Debug)]
pub struct Draft {
    pub spec: SandboxSpec,
    pub grants: Vec<DraftGrant>,
    pub followed: FollowedLinks,
    pub denials: Vec<Denial>,
    pub programs: Vec<PathBuf>,
    pub ineffective: Vec<(Clause, String)>,
    pub unenforceable: Vec<(Clause, String)>,
    pub notes: Vec<(Clause, String)>,
    /// What is protected although no clause says so, and how.
    pub protected: Vec<(Clause, String)>,
    /// Directories of the host that are created before the start.
    pub create: std::collections::BTreeSet<PathBuf>,
    /// Links on the way to what a clause names.
    pub clause_links: Vec<(Clause, Symlink)>,
    /// Links on the way to programs, and where they lead.
    pub program_links: Vec<(Clause, Symlink)>,
    /// Whether some library is found only through the loader's cache.
    pub needs_cache: bool,
    /// Number of directory entries that may still be examined.
    pub entries_left: usize,
}

impl Draft {
    pub fn new(spec: SandboxSpec) -> Self {
        Draft {
            spec,
            grants: Vec::new(),
            followed: FollowedLinks::default(),
            denials: Vec::new(),
            programs: Vec::new(),
            ineffective: Vec::new(),
            unenforceable: Vec::new(),
            notes: Vec::new(),
            protected: Vec::new(),
            create: Default::default(),
            clause_links: Vec::new(),
            program_links: Vec::new(),
            needs_cache: false,
            entries_left: paths::MAX_ENTRIES,
        }
    }

    fn push_grant(&mut self, role: Role, source: PathBuf, access: Access, exec: bool) {
        let grant = PathGrant {
            at: source.clone(),
            source,
            access,
            exec,
            create: None,
            clause: None,
        };
        self.grants.push(DraftGrant { grant, role });
    }

    /// Grants something that is not declared. A missing path is skipped.
    pub fn provide(&mut self, role: Role, path: &Path, exec: bool) {
        let mut followed = FollowedLinks::default();
        if let Ok(real) = followed.follow(path)
            && !paths::is_sandbox_dir(&real)
        {
            self.followed.extend(followed);
            self.push_grant(role, real, Access::Read, exec);
        }
    }

    /// Grants a program and everything that it needs. `clause` names it.
    pub fn provide_program(&mut self, clause: &Clause, program: &Program) {
        let links = program.links.iter().cloned();
        self.program_links
            .extend(links.map(|link| (clause.clone(), link)));
        self.followed.extend(FollowedLinks {
            links: program.links.clone(),
        });
        let files = program.execute.iter().chain(&program.libraries);
        for file in files {
            self.push_grant(Role::Program, file.clone(), Access::Read, true);
        }
        for directory in &program.directories {
            let path = directory.path.clone();
            self.push_grant(Role::ExtraFile, path, Access::Read, directory.exec);
        }
        for file in &program.files {
            self.push_grant(Role::ExtraFile, file.clone(), Access::Read, false);
        }
        self.programs.extend(program.execute.iter().cloned());
        self.needs_cache |= program.needs_cache;
    }

    /// Grants a path of the manifest, at its own or at another path.
    pub fn declare(
        &mut self,
        clause: &Clause,
        source: PathBuf,
        at: PathBuf,
        access: Access,
        exec: bool,
    ) {
        let grant = PathGrant {
            source,
            at,
            access,
            exec,
            create: None,
            clause: Some(clause.clone()),
        };
        self.grants.push(DraftGrant {
            grant,
            role: Role::Declared,
        });
    }

    /// Grants a path of the manifest that is created if it is missing.
    pub fn declare_new(
        &mut self,
        clause: &Clause,
        path: PathBuf,
        access: Access,
        create: Option<NewPath>,
    ) {
        self.declare(clause, path.clone(), path, access, false);
        if let Some(granted) = self.grants.last_mut() {
            granted.grant.create = create;
        }
    }

    /// Grants a glob of `fs.read` or `fs.write`.
    pub fn grant(
        &mut self,
        declared: &ClauseValue<String>,
        scope: Scope,
        access: Access,
    ) -> Result<(), PolicyError> {
        self.grant_glob(declared, scope, access, None)
    }

    /// Grants a glob of `auth.state.paths`.
    pub fn grant_state(
        &mut self,
        declared: &ClauseValue<String>,
        scope: Scope,
        rules: &StateRules,
    ) -> Result<(), PolicyError> {
        self.grant_glob(declared, scope, Access::Write, Some(rules))
    }

    fn grant_glob(
        &mut self,
        declared: &ClauseValue<String>,
        scope: Scope,
        access: Access,
        state: Option<&StateRules>,
    ) -> Result<(), PolicyError> {
        let glob_bases = match paths::glob_bases(&declared.value, scope) {
            Ok(glob_bases) => glob_bases,
            Err(GlobError::Invalid) => {
                return Err(PolicyError::invalid_glob(
                    declared.position.clone(),
                    &declared.value,
                ));
            }
            Err(GlobError::Unenforceable(why)) => {
                self.unenforceable.push((declared.clause.clone(), why));
                return Ok(());
            }
        };
        let before = self.grants.len();
        let failed = self.unenforceable.len();
        let mut why = "nothing on this machine matches";
        for glob_base in glob_bases {
            let mut followed = FollowedLinks::default();
            let resolved = match followed.follow_lenient(&glob_base.base) {
                Ok(resolved) => resolved,
                Err(error) => {
                    let why = format!("{}: {error}", glob_base.base.display());
                    self.unenforceable.push((declared.clause.clone(), why));
                    continue;
                }
            };
            if paths::is_common_device(&resolved.real) && glob_base.pattern.is_empty() {
                let why = "every sandbox has this device".to_owned();
                self.ineffective.push((declared.clause.clone(), why));
                return Ok(());
            }
            if paths::is_sandbox_dir(&resolved.real) {
                let why = "the sandbox has its own /proc, /sys and /dev; those of the host are not visible";
                self.unenforceable
                    .push((declared.clause.clone(), why.to_owned()));
                continue;
            }
            if state.is_some() && resolved.rest.as_os_str().is_empty() && resolved.real.is_file() {
                let note = "this is a file: a program that replaces it by renaming another file needs its directory";
                self.notes.push((declared.clause.clone(), note.to_owned()));
            }
            let planted = |link: &&Symlink| state.is_some_and(|rules| rules.may_be_planted(link));
            if let Some(link) = followed.links.iter().find(planted) {
                let why = protect::planted_link(link);
                self.unenforceable.push((declared.clause.clone(), why));
                continue;
            }
            let links = followed.links.iter().cloned();
            self.clause_links
                .extend(links.map(|link| (declared.clause.clone(), link)));
            self.followed.extend(followed);
            if glob_base.is_subtree() {
                let directory = glob_base.means_directory();
                let granted = match state {
                    Some(rules) if !resolved.rest.as_os_str().is_empty() => {
                        rules.grant_missing(self, declared, &resolved, directory)
                    }
                    _ => self.grant_tree(declared, &resolved, directory, access),
                };
                why = granted.err().unwrap_or(why);
            } else if resolved.rest.as_os_str().is_empty() {
                self.grant_matches(declared, &resolved.real, &glob_base.pattern, access);
            }
        }
        if self.grants.len() == before && self.unenforceable.len() == failed {
            self.ineffective
                .push((declared.clause.clone(), why.to_owned()));
        }
        Ok(())
    }

    /// Grants a path, or returns why there is nothing to grant.
    fn grant_tree(
        &mut self,
        declared: &ClauseValue<String>,
        resolved: &ResolvedPath,
        directory: bool,
        access: Access,
    ) -> Result<(), &'static str> {
        if !resolved.rest.as_os_str().is_empty() {
            if access == Access::Read {
                return Err("nothing on this machine matches");
            }
            if !directory {
                return Err("the path does not exist; create it, or append `/**` for a directory");
            }
            let create = Some(NewPath::Directory);
            self.declare_new(&declared.clause, resolved.full_path(), access, create);
            return Ok(());
        }
        if resolved.real == Path::new("/") {
            self.grant_root(declared, access);
            return Ok(());
        }
        let real = resolved.real.clone();
        if is_socket(&real) {
            let note = "this is a socket of the host: the process that listens there acts outside the sandbox";
            self.notes.push((declared.clause.clone(), note.to_owned()));
        }
        self.declare(&declared.clause, real.clone(), real, access, false);
        Ok(())
    }

    /// Grants everything, entry by entry, because the sandbox has some entries of its own.
    fn grant_root(&mut self, declared: &ClauseValue<String>, access: Access) {
        let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
        for path in entries.map(|e| e.path()) {
            let mut followed = FollowedLinks::default();
            let Ok(real) = followed.follow(&path) else {
                continue;
            };
            if paths::is_sandbox_dir(&real)
                || real == Path::new("/tmp")
                || real == Path::new("/run")
            {
                continue;
            }
            self.followed.extend(followed);
            self.declare(&declared.clause, real.clone(), real, access, false);
        }
        let note = "this shows the whole machine, except /proc, /sys, /dev and /tmp, which are the sandbox's own, and /run, where services have their sockets";
        self.notes.push((declared.clause.clone(), note.to_owned()));
    }

    fn grant_matches(
        &mut self,
        declared: &ClauseValue<String>,
        dir: &Path,
        pattern: &agentproto_manifest::globs::GlobPattern,
        access: Access,
    ) {
        let found = match paths::expand(dir, pattern, pattern.start(), &mut self.entries_left) {
            Ok(found) => found,
            Err(error) => {
                self.unenforceable
                    .push((declared.clause.clone(), error.to_string()));
                return;
            }
        };
        if self.grants.len() + found.len() > paths::MAX_MOUNTS {
            let why = format!(
                "{} files match, which is too many to show one by one; grant their directory with `/**`",
                found.len()
            );
            self.unenforceable.push((declared.clause.clone(), why));
            return;
        }
        let mut skipped = 0;
        for found in found {
            match found {
                Found::File(path) | Found::Tree(path) if !paths::is_sandbox_dir(&path) => {
                    self.declare(&declared.clause, path.clone(), path, access, false);
                }
                _ => skipped += 1,
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
        self.notes.push((declared.clause.clone(), later.to_owned()));
        if skipped > 0 {
            let note = format!(
                "{skipped} matching links or directories are not visible: list them, or append `/**`"
            );
            self.notes.push((declared.clause.clone(), note));
        }
    }

    /// The grants in order, parents first. Grants at the same path get the same rights.
    pub fn finish(&mut self) -> (Vec<PathGrant>, Vec<Symlink>) {
        // Declared before provided, so that a stable sort keeps the clause first.
        self.grants.sort_by(|a, b| {
            let key = |h: &DraftGrant| (h.grant.at.clone(), h.role != Role::Declared);
            key(a).cmp(&key(b))
        });
        if self.spec == SandboxSpec::Aip29 {
            self.widen_nested_reads();
        }
        self.unify_rights();
        let mut grants: Vec<PathGrant> = Vec::new();
        for DraftGrant { grant, .. } in std::mem::take(&mut self.grants) {
            if grant.clause.is_some() || !self.is_redundant(&grants, &grant) {
                grants.push(grant);
            }
        }
        let protective_mounts = self.protective_mounts(&grants);
        grants.extend(protective_mounts);
        grants.sort_by(|a, b| a.at.cmp(&b.at));
        let shown = |link: &Symlink| {
            let outer = innermost(&grants, &link.at);
            outer.is_some_and(|g| g.at == g.source && g.at != link.at)
        };
        let mut links = std::mem::take(&mut self.followed.links);
        links.retain(|link| !shown(link) && !grants.iter().any(|g| g.at == link.at));
        // A link for a shim replaces the host's own link with the same name.
        let mut seen = std::collections::HashSet::new();
        links.reverse();
        links.retain(|link| seen.insert(link.at.clone()));
        links.sort_by(|a, b| a.at.cmp(&b.at));
        (grants, links)
    }

    /// Makes declared paths inside writable paths writable.
    fn widen_nested_reads(&mut self) {
        let writable: Vec<PathBuf> = self
            .grants
            .iter()
            .filter(|h| h.grant.access == Access::Write)
            .map(|h| h.grant.at.clone())
            .collect();
        for granted in &mut self.grants {
            let inside = writable.iter().any(|w| granted.grant.at.starts_with(w));
            if granted.role == Role::Declared && inside {
                granted.grant.access = Access::Write;
            }
        }
    }

    /// Gives all grants at one path the same rights. Under AIP-29 nothing is both writable and
    /// executable.
    fn unify_rights(&mut self) {
        let mut start = 0;
        while let Some(first) = self.grants.get(start) {
            let at = first.grant.at.clone();
            let end = start
                + self
                    .grants
                    .iter()
                    .skip(start)
                    .take_while(|h| h.grant.at == at)
                    .count();
            let Some(same) = self.grants.get_mut(start..end) else {
                return;
            };
            let protected = same.iter().any(|h| h.role == Role::Protected);
            let mut write = same.iter().any(|h| h.grant.access == Access::Write) && !protected;
            let mut exec = same.iter().any(|h| h.grant.exec);
            if self.spec == SandboxSpec::Aip29 && write && exec {
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
            for granted in same {
                granted.grant.access = if write { Access::Write } else { Access::Read };
                granted.grant.exec = exec;
            }
            start = end;
        }
    }

    /// Additional mounts for directories on the way to a denied path or to a read-only file.
    /// Without them, such a directory could be renamed and the path created again.
    fn protective_mounts(&self, grants: &[PathGrant]) -> Vec<PathGrant> {
        let writable = |at: &&PathGrant| at.access == Access::Write;
        let fixed = grants
            .iter()
            .filter(|g| g.access == Access::Read)
            .map(|g| &g.at);
        let protected: Vec<&PathBuf> = self.denials.iter().map(|d| &d.path).chain(fixed).collect();
        let mut protective_mounts: Vec<PathGrant> = Vec::new();
        for path in protected {
            for outer in grants.iter().filter(writable) {
                let between = path
                    .ancestors()
                    .skip(1)
                    .take_while(|dir| *dir != outer.at && dir.starts_with(&outer.at));
                for dir in between.filter(|dir| !self.is_in_state(dir)) {
                    let Some(around) = innermost(grants, dir).filter(writable) else {
                        continue;
                    };
                    let Ok(rest) = dir.strip_prefix(&around.at) else {
                        continue;
                    };
                    if around.at != dir && !protective_mounts.iter().any(|p| p.at == dir) {
                        protective_mounts.push(PathGrant {
                            source: around.source.join(rest),
                            at: dir.to_owned(),
                            create: None,
                            clause: None,
                            ..around.clone()
                        });
                    }
                }
            }
        }
        protective_mounts
    }

    /// Whether a path (inside) is in agentproto's state, which is hidden and cannot be renamed.
    fn is_in_state(&self, path: &Path) -> bool {
        let state = self.denials.iter().filter(|d| d.kind == HiddenKind::State);
        state.map(|d| &d.path).any(|state| path.starts_with(state))
    }

    /// Whether the surrounding grant shows the same with the same rights.
    fn is_redundant(&self, grants: &[PathGrant], grant: &PathGrant) -> bool {
        innermost(grants, &grant.at).is_some_and(|outer| {
            let same_file = grant.at.strip_prefix(&outer.at).is_ok_and(|rest| {
                outer.source.join(rest) == grant.source || rest.as_os_str().is_empty()
            });
            let same_rights = outer.access == grant.access && outer.exec == grant.exec;
            same_file && same_rights && !is_separated(&self.denials, outer, grant)
        })
    }
}

/// Whether the outer grant does not show the inner one, because agentproto's state is hidden
/// between them.
pub(crate) fn is_separated(denials: &[Denial], outer: &PathGrant, inner: &PathGrant) -> bool {
    let between = |d: &Denial| inner.at.starts_with(&d.path) && !outer.at.starts_with(&d.path);
    denials
        .iter()
        .any(|d| d.kind == HiddenKind::State && between(d))
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

/// The grant that decides about a path inside.
pub fn innermost<'g>(grants: &'g [PathGrant], path: &Path) -> Option<&'g PathGrant> {
    let around = grants.iter().filter(|g| path.starts_with(&g.at));
    around.max_by_key(|g| g.at.components().count())
}
