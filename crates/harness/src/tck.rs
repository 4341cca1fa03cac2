//! The requirements of acp-tck, the official conformance kit of ACP, and what decides them here.
//! `suites/tck.tsv` lists them.

use serde::{Deserialize, Serialize};

use crate::model::{CaseResult, Report, Verdict};
use crate::profile::Profile;
use crate::suite::{self, Suite};
use agentproto_suites::{TckRequirement, tck};

/// Whether the kit demands a requirement.
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
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum Tier {
    /// Every agent must meet it.
    Mandatory,
    /// Every agent with the capability must meet it.
    Capability,
    /// A violation is reported, but the agent still conforms.
    Advisory,
    /// What the agent does is recorded, and never a violation.
    Informational,
}

impl Tier {
    /// Whether an agent that violates a requirement of this tier does not conform.
    pub fn decides(self) -> bool {
        matches!(self, Tier::Mandatory | Tier::Capability)
    }
}

/// How a requirement of the kit compares with ours.
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
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Agreement {
    /// The same demand at a comparable level.
    Same,
    /// The same demand at another level.
    Level,
    /// Ours demands more.
    Stricter,
    /// Ours covers a part.
    Partial,
    /// The demands differ, and the note says why.
    Differs,
    /// The kit demands the opposite of the current text.
    Contrary,
    /// The current text no longer has what the kit demands.
    Obsolete,
    /// Not checked here, and the note says why.
    Missing,
}

/// A requirement of the kit, as parsed from `suites/tck.tsv`.
#[derive(Clone, Debug)]
pub struct KitRequirement {
    /// Its text fields.
    pub text: TckRequirement,
    /// Whether the kit demands it.
    pub tier: Tier,
    /// How it compares with ours.
    pub agreement: Agreement,
}

/// The requirements of the kit for a suite. Empty if the kit does not cover the suite.
pub fn requirements(suite: &str) -> impl Iterator<Item = KitRequirement> + use<'_> {
    let of_suite = tck().filter(move |row| row.suite() == suite);
    of_suite.filter_map(|text| {
        Some(KitRequirement {
            tier: text.tier.parse().ok()?,
            agreement: text.agreement.parse().ok()?,
            text,
        })
    })
}

/// The result of one requirement of the kit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KitResult {
    /// Name of our suite.
    pub suite: String,
    /// Id in the kit, such as `ACP-INIT-001`.
    pub id: String,
    /// Whether the kit demands it.
    pub tier: Tier,
    /// `pass`, `fail`, `skip` (it did not apply, or was not tested) or `not_verified` (not checked
    /// here).
    pub verdict: Verdict,
    /// Our requirements that decide it.
    pub requirements: Vec<String>,
    /// How the kit differs from us, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The results of the kit's requirements, taken from the rows of a report.
pub fn results(report: &Report) -> Vec<KitResult> {
    let suites = report.suites.iter().map(|suite| suite.name.as_str());
    let of_suite = |suite| requirements(suite).map(move |kit| (suite, kit));
    let all = suites.flat_map(of_suite);
    all.map(|(suite, kit)| {
        let ids: Vec<String> = kit.text.ours().map(str::to_owned).collect();
        let rows = report.results.iter();
        let rows = rows.filter(|row| row.suite == suite && ids.contains(&row.requirement));
        KitResult {
            suite: suite.to_owned(),
            id: kit.text.id.to_owned(),
            tier: kit.tier,
            verdict: match ids.is_empty() {
                true => Verdict::NotVerified,
                false => combine(kit.tier, rows),
            },
            requirements: ids,
            note: Some(kit.text.note.to_owned()).filter(|note| !note.is_empty()),
        }
    })
    .collect()
}

