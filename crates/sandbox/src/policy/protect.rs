//! What a sandboxed program must not change or see, whatever the manifest grants: the files that
//! decide what the next run may do, and agentproto's own state.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::draft::{Draft, DraftGrant, Role};
use super::host_context::HostContext;
use super::manifest::SandboxManifest;
use super::repository::{self, Repository};
use super::{Access, Denial, HiddenKind, PathGrant, SandboxSpec, Symlink};
use crate::build::is_placeholder;
use crate::clause::Clause;
use crate::programs::links::FollowedLinks;
use agentproto_manifest::Doctype;

/// Names in a writable working directory that editors, shells and agents run code from. They are
/// read-only, and cannot be created. `.git` is treated separately.
pub const CONTROL_NAMES: [&str; 12] = [
    ".agents",
    ".claude",
    ".codex",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".gemini",
    ".husky",
    ".idea",
    ".mcp.json",
    ".vscode",
    ".zed",
];

/// More such names if the working directory is the user's home: shells and git read them.
const HOME_NAMES: [&str; 9] = [
    ".bash_profile",
    ".bashrc",
    ".config/git",
    ".gitconfig",
    ".profile",
    ".ssh",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Names that a bundle's directory is searched for; the first one is used. A file that does not
/// exist yet would take precedence over the one that was used.
pub const BUNDLE_FILES: [&str; 3] = ["AGENT-CLI.md", "CLI.md", "SANDBOX.md"];

/// Names of a bundle's entry module (AIP-29, `defineCli`); the first one that exists is used.
pub const ENTRY_FILES: [&str; 2] = ["cli.mjs", "cli.ts"];

/// Maximum number of directory entries that are searched for pipes in one policy.
const MAX_PIPE_ENTRIES: usize = 10_000;

/// Adds all protections to a policy whose grants and denials are complete.
pub fn apply(draft: &mut Draft, manifest: &SandboxManifest, context: &HostContext) {
    refuse_planted_links(draft, &context.cwd);
    policy_files(draft, manifest, context);
    control_files(draft, context);
    state(draft, context);
    hide_pipes(draft, context);
}

/// Refuses clauses whose path leads through a link that the program could have created in an
/// earlier run: the link would grant whatever its author wants.
fn refuse_planted_links(draft: &mut Draft, cwd: &Path) {
    let mut refused: Vec<(Clause, String)> = Vec::new();
    let mut refuse = |clause: &Clause, link: &Symlink| {
        let why = planted_link(link);
        if !refused.iter().any(|(c, w)| c == clause && *w == why) {
            refused.push((clause.clone(), why));
        }
    };
    for (clause, link) in &draft.clause_links {
        // The caller has resolved the working directory, so a link to it is a new one.
        if draft.is_writable(&link.at) || cwd.starts_with(&link.at) {
            refuse(clause, link);
        }
    }
    for (clause, link) in &draft.program_links {
        if draft.is_writable(&link.at) && !leads_to_known(draft, link) {
            refuse(clause, link);
        }
    }
    draft.unenforceable.extend(refused);
}

/// Why a clause is refused whose path leads through such a link.
pub fn planted_link(link: &Symlink) -> String {
    format!(
        "`{}` is a symbolic link in a directory that the program may write, so an earlier run may \
         have created it; name its target `{}`, or remove the link",
        link.at.display(),
        link.to.display()
    )
}

/// Whether a link leads to something that the program sees anyway. AIP-36 lets it run everything
/// that is visible, so such a link allows nothing new.
fn leads_to_known(draft: &Draft, link: &Symlink) -> bool {
    let Ok(real) = link.at.canonicalize() else {
        return false;
    };
    let known = |h: &DraftGrant| {
        matches!(h.role, Role::System | Role::Declared) && real.starts_with(&h.grant.source)
    };
    draft.spec == SandboxSpec::Aip36 && draft.grants.iter().any(known)
}

/// Protects everything that the policy was read from, and names that would take precedence over it.
fn policy_files(draft: &mut Draft, manifest: &SandboxManifest, context: &HostContext) {
    let mut protector = Protector::new(draft, Clause::new("", "manifests"));
    for file in manifest.all_files() {
        protector.keep_or_reserve(&file);
    }
    for path in &context.protection.read_only {
        protector.keep(path);
    }
    let cwd = super::real_path(&context.cwd);
    let bundle = super::real_path(&context.bundle);
    if cwd.starts_with(&bundle) {
        manifests_in(&bundle).for_each(|path| protector.keep(&path));
    } else {
        protector.keep(&bundle);
    }
    for dir in manifest.searched_directories() {
        for name in BUNDLE_FILES.into_iter().chain(["agentproto.toml"]) {
            protector.keep_or_reserve(&super::real_path(&dir).join(name));
        }
    }
    if manifest.spec == SandboxSpec::Aip29 && manifest.bundle().is_some() {
        for name in ENTRY_FILES {
            protector.keep_or_reserve(&bundle.join(name));
        }
    }
    // The configuration is searched from the working directory upwards.
    for dir in cwd.ancestors() {
        protector.keep_or_reserve(&dir.join("agentproto.toml"));
    }
    protector.finish();
}

/// Files with the name of a manifest in a directory.
fn manifests_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_manifest = |name: &OsStr| name.to_str().and_then(Doctype::from_file_name).is_some();
    entries
        .filter(move |entry| is_manifest(&entry.file_name()))
        .map(|entry| entry.path())
}

