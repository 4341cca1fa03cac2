//! Findings per rule and command, and the conformance matrix computed from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::rules::Rule;
pub use agentproto_report::Verdict;

/// Schema id of the JSON report.
pub const SCHEMA: &str = "agentproto.aoi/v1";

/// Row name for findings about the tool as a whole.
pub const TOOL: &str = "(tool)";

/// One of the 13 checks of §18.2, or the rules beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckId {
    /// Check number, from 1 to 13.
    Number(u8),
    /// Rules that no check of §18.2 covers. They do not affect the matrix.
    Advisory,
}

impl std::str::FromStr for CheckId {
    type Err = ();

    fn from_str(word: &str) -> Result<CheckId, ()> {
        match word.parse() {
            Ok(number @ 1..=13) => Ok(CheckId::Number(number)),
            _ if word == "advisory" => Ok(CheckId::Advisory),
            _ => Err(()),
        }
    }
}

impl Serialize for CheckId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CheckId::Number(number) => serializer.serialize_u8(*number),
            CheckId::Advisory => serializer.serialize_str("advisory"),
        }
    }
}

impl<'de> Deserialize<'de> for CheckId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "advisory" => Ok(CheckId::Advisory),
            Value::Number(number) => number
                .as_u64()
                .and_then(|number| u8::try_from(number).ok())
                .filter(|number| (1..=13).contains(number))
                .map(CheckId::Number)
                .ok_or_else(|| serde::de::Error::custom("a check must be a number from 1 to 13")),
            _ => Err(serde::de::Error::custom(
                "a check must be a number from 1 to 13, or `advisory`",
            )),
        }
    }
}

/// The ten characteristics of Machine Mode, in the order of the spec.
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
pub enum Characteristic {
    /// Stdout consists of JSON events with declared types.
    Typed,
    /// The tool prints its schema and capabilities.
    Discoverable,
    /// Results are written while the command is running.
    Streamable,
    /// The number of results is limited, and pages can be requested.
    Bounded,
    /// Destructive commands require a confirmation, and no command waits for a user.
    Safe,
    /// A repeated change has no second effect.
    Idempotent,
    /// Changes are reported with stable ids.
    Auditable,
    /// Exit code and summary show whether the command succeeded.
    Verifiable,
    /// The output of one tool can be the input of another.
    Composable,
    /// Events have a schema version that callers can request.
    Versioned,
}

impl Characteristic {
    /// All characteristics, in the order of the spec.
    pub const ALL: [Characteristic; 10] = [
        Characteristic::Typed,
        Characteristic::Discoverable,
        Characteristic::Streamable,
        Characteristic::Bounded,
        Characteristic::Safe,
        Characteristic::Idempotent,
        Characteristic::Auditable,
        Characteristic::Verifiable,
        Characteristic::Composable,
        Characteristic::Versioned,
    ];

    /// Name as in the spec: `Typed`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The characteristics that a check decides (§18.2).
pub fn characteristics(check: CheckId) -> &'static [Characteristic] {
    use Characteristic::{
        Auditable, Bounded, Composable, Discoverable, Idempotent, Safe, Streamable, Typed,
        Verifiable, Versioned,
    };
    match check {
        CheckId::Number(1) => &[Discoverable],
        CheckId::Number(2) => &[Typed],
        CheckId::Number(3 | 5) => &[Verifiable],
        CheckId::Number(4) => &[Typed, Verifiable],
        CheckId::Number(6 | 9) => &[Safe],
        CheckId::Number(7) => &[Idempotent],
        CheckId::Number(8) => &[Auditable],
        CheckId::Number(10 | 12) => &[Composable],
        CheckId::Number(11) => &[Bounded, Streamable],
        CheckId::Number(13) => &[Versioned],
        _ => &[],
    }
}

/// The verdict on one rule for one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The check that the rule belongs to.
    pub check: CheckId,
    /// Rule id, such as `AOI-03.count`.
    pub rule: String,
    /// Command name, or `(tool)`.
    pub command: String,
    /// Characteristics whose matrix cells the verdict affects.
    pub characteristics: Vec<Characteristic>,
    /// The verdict.
    pub verdict: Verdict,
    /// Section of AOI-CLI v0.2.
    pub section: String,
    /// What was observed, or why the rule has no verdict.
    pub message: String,
    /// Command line that reproduces the finding. Fake secrets are masked, so the reader inserts
    /// them.
    #[serde(default)]
    pub repro: Vec<String>,
    /// Probe name, exit, output and duration of the run. It never contains a fake secret.
    #[serde(default)]
    pub evidence: Map<String, Value>,
    /// Whether the baseline already contains the finding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

