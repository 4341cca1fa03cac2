//! The record of a rule: slug, source in the specs, documentation and messages. `explain`,
//! `rules`, docs/, SARIF help and the editor all read it.

use serde::Deserialize;

use crate::context::RuleContext;
use crate::page;
use crate::shape::SchemaViolation;
use agentproto_manifest::Doctype;

/// How serious a finding is.
///
/// Messages list the variants in declaration order, most serious first. Comparison uses the
/// discriminants, so `Error` is the greatest.
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
    /// Fails the run by default.
    Error = 2,
    /// Fails the run only with `--fail-on warning` or lower.
    Warning = 1,
    /// A hint; fails the run only with `--fail-on info`.
    Info = 0,
}

impl Severity {
    /// All severities, most serious first.
    pub const ALL: &[Severity] = <Severity as strum::VariantArray>::VARIANTS;

    /// The name that reports and the configuration use.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How binding the requirement is that a rule checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Level {
    /// MUST, REQUIRED, a conformance item, or the published JSON Schema.
    #[strum(serialize = "MUST")]
    Must,
    /// SHOULD or RECOMMENDED.
    #[strum(serialize = "SHOULD")]
    Should,
    /// MAY, or a definition that a manifest can ignore without breaking anything.
    #[strum(serialize = "MAY")]
    May,
    /// Engineering judgment: no spec requires it. Off in profile `spec`.
    #[strum(serialize = "derived")]
    Derived,
}

impl Level {
    /// The name that reports use: `MUST`, `SHOULD`, `MAY` or `derived`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// How much input a rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Scope {
    /// One field.
    Field,
    /// Several fields of one manifest.
    CrossField,
    /// Several files of one bundle.
    CrossFile,
    /// All manifests of a run, or two revisions of one manifest.
    Registry,
    /// The machine: `doctor` checks it, not the linter.
    Host,
}

impl Scope {
    /// The name in kebab case, as reports use it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Whether a rule offers a fix for its findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum FixKind {
    /// No fix.
    None,
    /// A help text, but no edits.
    Suggest,
    /// Edits that keep the meaning of the manifest, or that are certainly what the author meant.
    /// `--fix` applies them.
    Safe,
    /// Edits that may change the meaning. Only `--unsafe-fixes` applies them.
    Unsafe,
}

impl FixKind {
    /// The name in lower case, as reports use it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The section of a spec that a rule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// `AIP-29`, `AIP-45`, `YAML 1.2`, or `agentproto` for the tool's own rules.
    pub spec: &'static str,
    /// Title of the section.
    pub section: &'static str,
}

impl Source {
    /// A section of AIP-45.
    pub const fn aip45(section: &'static str) -> Source {
        Source {
            spec: "AIP-45",
            section,
        }
    }
}

/// A named selection of rules and severities.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Profile {
    /// All rules.
    Default,
    /// Only rules that the text of a spec requires.
    Spec,
    /// Same as `Default`, but fields that only the reference implementation supports are
    /// warnings.
    Reference,
}

impl Profile {
    /// All profiles.
    pub const ALL: &[Profile] = <Profile as strum::VariantArray>::VARIANTS;

    /// The name that reports and the configuration use.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An example of a rule's page: a change to a bundle in `fixtures/base/`. The tests lint it.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The conforming bundle that is changed: a directory of `fixtures/base/`.
    pub bundle: &'static str,
    /// Path of the changed file inside that bundle.
    pub file: &'static str,
    /// The text of the example: a whole file, or YAML.
    pub text: &'static str,
    /// Whether `text` is the whole file. Otherwise its top-level keys are added to the
    /// frontmatter of the bundle's file and replace existing keys.
    pub whole: bool,
}

impl Example {
    /// No example.
    pub const NONE: Example = Example::over("", "", "");

    /// An example that adds or replaces top-level keys of the bundle's file.
    pub const fn over(bundle: &'static str, file: &'static str, yaml: &'static str) -> Example {
        Example {
            bundle,
            file,
            text: yaml,
            whole: false,
        }
    }
    /// An example that replaces the bundle's file.
    pub const fn file(bundle: &'static str, file: &'static str, text: &'static str) -> Example {
        Example {
            bundle,
            file,
            text,
            whole: true,
        }
    }
}

/// Reports a schema violation with the rule's own message. It may also report nothing, if another
/// finding covers the same mistake.
pub type ReportFn = for<'d> fn(&RuleContext<'d>, &SchemaViolation<'d>);

/// A lint rule.
#[derive(Debug)]
pub struct Rule {
    /// Unique name in kebab case, for example `id-pattern`.
    pub slug: &'static str,
    /// Reports violations of the schema constraints that name this rule in `x-rules`. If `None`,
    /// the general message of the violated keyword is used.
    pub report: Option<ReportFn>,
    /// One line that says what is wrong when the rule fires.
    pub title: &'static str,
    /// Severity in profiles `default` and `reference`.
    pub severity: Severity,
    /// Severity in profile `spec`, if it differs.
    pub spec_severity: Option<Severity>,
    /// How binding the requirement is.
    pub level: Level,
    /// The section of the spec that the rule comes from.
    pub source: Source,
    /// Ids of the requirements in suites/register.tsv that this rule checks.
    pub decides: &'static [&'static str],
    /// The doctypes that the rule applies to.
    pub doctypes: &'static [Doctype],
    /// How much input the rule needs.
    pub scope: Scope,
    /// Whether findings of the rule can be fixed automatically.
    pub fix: FixKind,
    /// The Markdown page of the rule. The methods below read its sections.
    pub docs: &'static str,
}

impl Rule {
    /// Default values of the fields that most rules do not set.
    pub const BASE: Rule = Rule {
        slug: "",
        report: None,
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

    /// Default values for rules about AGENT-CLI.md that come from this section of AIP-45.
    pub const fn aip45(section: &'static str) -> Rule {
        Rule {
            doctypes: &[Doctype::AgentCli],
            source: Source::aip45(section),
            ..Rule::BASE
        }
    }

    /// The section "What it checks" of the page.
    pub fn what_it_checks(&self) -> &'static str {
        page::section(self.docs, "What it checks")
    }
    /// The section "Why" of the page.
    pub fn why(&self) -> &'static str {
        page::section(self.docs, "Why")
    }
    /// The example that violates the rule.
    pub fn bad_example(&self) -> Example {
        page::example(page::section(self.docs, "Example"))
    }
    /// The same example without the violation.
    pub fn good_example(&self) -> Example {
        page::example(page::section(self.docs, "Use instead"))
    }
    /// The section "Notes" of the page: contradictions in the specs that affect the rule, and how
    /// the rule resolves them.
    pub fn notes(&self) -> Option<&'static str> {
        Some(page::section(self.docs, "Notes")).filter(|note| !note.is_empty())
    }

    /// Whether no spec requires what the rule checks.
    pub fn is_derived(&self) -> bool {
        self.level == Level::Derived
    }
    /// Severity in a profile. `None` if the rule is off there.
    pub fn severity_in(&self, profile: Profile) -> Option<Severity> {
        match profile {
            Profile::Spec if self.is_derived() => None,
            Profile::Spec => Some(self.spec_severity.unwrap_or(self.severity)),
            Profile::Default | Profile::Reference => Some(self.severity),
        }
    }
}

/// Rules are statics, so they are compared by address.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Rule {}
