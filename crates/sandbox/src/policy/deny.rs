//! `fs.deny` takes precedence over everything: it removes grants, or masks paths inside them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::block::ClauseValue;
use super::draft::{Draft, DraftGrant, Role};
use super::error::PolicyError;
use super::paths::{self, GlobBase, GlobError, Scope};
use super::{Access, Denial, HiddenKind};
use crate::clause::Clause;
use crate::programs::links::FollowedLinks;
use agentproto_manifest::globs::GlobProgress;

/// Applies all denials. Whole directories come first, so that fewer matches have to be looked up.
pub fn apply(
    draft: &mut Draft,
    denied: &[ClauseValue<String>],
    scope: Scope,
) -> Result<(), PolicyError> {
    let mut work = Vec::new();
    for declared in denied {
        match paths::glob_bases(&declared.value, scope) {
            Ok(glob_bases) => work.extend(
                glob_bases
                    .into_iter()
                    .map(|glob_base| (declared, glob_base)),
            ),
            Err(GlobError::Invalid) => {
                return Err(PolicyError::invalid_glob(
                    declared.position.clone(),
                    &declared.value,
                ));
            }
            Err(GlobError::Unenforceable(why)) => {
                draft.unenforceable.push((declared.clause.clone(), why))
            }
        }
    }
    work.sort_by_key(|(_, glob_base)| !glob_base.is_subtree());
    let mut results: Vec<(&ClauseValue<String>, bool)> =
        denied.iter().map(|declared| (declared, false)).collect();
    for (declared, glob_base) in work {
        let touched = Denier {
            draft,
            clause: &declared.clause,
            touched: false,
        }
        .deny(&glob_base);
        if let Some(entry) = results.iter_mut().find(|(s, _)| std::ptr::eq(*s, declared)) {
            entry.1 |= touched;
        }
    }
    for (declared, touched) in results {
        if !touched {
            let why = "none of its paths is visible in the sandbox".to_owned();
            draft.ineffective.push((declared.clause.clone(), why));
        }
    }
    Ok(())
}

struct Denier<'a> {
    draft: &'a mut Draft,
    clause: &'a Clause,
    touched: bool,
}

