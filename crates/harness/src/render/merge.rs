//! Merges the shards of one run into the report that the whole run would have produced.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{order, words};
use crate::model::{CaseResult, Report, Timing};
use agentproto_text::escape_line;

/// The `case` of monitor rows, which occur in every shard.
const MONITOR: &str = "monitor";

/// Why reports cannot be merged. Reports are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// No report was given.
    #[error("no reports to merge")]
    Nothing,
    /// The report is not from a shard.
    #[error(
        "report {0} is from a whole run, not from a shard; merge expects reports of --shard I/N"
    )]
    NotAShard(usize),
    /// The shard of a report is not `I/N`.
    #[error("report {at} has the invalid shard `{}`: expected I/N, with I between 1 and N", escape_line(.shard))]
    InvalidShard {
        /// Number of the report.
        at: usize,
        /// Its shard.
        shard: String,
    },
    /// The reports are from runs with different numbers of shards.
    #[error("report {0} is one of {1} shards, but the first report is one of {2}")]
    OtherCount(usize, usize, usize),
    /// Two reports are from the same shard.
    #[error("duplicate shard {0}: reports {1} and {2}")]
    DuplicateShard(usize, usize, usize),
    /// Some shards are missing.
    #[error("missing shards (of {total}): {}", numbers(.shards))]
    Missing {
        /// Numbers of the missing shards, at most 20.
        shards: Vec<usize>,
        /// Number of shards of the run.
        total: usize,
    },
    /// A report is from another run than the first.
    #[error("report {at} has a different {what} than the first report: `{}`, not `{}`", escape_line(.found), escape_line(.first))]
    Differs {
        /// Number of the report.
        at: usize,
        /// What differs, for example the target.
        what: &'static str,
        /// Value in this report.
        found: String,
        /// Value in the first report.
        first: String,
    },
    /// A case ran in two shards.
    #[error("case `{}` of suite `{}` ran in both shard {first} and shard {second}", escape_line(.case), escape_line(.suite))]
    DuplicateCase {
        /// Name of the suite.
        suite: String,
        /// Id of the case.
        case: String,
        /// Number of the first shard.
        first: usize,
        /// Number of the second shard.
        second: usize,
    },
}

fn numbers(list: &[usize]) -> String {
    let all: Vec<String> = list.iter().map(usize::to_string).collect();
    all.join(", ")
}

/// Merges all shards of one run, in any order. Errors number the reports from 1.
pub fn merge(reports: Vec<Report>) -> Result<Report, MergeError> {
    let mut shards = in_order(reports)?;
    let Some((_, first)) = shards.first() else {
        return Err(MergeError::Nothing);
    };
    for (at, report) in &shards {
        check_same_run(first, report, *at)?;
    }
    check_unique_cases(&shards)?;

    let sections: Vec<_> = shards
        .iter()
        .map(|(_, r)| order::sections_of(&r.results))
        .collect();
    let sections = order::interleave(&sections);
    let suites: Vec<String> = first.suites.iter().map(|s| s.name.clone()).collect();
    let mut merged = Report {
        results: Vec::new(),
        shard: None,
        timing: Timing::default(),
        ..first.clone()
    };
    let mut monitors: HashMap<(String, String), usize> = HashMap::new();
    for (_, report) in &mut shards {
        for row in std::mem::take(&mut report.results) {
            take(&mut merged.results, &mut monitors, row);
        }
        add(&mut merged, report);
    }
    order::arrange_by(&mut merged.results, &suites, &sections);
    merged.summarize();
    Ok(merged)
}

/// The reports sorted by shard number, each with its position on the command line.
fn in_order(reports: Vec<Report>) -> Result<Vec<(usize, Report)>, MergeError> {
    let mut shards: Vec<(usize, usize, Report)> = Vec::new();
    let mut total = None;
    for (i, report) in reports.into_iter().enumerate() {
        let at = i + 1;
        let (index, of) = match &report.shard {
            None => return Err(MergeError::NotAShard(at)),
            Some(shard) => shard_numbers(shard).ok_or_else(|| MergeError::InvalidShard {
                at,
                shard: shard.clone(),
            })?,
        };
        let first = *total.get_or_insert(of);
        if of != first {
            return Err(MergeError::OtherCount(at, of, first));
        }
        if let Some((_, other, _)) = shards.iter().find(|(known, ..)| *known == index) {
            return Err(MergeError::DuplicateShard(index, *other, at));
        }
        shards.push((index, at, report));
    }
    let total = total.unwrap_or(0);
    if shards.len() < total {
        let there: Vec<usize> = shards.iter().map(|(index, ..)| *index).collect();
        let missing = (1..=total).filter(|n| !there.contains(n));
        let shards = missing.take(20).collect();
        return Err(MergeError::Missing { shards, total });
    }
    shards.sort_by_key(|(index, ..)| *index);
    Ok(shards.into_iter().map(|(_, at, r)| (at, r)).collect())
}