/// The verdict of the kit: a violation if any row is one, and a pass if any row passed. The tier
/// INFORMATIONAL has no violations, and a pass means that the behavior was observed.
fn combine<'r>(tier: Tier, rows: impl Iterator<Item = &'r CaseResult>) -> Verdict {
    let mut verdict = Verdict::Skip;
    for row in rows {
        let is_failure = row.verdict == Verdict::Fail || row.strict_verdict == Some(Verdict::Fail);
        match row.verdict {
            // The kit only records what the agent does.
            Verdict::Pass | Verdict::Fail | Verdict::Warn if tier == Tier::Informational => {
                verdict = Verdict::Pass;
            }
            _ if is_failure => return Verdict::Fail,
            Verdict::Warn if tier == Tier::Advisory => return Verdict::Fail,
            Verdict::Pass => verdict = Verdict::Pass,
            _ => {}
        }
    }
    verdict
}

/// Whether the kit would call the agent conforming: nothing that it demands failed.
pub fn conforms(results: &[KitResult]) -> bool {
    let violated = |result: &KitResult| result.tier.decides() && result.verdict == Verdict::Fail;
    !results.iter().any(violated)
}

/// The content of docs/suites/tck.md: every requirement of the kit, and what decides it here.
pub fn reference() -> String {
    let mut out = String::from(
        "# The official kit and our suites\n\n\
         <!-- Generated from suites/tck.tsv; `UPDATE_DOCS=1 cargo test --test judges` writes this \
         file. -->\n\n\
         [acp-tck](https://github.com/agentclientprotocol/acp-tck) is the conformance kit of the \
         authors of ACP. This page lists each of its requirements, and our requirements that \
         decide it. The kit has four tiers. An agent that violates a requirement of the tier \
         MANDATORY, or of the tier CAPABILITY for a capability that it has, does not conform. \
         ADVISORY and INFORMATIONAL never decide.\n\n\
         The profile `core` of `certify` contains our requirements of the tiers MANDATORY and \
         CAPABILITY. `certify --profile tck` prints the results under the ids of the kit. See \
         [Profiles](../certify.md#profiles).\n",
    );
    for name in ["acp", "acp-v2-draft"] {
        let Some(Ok(suite)) = suite::built_in(name) else {
            continue;
        };
        let all: Vec<KitRequirement> = requirements(name).collect();
        out.push_str(&section(&suite, &all));
    }
    out
}

