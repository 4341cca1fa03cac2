//! Named directories (AIP-46, Workspaces), stored in `workspaces.json` in the home. Several
//! processes may write it.
//!
//! An agent can replace any entry of a directory that it may write with a symbolic link. So a
//! stored path is never resolved again: it is compared literally, a link on it refuses the session,
//! and no workspace is inside another one.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::model::{Principal, Warning};
use agentproto_runtime::home::Home;
use agentproto_runtime::{Code, Error};
use agentproto_sandbox::programs::follow_links;
use agentproto_text::time;

const NAME: &str = "workspaces.json";
const LOCK: &str = "workspaces";
/// Slug of sessions outside every workspace.
pub const DEFAULT: &str = "default";

/// The stored file (A46-WS-02, 03). Unknown members are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workspaces {
    /// Version of the file format. Only 1 exists.
    pub version: u64,
    /// Slug of the active workspace.
    #[serde(default)]
    pub active: Option<String>,
    /// All workspaces, in the order in which they were added.
    #[serde(default)]
    pub workspaces: Vec<RegisteredWorkspace>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// A named directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Workspace")]
pub struct RegisteredWorkspace {
    /// Name of the workspace, unique in the file.
    pub slug: String,
    /// Absolute path of the directory, without symbolic links.
    pub path: PathBuf,
    /// ISO-8601 time at which it was added.
    pub added_at: String,
    /// ISO-8601 time of the last change.
    pub updated_at: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

impl Default for Workspaces {
    fn default() -> Self {
        Workspaces {
            version: 1,
            active: None,
            workspaces: Vec::new(),
            rest: serde_json::Map::new(),
        }
    }
}

/// The directory of a session, with warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDirectory {
    /// Slug of the workspace, or `default`.
    pub slug: String,
    /// Absolute path of the directory, without symbolic links.
    pub cwd: PathBuf,
    /// Problems that did not prevent the spawn.
    pub warnings: Vec<Warning>,
}

impl Workspaces {
    /// Reads the file. A missing file is an empty registry.
    pub fn load(home: &Home) -> Result<Workspaces, Error> {
        let Some(bytes) = home.read(NAME)? else {
            return Ok(Workspaces::default());
        };
        let invalid = |why: String| {
            let what = format!("cannot read `{}`: {why}", home.path(NAME).display());
            Error::new(Code::ManifestInvalid, what)
                .hint("fix the file, or move it away and add the workspaces again")
        };
        let read: Workspaces =
            serde_json::from_slice(&bytes).map_err(|e| invalid(e.to_string()))?;
        match read.version {
            1 => Ok(read),
            other => Err(invalid(format!("unknown version {other}, expected 1"))),
        }
    }

    /// Changes the file under a lock (A46-REF-03).
    pub fn change<T>(
        home: &Home,
        change: impl FnOnce(&mut Workspaces) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = home.lock(LOCK)?;
        let mut all = Workspaces::load(home)?;
        let done = change(&mut all)?;
        let mut bytes = serde_json::to_vec_pretty(&all).unwrap_or_default();
        bytes.push(b'\n');
        home.write(NAME, &bytes)?;
        Ok(done)
    }

    /// The workspace with this slug.
    pub fn get(&self, slug: &str) -> Option<&RegisteredWorkspace> {
        self.workspaces.iter().find(|w| w.slug == slug)
    }

    /// The active workspace.
    pub fn active(&self) -> Option<&RegisteredWorkspace> {
        self.get(self.active.as_deref()?)
    }

