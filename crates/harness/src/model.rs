//! Verdicts and the report that contains them. Every output format is rendered from this model.

use std::collections::BTreeSet;

use crate::run::recipe_match::known_recipe;
use crate::suite::Selection;
use crate::tck::KitResult;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::profile::{Basis, Binding, Profile};
pub use agentproto_report::Verdict;

/// The `schema` of a JSON report.
pub const SCHEMA: &str = "agentproto.certify/v1";

/// The `kind` of a target that was read from a transcript instead of being run.
pub const RECORDING: &str = "recording";
/// The `kind` of a built-in mock agent.
pub const MOCK: &str = "mock";
/// The `kind` of a session host that is reached by its URL.
pub const URL: &str = "url";

/// How strongly a spec requires something.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum Level {
    /// A violation is a failure.
    Must,
    /// A violation is a warning.
    Should,
    /// Optional behavior. A violation is a warning.
    May,
    /// The spec does not say. Reported as information, never as a failure.
    Info,
}

impl Level {
    /// The level as specs write it: `MUST`, `SHOULD`, `MAY` or `INFO`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The verdict for a violation of a requirement of this level.
    pub fn violated(self) -> Verdict {
        match self {
            Level::Must => Verdict::Fail,
            Level::Should | Level::May | Level::Info => Verdict::Warn,
        }
    }
}

/// A line of the transcript that supports a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// `to-agent`, `from-agent`, `stderr` or `process`.
    pub direction: String,
    /// Line number in the transcript file.
    pub line: u64,
    /// The line itself. Long lines are shortened, and unprintable characters are escaped.
    pub text: String,
    /// JSON Pointer to the value that is wrong, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The part of `text` that `pointer` refers to, as a half-open range of characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<(usize, usize)>,
    /// Milliseconds since the process started.
    #[serde(default)]
    pub at_ms: f64,
}

/// The verdict for one requirement in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// Name of the suite.
    pub suite: String,
    /// Case id, or `monitor` for checks that run in all cases.
    pub case: String,
    /// Requirement id, such as `TR-03`.
    pub requirement: String,
    /// Level of the requirement.
    pub level: Level,
    /// The verdict.
    pub verdict: Verdict,
    /// What was observed, in one sentence.
    pub message: String,
    /// Where the spec says so, for example `ACP v1, prompt-turn`.
    pub source: String,
    /// Section of the suite, for grouping.
    pub section: String,
    /// What the spec requires, in plain words.
    pub statement: String,
    /// How to fix it. Only present with `fail` and `warn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Wire lines that support the verdict.
    pub evidence: Vec<Evidence>,
    /// Duration of the case in milliseconds. 0 for a monitor.
    pub duration_ms: f64,
    /// Path of the transcript file, relative to the report directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// Whether it already failed in the baseline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// The requirement that failed for the same cause. This row then has no verdict of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The smallest profile in which the requirement decides: `core` or `strict`.
    #[serde(default = "Profile::core")]
    pub profile: Profile,
    /// What the source says, if the suite tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// The verdict in the profile `strict`, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_verdict: Option<Verdict>,
}

/// The program that wrote a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

impl Default for Tool {
    fn default() -> Self {
        Tool {
            name: "agentproto".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// What was certified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `command`, `bundle`, `mock`, `url` or `recording`.
    pub kind: String,
    /// Display name: the command line, or the name of the bundle.
    pub name: String,
    /// Program and arguments, if the target is a command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `agentInfo` or `serverInfo` as the agent reported it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub info: Value,
    /// The protocol version that the agent chose.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub protocol_version: Value,
    /// Capabilities that the agent reported.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub capabilities: Value,
}

/// A suite that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteInfo {
    /// Name of the suite, such as `acp`.
    pub name: String,
    /// Title of the suite.
    pub title: String,
    /// Number of requirements.
    pub requirements: usize,
    /// Number of cases.
    pub cases: usize,
}

/// Where the time went, which also shows the overhead of the harness itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Wall-clock time of the run in milliseconds.
    pub wall_ms: f64,
    /// Milliseconds from spawn to the response to `initialize`, summed over all processes.
    pub startup_ms: f64,
    /// Milliseconds of deliberate waiting, to check that nothing is sent.
    pub waits_ms: f64,
    /// Milliseconds of waiting for responses of the agent.
    pub agent_ms: f64,
    /// Number of agent processes that were started.
    pub processes: u64,
    /// Maximum number of cases that ran in parallel.
    pub jobs: usize,
    /// Number of cases that were too late and were repeated alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Number of results per verdict, and whether the target is certified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of `pass` results.
    pub pass: usize,
    /// Number of `fail` results.
    pub fail: usize,
    /// Number of `warn` results.
    pub warn: usize,
    /// Number of `skip` results.
    pub skip: usize,
    /// Number of `n_a` results.
    pub n_a: usize,
    /// Number of `not_verified` results.
    pub not_verified: usize,
    /// Number of `error` results.
    pub error: usize,
    /// Whether the target is certified.
    pub certified: bool,
    /// Why the target is not certified, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The decision of the profile `strict`, if the report has another profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<StrictSummary>,
}

