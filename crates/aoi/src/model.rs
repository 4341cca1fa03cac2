//! What the engine found, per rule and command, and the matrix that follows from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::rules::Rule;
pub use agentproto_report::Verdict;

pub const SCHEMA: &str = "agentproto.aoi/v1";

/// The row of what is true of the tool as a whole.
pub const TOOL: &str = "(tool)";

/// One of the 13 checks of §18.2, or a statement beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    Number(u8),
    Advisory,
}

impl std::str::FromStr for Check {
    type Err = ();

    fn from_str(word: &str) -> Result<Check, ()> {
        match word.parse() {
            Ok(number @ 1..=13) => Ok(Check::Number(number)),
            _ if word == "advisory" => Ok(Check::Advisory),
            _ => Err(()),
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Check::Number(number) => serializer.serialize_u8(*number),
            Check::Advisory => serializer.serialize_str("advisory"),
        }
    }
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "advisory" => Ok(Check::Advisory),
            Value::Number(number) => number
                .as_u64()
                .and_then(|number| u8::try_from(number).ok())
                .filter(|number| (1..=13).contains(number))
                .map(Check::Number)
                .ok_or_else(|| serde::de::Error::custom("a check is a number from 1 to 13")),
            _ => Err(serde::de::Error::custom(
                "a check is a number from 1 to 13, or `advisory`",
            )),
        }
    }
}

/// The ten characteristics of Machine Mode, in the order of the text.
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
    Typed,
    Discoverable,
    Streamable,
    Bounded,
    Safe,
    Idempotent,
    Auditable,
    Verifiable,
    Composable,
    Versioned,
}

impl Characteristic {
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

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a check says something about (§18.2).
pub fn characteristics(check: Check) -> &'static [Characteristic] {
    use Characteristic::{
        Auditable, Bounded, Composable, Discoverable, Idempotent, Safe, Streamable, Typed,
        Verifiable, Versioned,
    };
    match check {
        Check::Number(1) => &[Discoverable],
        Check::Number(2) => &[Typed],
        Check::Number(3 | 5) => &[Verifiable],
        Check::Number(4) => &[Typed, Verifiable],
        Check::Number(6 | 9) => &[Safe],
        Check::Number(7) => &[Idempotent],
        Check::Number(8) => &[Auditable],
        Check::Number(10 | 12) => &[Composable],
        Check::Number(11) => &[Bounded, Streamable],
        Check::Number(13) => &[Versioned],
        _ => &[],
    }
}

/// One rule, looked at for one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub check: Check,
    pub rule: String,
    pub command: String,
    pub characteristics: Vec<Characteristic>,
    pub verdict: Verdict,
    pub section: String,
    pub message: String,
    /// The command line to see it again; secrets are put in by whoever types it.
    #[serde(default)]
    pub repro: Vec<String>,
    /// argv, exit, signal, what was observed and what was expected. Never a canary.
    #[serde(default)]
    pub evidence: Map<String, Value>,
    /// The baseline knows it already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

impl Finding {
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
pub enum Pair {
    Pass,
    Fail,
    Unproven,
    #[serde(rename = "n_a")]
    NotApplicable,
}

/// Commands, and for each its characteristics.
pub type Matrix = BTreeMap<String, BTreeMap<Characteristic, Pair>>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub pairs_proven: usize,
    pub pairs_failing: usize,
    pub pairs_unproven: usize,
    pub pass: usize,
    pub fail: usize,
    pub warn: usize,
    pub skip: usize,
    pub n_a: usize,
    pub not_verified: usize,
    pub error: usize,
}

/// What one cell is, given every verdict that bears on it. Advisory rules bear on none.
fn pair(verdicts: &[Verdict]) -> Pair {
    let has = |wanted| verdicts.contains(&wanted);
    if has(Verdict::Fail) {
        Pair::Fail
    } else if has(Verdict::NotVerified) || has(Verdict::Skip) || has(Verdict::Error) {
        Pair::Unproven
    } else if has(Verdict::Pass) {
        Pair::Pass
    } else if has(Verdict::Warn) {
        Pair::Unproven
    } else {
        Pair::NotApplicable
    }
}

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
                f.check != Check::Advisory
                    && f.command == row
                    && f.characteristics.contains(&characteristic)
            });
            let verdicts: Vec<Verdict> = bearing.map(|f| f.verdict).collect();
            (characteristic, pair(&verdicts))
        });
        matrix.insert(row.to_owned(), cells.into_iter().collect());
    }
    matrix
}

