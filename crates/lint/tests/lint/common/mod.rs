//! Lints changed copies of the bundles in `fixtures/base/`, in memory.
#![allow(dead_code)]

pub mod cases;
pub mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use agentproto_lint::{Example, Finding, LintOptions, Profile, Report, RuleSet, lint_files};
use agentproto_manifest::{
    Disk, Document, FileSource, MAX_FILE_BYTES, Overlay, PathKind, ReadError, Workspace,
};
use serde::Deserialize;

/// The root of the repository.
pub fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates/lint is two levels down")
}

pub fn base_dir() -> PathBuf {
    repository().join("fixtures/base")
}

/// A bundle of `fixtures/base/` with changed files.
pub struct Bundle {
    pub dir: PathBuf,
    pub files: Overlay<'static>,
    odd: &'static SpecialFiles,
}

/// Files that cannot be written as text.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialFile {
    Folder,
    NotUtf8,
    Huge,
    /// A symbolic link to a file outside the workspace.
    LinkOut,
    /// A symbolic link to a file inside the workspace. It is read like the file itself.
    LinkIn,
}

/// The disk, with some paths replaced by such files.
#[derive(Default)]
struct SpecialFiles(Mutex<BTreeMap<PathBuf, SpecialFile>>);

impl SpecialFiles {
    fn at(&self, path: &Path) -> Option<SpecialFile> {
        self.0.lock().expect("no panic inside").get(path).copied()
    }
}

impl FileSource for SpecialFiles {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        match self.at(path) {
            Some(SpecialFile::Folder) => Err(ReadError::IsDirectory),
            Some(SpecialFile::NotUtf8) => Ok(b"---\nname: caf\xe9\n---\n".to_vec()),
            Some(SpecialFile::Huge) => Err(ReadError::TooLarge(MAX_FILE_BYTES + 1)),
            Some(SpecialFile::LinkOut) => Err(ReadError::LeavesTree {
                link: path.file_name().expect("a name").into(),
                target: "/etc/shadow".into(),
            }),
            Some(SpecialFile::LinkIn) | None => Disk.read(path),
        }
    }
    fn kind(&self, path: &Path) -> Option<PathKind> {
        match self.at(path) {
            Some(SpecialFile::Folder) => Some(PathKind::Directory),
            Some(_) => Some(PathKind::File { executable: false }),
            None => Disk.kind(path),
        }
    }
    fn list(&self, dir: &Path) -> Vec<String> {
        Disk.list(dir)
    }
}

impl Bundle {
    pub fn new(name: &str) -> Self {
        let dir = base_dir().join(name);
        assert!(dir.is_dir(), "no bundle {name}");
        // Leaked until the test process exits, which is only a few bytes per bundle.
        let odd: &'static SpecialFiles = Box::leak(Box::default());
        Bundle {
            dir,
            files: Overlay::new(odd),
            odd,
        }
    }

    pub fn set_special(&mut self, file: &str, odd: SpecialFile) {
        let path = self.dir.join(file);
        self.odd
            .0
            .lock()
            .expect("no panic inside")
            .insert(path, odd);
    }

    pub fn text(&self, file: &str) -> String {
        let path = self.dir.join(file);
        let bytes = self
            .files
            .read(&path)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        String::from_utf8(bytes).expect("fixtures are UTF-8")
    }

    pub fn set(&mut self, file: &str, text: Option<String>) {
        self.files.texts.insert(self.dir.join(file), text);
    }

    pub fn replace(&mut self, file: &str, old: &str, new: &str) {
        let text = self.text(file);
        let count = text.matches(old).count();
        assert_eq!(
            count, 1,
            "{file}: {old:?} occurs {count} times, expected once"
        );
        self.set(file, Some(text.replacen(old, new, 1)));
    }

    pub fn apply(&mut self, example: &Example) {
        let text = if example.whole {
            example.text.to_owned()
        } else {
            overlay(&self.text(example.file), example.text)
        };
        self.set(example.file, Some(text));
    }