/// Protects the control files of repositories, editors and agents in writable directories.
fn control_files(draft: &mut Draft, context: &HostContext) {
    let cwd = super::real_path(&context.cwd);
    let home = super::real_path(&context.home);
    let mut roots: BTreeSet<PathBuf> = BTreeSet::new();
    for granted in &draft.grants {
        let source = &granted.grant.source;
        let is_workspace = granted.role == Role::Declared && !is_state_path(granted);
        if is_workspace && granted.grant.access == Access::Write && source.is_dir() {
            roots.insert(source.clone());
            let inner = [&cwd, &home].into_iter();
            roots.extend(inner.filter(|dir| dir.starts_with(source)).cloned());
        }
    }
    let allowed = &context.protection.unprotected;
    let mut unsearched = Vec::new();
    let mut too_wide = Vec::new();
    let mut protector = Protector::new(draft, Clause::new("", "files that other programs execute"));
    for root in &roots {
        let more = context.protection.names.iter().map(String::as_str);
        let own = if *root == home { &HOME_NAMES[..] } else { &[] };
        for name in CONTROL_NAMES.iter().chain(own).copied().chain(more) {
            let path = root.join(name);
            if !allowed.iter().any(|a| a == name) && !protector.is_declared(&path) {
                protector.keep_or_reserve(&path);
            }
        }
        if allowed.iter().any(|a| a == ".git") {
            continue;
        }
        let dot_git = root.join(".git");
        let is_missing = !dot_git.exists() || is_placeholder(&dot_git);
        if is_missing && !protector.is_declared(&dot_git) {
            protector.keep_or_reserve(&dot_git);
        }
        if *root != cwd && home.starts_with(root) {
            too_wide.push(root);
            continue;
        }
        match repository::find(root, &home) {
            Ok(found) => {
                for repository in found {
                    protect_repository(&mut protector, &repository);
                }
            }
            Err(repository::TooManyEntries) => unsearched.push(root),
        }
    }
    protector.finish();
    for root in too_wide {
        let note = format!(
            "git repositories in `{}` outside the working directory are not protected: the program \
             can change their configuration and hooks",
            root.display()
        );
        draft
            .notes
            .push((Clause::new("", "files that other programs execute"), note));
    }
    for root in unsearched {
        let why = format!(
            "`{}` has too many entries to be searched for git repositories, whose configuration \
             and hooks must be protected; run in a smaller directory, or allow changes to them with \
             `unprotect = [\".git\"]` in the configuration named by `--config`",
            root.display()
        );
        let clause = Clause::new("", "files that other programs execute");
        draft.unenforceable.push((clause, why));
    }
}