/// What the profile `strict` would decide about the same results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrictSummary {
    /// Whether the target would be certified.
    pub certified: bool,
    /// Requirements that are violated and decide only in the profile `strict`.
    pub requirements: Vec<String>,
}

/// Why the runtime refused to start a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Error code, such as `version_mismatch`.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What a reader needs to know about an agent whose sessions require a login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginNeed {
    /// Ids of the auth methods that the agent offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Name of a recipe for this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
}

impl LoginNeed {
    /// The login methods in a response to `initialize`, and the recipe for this target.
    pub fn of(initialize: &Value, target: &Target) -> LoginNeed {
        let methods = initialize.get("authMethods").and_then(Value::as_array);
        let methods = methods.into_iter().flatten();
        let ids = methods.filter_map(|m| m.get("id").or(m.get("methodId"))?.as_str());
        LoginNeed {
            methods: ids.map(str::to_owned).collect(),
            recipe: known_recipe(&target.command, initialize).map(str::to_owned),
        }
    }
}

/// The outcome of a run: what was run, every verdict, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote the report.
    pub tool: Tool,
    /// What was certified.
    pub target: Target,
    /// The suites that were run.
    pub suites: Vec<SuiteInfo>,
    /// One result per requirement and case.
    pub results: Vec<CaseResult>,
    /// Number of results per verdict, and whether the target is certified.
    pub summary: Summary,
    /// Where the time went.
    pub timing: Timing,
    /// Start of the run, in seconds since 1970.
    pub started: u64,
    /// Whether the run was interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Set if the sessions of the agent require a login that the run does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_login: Option<LoginNeed>,
    /// Set if no agent process ever answered `initialize`: what was observed instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_answered: Option<String>,
    /// Set if the runtime refused to start the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_started: Option<Refusal>,
    /// Whether only some cases were selected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selection: bool,
    /// `I/N` of a sharded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The profile that decided. Reports of earlier versions have the profile `strict`.
    #[serde(default)]
    pub profile: Profile,
    /// The requirements of the official kit, if the profile is `tck`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tck: Vec<KitResult>,
}

/// The reason of results without a verdict if the agent did not accept `initialize`.
pub const NO_INITIALIZE: &str = "the agent did not answer `initialize` with a result";

/// Separates how an agent ended from the end of its stderr, whose lines [`STDERR_SEPARATOR`]
/// separates.
pub const STDERR_LABEL: &str = "; end of its stderr: ";
/// Separates lines of stderr in a message.
pub const STDERR_SEPARATOR: &str = " | ";

impl Report {
    /// Whether the agent never answered `initialize` with a result.
    pub fn lacks_initialize(&self) -> bool {
        self.target.protocol_version.is_null()
            && self.results.iter().any(|r| r.message == NO_INITIALIZE)
    }

    /// Keeps the results of the selected requirements, and errors. A monitor also sees what was not
    /// selected, but only a complete run reports that.
    pub fn retain_selected(&mut self, only: &Selection) {
        if only.is_everything() || only.names_cases {
            return;
        }
        let is_selected = |r: &CaseResult| only.requirements.contains(&r.requirement);
        self.results
            .retain(|r| is_selected(r) || r.verdict == Verdict::Error);
        self.summarize();
    }

