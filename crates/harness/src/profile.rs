//! Profiles: which MUST requirements decide about the certificate, and what binds an agent to a
//! requirement.

use serde::{Deserialize, Serialize};

use crate::model::{CaseResult, Level, Report, StrictSummary, Verdict};
use crate::tck;

/// Which MUST requirements decide whether an agent is certified.
///
/// A requirement of a suite has the profile `core` or `strict`: the smallest profile in which it
/// decides.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Profile {
    /// The requirements that the official kit of the protocol demands of every agent, or of agents
    /// with a capability. All requirements of specs without such a kit.
    Core,
    /// Every MUST of the suites.
    #[default]
    Strict,
    /// Like `core`, and the report also lists the requirements of the official kit.
    Tck,
}

impl Profile {
    /// All profiles, in the order of the help text.
    pub const ALL: &[Profile] = <Profile as strum::VariantArray>::VARIANTS;

    /// The profile of results in reports that do not say it.
    pub(crate) fn core() -> Profile {
        Profile::Core
    }

    /// Whether a MUST requirement with the profile `of` decides in this profile.
    pub fn includes(self, of: Profile) -> bool {
        self == Profile::Strict || of != Profile::Strict
    }
}

/// How strongly the source of a requirement binds an agent.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Binding {
    /// The source says MUST or MUST NOT.
    Must,
    /// The source says SHOULD or SHOULD NOT.
    Should,
    /// The source says MAY.
    May,
    /// The published JSON Schema requires it.
    Schema,
    /// The source describes the behavior without such a word.
    Defined,
    /// Only JSON-RPC 2.0 says it, on which the protocol is based.
    JsonRpc,
    /// The source does not say it. It is agentproto's own check.
    Silent,
}

impl Binding {
    /// All values.
    pub const ALL: &[Binding] = <Binding as strum::VariantArray>::VARIANTS;

    /// Whether a requirement with this binding may have this level and profile.
    pub fn carries(self, level: Level, profile: Profile) -> bool {
        match (self, level) {
            (Binding::Must | Binding::Schema, Level::Must) => true,
            (Binding::Defined, Level::Must | Level::Should) => true,
            (Binding::JsonRpc, Level::Must) => profile == Profile::Strict,
            (Binding::JsonRpc, Level::Should) => true,
            (Binding::Should, Level::Should) => true,
            (Binding::May, Level::May) => true,
            (Binding::Silent, Level::Info) => true,
            _ => false,
        }
    }

    /// The binding in words, for a sentence.
    pub fn describe(self) -> &'static str {
        match self {
            Binding::Must => "MUST",
            Binding::Should => "SHOULD",
            Binding::May => "MAY",
            Binding::Schema => "required by the schema",
            Binding::Defined => "described, without MUST or SHOULD",
            Binding::JsonRpc => "only in JSON-RPC 2.0",
            Binding::Silent => "not in the spec",
        }
    }
}

/// What the source of a requirement says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Basis {
    /// How strongly the source binds an agent.
    pub binding: Binding,
    /// What the source says, in our own words.
    pub says: String,
}

impl Report {
    /// Applies a profile: a violated MUST that does not decide in it becomes a warning that says
    /// so. Call it once, before `summarize`.
    pub fn apply_profile(&mut self, profile: Profile) {
        self.profile = profile;
        for row in &mut self.results {
            if row.verdict == Verdict::Fail && !profile.includes(row.profile) {
                row.verdict = Verdict::Warn;
                row.strict_verdict = Some(Verdict::Fail);
            }
        }
    }

    /// Whether the requirement of a row is a MUST that decides in the profile of the report.
    pub fn decides(&self, row: &CaseResult) -> bool {
        row.level == Level::Must && self.profile.includes(row.profile)
    }

    /// Whether another profile could have another result: the suites have requirements of both.
    pub fn has_profiles(&self) -> bool {
        let mut rows = self.results.iter();
        rows.any(|row| row.profile == Profile::Strict)
    }

    /// What the profile `strict` would decide about the same results. `None` if the report has that
    /// profile already.
    pub(crate) fn strict_summary(&self) -> Option<StrictSummary> {
        if self.profile == Profile::Strict || !self.has_profiles() {
            return None;
        }
        let mut requirements: Vec<String> = Vec::new();
        let outside = |row: &&CaseResult| row.strict_verdict == Some(Verdict::Fail) && !row.known;
        for row in self.results.iter().filter(outside) {
            if !requirements.contains(&row.requirement) {
                requirements.push(row.requirement.clone());
            }
        }
        Some(StrictSummary {
            certified: self.summary.certified && requirements.is_empty(),
            requirements,
        })
    }

