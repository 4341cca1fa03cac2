//! Finds bundles by their id below a directory, at any depth and in folders of any name
//! (A29-FILE-05).

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentproto_manifest::views::{Cli, View};
use agentproto_manifest::{Disk, Doctype, Workspace};

use crate::error::{Code, Error};

/// File names of the manifest in a bundle directory. The first one that exists is used.
pub(crate) const NAMES: [&str; 2] = ["AGENT-CLI.md", "CLI.md"];
/// Maximum number of directory entries in one search.
const MAX_ENTRIES: usize = 20_000;
/// Maximum number of manifests that one search reads.
const MAX_MANIFESTS: usize = 2_000;
/// Maximum depth of a search, which only ends loops that no file system should have.
const MAX_DEPTH: usize = 64;
/// Maximum size of a manifest without a usual name, in bytes.
const MAX_UNNAMED: u64 = 256 << 10;
/// Directories that contain packages and repositories of others.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// A bundle that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBundle {
    /// Its `id`.
    pub id: String,
    /// Major number of its `version`.
    pub major: String,
    /// Path of its manifest.
    pub manifest: PathBuf,
}

impl FoundBundle {
    /// Whether a name means this bundle: `id`, or `id@major`.
    fn is_named(&self, name: &str) -> bool {
        match name.split_once('@') {
            Some((id, major)) => self.id == id && self.major == major,
            None => self.id == name,
        }
    }
}

/// The bundles below a directory, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The bundles.
    pub bundles: Vec<FoundBundle>,
    /// Whether the directory has more entries than a search examines.
    pub is_incomplete: bool,
}

impl Catalog {
    /// Searches a directory. A missing directory has no bundles.
    pub fn of(root: &Path) -> Catalog {
        let mut search = Search {
            catalog: Catalog::default(),
            visited: HashSet::new(),
            entries: MAX_ENTRIES,
            manifests: MAX_MANIFESTS,
        };
        search.visit(root, 0);
        let mut catalog = search.catalog;
        catalog.bundles.sort_by(|a, b| a.manifest.cmp(&b.manifest));
        catalog
    }

    /// The manifest that a name means. Several are an error that names them.
    pub fn find(&self, name: &str, root: &Path) -> Result<Option<&Path>, Error> {
        let found: Vec<&FoundBundle> = self.bundles.iter().filter(|b| b.is_named(name)).collect();
        match found.as_slice() {
            [] if self.is_incomplete => {
                let what = format!(
                    "`{}` has too many files to be searched for `{name}`",
                    root.display()
                );
                Err(Error::new(Code::TargetUnknown, what)
                    .hint("name a smaller directory with `--adapters`, or the path of the bundle"))
            }
            [] => Ok(None),
            [only] => Ok(Some(&only.manifest)),
            [first, .., last] => {
                let paths: Vec<String> = found
                    .iter()
                    .map(|b| format!("`{}`", b.manifest.display()))
                    .collect();
                let what = format!("several bundles have the id `{name}`: {}", paths.join(", "));
                let hint = match first.major == last.major {
                    true => "give the path of one of them".to_owned(),
                    false => format!(
                        "write `{}@{}` or `{}@{}`, or give the path of one of them",
                        first.id, first.major, last.id, last.major
                    ),
                };
                Err(Error::new(Code::TargetAmbiguous, what).hint(hint))
            }
        }
    }
}

struct Search {
    catalog: Catalog,
    /// Device and inode of every directory, so that links cannot form loops.
    visited: HashSet<(u64, u64)>,
    entries: usize,
    manifests: usize,
}

