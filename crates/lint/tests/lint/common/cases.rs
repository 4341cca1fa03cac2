//! The mutants of `fixtures/mutants/*.yaml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentproto_lint::{Profile, registry};
use serde::Deserialize;

use super::{Bundle, SpecialFile, base_dir};

/// One mutant or conforming variant of a base bundle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub rule: String,
    pub bundle: String,
    #[serde(default)]
    pub file: Option<String>,
    #[serde(default)]
    pub replace: Option<String>,
    #[serde(default)]
    pub with: Option<String>,
    #[serde(default)]
    pub edits: Vec<EditCase>,
    #[serde(default)]
    pub files: BTreeMap<String, Option<String>>,
    /// Files to rename, as new name and old name. Done before all other changes.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
    /// Files that cannot be written as text: `folder`, `not-utf8`, `huge`.
    #[serde(default)]
    pub odd: BTreeMap<String, SpecialFile>,
    /// JSON pointer of the finding. Absent for a conforming variant.
    #[serde(default)]
    pub at: Option<String>,
    /// File of the finding, if it is not `file`.
    #[serde(default, rename = "in")]
    pub found_in: Option<String>,
    /// Other rules that the same change correctly triggers.
    #[serde(default)]
    pub also: Vec<String>,
    #[serde(default)]
    pub profile: Option<String>,
    #[serde(default)]
    pub spare: bool,
    /// Requirements of the register that the mutant violates, if its rule decides several. A
    /// conforming variant names the permission that it uses. `tests/repository/proofs.rs` reads
    /// this field.
    #[serde(default)]
    pub requirements: Vec<String>,
    /// Files that are not linted, but only read through references.
    #[serde(default)]
    pub unlinted: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditCase {
    pub file: String,
    pub replace: String,
    pub with: String,
}

/// All cases of all files. Panics if a case names an unknown rule, because it would never run, or a
/// requirement that its rule does not check.
pub fn cases() -> Vec<Case> {
    let dir = base_dir().join("../mutants");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).expect("fixtures/mutants").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("readable");
        let cases: Vec<Case> = serde_yaml::from_str(&text)
            .unwrap_or_else(|e| panic!("{}: {e}", entry.path().display()));
        for slug in cases.iter().flat_map(|c| c.also.iter().chain([&c.rule])) {
            let file = entry.file_name();
            assert!(
                registry::find(slug).is_some(),
                "fixtures/mutants/{}: unknown rule `{slug}`{}",
                file.display(),
                registry::closest(slug)
                    .map(|known| format!("; did you mean `{known}`?"))
                    .unwrap_or_default()
            );
        }
        for case in &cases {
            let rule = registry::find(&case.rule).expect("checked above");
            for id in &case.requirements {
                let decides = rule.decides;
                assert!(
                    decides.contains(&id.as_str()),
                    "{id} is not one of {decides:?}, which {} decides",
                    rule.slug
                );
            }
        }
        all.extend(cases);
    }
    all
}

impl Case {
    pub fn bundle(&self) -> Bundle {
        let mut bundle = Bundle::new(&self.bundle);
        for (new, old) in &self.rename {
            bundle.set(new, Some(bundle.text(old)));
            bundle.set(old, None);
        }
        for (file, odd) in &self.odd {
            bundle.set_special(file, *odd);
        }
        for (file, text) in &self.files {
            bundle.set(file, text.clone());
        }
        if let (Some(file), Some(old)) = (&self.file, &self.replace) {
            bundle.replace(file, old, self.with.as_deref().unwrap_or(""));
        }
        for edit in &self.edits {
            bundle.replace(&edit.file, &edit.replace, &edit.with);
        }
        bundle
    }

    pub fn profile(&self) -> Profile {
        match self.profile.as_deref() {
            Some("spec") => Profile::Spec,
            Some("reference") => Profile::Reference,
            Some(other) => panic!(
                "{}: `profile: {other}` is not `spec` or `reference`",
                self.rule
            ),
            None => Profile::Default,
        }
    }

    /// File of the finding.
    pub fn finding_file(&self) -> Option<&String> {
        self.found_in.as_ref().or(self.file.as_ref())
    }

    /// The files of the bundle that are linted.
    pub fn paths(&self, bundle: &Bundle) -> Vec<PathBuf> {
        let mut paths = bundle.manifests();
        paths.retain(|p| !self.unlinted.iter().any(|file| *p == bundle.dir.join(file)));
        paths
    }
}
