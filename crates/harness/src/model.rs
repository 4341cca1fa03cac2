//! Verdicts and the report that carries them: the one model that every output renders.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use agentproto_report::Verdict;

pub const SCHEMA: &str = "agentproto.certify/v1";

/// The `kind` of a target that was not run, but read from a transcript.
pub const RECORDING: &str = "recording";
/// The `kind` of a host that is reached by its URL.
pub const URL: &str = "url";

/// How strongly a spec asks for something.
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
    Must,
    Should,
    May,
    /// The text is silent; reported, and never a failure.
    Info,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What a violation of such a statement is.
    pub fn violated(self) -> Verdict {
        match self {
            Level::Must => Verdict::Fail,
            Level::Should | Level::May | Level::Info => Verdict::Warn,
        }
    }
}

/// A line that proves something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// `to-agent`, `from-agent`, `stderr` or `process`.
    pub direction: String,
    /// Its line in the file of the transcript.
    pub line: u64,
    /// The line itself, shortened where it is long, made printable where it is not.
    pub text: String,
    /// JSON Pointer of what is wrong in it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The characters of `text` that the pointer means: the first, and the one behind the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<(usize, usize)>,
    /// Milliseconds since the process was started.
    #[serde(default)]
    pub at_ms: f64,
}

/// One statement in one case, with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    pub suite: String,
    /// A case of the suite, or `monitor` for what is watched in all of them.
    pub case: String,
    pub requirement: String,
    pub level: Level,
    pub verdict: Verdict,
    pub message: String,
    /// Where the text says so, for people: `ACP v1, prompt-turn`.
    pub source: String,
    /// Chapter of the suite, for grouping.
    pub section: String,
    /// What the text demands, in our words.
    pub statement: String,
    /// What to do about it; only beside `fail` and `warn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub evidence: Vec<Evidence>,
    pub duration_ms: f64,
    /// File of the transcript below the report directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// Known from a baseline: it failed before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
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
    /// What a person calls it: the command line, the bundle's name.
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `agentInfo` or `serverInfo` as the agent gave it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub info: Value,
    /// The protocol version that it chose.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub protocol_version: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub capabilities: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteInfo {
    pub name: String,
    pub title: String,
    /// Statements in it.
    pub requirements: usize,
    pub cases: usize,
}

/// Where the time went, so that the harness can be judged too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    pub wall_ms: f64,
    /// From spawn to the answer to initialize, over all processes.
    pub startup_ms: f64,
    /// Time in which nothing may come, waited on purpose.
    pub waits_ms: f64,
    /// Waiting for the agent's answers.
    pub agent_ms: f64,
    pub processes: u64,
    pub jobs: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub pass: usize,
    pub fail: usize,
    pub warn: usize,
    pub skip: usize,
    pub n_a: usize,
    pub not_verified: usize,
    pub error: usize,
    pub certified: bool,
    /// Why not, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The outcome of a run: every verdict, with what was run and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub tool: Tool,
    pub target: Target,
    pub suites: Vec<SuiteInfo>,
    pub results: Vec<CaseResult>,
    pub summary: Summary,
    pub timing: Timing,
    /// Seconds since 1970 at the start of the run.
    pub started: u64,
    /// The run was stopped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// No process of the agent ever answered initialize: what came instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_answered: Option<String>,
    /// Only some cases were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selection: bool,
    /// `I/N` of a sharded run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

impl Report {
    /// Counts the verdicts and says whether this is a certificate: nothing failed or stayed
    /// unjudged by our own fault, the run was whole, and something that MUST be was seen.
    pub fn sum_up(&mut self) {
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
            .any(|r| r.verdict == Verdict::Pass && r.level == Level::Must);
        let failing = self.results.iter().filter(|r| r.verdict == Verdict::Fail);
        let new = failing.clone().filter(|r| !r.known).count();
        // An agent that was never seen to finish a turn is no agent yet.
        let never = |suite: &str, requirement: &str| {
            let held = |r: &CaseResult| r.requirement == requirement && r.verdict == Verdict::Pass;
            self.suites.iter().any(|s| s.name == suite) && !self.results.iter().any(held)
        };
        let no_turn = never("acp", "PT-01");
        // Nor is a host a host that never had a session.
        let no_session = never("sessions", "A46-HTTP-03");
        summary.reason = if let Some(how) = &self.never_answered {
            Some(match self.target.kind == URL {
                true => format!("it never answered: {how}"),
                false => format!("it never answered initialize: {how}"),
            })
        } else if summary.fail > 0 {
            let known = failing.count() - new;
            Some(match known {
                0 => format!("{new} failed"),
                _ if new == 0 => format!("nothing new failed, {known} that the baseline knows do"),
                _ => format!("{new} failed, and {known} that the baseline knows"),
            })
        } else if summary.error > 0 {
            Some(format!("{} could not be judged", summary.error))
        } else if self.partial {
            Some("the run was stopped before its end".to_owned())
        } else if self.selection {
            Some("only some of the cases were run".to_owned())
        } else if self.shard.is_some() {
            Some("this is one shard; merge them all".to_owned())
        } else if self.target.kind == RECORDING {
            Some("a recording shows what happened in it; a run of the suite certifies".to_owned())
        } else if !proven {
            Some("nothing that MUST be was seen to hold".to_owned())
        } else if no_turn {
            let why = "no turn was seen to come to its end";
            Some(format!(
                "{why}: give it a prompt that it answers (`text` in --prompts FILE)"
            ))
        } else if no_session {
            let why = "no session was ever started";
            Some(format!("{why}: name an adapter of the host with --adapter"))
        } else {
            None
        };
        // Whatever else is said: who reads it must know that much was not looked at.
        let stopped = "the run was stopped before its end";
        if let (true, Some(reason)) = (self.partial, &summary.reason)
            && reason != stopped
        {
            summary.reason = Some(format!("{stopped}; until then: {reason}"));
        }
        summary.certified = summary.reason.is_none();
        self.summary = summary;
    }

    /// Statements that MUST hold and apply: how many were put to the test, and how many there are.
    pub fn tested(&self) -> (usize, usize) {
        let mut all = std::collections::BTreeMap::new();
        for row in self.results.iter().filter(|r| r.level == Level::Must) {
            let (tested, applies) = all
                .entry((&row.suite, &row.requirement))
                .or_insert((false, false));
            let judged = matches!(row.verdict, Verdict::Pass | Verdict::Fail | Verdict::Warn);
            *tested |= judged;
            *applies |= row.verdict != Verdict::NotApplicable;
        }
        let tested = all.values().filter(|(tested, _)| *tested).count();
        (tested, all.values().filter(|(_, applies)| *applies).count())
    }

    /// Whether a script should see a failure: what a baseline knows does not count.
    pub fn has_new_failures(&self) -> bool {
        let fails = |r: &CaseResult| matches!(r.verdict, Verdict::Fail | Verdict::Error);
        self.results.iter().any(|r| fails(r) && !r.known)
    }
}