impl Denier<'_> {
    /// Applies one denial. Returns whether something had to be done to enforce the clause.
    fn deny(mut self, glob_base: &GlobBase) -> bool {
        let mut followed = FollowedLinks::default();
        let resolved = match followed.follow_lenient(&glob_base.base) {
            Ok(resolved) => resolved,
            Err(error) => {
                self.unenforceable(format!("{}: {error}", glob_base.base.display()));
                return true;
            }
        };
        // The link itself can neither be masked nor protected from being replaced.
        for link in &followed.links {
            if self.draft.is_writable(&link.at) {
                self.unenforceable(format!(
                    "`{}` is a symbolic link in a writable directory, where it could be replaced; narrow fs.write",
                    link.at.display()
                ));
            }
        }
        let path = resolved.full_path();
        if glob_base.is_subtree() {
            let first = resolved.rest.components().next();
            self.tree(&path, first.map(|name| resolved.real.join(name)));
        } else {
            self.matches(&path, glob_base);
        }
        self.touched
    }

    fn unenforceable(&mut self, why: String) {
        self.touched = true;
        self.draft.unenforceable.push((self.clause.clone(), why));
    }

    fn note(&mut self, note: String) {
        self.draft.notes.push((self.clause.clone(), note));
    }

    /// Hides a path and everything below it. `missing` is the first part of it that does not exist.
    fn tree(&mut self, path: &Path, missing: Option<PathBuf>) {
        self.remove_grants(path);
        let around: Vec<(PathBuf, PathBuf, Access)> = self
            .draft
            .grants
            .iter()
            .filter(|h| path.starts_with(&h.grant.source))
            .map(|h| (h.grant.source.clone(), h.grant.at.clone(), h.grant.access))
            .collect();
        for (source, at, access) in around {
            self.touched = true;
            let Some(inside) = path_inside(path, missing.as_deref(), &source, &at) else {
                continue;
            };
            match (&missing, access) {
                (None, _) => {
                    let kind = self.kind_of(path);
                    self.hide(&inside, kind);
                }
                (Some(_), Access::Write) => self.hide(&inside, HiddenKind::Missing),
                (Some(_), Access::Read) => self.note(format!(
                    "`{}` does not exist now; if another process creates it during the run, it is visible",
                    path.display()
                )),
            }
        }
    }

    fn kind_of(&mut self, path: &Path) -> HiddenKind {
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            return HiddenKind::File;
        };
        if meta.is_dir() {
            return HiddenKind::Directory;
        }
        self.note(format!(
            "if another process replaces `{}` during the run, the new file is visible",
            path.display()
        ));
        if meta.nlink() > 1 {
            self.note(format!(
                "`{}` has {} names (hard links), and only this name is hidden",
                path.display(),
                meta.nlink()
            ));
        }
        HiddenKind::File
    }

    fn hide(&mut self, path: &Path, kind: HiddenKind) {
        let known = |d: &Denial| path.starts_with(&d.path);
        if !self.draft.denials.iter().any(known) {
            self.draft.denials.push(Denial {
                path: path.to_owned(),
                kind,
                clause: self.clause.clone(),
            });
        }
    }

    /// Removes the grants that are completely inside the path.
    fn remove_grants(&mut self, path: &Path) {
        let granted = std::mem::take(&mut self.draft.grants);
        let (gone, kept): (Vec<DraftGrant>, _) = granted
            .into_iter()
            .partition(|h| h.grant.source.starts_with(path));
        self.draft.grants = kept;
        self.draft
            .followed
            .links
            .retain(|l| !l.at.starts_with(path));
        self.draft.programs.retain(|p| !p.starts_with(path));
        self.touched |= !gone.is_empty();
        for granted in gone {
            let shown = granted.grant.source.display().to_string();
            match granted.role {
                Role::Program => self.unenforceable(format!(
                    "it hides `{shown}`, which the program needs to start"
                )),
                Role::Declared => {
                    let why = format!("`{}` hides it", self.clause.text);
                    self.draft
                        .ineffective
                        .extend(granted.grant.clause.map(|c| (c, why)));
                }
                Role::System if super::base::is_trust(&granted.grant.source) => {
                    self.note(format!("it hides the TLS certificates in `{shown}`"));
                }
                Role::System if granted.grant.source == Path::new("/etc/ld.so.cache") => {
                    if self.draft.needs_cache {
                        self.note(
                            "it hides /etc/ld.so.cache, which the program needs to find libraries"
                                .into(),
                        );
                    }
                }
                Role::System | Role::ExtraFile | Role::Protected => {}
            }
        }
    }

    /// Hides the current matches of a wildcard. If new matches could be created, the clause cannot
    /// be enforced.
    fn matches(&mut self, base: &Path, glob_base: &GlobBase) {
        let grants: Vec<(PathBuf, Access)> = self
            .draft
            .grants
            .iter()
            .map(|h| (h.grant.source.clone(), h.grant.access))
            .collect();
        let mut searched: Vec<PathBuf> = Vec::new();
        for (source, access) in grants {
            let Some((dir, progress)) = intersection(base, &source, glob_base) else {
                continue;
            };
            let at_grant = dir == source;
            if at_grant && glob_base.pattern.accepts(&progress) {
                self.tree(&source, None);
                continue;
            }
            let new = !source.exists();
            if !source.is_dir() && !new {
                continue;
            }
            let hidden = self.draft.denials.iter().any(|d| dir.starts_with(&d.path));
            if access == Access::Write && !hidden {
                self.unenforceable(format!(
                    "a matching file that is created in `{}` during the run would not be hidden; narrow fs.write, or list exact paths",
                    source.display()
                ));
                continue;
            }
            if hidden || searched.contains(&dir) || !dir.is_dir() {
                continue;
            }
            match paths::expand(
                &dir,
                &glob_base.pattern,
                progress,
                &mut self.draft.entries_left,
            ) {
                Ok(found) if found.len() + self.draft.denials.len() > paths::MAX_MOUNTS => {
                    let why = format!(
                        "{} files match, which is too many to hide one by one",
                        found.len()
                    );
                    self.unenforceable(why);
                }
                Ok(found) => found.iter().for_each(|f| self.hide_found(f)),
                Err(error) => self.unenforceable(error.to_string()),
            }
            searched.push(dir);
        }
    }

    fn hide_found(&mut self, found: &paths::Found) {
        match found {
            paths::Found::Link(link) => {
                // A mask over a link would hide its target.
                if let Ok(real) = FollowedLinks::default().follow(link) {
                    self.tree(&real, None);
                }
            }
            other => self.tree(paths::path_of(other), None),
        }
    }
}

/// The path of a denial in the sandbox: as deep as it exists, and one step further.
fn path_inside(path: &Path, missing: Option<&Path>, source: &Path, at: &Path) -> Option<PathBuf> {
    let rest = match missing {
        None => path.strip_prefix(source).ok()?,
        // The grant itself does not exist yet: only what is inside it is denied.
        Some(missing) if source.starts_with(missing) => {
            let rest = path.strip_prefix(source).ok()?;
            Path::new(rest.components().next()?.as_os_str())
        }
        Some(missing) => missing.strip_prefix(source).ok()?,
    };
    Some(match rest.as_os_str().is_empty() {
        true => at.to_owned(),
        false => at.join(rest),
    })
}

/// Where a pattern and a grant meet: the deeper of both directories, and how far the pattern has
/// matched there. `None` if nothing in the grant can match.
fn intersection(
    base: &Path,
    source: &Path,
    glob_base: &GlobBase,
) -> Option<(PathBuf, GlobProgress)> {
    let mut progress = glob_base.pattern.start();
    if base.starts_with(source) {
        return Some((base.to_owned(), progress));
    }
    for part in source.strip_prefix(base).ok()?.components() {
        let name = part.as_os_str().to_string_lossy();
        progress = glob_base.pattern.step(&progress, &name);
    }
    (!progress.is_dead()).then(|| (source.to_owned(), progress))
}