/// `2/4` → (2, 4).
fn shard_numbers(text: &str) -> Option<(usize, usize)> {
    let (index, total) = text.split_once('/')?;
    let (index, total) = (index.parse().ok()?, total.parse().ok()?);
    (1..=total).contains(&index).then_some((index, total))
}

/// Checks that a report belongs to the same run as the first report.
fn check_same_run(first: &Report, report: &Report, at: usize) -> Result<(), MergeError> {
    let suites = |r: &Report| {
        let all = r.suites.iter();
        let all = all.map(|s| format!("{} ({} cases)", s.name, s.cases));
        all.collect::<Vec<_>>().join(", ")
    };
    let tool = |r: &Report| format!("{} {}", r.tool.name, r.tool.version);
    let pairs = [
        ("tool version", tool(first), tool(report)),
        (
            "target kind",
            first.target.kind.clone(),
            report.target.kind.clone(),
        ),
        (
            "target",
            first.target.name.clone(),
            report.target.name.clone(),
        ),
        (
            "command",
            first.target.command.join(" "),
            report.target.command.join(" "),
        ),
        ("set of suites", suites(first), suites(report)),
        (
            "profile",
            first.profile.to_string(),
            report.profile.to_string(),
        ),
    ];
    let differs = |what, first: String, found: String| {
        Err(MergeError::Differs {
            at,
            what,
            found,
            first,
        })
    };
    for (what, first, found) in pairs {
        if first != found {
            return differs(what, first, found);
        }
    }
    // A shard whose agent never answered does not contain the agent's info.
    let (a, b) = (&first.target.info, &report.target.info);
    if !a.is_null() && !b.is_null() && a != b {
        return differs("agent", a.to_string(), b.to_string());
    }
    Ok(())
}

fn check_unique_cases(shards: &[(usize, Report)]) -> Result<(), MergeError> {
    let mut ran: HashMap<(&str, &str), usize> = HashMap::new();
    for (i, (_, report)) in shards.iter().enumerate() {
        let shard = i + 1;
        for row in report.results.iter().filter(|r| r.case != MONITOR) {
            match ran.entry((&row.suite, &row.case)) {
                Entry::Occupied(other) if *other.get() != shard => {
                    return Err(MergeError::DuplicateCase {
                        suite: row.suite.clone(),
                        case: row.case.clone(),
                        first: *other.get(),
                        second: shard,
                    });
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(place) => {
                    place.insert(shard);
                }
            }
        }
    }
    Ok(())
}

/// Adds a row. The monitor of a requirement ends up with a single row: its worst.
fn take(
    rows: &mut Vec<CaseResult>,
    monitors: &mut HashMap<(String, String), usize>,
    mut row: CaseResult,
) {
    if row.case != MONITOR {
        rows.push(row);
        return;
    }
    let at = *monitors
        .entry((row.suite.clone(), row.requirement.clone()))
        .or_insert(rows.len());
    match rows.get_mut(at) {
        None => rows.push(row),
        Some(there) => {
            let duration = there.duration_ms + row.duration_ms;
            if words::severity_rank(row.verdict) < words::severity_rank(there.verdict) {
                std::mem::swap(there, &mut row);
            } else if row.verdict == there.verdict {
                // A failure that is new in one shard is new in the merged report.
                there.known &= row.known;
            }
            there.duration_ms = duration;
        }
    }
}

fn add(merged: &mut Report, shard: &Report) {
    let (sum, part) = (&mut merged.timing, &shard.timing);
    sum.wall_ms += part.wall_ms;
    sum.startup_ms += part.startup_ms;
    sum.waits_ms += part.waits_ms;
    sum.agent_ms += part.agent_ms;
    sum.processes = sum.processes.saturating_add(part.processes);
    sum.jobs = sum.jobs.max(part.jobs);
    sum.repeated = sum.repeated.saturating_add(part.repeated);
    merged.partial |= shard.partial;
    if merged.needs_login.is_none() {
        merged.needs_login.clone_from(&shard.needs_login);
    }
    merged.started = merged.started.min(shard.started);
    let (whole, part) = (&mut merged.target, &shard.target);
    for (value, other) in [
        (&mut whole.info, &part.info),
        (&mut whole.protocol_version, &part.protocol_version),
        (&mut whole.capabilities, &part.capabilities),
    ] {
        if value.is_null() {
            *value = other.clone();
        }
    }
}