impl Finding {
    /// Creates a finding without evidence.
    pub fn new(rule: &Rule, command: &str, verdict: Verdict, message: impl Into<String>) -> Self {
        Finding {
            check: rule.check,
            rule: rule.id.to_owned(),
            command: command.to_owned(),
            characteristics: characteristics(rule.check).to_vec(),
            verdict,
            section: rule.section.to_owned(),
            message: message.into(),
            repro: Vec::new(),
            evidence: Map::new(),
            known: false,
        }
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairState {
    /// At least one rule passed, and nothing contradicts it.
    Pass,
    /// A rule was violated.
    Fail,
    /// A rule was skipped or could not be verified, or none passed.
    Unproven,
    /// No rule applies.
    #[serde(rename = "n_a")]
    NotApplicable,
}

/// Cells by command name, then by characteristic.
pub type Matrix = BTreeMap<String, BTreeMap<Characteristic, PairState>>;

/// Counts for the end of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Matrix cells that passed.
    pub pairs_proven: usize,
    /// Matrix cells that failed.
    pub pairs_failing: usize,
    /// Matrix cells that are unproven.
    pub pairs_unproven: usize,
    /// Findings with verdict `pass`.
    pub pass: usize,
    /// Findings with verdict `fail`.
    pub fail: usize,
    /// Findings with verdict `warn`.
    pub warn: usize,
    /// Findings with verdict `skip`.
    pub skip: usize,
    /// Findings with verdict `n_a`.
    pub n_a: usize,
    /// Findings with verdict `not_verified`.
    pub not_verified: usize,
    /// Findings with verdict `error`.
    pub error: usize,
}

/// The state of one cell, given the verdicts of all rules that affect it.
fn pair_state(verdicts: &[Verdict]) -> PairState {
    let has = |state| verdicts.contains(&state);
    if has(Verdict::Fail) {
        PairState::Fail
    } else if has(Verdict::NotVerified) || has(Verdict::Skip) || has(Verdict::Error) {
        PairState::Unproven
    } else if has(Verdict::Pass) {
        PairState::Pass
    } else if has(Verdict::Warn) {
        PairState::Unproven
    } else {
        PairState::NotApplicable
    }
}

/// Computes the matrix: a row for the tool, each command, and each command name in the findings.
pub fn matrix(findings: &[Finding], commands: &[String]) -> Matrix {
    let mut rows: Vec<&str> = vec![TOOL];
    rows.extend(commands.iter().map(String::as_str));
    let named: BTreeSet<&str> = findings.iter().map(|f| f.command.as_str()).collect();
    for name in named {
        if !rows.contains(&name) {
            rows.push(name);
        }
    }
    let mut matrix = Matrix::new();
    for row in rows {
        let cells = Characteristic::ALL.map(|characteristic| {
            let bearing = findings.iter().filter(|f| {
                f.check != CheckId::Advisory
                    && f.command == row
                    && f.characteristics.contains(&characteristic)
            });
            let verdicts: Vec<Verdict> = bearing.map(|f| f.verdict).collect();
            (characteristic, pair_state(&verdicts))
        });
        matrix.insert(row.to_owned(), cells.into_iter().collect());
    }
    matrix
}

/// Counts verdicts and matrix cells.
pub fn summary(findings: &[Finding], matrix: &Matrix) -> Summary {
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let cells = || matrix.values().flat_map(BTreeMap::values);
    let pairs = |state| cells().filter(|pair_state| **pair_state == state).count();
    Summary {
        pairs_proven: pairs(PairState::Pass),
        pairs_failing: pairs(PairState::Fail),
        pairs_unproven: pairs(PairState::Unproven),
        pass: count(Verdict::Pass),
        fail: count(Verdict::Fail),
        warn: count(Verdict::Warn),
        skip: count(Verdict::Skip),
        n_a: count(Verdict::NotApplicable),
        not_verified: count(Verdict::NotVerified),
        error: count(Verdict::Error),
    }
}

/// The program that wrote the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `agentproto`.
    pub name: String,
    /// Version of agentproto.
    pub version: String,
}

