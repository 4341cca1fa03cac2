//! The configuration file `agentproto.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cli::Failure;
use crate::cli::args::Global;
use crate::exit;
pub use agentproto_lint::CONFIG_FILE as FILE_NAME;
use agentproto_lint::{Profile, Severity};
use agentproto_manifest::{ConfinedDisk, FileSource, ReadError};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    #[serde(default)]
    pub lint: LintConfig,
    #[serde(default)]
    pub aoi: AoiConfig,
    #[serde(default)]
    pub sandbox: SandboxConfig,
    /// Directory of the file; its paths are relative to it.
    #[serde(skip)]
    pub dir: PathBuf,
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LintConfig {
    pub profile: Option<Profile>,
    #[serde(default)]
    pub select: Vec<String>,
    #[serde(default)]
    pub ignore: Vec<String>,
    pub fail_on: Option<Severity>,
    #[serde(default)]
    pub exclude: Vec<String>,
    pub baseline: Option<PathBuf>,
    #[serde(default)]
    pub severity: BTreeMap<String, SeveritySetting>,
    #[serde(default)]
    pub per_file: Vec<PerFile>,
}

/// Settings of `aoi-lint`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[cfg_attr(not(agents), allow(dead_code))]
pub struct AoiConfig {
    #[serde(default)]
    pub severity: BTreeMap<String, AoiSeverity>,
}

/// Settings of every command that runs something in a sandbox.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[cfg_attr(not(agents), allow(dead_code))]
pub struct SandboxConfig {
    /// More names in the working directory that stay read-only.
    #[serde(default)]
    pub protect: Vec<String>,
    /// Protected names that programs may change.
    #[serde(default)]
    pub unprotect: Vec<String>,
    /// Default memory limit of an AIP-29 command, in MiB, or 0 for no limit.
    pub memory_mb: Option<u64>,
    /// Default process limit of an AIP-29 command, or 0 for no limit.
    pub processes: Option<u64>,
    /// Size of each private directory in memory, in MiB.
    pub private_mb: Option<u64>,
}

/// What a violated rule causes. No rule can be turned off, because a pair would then look verified.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AoiSeverity {
    Fail,
    Warn,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerFile {
    pub paths: Vec<String>,
    pub ignore: Vec<String>,
}

/// A severity for a rule, or `off`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeveritySetting {
    Error,
    Warning,
    Info,
    Off,
}

impl From<SeveritySetting> for Option<Severity> {
    fn from(setting: SeveritySetting) -> Self {
        match setting {
            SeveritySetting::Error => Some(Severity::Error),
            SeveritySetting::Warning => Some(Severity::Warning),
            SeveritySetting::Info => Some(Severity::Info),
            SeveritySetting::Off => None,
        }
    }
}

/// Loads the given file, or the nearest one from the current directory up to the repository's root.
pub fn load(global: &Global) -> Result<Config, Failure> {
    if global.no_config {
        return Ok(Config::default());
    }
    match &global.config {
        Some(path) => read(path).map_err(|error| match error {
            ReadFailure::Absent => Failure::new(
                exit::NO_INPUT,
                format!("`{}` (from `--config`) does not exist", path.display()),
            ),
            ReadFailure::Bad(failure) => failure,
        }),
        None => match nearest() {
            Some(path) => read_found(&path),
            None => Ok(Config::default()),
        },
    }
}

/// The repository that contains a directory, or else the directory itself.
pub fn tree(dir: &Path) -> PathBuf {
    let dir = std::env::current_dir().unwrap_or_default().join(dir);
    let mut above = dir.ancestors();
    let repository = above.find(|dir| dir.join(".git").exists());
    repository.unwrap_or(&dir).to_owned()
}

fn nearest() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    for dir in here.ancestors() {
        let candidate = dir.join(FILE_NAME);
        let meta = std::fs::symlink_metadata(&candidate);
        if meta.is_ok_and(|meta| meta.is_file() || meta.is_symlink()) {
            return Some(candidate);
        }
        if dir.join(".git").exists() {
            return None;
        }
    }
    None
}

enum ReadFailure {
    Absent,
    Bad(Failure),
}

/// Reads a configuration file that the user did not name. It may belong to an untrusted repository,
/// so a link must not lead out of that.
fn read_found(path: &Path) -> Result<Config, Failure> {
    let dir = path.parent().unwrap_or(path);
    let bytes = ConfinedDisk::new(tree(dir)).read(path).map_err(|error| {
        let failure = Failure::new(exit::IO, format!("{}: {error}", path.display()));
        match error {
            ReadError::LeavesTree { .. } => failure.hint(
                "replace the link with a copy of the file, or name the file with `--config FILE`",
            ),
            _ => failure,
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = format!("{}: is not UTF-8", path.display());
        Failure::new(exit::DATA, message)
    })?;
    parse(path, &text)
}

fn read(path: &Path) -> Result<Config, ReadFailure> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadFailure::Absent,
        std::io::ErrorKind::InvalidData => ReadFailure::Bad(Failure::new(
            exit::DATA,
            format!("{}: is not UTF-8", path.display()),
        )),
        _ => ReadFailure::Bad(Failure::new(
            exit::IO,
            format!("{}: cannot be read: {error}", path.display()),
        )),
    })?;
    parse(path, &text).map_err(ReadFailure::Bad)
}

fn parse(path: &Path, text: &str) -> Result<Config, Failure> {
    let mut config: Config =
        toml::from_str(text).map_err(|error| invalid_config(path, text, &error))?;
    config.dir = path.parent().map(Path::to_owned).unwrap_or_default();
    config.path = Some(path.to_owned());
    Ok(config)
}

fn invalid_config(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let place = match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            format!("{}:{line}:{column}", path.display())
        }
        None => path.display().to_string(),
    };
    Failure::new(exit::DATA, format!("{place}: {}", error.message().trim()))
        .hint("`agentproto schema --name config` describes the format")
}
