//! What a rule is: one static record that carries its identity, its source in the specs, its
//! documentation and its words. `explain`, `rules`, docs/, SARIF help and the editor all read it.

use serde::Deserialize;

use crate::context::Context;
use crate::page;
use crate::shape::Violation;
use agentproto_manifest::Doctype;

/// How bad a finding is. Messages list the variants as they are declared, the worst first. They
/// compare by their numbers, so that `Error` is the greatest.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    Error = 2,
    Warning = 1,
    Info = 0,
}

impl Severity {
    pub const ALL: &[Severity] = <Severity as strum::VariantArray>::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How binding the statement is that a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Level {
    /// MUST, REQUIRED, a conformance item, or the published JSON Schema.
    #[strum(serialize = "MUST")]
    Must,
    /// SHOULD or RECOMMENDED.
    #[strum(serialize = "SHOULD")]
    Should,
    /// MAY, or a definition that a manifest can miss without breaking anything.
    #[strum(serialize = "MAY")]
    May,
    /// Engineering judgement; no spec says it. Off in profile `spec`.
    #[strum(serialize = "derived")]
    Derived,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How far a rule has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Scope {
    Field,
    CrossField,
    CrossFile,
    Registry,
    /// At the machine: `doctor` decides it, not the linter.
    Host,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Whether a rule can mend what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum FixKind {
    None,
    /// A hint in words only.
    Suggest,
    /// Edits that keep the meaning, or can only be what the author meant; applied by `--fix`.
    Safe,
    /// Edits that may change the meaning; applied by `--unsafe-fixes` only.
    Unsafe,
}

impl FixKind {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Where a rule's statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// `AIP-29`, `AIP-45`, `YAML 1.2`, or `agentproto` for the tool's own rules.
    pub spec: &'static str,
    pub section: &'static str,
}

impl Source {
    pub const fn aip45(section: &'static str) -> Source {
        Source {
            spec: "AIP-45",
            section,
        }
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Profile {
    Default,
    /// The text of the specs and nothing else.
    Spec,
    /// As `Default`, but fields that only the reference implementation knows are warnings.
    Reference,
}

impl Profile {
    pub const ALL: &[Profile] = <Profile as strum::VariantArray>::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A run example: part of a bundle in `fixtures/base/`, changed. The tests lint it.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Conforming bundle, a directory of `fixtures/base/`.
    pub bundle: &'static str,
    /// File inside that bundle.
    pub file: &'static str,
    pub text: &'static str,
    /// `text` is the whole file; otherwise each of its top-level keys replaces, or is added
    /// to, the frontmatter of the bundle's file.
    pub whole: bool,
}

impl Example {
    pub const NONE: Example = Example::over("", "", "");

    /// Top-level keys laid over the bundle's file.
    pub const fn over(bundle: &'static str, file: &'static str, yaml: &'static str) -> Example {
        Example {
            bundle,
            file,
            text: yaml,
            whole: false,
        }
    }
    /// A whole file in place of the bundle's.
    pub const fn file(bundle: &'static str, file: &'static str, text: &'static str) -> Example {
        Example {
            bundle,
            file,
            text,
            whole: true,
        }
    }
}

/// Reports a schema violation in a rule's own words, or leaves it to the finding that covers
/// the mistake.
pub type Words = for<'d> fn(&Context<'d>, &Violation<'d>);

#[derive(Debug)]
pub struct Rule {
    pub slug: &'static str,
    /// For violations of the constraints that name the rule in `x-rules`; without it the general
    /// sentence is used.
    pub words: Option<Words>,
    /// One line: what is wrong when the rule fires.
    pub title: &'static str,
    pub severity: Severity,
    /// Severity in profile `spec`, where it differs.
    pub spec_severity: Option<Severity>,
    pub level: Level,
    pub source: Source,
    /// Ids of the register's statements that this rule decides.
    pub decides: &'static [&'static str],
    pub doctypes: &'static [Doctype],
    pub scope: Scope,
    pub fix: FixKind,
    /// Its page in Markdown, under the headings that the methods below read.
    pub docs: &'static str,
}

impl Rule {
    /// Defaults for the fields that most rules leave alone.
    pub const BASE: Rule = Rule {
        slug: "",
        words: None,
        title: "",
        severity: Severity::Error,
        spec_severity: None,
        level: Level::Must,
        source: Source {
            spec: "",
            section: "",
        },
        decides: &[],
        doctypes: &[],
        scope: Scope::Field,
        fix: FixKind::None,
        docs: "",
    };

    /// Defaults for the rules about AGENT-CLI.md that come from one section of AIP-45.
    pub const fn aip45(section: &'static str) -> Rule {
        Rule {
            doctypes: &[Doctype::AgentCli],
            source: Source::aip45(section),
            ..Rule::BASE
        }
    }

    /// What it checks.
    pub fn what(&self) -> &'static str {
        page::section(self.docs, "What it checks")
    }
    /// Why it matters to the person who reads it.
    pub fn why(&self) -> &'static str {
        page::section(self.docs, "Why")
    }
    /// Fragment that trips the rule.
    pub fn bad(&self) -> Example {
        page::example(page::section(self.docs, "Example"))
    }
    /// The same fragment, fixed.
    pub fn good(&self) -> Example {
        page::example(page::section(self.docs, "Use instead"))
    }
    /// Contradictions in the specs that bear on the rule, and the side taken ("C15: …").
    pub fn note(&self) -> Option<&'static str> {
        Some(page::section(self.docs, "Notes")).filter(|note| !note.is_empty())
    }

    pub fn is_derived(&self) -> bool {
        self.level == Level::Derived
    }
    /// Severity under a profile; `None` where the rule is off.
    pub fn severity_in(&self, profile: Profile) -> Option<Severity> {
        match profile {
            Profile::Spec if self.is_derived() => None,
            Profile::Spec => Some(self.spec_severity.unwrap_or(self.severity)),
            Profile::Default | Profile::Reference => Some(self.severity),
        }
    }
}

/// Rules are statics: identity is the address.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Rule {}
