//! A bundle in memory, with one file under test.

use std::path::{Path, PathBuf};

use agentproto_lint::{Profile, RuleSet};
use agentproto_manifest::{FileSource, Overlay, PathKind, ReadError};

const NAMES: [&str; 8] = [
    "CLI.md",
    "AGENT-CLI.md",
    "ACP.md",
    "SANDBOX.md",
    "SECRETS.md",
    "RUNNER.md",
    "TOOL.md",
    "OPERATOR.md",
];

/// Files that the file under test can refer to.
const OTHER_FILES: [(&str, &str); 4] = [
    (
        "AGENT-CLI.md",
        include_str!("../../fixtures/base/harbor/AGENT-CLI.md"),
    ),
    (
        "harbor.ACP.md",
        include_str!("../../fixtures/base/harbor/harbor.ACP.md"),
    ),
    (
        "SECRETS.md",
        include_str!("../../fixtures/base/harbor/SECRETS.md"),
    ),
    (
        "SANDBOX.md",
        include_str!("../../fixtures/base/harbor/SANDBOX.md"),
    ),
];

/// An empty file source, so that a run does not depend on the local disk.
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

pub struct Bundle {
    pub path: PathBuf,
    pub files: Overlay<'static>,
    pub rules: RuleSet,
}

impl Bundle {
    /// Builds a bundle. The first byte selects the doctype (3 bits), the profile, and whether the
    /// rest is the whole file or only the text between the fences. ASCII digits and letters cover
    /// all combinations.
    pub fn new(data: &[u8]) -> Option<Self> {
        let (first, rest) = data.split_first()?;
        let text = std::str::from_utf8(rest).ok()?;
        let name = NAMES[usize::from(first & 7)];
        let path = PathBuf::from("bundle").join(name);
        let text = if first & 8 == 0 {
            text.to_owned()
        } else {
            format!("---\n{text}\n---\n")
        };
        let profile = if first & 64 == 0 {
            Profile::Default
        } else {
            Profile::Reference
        };
        let mut files = Overlay::new(&EmptySource);
        for (name, text) in OTHER_FILES {
            let path = PathBuf::from("bundle").join(name);
            files.texts.insert(path, Some(text.to_owned()));
        }
        files.texts.insert(path.clone(), Some(text));
        Some(Bundle {
            path,
            files,
            rules: RuleSet::profile_defaults(profile),
        })
    }
}