/// The tool under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolUnderTest {
    /// Name from `capabilities`, or the file name of the program.
    pub name: String,
    /// `tool_version` from `capabilities`.
    pub version: Option<String>,
    /// Command line that starts the tool.
    pub argv: Vec<String>,
    /// Path of the probe file, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe_file: Option<String>,
    /// Line of each command in the probe file, from 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub lines: BTreeMap<String, u32>,
}

/// Durations and counts of the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Duration of the whole lint run, in milliseconds.
    pub wall_ms: u64,
    /// Run time of the tool, summed over all runs, in milliseconds.
    pub target_ms: u64,
    /// Part of `target_ms` in which the probes waited on purpose, in milliseconds.
    pub waits_ms: u64,
    /// Time with at least one active run, in milliseconds. The rest of the wall time is overhead.
    #[serde(default)]
    pub busy_ms: u64,
    /// Number of runs.
    pub runs: u64,
    /// Maximum number of concurrent runs.
    pub jobs: u64,
}

/// One of the seven assertions of the reference `aoi-lint`, evaluated on one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertion {
    /// Name of the assertion in the reference `aoi-lint`.
    pub name: String,
    /// Command that was run.
    pub command: String,
    /// Whether the assertion holds.
    pub ok: bool,
    /// What was observed.
    pub detail: String,
}

/// The report of one lint run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `SCHEMA`.
    pub schema: String,
    /// The program that wrote the report.
    pub tool: Tool,
    /// The tool under test.
    pub target: ToolUnderTest,
    /// All findings, ordered by check, command and rule.
    pub checks: Vec<Finding>,
    /// State of each (characteristic × command) pair.
    pub matrix: Matrix,
    /// Counts of findings and pairs.
    pub summary: Summary,
    /// Durations and counts of the runs.
    pub timing: Timing,
    /// How discovery runs were isolated, and what could not be isolated.
    pub isolation: Vec<String>,
    /// Whether the run was interrupted. What is missing was not checked.
    #[serde(default)]
    pub partial: bool,
    /// Start time, in seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// Results of the reference assertions, with `--compat`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compat: Vec<Assertion>,
}

impl Report {
    /// Whether there is a failure or an internal error that the baseline does not contain.
    pub fn has_new_failures(&self) -> bool {
        let bad = |f: &Finding| matches!(f.verdict, Verdict::Fail | Verdict::Error);
        self.checks.iter().any(|f| bad(f) && !f.known)
    }

    /// Whether there is a warning that the baseline does not contain.
    pub fn has_new_warnings(&self) -> bool {
        let warns = |f: &Finding| f.verdict == Verdict::Warn && !f.known;
        self.checks.iter().any(warns)
    }

    /// Marks the report as interrupted. Passed cells become unproven, because the missing checks
    /// might have failed.
    pub fn mark_interrupted(&mut self) {
        self.partial = true;
        let cells = self.matrix.values_mut().flat_map(BTreeMap::values_mut);
        for cell in cells.filter(|cell| **cell == PairState::Pass) {
            *cell = PairState::Unproven;
        }
        self.summary = summary(&self.checks, &self.matrix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_passes_only_without_skips_and_unverified_rules() {
        use Verdict::{Fail, NotApplicable, NotVerified, Pass, Skip, Warn};
        for (verdicts, expected) in [
            (&[][..], PairState::NotApplicable),
            (&[NotApplicable], PairState::NotApplicable),
            (&[Pass, NotApplicable], PairState::Pass),
            (&[Pass, Warn], PairState::Pass),
            (&[Warn], PairState::Unproven),
            (&[Pass, Skip], PairState::Unproven),
            (&[Pass, NotVerified], PairState::Unproven),
            (&[Pass, NotVerified, Fail], PairState::Fail),
        ] {
            assert_eq!(pair_state(verdicts), expected, "{verdicts:?}");
        }
    }

    #[test]
    fn an_interrupted_run_has_no_proven_pairs() {
        let mut report = Report::default();
        let row = BTreeMap::from([
            (Characteristic::Typed, PairState::Pass),
            (Characteristic::Safe, PairState::Fail),
        ]);
        report.matrix.insert("search".to_owned(), row);
        report.mark_interrupted();
        assert!(report.partial);
        assert_eq!(report.summary.pairs_proven, 0);
        assert_eq!(report.summary.pairs_unproven, 1);
        assert_eq!(report.summary.pairs_failing, 1);
    }
}