    /// The requirements of the official kit, if the profile is `tck`.
    pub(crate) fn kit_results(&self) -> Vec<tck::KitResult> {
        match self.profile {
            Profile::Tck => tck::results(self),
            Profile::Core | Profile::Strict => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, SuiteProtocol};

    #[test]
    fn only_the_strict_profile_includes_strict_requirements() {
        for profile in [Profile::Core, Profile::Tck] {
            assert!(profile.includes(Profile::Core) && !profile.includes(Profile::Strict));
        }
        assert!(
            Profile::Strict.includes(Profile::Core) && Profile::Strict.includes(Profile::Strict)
        );
    }

    /// A report of one suite, with these requirements: id, profile and verdict.
    fn report(suite: &str, rows: &[(&str, &str, &str)]) -> Report {
        let rows = rows.iter().map(|(id, profile, verdict)| {
            serde_json::json!({
                "suite": suite, "case": "c", "requirement": id, "level": "MUST",
                "verdict": verdict, "message": "", "source": "", "section": "", "statement": "",
                "evidence": [], "duration_ms": 0.0, "profile": profile,
            })
        });
        let report = serde_json::json!({
            "schema": crate::model::SCHEMA,
            "tool": { "name": "agentproto", "version": "0" },
            "target": { "kind": "command", "name": "x", "protocol_version": 2 },
            "suites": [{ "name": suite, "title": "", "requirements": 1, "cases": 1 }],
            "results": rows.collect::<Vec<_>>(),
            "summary": {
                "pass": 0, "fail": 0, "warn": 0, "skip": 0, "n_a": 0, "not_verified": 0,
                "error": 0, "certified": false,
            },
            "timing": {
                "wall_ms": 0.0, "startup_ms": 0.0, "waits_ms": 0.0, "agent_ms": 0.0,
                "processes": 1, "jobs": 1,
            },
            "started": 0,
        });
        serde_json::from_value(report).expect("a report")
    }

    #[test]
    fn the_report_says_what_the_strict_profile_would_decide() {
        let rows = [("PT-01", "core", "pass"), ("TC-02", "strict", "fail")];
        let mut core = report("acp", &rows);
        core.apply_profile(Profile::Core);
        core.summarize();
        assert!(core.summary.certified, "{:?}", core.summary);
        assert_eq!((core.summary.fail, core.summary.warn), (0, 1));
        let strict = core.summary.strict.expect("another decision");
        assert!(!strict.certified);
        assert_eq!(strict.requirements, ["TC-02"]);
        let mut strict = report("acp", &rows);
        strict.apply_profile(Profile::Strict);
        strict.summarize();
        assert!(!strict.summary.certified && strict.summary.strict.is_none());
        // A MUST of another profile proves nothing in this one.
        let mut none = report("acp", &[("TC-02", "strict", "pass")]);
        none.apply_profile(Profile::Core);
        none.summarize();
        assert!(!none.summary.certified);
    }

    #[test]
    fn an_agent_of_the_draft_that_never_worked_is_not_certified() {
        for (verdict, is_certified) in [("pass", true), ("not_verified", false)] {
            let rows = [("V2-01", "core", "pass"), ("V2-07", "core", verdict)];
            let mut report = report("acp-v2-draft", &rows);
            report.summarize();
            assert_eq!(
                report.summary.certified, is_certified,
                "{:?}",
                report.summary
            );
        }
    }

    /// Every requirement of the ACP suites says what its source says, and its level is not higher
    /// than that. See CONTRIBUTING.md.
    #[test]
    fn no_level_is_higher_than_its_source() {
        let suites = suite::names().map(|name| suite::built_in(name).expect("known"));
        let suites = suites.map(|suite| suite.expect("no mistakes"));
        let of_acp = |suite: &suite::Suite| {
            matches!(suite.name.as_str(), "acp" | "acp-v2-draft")
                && matches!(suite.protocol, SuiteProtocol::Acp | SuiteProtocol::AcpV2)
        };
        for suite in suites.filter(of_acp) {
            for requirement in &suite.requirements {
                let id = &requirement.id;
                let basis = requirement.basis.as_ref();
                let basis = basis.unwrap_or_else(|| panic!("{id} has no `basis`"));
                assert!(
                    basis.says.ends_with(|c: char| c != '.'),
                    "{id}: final period"
                );
                assert!(basis.says.len() > 15, "{id}: says nothing");
                assert!(
                    basis
                        .binding
                        .carries(requirement.level, requirement.profile),
                    "{id}: {} in profile {} is more than its source carries ({})",
                    requirement.level.as_str(),
                    requirement.profile,
                    basis.binding.describe(),
                );
            }
        }
    }
}