    /// Counts the verdicts and decides whether the target is certified.
    ///
    /// A target is certified if nothing failed, no check ended in an error, the run was complete,
    /// and at least one MUST requirement of the profile passed. An agent must also have finished a
    /// turn, and a host must have started a session.
    pub fn summarize(&mut self) {
        let mut summary = Summary::default();
        for result in &self.results {
            let count = match result.verdict {
                Verdict::Pass => &mut summary.pass,
                Verdict::Fail => &mut summary.fail,
                Verdict::Warn => &mut summary.warn,
                Verdict::Skip => &mut summary.skip,
                Verdict::NotApplicable => &mut summary.n_a,
                Verdict::NotVerified => &mut summary.not_verified,
                Verdict::Error => &mut summary.error,
            };
            *count += 1;
        }
        let proven = self
            .results
            .iter()
            .any(|r| r.verdict == Verdict::Pass && self.decides(r));
        let failing = self.results.iter().filter(|r| r.verdict == Verdict::Fail);
        // A requirement that fails in several cases is one failure.
        let id = |r: &'_ CaseResult| (r.suite.clone(), r.requirement.clone());
        let new: BTreeSet<_> = failing.clone().filter(|r| !r.known).map(id).collect();
        let known: BTreeSet<_> = failing.filter(|r| r.known).map(id).collect();
        let (new, known) = (new.len(), known.difference(&new).count());
        // An agent that never finished a turn, or a host that never started a session, has shown
        // too little to be certified.
        let never = |suite: &str, requirement: &str| {
            let held = |r: &CaseResult| r.requirement == requirement && r.verdict == Verdict::Pass;
            self.suites.iter().any(|s| s.name == suite) && !self.results.iter().any(held)
        };
        let no_turn = never("acp", "PT-01") || never("acp-v2-draft", "V2-07");
        let no_session = never("sessions", "A46-HTTP-03");
        summary.reason = if let Some(how) = &self.never_answered {
            Some(match self.target.kind == URL {
                true => format!("the host never answered: {how}"),
                false => format!("the agent never answered `initialize`: {how}"),
            })
        } else if summary.fail > 0 {
            Some(match known {
                0 => format!("{new} failed"),
                _ if new == 0 => format!("no new failures ({known} known from the baseline)"),
                _ => format!("{new} failed (plus {known} known from the baseline)"),
            })
        } else if let Some(refusal) = &self.not_started {
            let Refusal { code, message, .. } = refusal;
            Some(format!("the agent was not started: {code}: {message}"))
        } else if summary.error > 0 {
            Some(format!("{} could not be checked", summary.error))
        } else if self.partial {
            Some("the run was interrupted".to_owned())
        } else if self.lacks_initialize() {
            Some(NO_INITIALIZE.to_owned())
        } else if self.selection {
            Some("only some of the cases were run".to_owned())
        } else if self.shard.is_some() {
            Some(
                "this is one shard of a run; `agentproto report merge` merges all shards"
                    .to_owned(),
            )
        } else if self.target.kind == RECORDING {
            Some("this is a recording; run `agentproto certify` against the agent".to_owned())
        } else if !proven {
            Some("no MUST requirement passed".to_owned())
        } else if no_turn {
            let why = "no turn was completed";
            Some(match self.needs_login {
                Some(_) => format!("{why}, because the agent requires a login"),
                None => {
                    format!("{why}: add a prompt that the agent answers (`text` in --prompts FILE)")
                }
            })
        } else if no_session {
            let why = "no session was started";
            Some(format!(
                "{why}: pass the name of an adapter of the host with --adapter"
            ))
        } else {
            None
        };
        // Always mention an interruption: the reader must know that many checks did not run.
        let stopped = "the run was interrupted";
        if let (true, Some(reason)) = (self.partial, &summary.reason)
            && reason != stopped
        {
            summary.reason = Some(format!("{stopped}; before that: {reason}"));
        }
        summary.certified = summary.reason.is_none();
        self.summary = summary;
        self.summary.strict = self.strict_summary();
        self.tck = self.kit_results();
    }

    /// The number of applicable MUST requirements that were tested, and how many there are.
    pub fn tested(&self) -> (usize, usize) {
        let mut all = std::collections::BTreeMap::new();
        for row in self.results.iter().filter(|r| self.decides(r)) {
            let (tested, applies) = all
                .entry((&row.suite, &row.requirement))
                .or_insert((false, false));
            let is_decided = matches!(row.verdict, Verdict::Pass | Verdict::Fail | Verdict::Warn);
            *tested |= is_decided;
            *applies |= row.verdict != Verdict::NotApplicable;
        }
        let tested = all.values().filter(|(tested, _)| *tested).count();
        (tested, all.values().filter(|(_, applies)| *applies).count())
    }

    /// Ids of applicable MUST requirements that were not tested, in the order of the report.
    pub fn untested(&self) -> Vec<&str> {
        let must = || self.results.iter().filter(|r| self.decides(r));
        let is_decided =
            |r: &CaseResult| matches!(r.verdict, Verdict::Pass | Verdict::Fail | Verdict::Warn);
        let mut ids: Vec<&str> = Vec::new();
        for row in must().filter(|r| r.verdict != Verdict::NotApplicable) {
            let same = |r: &CaseResult| r.suite == row.suite && r.requirement == row.requirement;
            let is_tested = must().any(|r| same(r) && is_decided(r));
            if !is_tested && !ids.contains(&row.requirement.as_str()) {
                ids.push(&row.requirement);
            }
        }
        ids
    }

    /// Whether anything failed that the baseline does not contain.
    pub fn has_new_failures(&self) -> bool {
        let fails = |r: &CaseResult| matches!(r.verdict, Verdict::Fail | Verdict::Error);
        self.results.iter().any(|r| fails(r) && !r.known)
    }
}