fn section(suite: &Suite, all: &[KitRequirement]) -> String {
    let of = |agreement: Agreement| all.iter().filter(move |kit| kit.agreement == agreement);
    let decided = all.iter().filter(|kit| kit.text.ours().next().is_some());
    let mut out = format!(
        "\n## {}\n\n{} requirements in the kit; {} are decided here. \
         {} agree; {} no longer exist in the current text.\n\n\
         | kit | tier | | ours | |\n|---|---|---|---|---|\n",
        suite.title,
        all.len(),
        decided.count(),
        of(Agreement::Same).count(),
        of(Agreement::Obsolete).count(),
    );
    for kit in all {
        let ours: Vec<String> = kit
            .text
            .ours()
            .filter_map(|id| suite.requirement(id))
            .map(|requirement| {
                let profile = match requirement.profile {
                    Profile::Strict => ", strict",
                    Profile::Core | Profile::Tck => "",
                };
                format!(
                    "{} ({}{profile})",
                    requirement.id,
                    requirement.level.as_str()
                )
            })
            .collect();
        let agreement = match (kit.agreement, kit.text.note) {
            (agreement, "") => agreement.to_string(),
            (agreement, note) => format!("{agreement}: {}", suite::escaped(note)),
        };
        out.push_str(&format!(
            "| {} | {} | {} | {} | {agreement} |\n",
            kit.text.id,
            kit.tier,
            suite::escaped(kit.text.what),
            ours.join("<br>"),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::model::Level;

    const SUITES: [&str; 2] = ["acp", "acp-v2-draft"];

    fn built_in(name: &str) -> Suite {
        suite::built_in(name).expect("known").expect("no mistakes")
    }

    #[test]
    fn every_requirement_of_the_kit_is_decided_or_explained() {
        let lines = tck().count();
        let parsed: usize = SUITES.iter().map(|name| requirements(name).count()).sum();
        assert_eq!(parsed, lines, "a tier or an agreement is unknown");
        for name in SUITES {
            let suite = built_in(name);
            let mut seen = BTreeSet::new();
            for kit in requirements(name) {
                let KitRequirement {
                    text,
                    tier,
                    agreement,
                } = &kit;
                let id = text.id;
                assert!(seen.insert(id), "duplicate {id}");
                for ours in text.ours() {
                    assert!(
                        suite.requirement(ours).is_some(),
                        "{id}: no requirement {ours}"
                    );
                }
                let is_decided = text.ours().next().is_some();
                let undecided = matches!(agreement, Agreement::Obsolete | Agreement::Missing);
                assert!(is_decided || undecided, "{id}: not decided, and not marked");
                let is_plain = matches!(agreement, Agreement::Same);
                assert!(
                    is_plain || !text.note.is_empty(),
                    "{id}: no reason for `{agreement}`"
                );
                // A difference of levels needs an explanation.
                let of_must = |id: &str| {
                    let requirement = suite.requirement(id);
                    requirement.is_some_and(|r| r.level == Level::Must)
                };
                let is_must = text.ours().any(of_must);
                if is_decided && is_plain {
                    assert_eq!(is_must, tier.decides(), "{id}: the levels differ");
                }
            }
        }
    }

    /// `core` is what the kit demands, so the profile of each requirement follows from the kit.
    #[test]
    fn the_core_profile_is_what_the_kit_demands() {
        for name in SUITES {
            let suite = built_in(name);
            let mut demanded: BTreeMap<&str, &str> = BTreeMap::new();
            for kit in requirements(name) {
                let is_valid = !matches!(kit.agreement, Agreement::Contrary | Agreement::Obsolete);
                if kit.tier.decides() && is_valid {
                    demanded.extend(kit.text.ours().map(|ours| (ours, kit.text.id)));
                }
            }
            for requirement in suite.requirements.iter().filter(|r| r.level == Level::Must) {
                let by = demanded.get(requirement.id.as_str());
                let is_core = requirement.profile == Profile::Core;
                assert_eq!(
                    is_core,
                    by.is_some(),
                    "{}: profile {}, demanded by {by:?}",
                    requirement.id,
                    requirement.profile,
                );
            }
        }
    }

    #[test]
    fn a_violation_or_a_pass_decides_a_requirement_of_the_kit() {
        let row = |verdict: &str| {
            let row = serde_json::json!({
                "suite": "acp", "case": "c", "requirement": "PT-01", "level": "MUST",
                "verdict": verdict, "message": "", "source": "", "section": "", "statement": "",
                "evidence": [], "duration_ms": 0.0,
            });
            serde_json::from_value::<CaseResult>(row).expect("a row")
        };
        let of = |tier, verdicts: &[&str]| {
            let rows: Vec<CaseResult> = verdicts.iter().map(|verdict| row(verdict)).collect();
            combine(tier, rows.iter())
        };
        assert_eq!(of(Tier::Mandatory, &["pass", "fail"]), Verdict::Fail);
        assert_eq!(of(Tier::Mandatory, &["n_a", "pass"]), Verdict::Pass);
        assert_eq!(of(Tier::Mandatory, &["n_a", "not_verified"]), Verdict::Skip);
        assert_eq!(of(Tier::Mandatory, &["warn", "pass"]), Verdict::Pass);
        assert_eq!(of(Tier::Advisory, &["warn", "pass"]), Verdict::Fail);
        assert_eq!(of(Tier::Informational, &["fail"]), Verdict::Pass);
        assert_eq!(of(Tier::Informational, &["n_a"]), Verdict::Skip);
    }
}
