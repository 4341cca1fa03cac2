use std::path::Path;

use agentproto_mock::{AgentKind, mutants, variants};
use agentproto_selftest::{lifecycle, sessions};
use serde_json::Value;

use crate::certify::certify;

fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let text = std::fs::read_to_string(path.join(name)).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, value: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}\n{value:#}", errors.join("\n"));
}

/// A mutant of one mock agent and a variant of another.
const FEW: &str = "mcp-stdio-log-line,other-name";

fn few(output: &str) -> String {
    let args = ["--selftest", "--quick", "--only", FEW, "--output", output];
    let output = certify(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_report_matches_its_schema() {
    let validator = schema("selftest.schema.json");
    let good: Value = serde_json::from_str(&few("json")).unwrap();
    assert_valid(&validator, &good);
    let count = |key: &str| good[key].as_array().unwrap().len();
    // The scenario that the mutant is compared with counts as a variant.
    assert_eq!((count("mutants"), count("variants")), (1, 2));
    for (pointer, wrong) in [
        ("/schema", Value::from("agentproto.certify/v1")),
        ("/mutants/0/killed", Value::from(false)),
        ("/mutants/0/mock", Value::from("abacus")),
        ("/variants/0/passed", Value::from(-1)),
        ("/variants/0/blamed", Value::Null),
        ("/summary/partial", Value::Null),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

#[test]
fn the_events_match_their_schema() {
    let validator = schema("events.schema.json");
    let text = few("jsonl");
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = events.collect();
    for event in &events {
        assert_valid(&validator, event);
    }
    let kinds = events.iter().map(|e| e["type"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    let wanted = ["aoi:meta", "mutant", "variant", "variant", "aoi:summary"];
    assert_eq!(kinds, wanted);
    let mut half = events[1].clone();
    half.as_object_mut().unwrap().remove("killed");
    assert!(!validator.is_valid(&half), "{half}");
}

#[test]
fn an_empty_selection_is_an_error() {
    let args = ["--selftest", "--only", "no-such-mutant"];
    let output = certify(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}

/// Requirements that a mutant's defect breaks besides its own. A failure of any other requirement
/// is a false failure. For ACP, tests/judges/harness_monitors checks this with fixed scripts,
/// because the set of other cases that run here varies.
const SIDE_EFFECTS: [(&str, &[&str]); 29] = [
    // A message in several lines is not a response.
    ("se-stdio-split", &["SES-07"]),
    // The manifest and its ACP.md declare the same capability.
    ("lc-not-multimodal", &["A44-CONF-05"]),
    ("lc-not-resumable", &["A44-CONF-05"]),
    ("lc-session-not-resumable", &["A44-CONF-05"]),
    // The session mode of the bundle is `resumable`.
    ("lc-mcp-no-reply", &["A45-SESS-08"]),
    // An error code that is a string is never the expected code.
    (
        "mcp-base-code-text",
        &[
            "MCP-BASE-10",
            "MCP-BASE-11",
            "MCP-BASE-12",
            "MCP-LOG-03",
            "MCP-PAGE-02",
        ],
    ),
    // A response with a different id is not a response.
    ("mcp-base-id-as-text", &["MCP-LIFE-01"]),
    // The process ends during the case that shows it.
    ("mcp-base-dies-on-bad-line", &["MCP-BASE-11"]),
    // Without a version in the response, no version is negotiated.
    ("mcp-lifecycle-no-version", &["MCP-LIFE-05", "MCP-LIFE-06"]),
    // It also sends requests to clients without roots.
    ("mcp-lifecycle-early-request", &["MCP-ROOT-01"]),
    // The tools that it lists cannot be called.
    ("mcp-tools-odd-names", &["MCP-TOOL-14"]),
    // A request that hangs gets no response either.
    ("mcp-elicitation-declined-hangs", &["MCP-BASE-08"]),
    ("mcp-ping-unanswered", &["MCP-BASE-08"]),
    // It ignores the directory in sessions with a workspace as well.
    ("se-cwd-ignored", &["A46-SPAWN-03"]),
    // A new process remembers nothing, and a process that remembers nothing may be a new one.
    ("se-new-agent", &["A46-TURN-03"]),
    ("se-forgets", &["A46-TURN-02"]),
    // Without an echo there is nothing to replay.
    ("v2-05-no-echo", &["V2-11"]),
    // A replay has the id that was reported first.
    ("v2-05-other-id", &["V2-46"]),
    // No such session is open.
    ("v2-06-other-session", &["V2-26"]),
    ("v2-07-other-session", &["V2-09", "V2-26", "V2-51"]),
    // A close cancels in the same way.
    ("v2-09-end-turn", &["V2-51"]),
    // The method is not there, so it does not work either.
    ("v2-02-no-logout", &["V2-41"]),
    ("v2-03-no-list", &["V2-48"]),
    ("v2-52-error", &["V2-53"]),
    // Requests without an answer, or with an answer under another id.
    ("v2-33-gives-up", &["V2-TR-09"]),
    ("v2-tr-08-text-id", &["V2-03", "V2-33", "V2-48", "V2-TR-09"]),
    // The settings of one session are those of all.
    ("v2-43-one-id", &["V2-55"]),
    // Other cases send no servers either.
    ("v2-44-needs-servers", &["V2-34", "V2-54"]),
    // A relative path is not the path of the request.
    ("v2-50-relative", &["V2-49"]),
];

fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_default()
}

fn list<'v>(row: &'v Value, key: &str) -> Vec<&'v str> {
    let items = row[key].as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

/// Prints the numbers to stderr without test capture, so that they show up even if the test passes.
fn print_summary(outcome: &Value) {
    use std::io::Write;
    let summary = &outcome["summary"];
    let number = |key: &str| summary[key].as_u64().unwrap_or_default();
    let rate = |key: &str| 100.0 * number(key) as f64 / number("mutants").max(1) as f64;
    let text = format!(
        "\nselftest: {} mutants, {:.1} % killed, {:.1} % with the right requirement; {} \
         conforming variants, {} false failures; {:.0} s\n",
        number("mutants"),
        rate("killed"),
        rate("attributed"),
        number("variants"),
        number("false_failures"),
        outcome["wall_ms"].as_f64().unwrap_or_default() / 1000.0,
    );
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Ids of some mutants of every kind and some variants, spread evenly. `None` means all of them,
/// for `tests/selftest/run`.
fn sample() -> Option<Vec<&'static str>> {
    if crate::is_full_depth() {
        return None;
    }
    let mocks = [AgentKind::Acp, AgentKind::AcpV2, AgentKind::Mcp];
    let of_mocks = mocks.into_iter().flat_map(|kind| {
        let mutants = mutants::of(kind).map(|mutant| mutant.id).step_by(16);
        let variants = variants::of(kind).map(|variant| variant.name).step_by(12);
        mutants.chain(variants)
    });
    let bundles = lifecycle::mutants().into_iter().map(|mutant| mutant.id);
    let hosts = sessions::mutants().into_iter().map(|mutant| mutant.id);
    let others = bundles.step_by(16).chain(hosts.step_by(16));
    Some(of_mocks.chain(others).collect())
}

/// Whether a mutant or variant has a row in the report.
fn is_shown(outcome: &Value, id: &str) -> bool {
    let rows = |key: &str| outcome[key].as_array().into_iter().flatten();
    rows("mutants").any(|row| row["mutant"] == id)
        || rows("variants").any(|row| row["variant"] == id)
}

/// Every mutant fails its own requirement and no unrelated one, and no conforming variant fails.
#[test]
fn the_self_test_passes() {
    let sample = sample();
    let only = sample.as_ref().map(|ids| ids.join(","));
    let mut args = vec!["--selftest", "--quick", "--output", "json"];
    args.extend(only.iter().flat_map(|only| ["--only", only.as_str()]));
    let is_run = |id: &str| sample.as_ref().is_none_or(|ids| ids.contains(&id));
    let output = certify(&args).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid(&schema("selftest.schema.json"), &outcome);
    print_summary(&outcome);
    let mutants = outcome["mutants"].as_array().unwrap();
    let summary = &outcome["summary"];
    let mut wrong = Vec::new();
    for row in mutants {
        let id = text(row, "mutant");
        // There is no line to quote for a process that has ended or a message that never arrived.
        let quotes = ["lifecycle", "sessions"].contains(&text(row, "mock"));
        let proven = row["evidence"] != 0 || !quotes;
        if row["attributed"] != true || !proven {
            wrong.push(format!("not caught: {row}"));
        }
        let also = SIDE_EFFECTS.iter().find(|(mutant, _)| *mutant == id);
        let also = also.map_or(&[][..], |(_, also)| also);
        let others = list(row, "also").into_iter().filter(|o| !also.contains(o));
        if row["mock"] != "acp" {
            wrong.extend(others.map(|other| format!("{id} also fails {other}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for mutant in lifecycle::mutants().into_iter().filter(|m| is_run(m.id)) {
        let row = mutants.iter().find(|row| row["mutant"] == mutant.id);
        let verdict = row.map(|row| text(row, "verdict"));
        assert_eq!(verdict, Some(mutant.verdict.as_str()), "{}", mutant.id);
    }
    for mutant in sessions::mutants().into_iter().filter(|m| is_run(m.id)) {
        let row = mutants.iter().find(|row| row["mutant"] == mutant.id);
        let verdict = row.map(|row| text(row, "verdict"));
        assert_eq!(verdict, Some(mutant.verdict.as_str()), "{}", mutant.id);
    }

    let variants = outcome["variants"].as_array().unwrap();
    for row in variants {
        let blamed = list(row, "blamed");
        assert!(blamed.is_empty(), "{row:#}");
        // Half of the cases for a variant, all cases for a scenario or a bundle.
        let least = match text(row, "mock") {
            "lifecycle" => 26,
            "sessions" => 45,
            "acp-v2" if text(row, "variant").starts_with("scenario") => 20,
            _ => 10,
        };
        assert!(row["passed"].as_u64() >= Some(least), "{row:#}");
    }

    for key in ["mutants", "killed", "attributed"] {
        assert_eq!(summary[key], mutants.len(), "{summary}");
    }
    assert_eq!(summary["false_failures"], 0, "{summary}");
    assert_eq!(summary["variants"], variants.len(), "{summary}");
    assert_eq!(output.status.code(), Some(0));
    if let Some(ids) = &sample {
        let missing: Vec<&&str> = ids.iter().filter(|id| !is_shown(&outcome, id)).collect();
        assert!(missing.is_empty(), "requested but not run: {missing:?}");
        return;
    }
    let of = |mock: &str| mutants.iter().filter(|m| m["mock"] == mock).count();
    assert!(of("acp") >= 200, "{}", of("acp"));
    assert!(of("acp-v2") >= 30, "{}", of("acp-v2"));
    assert!(of("mcp") >= 64, "{}", of("mcp"));
    assert!(of("lifecycle") >= 50, "{}", of("lifecycle"));
    assert!(of("sessions") >= 100, "{}", of("sessions"));
    assert!(variants.len() >= 80, "{}", variants.len());
}
