//! Checks a recorded transcript with the monitors, without a run.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{Collected, monitors};
use crate::model::{Report, SCHEMA, SuiteInfo, Target, Timing, Tool};
use crate::monitor::{Notes, Watch};
use crate::suite::{Protocol, Selection, Suite};
use agentproto_wire::script::{process_said, processes};
use agentproto_wire::{Direction, Transcript};

/// The `case` of the results. Cases cannot be played on a recording, but monitors can check it.
const CASE: &str = "recording";

pub fn judge(suites: &[Suite], mut target: Target, transcript: &Transcript) -> Report {
    let mut collected = Collected::new(Selection::default(), false);
    let mut timing = Timing::default();
    for (index, suite) in suites.iter().enumerate() {
        let (notes, initialize) = watch(suite.protocol, transcript);
        timing.processes = notes.len() as u64;
        collected.watched(index, CASE, transcript, &notes);
        if !initialize.is_null() {
            collected.initialized(initialize);
        }
    }
    collected.describe(&mut target);
    let infos = suites.iter().map(|suite| SuiteInfo {
        name: suite.name.clone(),
        title: suite.title.clone(),
        requirements: suite.requirements.len(),
        cases: suite.cases.len(),
    });
    let infos = infos.collect();
    let (results, _) = collected.finish(suites);
    let started = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        tool: Tool::default(),
        target,
        suites: infos,
        results,
        summary: Default::default(),
        timing,
        started: started.map(|s| s.as_secs()).unwrap_or_default(),
        partial: false,
        never_answered: None,
        selection: false,
        shard: None,
    };
    report.sum_up();
    report
}

/// The notes of the monitors for each process, and the response to the last `initialize`.
fn watch(protocol: Protocol, transcript: &Transcript) -> (Vec<Notes>, Value) {
    let mut all = Vec::new();
    let mut initialize = Value::Null;
    for lines in processes(transcript) {
        let mut watch = Watch::new(monitors(protocol));
        let last_line = *lines.end();
        let mut by_itself = false;
        for line in lines.filter_map(|number| transcript.line(number)) {
            if line.direction == Direction::Process {
                if process_said(&line, "input").is_some() {
                    watch.input_closed();
                }
                let exit = process_said(&line, "exit");
                by_itself |= exit.is_some_and(|exit| exit.get("code").is_some_and(Value::is_i64));
            } else {
                watch.line(&line);
            }
        }
        if !watch.ledger().agent.is_null() {
            initialize = watch.ledger().agent.clone();
        }
        let ending = watch.ending(last_line, by_itself);
        all.push(watch.end(&ending));
    }
    (all, initialize)
}

/// The protocol of a transcript, recognized by the first `initialize`: protocol versions are
/// numbers in ACP, and dates in MCP.
pub fn protocol(transcript: &Transcript) -> Protocol {
    let sent = transcript
        .lines()
        .filter(|line| line.direction == Direction::ToAgent);
    let versions = sent.take(1000).filter_map(|line| {
        let json: Value = serde_json::from_slice(&line.bytes).ok()?;
        json.pointer("/params/protocolVersion").cloned()
    });
    let mut versions = versions;
    match versions.next() {
        Some(Value::String(_)) => Protocol::Mcp,
        _ => Protocol::Acp,
    }
}