fn protect_repository(protector: &mut Protector, repository: &Repository) {
    for path in &repository.read_only {
        if !protector.is_declared(path) {
            protector.keep(path);
        }
    }
    for (path, kind) in &repository.reserved {
        if !protector.is_declared(path) {
            protector.keep_or_reserve_as(path, *kind);
        }
    }
}

/// Whether a grant comes from `auth.state.paths`: a program's own configuration, not a workspace.
fn is_state_path(granted: &DraftGrant) -> bool {
    let clause = granted.grant.clause.as_ref();
    clause.is_some_and(|c| c.pointer.starts_with("/auth/"))
}

/// Hides agentproto's own state, except for the bundle and the tools that the program needs.
fn state(draft: &mut Draft, context: &HostContext) {
    let clause = Clause::new("", "agentproto's state");
    let mut hidden: Vec<String> = Vec::new();
    let mut roots: Vec<PathBuf> = context.protection.state.clone();
    roots.push(context.home.join(".agentproto"));
    let roots: BTreeSet<PathBuf> = roots.iter().map(|path| super::real_path(path)).collect();
    for root in &roots {
        let inside: Vec<(Clause, PathBuf)> = draft
            .grants
            .iter()
            .filter(|h| h.role == Role::Declared && h.grant.source.starts_with(root))
            .filter_map(|h| Some((h.grant.clause.clone()?, h.grant.source.clone())))
            .collect();
        for (clause, path) in inside {
            let why = format!(
                "`{}` is in agentproto's own state directory `{}`, which no program may see; set \
                 AGENTPROTO_HOME to another directory",
                path.display(),
                root.display()
            );
            draft.unenforceable.push((clause, why));
        }
        for (at, access, _) in draft.views(root) {
            if access == Access::Read && !root.exists() {
                continue;
            }
            draft.create.insert(root.clone());
            draft.denials.push(Denial {
                path: at.clone(),
                kind: HiddenKind::State,
                clause: clause.clone(),
            });
            hidden.push(format!("`{}`", at.display()));
        }
    }
    if !hidden.is_empty() {
        let by = format!("hidden: {}", hidden.join(", "));
        draft.protected.push((clause, by));
    }
}

/// Hides named pipes in read-only directories below writable ones. A read-only mount does not keep
/// a pipe from being written, and Landlock cannot exclude a directory below a writable one.
fn hide_pipes(draft: &mut Draft, context: &HostContext) {
    let mut writable: Vec<PathBuf> = vec!["/tmp".into()];
    if draft.spec == SandboxSpec::Aip36 {
        writable.push(super::real_path(&context.home));
    }
    let grants = draft.grants.iter();
    writable.extend(
        grants
            .filter(|h| h.grant.access == Access::Write)
            .map(|h| h.grant.at.clone()),
    );
    let read_only: Vec<PathGrant> = draft
        .grants
        .iter()
        .filter(|h| h.grant.access == Access::Read && is_read_only(draft, h))
        .filter(|h| writable.iter().any(|dir| h.grant.at.starts_with(dir)))
        .map(|h| h.grant.clone())
        .collect();
    let mut entries_left = MAX_PIPE_ENTRIES;
    for grant in read_only {
        let clause = grant.clause.clone();
        let clause = clause.unwrap_or_else(|| Clause::new("", "manifests"));
        let mut found = Vec::new();
        if !find_pipes(&grant.source, &mut found, &mut entries_left) {
            let note = format!(
                "`{}` has too many entries to be searched for named pipes, which could be written",
                grant.source.display()
            );
            draft.notes.push((clause.clone(), note));
        }
        for path in found {
            let Ok(rest) = path.strip_prefix(&grant.source) else {
                continue;
            };
            let at = match rest.as_os_str().is_empty() {
                true => grant.at.clone(),
                false => grant.at.join(rest),
            };
            if !draft.denials.iter().any(|d| at.starts_with(&d.path)) {
                let note = format!("the named pipe `{}` is hidden", path.display());
                draft.notes.push((clause.clone(), note));
                draft.denials.push(Denial {
                    path: at,
                    kind: HiddenKind::File,
                    clause: clause.clone(),
                });
            }
        }
    }
}