    /// All manifests of the bundle, recognized by name or by frontmatter.
    pub fn manifests(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        markdown_below(&self.dir, &mut paths);
        for (path, text) in &self.files.texts {
            if text.is_some() && !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        let odd: Vec<PathBuf> = {
            let odd = self.odd.0.lock().expect("no panic inside");
            odd.keys().cloned().collect()
        };
        paths.extend(odd.iter().cloned());
        let workspace = Workspace::new(&self.files, &self.dir);
        paths.retain(|p| {
            let named = self.files.texts.contains_key(p);
            odd.contains(p)
                || workspace.load(p).is_ok_and(|doc| {
                    doc.doctype.is_some() || (named && p.extension().is_some_and(|e| e == "md"))
                })
        });
        paths.sort();
        paths.dedup();
        paths
    }

    pub fn lint(&self, profile: Profile) -> Vec<Finding> {
        self.lint_without(profile, &[])
    }

    /// Same as `lint`, but the given files are not linted, only read through references.
    pub fn lint_without(&self, profile: Profile, unlinted: &[String]) -> Vec<Finding> {
        self.report(profile, unlinted, |report, _| {
            std::mem::take(&mut report.findings)
        })
    }

    /// Calls `use_it` with the report and its options.
    pub fn report<T>(
        &self,
        profile: Profile,
        unlinted: &[String],
        use_it: impl FnOnce(&mut Report, &LintOptions<'_>) -> T,
    ) -> T {
        let rules = RuleSet::profile_defaults(profile);
        let options = LintOptions::new(&rules, &self.files, &self.dir);
        let mut paths = self.manifests();
        paths.retain(|p| !unlinted.iter().any(|file| *p == self.dir.join(file)));
        use_it(&mut lint_files(&paths, &options), &options)
    }

    /// Path of a finding's file inside the bundle.
    pub fn name_of(&self, finding: &Finding) -> String {
        let inside = finding
            .file
            .strip_prefix(&self.dir)
            .unwrap_or(&finding.file);
        inside.to_string_lossy().into_owned()
    }
}

pub fn markdown_below(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("fixture directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            markdown_below(&path, out);
        } else if path.extension().is_some_and(|e| e == "md") {
            out.push(path);
        }
    }
}

/// Adds the top-level keys of `fragment` to the frontmatter of `text`, or replaces them there.
pub fn overlay(text: &str, fragment: &str) -> String {
    let doc = Document::parse("x.md", text.to_owned());
    let mut out = text.to_owned();
    let mut replaced = Vec::new();
    let mut added = String::new();
    let mut seen = BTreeSet::new();
    let there = blocks_with_ranges(&doc);
    for (key, block) in blocks(&format!("---\n{fragment}---\n")) {
        assert!(seen.insert(key.clone()), "the fragment has `{key}` twice");
        match there.iter().find(|(known, _)| *known == key) {
            Some((_, range)) => replaced.push((range.clone(), block)),
            None => added.push_str(&block),
        }
    }
    // Edit from the end to the start, so that earlier ranges stay valid.
    let end = doc.frontmatter.expect("base has frontmatter").yaml.end as usize;
    out.insert_str(end, &added);
    replaced.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, block) in replaced {
        out.replace_range(range, &block);
    }
    out
}

fn blocks(text: &str) -> Vec<(String, String)> {
    let doc = Document::parse("x.md", text.to_owned());
    assert!(
        doc.root.is_some(),
        "fragment is not a mapping:\n{text}\n{:?}",
        doc.problems
    );
    blocks_with_ranges(&doc)
        .into_iter()
        .map(|(key, range)| (key, doc.text[range].to_owned()))
        .collect()
}

fn blocks_with_ranges(doc: &Document) -> Vec<(String, std::ops::Range<usize>)> {
    let root = doc.root.as_ref().expect("a mapping");
    let end = doc.frontmatter.expect("frontmatter").yaml.end as usize;
    let starts: Vec<usize> = root
        .entries()
        .iter()
        .map(|e| e.key_span.start as usize)
        .collect();
    let ends = starts.iter().skip(1).copied().chain([end]);
    root.entries()
        .iter()
        .zip(starts.iter().copied().zip(ends))
        .map(|(e, (start, end))| (e.key.to_string(), start..end))
        .collect()
}

/// A finding as `rule@file#pointer`, the form in which tests compare findings.
pub fn mark(bundle: &Bundle, finding: &Finding) -> String {
    format!(
        "{}@{}#{}",
        finding.rule.slug,
        bundle.name_of(finding),
        finding.pointer
    )
}
