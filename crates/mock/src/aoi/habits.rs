//! Changes that both mutants and variants use.

use std::io::Write;

use serde_json::{Value, json};

use super::changes::{Counters, EventFrame, RunInfo};
use super::surface::{AOI_VERSION, SCHEMA_NAME, TOOL, TOOL_VERSION, VERSIONS};

/// Writes the meta of `rank` before its input is read.
pub fn early_meta(info: &RunInfo) -> Option<u8> {
    if reads_stream(info) {
        let meta = json!({
            "type": "aoi:meta",
            "tool": TOOL,
            "tool_version": TOOL_VERSION,
            "aoi_version": AOI_VERSION,
            "schema_name": SCHEMA_NAME,
            "schema_version": VERSIONS[1],
            "command": "rank",
        });
        let _ = std::io::stdout().write_all(format!("{meta}\n").as_bytes());
        let _ = std::io::stdout().flush();
    }
    None
}

/// Drops the meta that follows an early one.
pub fn without_late_meta(info: &RunInfo, _: &mut Counters, event: Value) -> Vec<EventFrame> {
    let is_meta = event.get("type").is_some_and(|kind| kind == "aoi:meta");
    match is_meta && reads_stream(info) {
        true => Vec::new(),
        false => vec![EventFrame::Json(event)],
    }
}

fn reads_stream(info: &RunInfo) -> bool {
    info.command == "rank" && info.has("--input-jsonl")
}

/// Lets `watch` wait this long before each tick, also before the first one, unless the command line
/// sets an interval.
pub fn slower_watch(mut args: Vec<String>, wait_ms: &str) -> Vec<String> {
    let has = |flag: &str| args.iter().any(|word| word == flag);
    if has("watch") && !has("--interval-ms") {
        let slower = ["--interval-ms", "0", "--delay-ms", wait_ms];
        args.extend(slower.map(str::to_owned));
    }
    args
}