/// Whether a grant stays read-only: under AIP-29, a declared path in a writable one is writable. The
/// program's own files contain no pipes.
fn is_read_only(draft: &Draft, granted: &DraftGrant) -> bool {
    match granted.role {
        Role::Protected => true,
        Role::Declared => {
            draft.spec == SandboxSpec::Aip36 || !draft.is_writable(&granted.grant.source)
        }
        Role::Program | Role::ExtraFile | Role::System => false,
    }
}

/// Finds named pipes: a path itself, or below a directory. Returns false if there are too many
/// entries.
fn find_pipes(dir: &Path, found: &mut Vec<PathBuf>, entries_left: &mut usize) -> bool {
    if std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.file_type().is_fifo()) {
        found.push(dir.to_owned());
    }
    let Ok(entries) = std::fs::read_dir(dir) else {
        return true;
    };
    for entry in entries.flatten() {
        let Some(left) = entries_left.checked_sub(1) else {
            return false;
        };
        *entries_left = left;
        match entry.file_type() {
            Ok(kind) if kind.is_fifo() => found.push(entry.path()),
            Ok(kind) if kind.is_dir() && !find_pipes(&entry.path(), found, entries_left) => {
                return false;
            }
            _ => {}
        }
    }
    true
}

impl Draft {
    /// Whether the program may write at a path of the host.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        let inside =
            |h: &DraftGrant| h.grant.access == Access::Write && path.starts_with(&h.grant.source);
        self.grants.iter().any(inside)
    }

    /// The paths inside at which a path of the host is visible, and with which rights.
    fn views(&self, path: &Path) -> Vec<(PathBuf, Access, bool)> {
        let mut views: Vec<(PathBuf, Access, bool)> = Vec::new();
        for granted in &self.grants {
            let Ok(rest) = path.strip_prefix(&granted.grant.source) else {
                continue;
            };
            let at = match rest.as_os_str().is_empty() {
                true => granted.grant.at.clone(),
                false => granted.grant.at.join(rest),
            };
            let around = self.grants.iter().filter(|h| at.starts_with(&h.grant.at));
            let Some(innermost) = around.max_by_key(|h| {
                let writes = h.grant.access == Access::Write;
                (h.grant.at.components().count(), writes)
            }) else {
                continue;
            };
            let view = (at, innermost.grant.access, innermost.grant.exec);
            if !views.contains(&view) {
                views.push(view);
            }
        }
        views
    }
}

/// Adds protections for one reason, and collects what they are.
struct Protector<'d> {
    draft: &'d mut Draft,
    clause: Clause,
    kept: Vec<PathBuf>,
    reserved: Vec<PathBuf>,
}

impl<'d> Protector<'d> {
    fn new(draft: &'d mut Draft, clause: Clause) -> Self {
        Protector {
            draft,
            clause,
            kept: Vec::new(),
            reserved: Vec::new(),
        }
    }

    /// Whether a clause grants writing to exactly this path on purpose, or needs it to exist.
    fn is_declared(&self, path: &Path) -> bool {
        let is_missing = !path.exists();
        let on_purpose = |h: &DraftGrant| {
            h.role == Role::Declared
                && h.grant.access == Access::Write
                && (h.grant.source == path || is_missing && h.grant.source.starts_with(path))
        };
        self.draft.grants.iter().any(on_purpose)
    }

