//! `fs.deny` takes precedence over everything: it removes grants, or masks paths inside them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::block::Said;
use super::draft::{Draft, Held, Role};
use super::paths::{self, NoSpot, Scope, Spot};
use super::refusal::Refusal;
use super::{Access, Denial, Hidden};
use crate::clause::Clause;
use crate::programs::links::Trail;
use agentproto_manifest::globs::Progress;

/// Applies all denials. Whole directories come first, so that fewer matches have to be looked up.
pub fn apply(draft: &mut Draft, denied: &[Said<String>], scope: Scope) -> Result<(), Refusal> {
    let mut work = Vec::new();
    for said in denied {
        match paths::spots(&said.value, scope) {
            Ok(spots) => work.extend(spots.into_iter().map(|spot| (said, spot))),
            Err(NoSpot::Malformed) => {
                return Err(Refusal::no_glob(said.place.clone(), &said.value));
            }
            Err(NoSpot::Impossible(why)) => draft.impossible.push((said.clause.clone(), why)),
        }
    }
    work.sort_by_key(|(_, spot)| !spot.is_subtree());
    let mut held: Vec<(&Said<String>, bool)> = denied.iter().map(|said| (said, false)).collect();
    for (said, spot) in work {
        let touched = Denier {
            draft,
            clause: &said.clause,
            touched: false,
        }
        .deny(&spot);
        if let Some(entry) = held.iter_mut().find(|(s, _)| std::ptr::eq(*s, said)) {
            entry.1 |= touched;
        }
    }
    for (said, touched) in held {
        if !touched {
            let why = "none of its paths is visible in the sandbox".to_owned();
            draft.absent.push((said.clause.clone(), why));
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
    fn deny(mut self, spot: &Spot) -> bool {
        let mut trail = Trail::default();
        let walked = match trail.follow_lenient(&spot.base) {
            Ok(walked) => walked,
            Err(error) => {
                self.impossible(format!("{}: {error}", spot.base.display()));
                return true;
            }
        };
        // The link itself can neither be masked nor protected from being replaced.
        for link in &trail.links {
            if self.is_writable(&link.at) {
                self.impossible(format!(
                    "`{}` is a symbolic link in a writable directory, where it could be replaced; narrow fs.write",
                    link.at.display()
                ));
            }
        }
        let path = walked.whole();
        if spot.is_subtree() {
            let first = walked.rest.components().next();
            self.tree(&path, first.map(|name| walked.real.join(name)));
        } else {
            self.matches(&path, spot);
        }
        self.touched
    }

    fn impossible(&mut self, why: String) {
        self.touched = true;
        self.draft.impossible.push((self.clause.clone(), why));
    }

    fn note(&mut self, note: String) {
        self.draft.notes.push((self.clause.clone(), note));
    }

    fn is_writable(&self, path: &Path) -> bool {
        let inside =
            |h: &Held| h.grant.access == Access::Write && path.starts_with(&h.grant.source);
        self.draft.held.iter().any(inside)
    }

    /// Hides a path and everything below it. `missing` is the first part of it that does not exist.
    fn tree(&mut self, path: &Path, missing: Option<PathBuf>) {
        self.take_away(path);
        let around: Vec<(PathBuf, PathBuf, Access)> = self
            .draft
            .held
            .iter()
            .filter(|h| path.starts_with(&h.grant.source))
            .map(|h| (h.grant.source.clone(), h.grant.at.clone(), h.grant.access))
            .collect();
        for (source, at, access) in around {
            self.touched = true;
            let Some(inside) = inside(path, missing.as_deref(), &source, &at) else {
                continue;
            };
            match (&missing, access) {
                (None, _) => {
                    let kind = self.kind_of(path);
                    self.hide(&inside, kind);
                }
                (Some(_), Access::Write) => self.hide(&inside, Hidden::Missing),
                (Some(_), Access::Read) => self.note(format!(
                    "`{}` does not exist now; if it is created from outside while the program runs, it becomes visible",
                    path.display()
                )),
            }
        }
    }

    fn kind_of(&mut self, path: &Path) -> Hidden {
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            return Hidden::File;
        };
        if meta.is_dir() {
            return Hidden::Directory;
        }
        self.note(format!(
            "`{}` is hidden as a file; if it is replaced from outside while the program runs, the new one becomes visible",
            path.display()
        ));
        if meta.nlink() > 1 {
            self.note(format!(
                "`{}` has {} names (hard links), and only this name is hidden",
                path.display(),
                meta.nlink()
            ));
        }
        Hidden::File
    }

    fn hide(&mut self, path: &Path, kind: Hidden) {
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
    fn take_away(&mut self, path: &Path) {
        let held = std::mem::take(&mut self.draft.held);
        let (gone, kept): (Vec<Held>, _) = held
            .into_iter()
            .partition(|h| h.grant.source.starts_with(path));
        self.draft.held = kept;
        self.draft.trail.links.retain(|l| !l.at.starts_with(path));
        self.draft.programs.retain(|p| !p.starts_with(path));
        self.touched |= !gone.is_empty();
        for held in gone {
            let shown = held.grant.source.display().to_string();
            match held.role {
                Role::Program => self.impossible(format!(
                    "it hides `{shown}`, which the program needs to start"
                )),
                Role::Declared => {
                    let why = format!("`{}` hides it", self.clause.text);
                    self.draft
                        .absent
                        .extend(held.grant.clause.map(|c| (c, why)));
                }
                Role::System if super::base::is_trust(&held.grant.source) => {
                    self.note(format!("it hides the TLS certificates in `{shown}`"));
                }
                Role::System if held.grant.source == Path::new("/etc/ld.so.cache") => {
                    if self.draft.needs_cache {
                        self.note(
                            "it hides /etc/ld.so.cache, which the program needs to find libraries"
                                .into(),
                        );
                    }
                }
                Role::System | Role::Companion => {}
            }
        }
    }

    /// Hides the current matches of a wildcard. If new matches could be created, the clause cannot
    /// be enforced.
    fn matches(&mut self, base: &Path, spot: &Spot) {
        let grants: Vec<(PathBuf, Access)> = self
            .draft
            .held
            .iter()
            .map(|h| (h.grant.source.clone(), h.grant.access))
            .collect();
        let mut walked: Vec<PathBuf> = Vec::new();
        for (source, access) in grants {
            let Some((dir, progress)) = meeting(base, &source, spot) else {
                continue;
            };
            let at_grant = dir == source;
            if at_grant && spot.pattern.accepts(&progress) {
                self.tree(&source, None);
                continue;
            }
            let new = !source.exists();
            if !source.is_dir() && !new {
                continue;
            }
            let hidden = self.draft.denials.iter().any(|d| dir.starts_with(&d.path));
            if access == Access::Write && !hidden {
                self.impossible(format!(
                    "a file created later in `{}` would match but not be hidden; narrow fs.write, or list exact paths",
                    source.display()
                ));
                continue;
            }
            if hidden || walked.contains(&dir) || !dir.is_dir() {
                continue;
            }
            match paths::expand(&dir, &spot.pattern, progress, &mut self.draft.left) {
                Ok(found) if found.len() + self.draft.denials.len() > paths::MOST_MOUNTS => {
                    let why = format!(
                        "{} files match, which is too many to hide one by one",
                        found.len()
                    );
                    self.impossible(why);
                }
                Ok(found) => found.iter().for_each(|f| self.hide_found(f)),
                Err(error) => self.impossible(error.to_string()),
            }
            walked.push(dir);
        }
    }

    fn hide_found(&mut self, found: &paths::Found) {
        match found {
            paths::Found::Link(link) => {
                // A mask over a link would hide its target.
                if let Ok(real) = Trail::default().follow(link) {
                    self.tree(&real, None);
                }
            }
            other => self.tree(paths::path_of(other), None),
        }
    }
}

/// The path of a denial in the sandbox: as deep as it exists, and one step further.
fn inside(path: &Path, missing: Option<&Path>, source: &Path, at: &Path) -> Option<PathBuf> {
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
fn meeting(base: &Path, source: &Path, spot: &Spot) -> Option<(PathBuf, Progress)> {
    let mut progress = spot.pattern.start();
    if base.starts_with(source) {
        return Some((base.to_owned(), progress));
    }
    for part in source.strip_prefix(base).ok()?.components() {
        let name = part.as_os_str().to_string_lossy();
        progress = spot.pattern.step(&progress, &name);
    }
    (!progress.is_over()).then(|| (source.to_owned(), progress))
}