    /// Adds a directory, or changes the workspace with the same slug. The first workspace becomes
    /// active.
    pub fn add(
        &mut self,
        path: &Path,
        slug: Option<&str>,
        label: Option<&str>,
    ) -> Result<RegisteredWorkspace, Error> {
        let followed = std::path::absolute(path).and_then(|path| follow_links(&path));
        let Some((whole, links)) = followed.ok().filter(|(path, _)| path.is_dir()) else {
            let what = match path.exists() {
                true => format!("`{}` is not a directory", path.display()),
                false => format!("the directory `{}` does not exist", path.display()),
            };
            return Err(Error::new(Code::TargetUnknown, what).hint("pass an existing directory"));
        };
        if let Some(link) = links.iter().find(|link| self.contains(&link.at)) {
            return Err(Error::new(Code::OptionInvalid, planted(path, &link.at))
                .hint("remove the link, or name the real path"));
        }
        let slug = match slug {
            Some(slug) if is_slug(slug) => slug.to_owned(),
            Some(slug) => {
                let what = format!(
                    "`{slug}` is not a slug: use letters a to z, digits, `-`, `_` and `.`, at most 64 characters"
                );
                return Err(Error::new(Code::OptionInvalid, what).hint("choose another `--slug`"));
            }
            None => self.free_slug(&whole),
        };
        let mut others = self.workspaces.iter().filter(|other| other.slug != slug);
        if let Some(other) = others.find(|other| is_nested(&other.path, &whole)) {
            let relation = match whole.starts_with(&other.path) {
                true => "is inside",
                false => "contains",
            };
            let what = format!(
                "`{}` {relation} the workspace `{}` (`{}`): an agent in the outer directory could \
                 replace the inner one",
                whole.display(),
                other.slug,
                other.path.display()
            );
            let hint = format!(
                "register only one of them; `agentproto workspace remove {}` removes the other",
                other.slug
            );
            return Err(Error::new(Code::OptionInvalid, what).hint(hint));
        }
        let now = time::now();
        let known = self.workspaces.iter_mut().find(|w| w.slug == slug);
        let added = match known {
            Some(known) => {
                known.path = whole;
                known.updated_at = now;
                if let Some(label) = label {
                    known.label = Some(label.to_owned());
                }
                known.clone()
            }
            None => {
                let new = RegisteredWorkspace {
                    slug,
                    path: whole,
                    added_at: now.clone(),
                    updated_at: now,
                    label: label.map(str::to_owned),
                    rest: serde_json::Map::new(),
                };
                self.workspaces.push(new.clone());
                new
            }
        };
        if self.active().is_none() {
            self.active = Some(added.slug.clone());
        }
        Ok(added)
    }

    /// A new slug, or the existing one if the directory is already registered.
    fn free_slug(&self, path: &Path) -> String {
        if let Some(known) = self.workspaces.iter().find(|w| w.path == path) {
            return known.slug.clone();
        }
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(48)
            .collect();
        let plain = plain.trim_matches('-');
        let base = if plain.is_empty() { "workspace" } else { plain };
        if self.get(base).is_none() {
            return base.to_owned();
        }
        let free = (2u32..)
            .map(|n| format!("{base}-{n}"))
            .find(|slug| self.get(slug).is_none());
        free.unwrap_or_else(|| base.to_owned())
    }

    /// Removes a workspace. After removing the active one, none is active.
    pub fn remove(&mut self, slug: &str) -> Result<RegisteredWorkspace, Error> {
        let at = self.workspaces.iter().position(|w| w.slug == slug);
        let at = at.ok_or_else(|| self.unknown(slug))?;
        let removed = self.workspaces.remove(at);
        if self.active.as_deref() == Some(slug) {
            self.active = None;
        }
        Ok(removed)
    }

    /// Makes a workspace the active one.
    pub fn activate(&mut self, slug: &str) -> Result<RegisteredWorkspace, Error> {
        let known = self.get(slug).cloned().ok_or_else(|| self.unknown(slug))?;
        self.active = Some(slug.to_owned());
        Ok(known)
    }

    fn unknown(&self, slug: &str) -> Error {
        let known: Vec<&str> = self.workspaces.iter().map(|w| w.slug.as_str()).collect();
        let hint = match known.is_empty() {
            true => "add one with `agentproto workspace add PATH`".to_owned(),
            false => format!("known workspaces: {}", known.join(", ")),
        };
        Error::new(Code::TargetUnknown, format!("unknown workspace `{slug}`")).hint(hint)
    }

