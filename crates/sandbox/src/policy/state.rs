//! `auth.state.paths`: where a program keeps its login. On a fresh machine the paths are missing,
//! so they are created (A29-AUTH-03). A login that is written to a private home would be lost.

use std::path::{Path, PathBuf};

use super::block::ClauseValue;
use super::draft::Draft;
use super::error::PolicyError;
use super::host_context::HostContext;
use super::manifest::SandboxManifest;
use super::paths::Scope;
use super::{Access, NewPath, Symlink};
use crate::programs::links::ResolvedPath;

/// Which missing paths of `auth.state` a command creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateCreation {
    /// None: the command only checks something, such as a version.
    Nothing,
    /// Directories, so that the program can write to them. A file is not created, because an empty
    /// file looks like a login to many checks.
    #[default]
    Directories,
    /// Everything that a login may write.
    Login,
}

/// Extensions of files in which programs keep a login or a configuration.
const FILE_EXTENSIONS: [&str; 22] = [
    "cfg",
    "conf",
    "config",
    "crt",
    "db",
    "dat",
    "env",
    "ini",
    "json",
    "json5",
    "jsonc",
    "key",
    "lock",
    "pem",
    "plist",
    "properties",
    "sqlite",
    "token",
    "toml",
    "txt",
    "yaml",
    "yml",
];

/// Names of such files that have no extension.
const FILE_NAMES: [&str; 9] = [
    ".git-credentials",
    ".netrc",
    "_netrc",
    "auth",
    "config",
    "cookies",
    "credentials",
    "hosts",
    "token",
];

/// How missing paths of `auth.state` are treated.
pub struct StateRules {
    creation: StateCreation,
    /// The names of the program: its id, its name and its binary.
    names: Vec<String>,
    home: PathBuf,
    cwd: PathBuf,
}

/// Grants every path of `auth.state.paths`.
pub fn grant(
    draft: &mut Draft,
    manifest: &SandboxManifest,
    context: &HostContext,
) -> Result<(), PolicyError> {
    let Some(auth) = manifest.auth()? else {
        return Ok(());
    };
    let Some(state) = auth.block("state")? else {
        return Ok(());
    };
    let scope = Scope {
        cwd: &context.cwd,
        home: &context.home,
    };
    let rules = StateRules {
        creation: context.state_creation,
        names: manifest.program_names(),
        home: super::real_path(&context.home),
        cwd: super::real_path(&context.cwd),
    };
    for path in state.texts("paths")?.iter().flatten() {
        draft.grant_state(path, scope, &rules)?;
    }
    Ok(())
}

impl StateRules {
    /// Grants a missing path if it will be created, and returns the reason if it will not.
    pub fn grant_missing(
        &self,
        draft: &mut Draft,
        declared: &ClauseValue<String>,
        resolved: &ResolvedPath,
        directory: bool,
    ) -> Result<(), &'static str> {
        let path = resolved.full_path();
        if path.starts_with(&self.home) && !self.home.is_dir() {
            return Err("the home directory does not exist");
        }
        let is_file = !directory && means_file(&path);
        match (self.creation, is_file) {
            (StateCreation::Nothing, _) => {
                return Err("it does not exist, and this command does not need it");
            }
            (StateCreation::Directories, true) => {
                return Err("the file does not exist; a login creates it");
            }
            _ => {}
        }
        if is_file && let Some(dir) = self.fresh_directory(resolved) {
            let missing = !dir.exists();
            let note = format!(
                "the file does not exist. During the login, its directory `{}` is writable{}. Later \
                 commands only see the file",
                dir.display(),
                if missing {
                    "; it is created with mode 0700"
                } else {
                    ""
                },
            );
            draft.notes.push((declared.clause.clone(), note));
            let create = missing.then_some(NewPath::Directory);
            draft.declare_new(&declared.clause, dir, Access::Write, create);
            return Ok(());
        }
        let (create, note) = match is_file {
            true => (
                NewPath::File,
                "the file does not exist: a login creates it, empty and with mode 0600",
            ),
            false => (
                NewPath::Directory,
                "the directory does not exist: a login or a run creates it with mode 0700",
            ),
        };
        draft.notes.push((declared.clause.clone(), note.to_owned()));
        draft.declare_new(&declared.clause, path, Access::Write, Some(create));
        Ok(())
    }

    /// The directory of a missing file, if it is the program's own and has no contents yet. Then
    /// the login may write to the whole directory: many programs write a temporary file and rename
    /// it, and nothing that exists becomes accessible.
    fn fresh_directory(&self, missing: &ResolvedPath) -> Option<PathBuf> {
        let path = missing.full_path();
        let dir = path.parent()?;
        let is_empty = match dir == missing.real {
            true => std::fs::read_dir(dir).ok()?.next().is_none(),
            false => true,
        };
        (self.is_own_directory(dir) && is_empty).then(|| dir.to_owned())
    }

    /// Whether a directory is the program's own: below the home, outside the workspace, and with
    /// the name of the program.
    fn is_own_directory(&self, dir: &Path) -> bool {
        let in_home = dir != self.home && dir.starts_with(&self.home);
        let in_workspace = dir.starts_with(&self.cwd) || self.cwd.starts_with(dir);
        let is_own = self.names.iter().any(|name| is_named(dir, name));
        in_home && !in_workspace && is_own
    }

    /// Whether an earlier login may have created a link, because its directory was writable then.
    pub fn may_be_planted(&self, link: &Symlink) -> bool {
        link.at
            .parent()
            .is_some_and(|dir| self.is_own_directory(dir))
    }
}

/// Whether a directory has the name of a program, with or without a dot before it.
fn is_named(dir: &Path, program: &str) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let name = name.strip_prefix('.').unwrap_or(name);
        !name.is_empty() && name.eq_ignore_ascii_case(program)
    })
}

/// Whether a missing path is meant as a file. AIP-29 does not say, so its name decides.
fn means_file(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
    let by_extension = !stem.is_empty() && FILE_EXTENSIONS.contains(&extension);
    // Names such as `.npmrc`.
    let by_suffix = name.starts_with('.') && name.len() > 3 && name.ends_with("rc");
    by_extension || by_suffix || FILE_NAMES.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_whether_a_missing_path_is_a_file() {
        for file in [
            "/h/.config/gh/hosts.yml",
            "/h/.claude.json",
            "/h/.npmrc",
            "/h/.netrc",
            "/h/.aws/credentials",
            "/h/.kube/config",
        ] {
            assert!(means_file(Path::new(file)), "{file}");
        }
        for dir in [
            "/h/.config/gh",
            "/h/.config",
            "/h/.aws",
            "/h/.config/com.example.app",
            "/h/.config/conf.d",
            "/h/rc",
            "/",
        ] {
            assert!(!means_file(Path::new(dir)), "{dir}");
        }
    }
}