pub fn summary(findings: &[Finding], matrix: &Matrix) -> Summary {
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let cells = || matrix.values().flat_map(BTreeMap::values);
    let pairs = |wanted| cells().filter(|pair| **pair == wanted).count();
    Summary {
        pairs_proven: pairs(Pair::Pass),
        pairs_failing: pairs(Pair::Fail),
        pairs_unproven: pairs(Pair::Unproven),
        pass: count(Verdict::Pass),
        fail: count(Verdict::Fail),
        warn: count(Verdict::Warn),
        skip: count(Verdict::Skip),
        n_a: count(Verdict::NotApplicable),
        not_verified: count(Verdict::NotVerified),
        error: count(Verdict::Error),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// Whom the report is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// As it calls itself, or its program.
    pub name: String,
    pub version: Option<String>,
    /// The words that start it.
    pub argv: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe_file: Option<String>,
    /// Where the commands stand in the probe file, from 1.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub lines: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    pub wall_ms: u64,
    /// The target's own run time, over all runs.
    pub target_ms: u64,
    /// What the probes had to wait for on purpose; part of `target_ms`.
    pub waits_ms: u64,
    /// While one run or more was under way; the rest of the wall time is our own.
    #[serde(default)]
    pub busy_ms: u64,
    pub runs: u64,
    pub jobs: u64,
}

/// One of the seven assertions of the reference's linter, on one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assertion {
    pub name: String,
    pub command: String,
    pub ok: bool,
    pub detail: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub tool: Tool,
    pub target: Subject,
    pub checks: Vec<Finding>,
    pub matrix: Matrix,
    pub summary: Summary,
    pub timing: Timing,
    /// What discovery was shut off from, and what could not be.
    pub isolation: Vec<String>,
    /// The run was interrupted: what is missing was not looked at.
    #[serde(default)]
    pub partial: bool,
    /// Seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// With `--compat`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compat: Vec<Assertion>,
}

impl Report {
    /// What was seen broken, and what could not be judged by our own fault.
    pub fn has_new_failures(&self) -> bool {
        let bad = |f: &Finding| matches!(f.verdict, Verdict::Fail | Verdict::Error);
        self.checks.iter().any(|f| bad(f) && !f.known)
    }

    pub fn has_new_warnings(&self) -> bool {
        let warns = |f: &Finding| f.verdict == Verdict::Warn && !f.known;
        self.checks.iter().any(warns)
    }

    /// Ended before its end: what was not looked at might have shown the opposite.
    pub fn cut_short(&mut self) {
        self.partial = true;
        let cells = self.matrix.values_mut().flat_map(BTreeMap::values_mut);
        for cell in cells.filter(|cell| **cell == Pair::Pass) {
            *cell = Pair::Unproven;
        }
        self.summary = summary(&self.checks, &self.matrix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proof_makes_a_pair() {
        use Verdict::{Fail, NotApplicable, NotVerified, Pass, Skip, Warn};
        for (verdicts, expected) in [
            (&[][..], Pair::NotApplicable),
            (&[NotApplicable], Pair::NotApplicable),
            (&[Pass, NotApplicable], Pair::Pass),
            (&[Pass, Warn], Pair::Pass),
            (&[Warn], Pair::Unproven),
            (&[Pass, Skip], Pair::Unproven),
            (&[Pass, NotVerified], Pair::Unproven),
            (&[Pass, NotVerified, Fail], Pair::Fail),
        ] {
            assert_eq!(pair(verdicts), expected, "{verdicts:?}");
        }
    }

    #[test]
    fn half_a_run_proves_nothing() {
        let mut report = Report::default();
        let row = BTreeMap::from([
            (Characteristic::Typed, Pair::Pass),
            (Characteristic::Safe, Pair::Fail),
        ]);
        report.matrix.insert("search".to_owned(), row);
        report.cut_short();
        assert!(report.partial);
        assert_eq!(report.summary.pairs_proven, 0);
        assert_eq!(report.summary.pairs_unproven, 1);
        assert_eq!(report.summary.pairs_failing, 1);
    }
}