impl Search {
    /// Examines a directory. A bundle in it is not searched for further bundles, except for the
    /// root.
    fn visit(&mut self, dir: &Path, depth: usize) {
        let Ok(meta) = std::fs::metadata(dir) else {
            return;
        };
        if !meta.is_dir() || !self.visited.insert((meta.dev(), meta.ino())) {
            return;
        }
        if depth > MAX_DEPTH {
            self.catalog.is_incomplete = true;
            return;
        }
        let mut subdirectories = Vec::new();
        let mut texts = Vec::new();
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Some(left) = self.entries.checked_sub(1) else {
                self.catalog.is_incomplete = true;
                return;
            };
            self.entries = left;
            let name = entry.file_name();
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if name.as_encoded_bytes().ends_with(b".md") {
                texts.push(entry.path());
            } else if !is_file && !SKIPPED.iter().any(|skipped| name == *skipped) {
                subdirectories.push(entry.path());
            }
        }
        texts.sort();
        if self.take_bundle(dir, &texts) && depth > 0 {
            return;
        }
        subdirectories.sort();
        for path in subdirectories {
            self.visit(&path, depth + 1);
        }
    }

    /// Adds the bundle of a directory, if there is one.
    fn take_bundle(&mut self, dir: &Path, texts: &[PathBuf]) -> bool {
        let named = NAMES.map(|name| dir.join(name));
        if let Some(manifest) = named.into_iter().find(|path| path.is_file()) {
            self.add(&manifest, |_| true);
            return true;
        }
        // An adapter may have a name such as `HERMES.md`. It is recognized by its shape.
        let is_small =
            |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|m| m.len() <= MAX_UNNAMED);
        let mut found = false;
        for text in texts.iter().filter(is_small) {
            found |= self.add(text, |doctype| doctype == Doctype::AgentCli);
        }
        found
    }

    fn add(&mut self, manifest: &Path, is_wanted: impl Fn(Doctype) -> bool) -> bool {
        let Some(left) = self.manifests.checked_sub(1) else {
            self.catalog.is_incomplete = true;
            return false;
        };
        self.manifests = left;
        let Ok(doc) = Workspace::new(&Disk, "/").load(manifest) else {
            return false;
        };
        let (Some(View::AgentCli(_) | View::Cli(_)), Some(root)) = (doc.view(), &doc.root) else {
            return false;
        };
        let common = Cli(root);
        let (Some(id), Some(doctype)) = (common.id(), doc.doctype) else {
            return false;
        };
        if !is_wanted(doctype) {
            return false;
        }
        let version = root.str_at(&["version"]).unwrap_or_default();
        self.catalog.bundles.push(FoundBundle {
            id: id.to_owned(),
            major: version.split('.').next().unwrap_or_default().to_owned(),
            manifest: manifest.to_owned(),
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_suites::proves;

    fn bundle(root: &Path, dir: &str, file: &str, id: &str, version: &str) {
        let dir = root.join(dir);
        std::fs::create_dir_all(&dir).expect("made");
        let protocol = match file {
            "CLI.md" => "",
            _ => "schema: agentproto/agent-cli/v1\nprotocol: acp\n",
        };
        let text =
            format!("---\n{protocol}id: {id}\nname: {id}\nversion: {version}\nbin: x\n---\n");
        std::fs::write(dir.join(file), text).expect("written");
    }

    fn found(root: &Path, name: &str) -> String {
        match Catalog::of(root).find(name, root) {
            Ok(Some(path)) => {
                let path = path.strip_prefix(root).expect("inside");
                path.to_string_lossy().into_owned()
            }
            Ok(None) => "none".to_owned(),
            Err(error) => format!("{}: {}", error.code.as_str(), error.message),
        }
    }

    #[test]
    fn bundles_are_found_by_id_at_any_depth() {
        proves!("A29-FILE-05");
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        bundle(root, "gh", "CLI.md", "gh", "1.0.0");
        bundle(root, "cloud/other-name", "CLI.md", "gcloud", "1.0.0");
        bundle(root, "a/b/c/d/e/f", "AGENT-CLI.md", "deep", "2.1.0");
        bundle(root, ".cli/hidden", "CLI.md", "hidden", "1.0.0");
        bundle(root, "hermes", "HERMES.md", "hermes", "1.0.0");
        assert_eq!(found(root, "gh"), "gh/CLI.md");
        assert_eq!(found(root, "gcloud"), "cloud/other-name/CLI.md");
        assert_eq!(found(root, "deep"), "a/b/c/d/e/f/AGENT-CLI.md");
        assert_eq!(found(root, "deep@2"), "a/b/c/d/e/f/AGENT-CLI.md");
        assert_eq!(found(root, "deep@1"), "none");
        assert_eq!(found(root, "hidden"), ".cli/hidden/CLI.md");
        assert_eq!(found(root, "hermes"), "hermes/HERMES.md");
        assert_eq!(found(root, "other-name"), "none");
        assert_eq!(found(&root.join("missing"), "gh"), "none");
        // A package in a bundle is not a bundle of the user.
        bundle(root, "gh/vendor/x", "CLI.md", "inner", "1.0.0");
        bundle(root, "node_modules/x", "CLI.md", "package", "1.0.0");
        assert_eq!(found(root, "inner"), "none");
        assert_eq!(found(root, "package"), "none");
    }

    #[test]
    fn equal_ids_are_an_error_that_names_both() {
        proves!("A29-ID-02");
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        bundle(root, "one", "CLI.md", "gh", "1.0.0");
        bundle(root, "two/gh", "CLI.md", "gh", "2.0.0");
        let error = found(root, "gh");
        assert!(error.starts_with("target_ambiguous"), "{error}");
        assert!(
            error.contains("one/CLI.md") && error.contains("two/gh/CLI.md"),
            "{error}"
        );
        assert_eq!(found(root, "gh@1"), "one/CLI.md");
        assert_eq!(found(root, "gh@2"), "two/gh/CLI.md");
    }

    #[test]
    fn loops_and_large_trees_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        bundle(root, "cloud/gh", "CLI.md", "gh", "1.0.0");
        let link = |to: &str, at: &str| {
            std::os::unix::fs::symlink(root.join(to), root.join(at)).expect("linked");
        };
        link(".", "cloud/loop");
        link("cloud/gh", "again");
        link("nowhere", "dangling");
        assert!(found(root, "gh").ends_with("CLI.md"));
        let many = root.join("zz");
        std::fs::create_dir(&many).expect("made");
        for n in 0..MAX_ENTRIES {
            std::fs::write(many.join(n.to_string()), "").expect("written");
        }
        assert!(found(root, "gh").ends_with("CLI.md"));
        let error = found(root, "absent");
        assert!(error.contains("too many files"), "{error}");
    }
}
