//! Checks a recorded transcript with the monitors, without a run.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{ResultCollector, monitors};
use crate::model::{Profile, Report, SCHEMA, SuiteInfo, Target, Timing, Tool};
use crate::monitor::{MonitorNotes, MonitorRunner};
use crate::suite::{Selection, Suite, SuiteProtocol};
use agentproto_wire::script::{process_event, processes};
use agentproto_wire::{Direction, Transcript};

/// The `case` of the results. Cases cannot run on a recording, but monitors can check it.
const CASE: &str = "recording";

/// Runs the monitors of the suites on a transcript. The report has no verdicts of cases.
pub fn check(suites: &[Suite], mut target: Target, transcript: &Transcript) -> Report {
    let mut collector = ResultCollector::new(Selection::default(), false);
    let mut timing = Timing::default();
    for (index, suite) in suites.iter().enumerate() {
        let (notes, initialize) = run_monitors(suite.protocol, transcript);
        timing.processes = notes.len() as u64;
        collector.add_monitor_notes(index, (0, CASE), transcript, &notes);
        if !initialize.is_null() {
            collector.set_initialize(initialize);
        }
    }
    collector.describe_target(&mut target);
    let infos = suites.iter().map(|suite| SuiteInfo {
        name: suite.name.clone(),
        title: suite.title.clone(),
        requirements: suite.requirements.len(),
        cases: suite.cases.len(),
    });
    let infos = infos.collect();
    let (results, _) = collector.finish(suites);
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
        needs_login: None,
        never_answered: None,
        not_started: None,
        selection: false,
        shard: None,
        profile: Profile::Strict,
        tck: Vec::new(),
    };
    report.summarize();
    report
}

/// The notes of the monitors for each process, and the response to the last `initialize`.
fn run_monitors(protocol: SuiteProtocol, transcript: &Transcript) -> (Vec<MonitorNotes>, Value) {
    let mut all = Vec::new();
    let mut initialize = Value::Null;
    for lines in processes(transcript) {
        let mut monitors = MonitorRunner::new(monitors(protocol));
        let last_line = *lines.end();
        let mut by_itself = false;
        for line in lines.filter_map(|number| transcript.line(number)) {
            if line.direction == Direction::Process {
                if process_event(&line, "input").is_some() {
                    monitors.input_closed();
                }
                let exit = process_event(&line, "exit");
                by_itself |= exit.is_some_and(|exit| exit.get("code").is_some_and(Value::is_i64));
            } else {
                monitors.on_line(&line);
            }
        }
        if !monitors.state().agent.is_null() {
            initialize = monitors.state().agent.clone();
        }
        let ending = monitors.ending(last_line, by_itself);
        all.push(monitors.finish(&ending));
    }
    (all, initialize)
}

/// The protocol of a transcript, recognized by the first `initialize`: protocol versions are
/// numbers in ACP, and dates in MCP.
pub fn protocol(transcript: &Transcript) -> SuiteProtocol {
    let sent = transcript
        .lines()
        .filter(|line| line.direction == Direction::ToAgent);
    let versions = sent.take(1000).filter_map(|line| {
        let json: Value = serde_json::from_slice(&line.bytes).ok()?;
        json.pointer("/params/protocolVersion").cloned()
    });
    let mut versions = versions;
    match versions.next() {
        Some(Value::String(_)) => SuiteProtocol::Mcp,
        _ => SuiteProtocol::Acp,
    }
}
