//! Lint manifests: a text, a directory on disk, or a set of files in memory.
//!
//! ```
//! use agentproto::lint::{self, Severity};
//!
//! let report = lint::text("AGENT-CLI.md", "---\nid: Heron_Agent\n---\n");
//! assert!(report.count(Severity::Error) > 0);
//! for finding in &report.findings {
//!     println!("{}:{}: {}", finding.start.line, finding.start.column, finding.message);
//! }
//! ```
//!
//! [`text`] and [`path()`] use the default rules. A [`Linter`] takes another profile, or selects
//! rules:
//!
//! ```
//! use agentproto::lint::{Linter, Profile};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let linter = Linter::new().profile(Profile::Spec).ignore(["body-*"])?;
//! let report = linter.files([
//!     ("heron/AGENT-CLI.md", "---\nid: heron\nacp: ./ACP.md\n---\n"),
//!     ("heron/ACP.md", "---\nname: heron\n---\n"),
//! ]);
//! print!("{}", linter.render(&report, agentproto::lint::Format::Concise));
//! # Ok(())
//! # }
//! ```

use std::path::{Path, PathBuf};

pub use agentproto_lint::discover::NotFound;
pub use agentproto_lint::registry::{find as rule, rules};
pub use agentproto_lint::render::Format;
use agentproto_lint::render::{Meta, render};
pub use agentproto_lint::{
    Edit, Example, Finding, Fix, FixKind, Level, Profile, Related, Report, Rule, Safety, Scope,
    Severity, Source, UnknownRule,
};
use agentproto_lint::{LintOptions, LintTarget, RuleSet, discover, lint_targets, root};
use agentproto_manifest::{ConfinedDisk, FileSource, Overlay, PathKind, ReadError};
pub use agentproto_manifest::{Position, Span};

/// Lints one manifest that is given as text, with the default rules.
///
/// `name` says which kind of manifest it is (`AGENT-CLI.md`, `CLI.md`, …) and where the files that
/// it refers to are looked up. They are read from disk.
pub fn text(name: impl AsRef<Path>, text: impl Into<String>) -> Report {
    Linter::new().text(name, text)
}

/// Lints a manifest, or every manifest below a directory, with the default rules.
///
/// # Errors
/// The path does not exist or cannot be read.
pub fn path(path: impl AsRef<Path>) -> Result<Report, NotFound> {
    Linter::new().path(path)
}

/// A set of rules, ready to check any number of manifests.
#[derive(Clone, Debug)]
pub struct Linter {
    rules: RuleSet,
}

impl Default for Linter {
    fn default() -> Self {
        Linter::new()
    }
}

impl Linter {
    /// All rules of the default profile.
    pub fn new() -> Self {
        Linter {
            rules: RuleSet::profile_defaults(Profile::Default),
        }
    }

    /// Uses the rules of another profile. Call it first: it resets the selection.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.rules = RuleSet::profile_defaults(profile);
        self
    }

    /// Keeps only these rules: slugs, or prefixes such as `auth-*`.
    ///
    /// # Errors
    /// A name matches no rule.
    pub fn select<S: Into<String>>(
        mut self,
        rules: impl IntoIterator<Item = S>,
    ) -> Result<Self, UnknownRule> {
        let rules: Vec<String> = rules.into_iter().map(Into::into).collect();
        self.rules.select(&rules)?;
        Ok(self)
    }

    /// Turns these rules off: slugs, or prefixes such as `auth-*`.
    ///
    /// # Errors
    /// A name matches no rule.
    pub fn ignore<S: Into<String>>(
        mut self,
        rules: impl IntoIterator<Item = S>,
    ) -> Result<Self, UnknownRule> {
        let rules: Vec<String> = rules.into_iter().map(Into::into).collect();
        self.rules.ignore(&rules)?;
        Ok(self)
    }

    /// Lints one manifest that is given as text; see [`text`].
    pub fn text(&self, name: impl AsRef<Path>, text: impl Into<String>) -> Report {
        let name = discover::clean(name.as_ref());
        let root = root::of(std::slice::from_ref(&name));
        let disk = ConfinedDisk::new(&root);
        let mut files = Overlay::new(&disk);
        files.texts.insert(name.clone(), Some(text.into()));
        self.lint(&[LintTarget::named(name)], &files, root, 1)
    }

    /// Lints a manifest, or every manifest below a directory.
    ///
    /// References may lead as far as the root of the repository.
    ///
    /// # Errors
    /// The path does not exist or cannot be read.
    pub fn path(&self, path: impl AsRef<Path>) -> Result<Report, NotFound> {
        let paths = [path.as_ref().to_owned()];
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let root = root::of(&paths);
        let disk = ConfinedDisk::new(&root);
        let all = discover::Excludes::default();
        let targets = discover::targets(&paths, &disk, &all, false, threads)?;
        Ok(self.lint(&targets, &disk, root, threads))
    }

    /// Lints manifests that are given as paths and texts. Nothing is read from disk.
    pub fn files<P: AsRef<Path>, T: Into<String>>(
        &self,
        files: impl IntoIterator<Item = (P, T)>,
    ) -> Report {
        let mut source = Overlay::new(&EmptySource);
        for (path, text) in files {
            let path = discover::clean(path.as_ref());
            source.texts.insert(path, Some(text.into()));
        }
        let targets: Vec<LintTarget> = source.texts.keys().map(LintTarget::named).collect();
        self.lint(&targets, &source, PathBuf::new(), 1)
    }

    /// Writes a report in one of the formats of `agentproto lint --output`.
    pub fn render(&self, report: &Report, format: Format) -> String {
        let meta = Meta {
            profile: self.rules.profile(),
            base: std::env::current_dir().ok(),
            ..Meta::default()
        };
        let mut out = Vec::new();
        // Writing to memory does not fail.
        let _ = render(format, report, &meta, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn lint(
        &self,
        targets: &[LintTarget],
        files: &dyn FileSource,
        root: PathBuf,
        threads: usize,
    ) -> Report {
        let options = LintOptions {
            threads,
            ..LintOptions::new(&self.rules, files, root)
        };
        lint_targets(targets, &options)
    }
}

/// A source without files, for texts in memory to be laid over.
struct EmptySource;

impl FileSource for EmptySource {
    fn read(&self, _: &Path) -> Result<Vec<u8>, ReadError> {
        Err(ReadError::NotFound)
    }

    fn kind(&self, _: &Path) -> Option<PathKind> {
        None
    }

    fn list(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}