    /// Resolves the directory in the order of AIP-46 (A46-WS-04 to 07): `cwd`, the named workspace,
    /// the active one, then the host's own directory with a warning. A remote caller is limited to
    /// registered workspaces (A46-SEC-06). `is_used` says whether a path is in the directory of a
    /// session, whose agent may have planted it.
    pub fn resolve(
        &self,
        cwd: Option<&str>,
        slug: Option<&str>,
        own: &Path,
        principal: Principal,
        is_used: &dyn Fn(&Path) -> bool,
    ) -> Result<SessionDirectory, ApiError> {
        let mut warnings = Vec::new();
        let mut warn = |code: &str, message: String| {
            warnings.push(Warning {
                code: code.to_owned(),
                message,
            });
        };
        let named = slug.and_then(|slug| self.get(slug));
        if let (Some(slug), None) = (slug, named) {
            warn("workspace_unknown", format!("unknown workspace `{slug}`"));
        }
        let (workspace, path) = match (cwd, named.or_else(|| self.active())) {
            (Some(cwd), _) => {
                let path = PathBuf::from(cwd);
                if !path.is_absolute() {
                    return Err(ApiError::bad_request(format!(
                        "`cwd` must be an absolute path, not `{cwd}`"
                    ))
                    .hint("use an absolute path or a `workspaceSlug`"));
                }
                (self.workspaces.iter().find(|w| w.path == path), path)
            }
            (None, Some(workspace)) => (Some(workspace), workspace.path.clone()),
            (None, None) => {
                warn(
                    "cwd_of_host",
                    format!(
                        "no workspace is active: the agent runs in the daemon's own directory `{}`",
                        own.display()
                    ),
                );
                (None, own.to_owned())
            }
        };
        let is_remote = principal == Principal::Remote;
        // Before the disk is read, so that a remote caller cannot probe which files exist.
        if is_remote && !self.contains(&path) {
            return Err(ApiError::new(
                403,
                "cwd_outside_workspaces",
                "this directory is not in a registered workspace (AIP-46, Security)",
            )
            .hint("run `agentproto workspace add PATH` on the host to register it"));
        }
        let real = self.follow(&path, is_remote || workspace.is_some(), is_used)?;
        self.check_nesting(&real)?;
        Ok(SessionDirectory {
            slug: workspace.map_or_else(|| DEFAULT.to_owned(), |w| w.slug.clone()),
            cwd: real,
            warnings,
        })
    }

    /// The directory without links. A literal path must not have any. Another one must not have a
    /// link where an agent may have planted it: in a workspace or in the directory of a session.
    fn follow(
        &self,
        path: &Path,
        is_literal: bool,
        is_used: &dyn Fn(&Path) -> bool,
    ) -> Result<PathBuf, ApiError> {
        let missing = || {
            let what = format!("the directory `{}` does not exist", path.display());
            ApiError::new(422, "cwd_missing", what).hint("create it, or use another directory")
        };
        let (real, links) = follow_links(path).map_err(|_| missing())?;
        let is_planted = |link: &Path| is_literal || self.contains(link) || is_used(link);
        if let Some(link) = links.iter().find(|link| is_planted(&link.at)) {
            return Err(
                ApiError::new(403, "cwd_link", planted(path, &link.at)).hint(
                    "remove the link, or name the real path; for a workspace, run \
                 `agentproto workspace add PATH --slug SLUG` with the real path",
                ),
            );
        }
        match real.is_dir() {
            true => Ok(real),
            false => Err(missing()),
        }
    }

    /// Whether a path is literally in a workspace.
    fn contains(&self, path: &Path) -> bool {
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        is_plain && self.workspaces.iter().any(|w| path.starts_with(&w.path))
    }

    /// Refuses a directory in nested workspaces, which older versions could register: an agent in
    /// the outer one could replace the inner one.
    fn check_nesting(&self, real: &Path) -> Result<(), ApiError> {
        let outer = self.workspaces.iter().filter(|w| real.starts_with(&w.path));
        let mut pairs = outer.flat_map(|outer| self.workspaces.iter().map(move |w| (outer, w)));
        let Some((outer, inner)) = pairs.find(|(outer, w)| is_nested(&outer.path, &w.path)) else {
            return Ok(());
        };
        let what = format!(
            "the workspaces `{}` (`{}`) and `{}` (`{}`) are nested: an agent in the outer one \
             could replace the inner one",
            outer.slug,
            outer.path.display(),
            inner.slug,
            inner.path.display()
        );
        Err(ApiError::new(403, "workspaces_nested", what)
            .hint("run `agentproto workspace remove SLUG` on the host for one of them"))
    }
}

fn planted(path: &Path, link: &Path) -> String {
    format!(
        "the directory `{}` is not used: `{}` is a symbolic link, which an agent may have planted",
        path.display(),
        link.display()
    )
}

/// Whether one directory is inside the other. Two names of the same directory are not nested.
fn is_nested(one: &Path, other: &Path) -> bool {
    one != other && (one.starts_with(other) || other.starts_with(one))
}

fn is_slug(slug: &str) -> bool {
    let plain =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&slug.len()) && slug.bytes().all(plain) && !slug.starts_with(['.', '-'])
}