    /// Makes an existing path read-only wherever it would be writable. A missing path is skipped.
    fn keep(&mut self, path: &Path) {
        let mut followed = FollowedLinks::default();
        let followed_to = followed.follow(path);
        for link in &followed.links {
            if self.draft.is_writable(&link.at) {
                let why = format!(
                    "`{}` is a symbolic link in a writable directory, where the program could \
                     replace it; replace the link by its target, or remove it",
                    link.at.display()
                );
                self.draft.unenforceable.push((self.clause.clone(), why));
            }
        }
        let Ok(real) = followed_to else {
            return;
        };
        let names = std::fs::metadata(&real).map_or(1, |meta| match meta.is_file() {
            true => meta.nlink(),
            false => 1,
        });
        for (at, access, exec) in self.draft.views(&real) {
            if access == Access::Read || self.kept.contains(&at) || self.is_hidden(&at) {
                continue;
            }
            if names > 1 {
                let why = format!(
                    "`{}` has {names} names (hard links), and the program could change it by \
                     another one; replace it by a copy",
                    real.display()
                );
                self.draft.unenforceable.push((self.clause.clone(), why));
            }
            self.draft.grants.push(DraftGrant {
                grant: PathGrant {
                    source: real.clone(),
                    at: at.clone(),
                    access: Access::Read,
                    exec,
                    create: None,
                    clause: None,
                },
                role: Role::Protected,
            });
            self.kept.push(at);
        }
    }

    /// Like `keep`. A missing path cannot be created.
    fn keep_or_reserve(&mut self, path: &Path) {
        self.keep_or_reserve_as(path, HiddenKind::Reserved);
    }

    fn keep_or_reserve_as(&mut self, path: &Path, kind: HiddenKind) {
        // A placeholder of another session may disappear at any time.
        if std::fs::symlink_metadata(path).is_ok() && !is_placeholder(path) {
            return self.keep(path);
        }
        let Some((parent, name)) = path.parent().zip(path.file_name()) else {
            return;
        };
        let Ok(parent) = FollowedLinks::default().follow_lenient(parent) else {
            return;
        };
        // If parents are missing too, the first one cannot be created.
        let (missing, kind) = match parent.rest.components().next() {
            Some(first) => (parent.real.join(first), HiddenKind::Reserved),
            None => (parent.real.join(name), kind),
        };
        for (at, access, _) in self.draft.views(&missing) {
            let known = |d: &Denial| at.starts_with(&d.path);
            if access == Access::Read || self.draft.denials.iter().any(known) {
                continue;
            }
            self.draft.denials.push(Denial {
                path: at.clone(),
                kind,
                clause: self.clause.clone(),
            });
            self.reserved.push(at);
        }
    }

    fn is_hidden(&self, at: &Path) -> bool {
        let denials = self.draft.denials.iter();
        denials
            .filter(|d| d.kind.removes_grants())
            .any(|d| at.starts_with(&d.path))
    }

    /// Describes what was protected.
    fn finish(self) {
        let mut parts = Vec::new();
        for (dir, names) in by_directory(&self.kept) {
            let (names, dir) = (names.join(", "), dir.display());
            parts.push(format!("{names} in `{dir}` cannot be changed"));
        }
        for (dir, names) in by_directory(&self.reserved) {
            let (names, dir) = (names.join(", "), dir.display());
            parts.push(format!("{names} cannot be created in `{dir}`"));
        }
        if !parts.is_empty() {
            let by = parts.join("; ");
            self.draft.protected.push((self.clause, by));
        }
    }
}

/// Names by directory, for reports.
fn by_directory(paths: &[PathBuf]) -> BTreeMap<&Path, Vec<String>> {
    let mut found: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    for path in paths {
        if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
            let name = name.to_string_lossy().into_owned();
            found.entry(dir).or_default().push(name);
        }
    }
    found
}
