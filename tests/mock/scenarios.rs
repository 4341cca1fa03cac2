//! Scenario files: the parser and the schema agree, and mistakes are reported with line and column.

use agentproto_mock::AgentKind;
use agentproto_mock::scenario::{default_of, embedded, parse};
use serde_json::Value;

use crate::client::start;

const HEAD: &str = "scenario: agentproto.scenario/v1\nname: x\n";

fn validator() -> jsonschema::Validator {
    let text = include_str!("../../schemas/scenario.schema.json");
    let schema: Value = serde_json::from_str(text).expect("JSON");
    jsonschema::meta::validate(&schema).expect("a schema");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn as_json(text: &str) -> Value {
    let yaml: serde_yaml::Value = serde_yaml::from_str(text).expect("YAML");
    serde_json::to_value(yaml).expect("JSON")
}

#[test]
fn every_embedded_scenario_is_valid() {
    let schema = validator();
    let defaults: Vec<_> = AgentKind::ALL
        .iter()
        .map(|kind| default_of(*kind))
        .collect();
    for scenario in defaults.iter().chain(embedded()) {
        let read = parse(scenario.text).unwrap_or_else(|m| panic!("{}: {m:?}", scenario.name));
        assert_eq!(read.name, scenario.name);
        assert!(!read.description.is_empty(), "{}", scenario.name);
        let errors: Vec<String> = schema
            .iter_errors(&as_json(scenario.text))
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", scenario.name);
    }
}

/// A scenario with every step and every key.
const ALL_STEPS: &str = include_str!("all-steps.yaml");

#[test]
fn every_step_is_parsed_and_in_the_schema() {
    parse(ALL_STEPS).expect("a scenario");
    let json = as_json(ALL_STEPS);
    assert!(validator().is_valid(&json));
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/scenario.schema.json")).expect("JSON");
    let known = schema["$defs"]["step"]["properties"]
        .as_object()
        .expect("steps");
    let used = json["turns"][0]["steps"].as_array().expect("steps");
    let missing: Vec<&String> = known
        .keys()
        .filter(|name| !used.iter().any(|step| step.get(name).is_some()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn parser_and_schema_refuse_the_same_scenarios() {
    let schema = validator();
    let wrong = [
        "turns: []\nodd: 1\n",
        "agent: {name: 1}\nturns: []\n",
        "capabilities: {load: yes please}\nturns: []\n",
        "capabilities: {list_page: 0}\nturns: []\n",
        "auth: {methods: [{id: a}]}\nturns: []\n",
        "modes: {available: []}\nturns: []\n",
        "config_options: [{id: a, type: odd, current: b, options: [{value: b}]}]\nturns: []\n",
        "config_options: [{id: a, category: odd, current: b, options: [{value: b}]}]\nturns: []\n",
        "commands: [{name: a}]\nturns: []\n",
        "process: {exit_at_start: 256}\nturns: []\n",
        "turns: 5\n",
        "turns: [{when: any}]\n",
        "turns: [{when: sometimes, steps: []}]\n",
        "turns: [{when: {exact: a, contains: b}, steps: []}]\n",
        "turns: [{steps: [text]}]\n",
        "turns: [{steps: [{text: 5}]}]\n",
        "turns: [{steps: [{txt: a}]}]\n",
        "turns: [{steps: [{text: a, thought: b}]}]\n",
        "turns: [{steps: [{tool_call: {id: a}}]}]\n",
        "turns: [{steps: [{tool_call: {id: a, title: b, kind: odd}}]}]\n",
        "turns: [{steps: [{permission: {id: a, title: b, options: [{id: c}]}}]}]\n",
        "turns: [{steps: [{fs_read: {path: a, line: 0}}]}]\n",
        "turns: [{steps: [{elicitation: {message: a, fields: {b: list}}}]}]\n",
        "turns: [{steps: [{delay_ms: -1}]}]\n",
        "turns: [{steps: [{argv: false}]}]\n",
        "turns: [{steps: [{error: {code: x, message: m}}]}]\n",
        "turns: [{steps: [{stop_reason: done}]}]\n",
        "turns: [{steps: [{signal: HUP}]}]\n",
        "turns: [{steps: [{huge_line: 99999999999}]}]\n",
        "turns: [{steps: [{daemon: {seconds: 601}}]}]\n",
        "turns: [{steps: [{repeat: {times: 2, steps: [{odd: 1}]}}]}]\n",
        "name: 5\nturns: []\n",
    ];
    for text in wrong {
        let text = match text.starts_with("name:") {
            true => format!("scenario: agentproto.scenario/v1\n{text}"),
            false => format!("{HEAD}{text}"),
        };
        assert!(parse(&text).is_err(), "the parser accepts:\n{text}");
        assert!(
            !schema.is_valid(&as_json(&text)),
            "the schema accepts:\n{text}"
        );
    }
    // Mistakes that a schema cannot express.
    for text in [
        "modes: {current: a, available: [{id: b}]}\nturns: []\n",
        "config_options: [{id: a, current: c, options: [{value: b}]}]\nturns: []\n",
        "turns: [{when: {regex: '('}, steps: []}]\n",
        "auth: {required: true}\nturns: []\n",
    ] {
        assert!(parse(&format!("{HEAD}{text}")).is_err(), "{text}");
    }
}

#[test]
fn mistakes_have_a_position() {
    let text = format!(
        "{HEAD}turns:\n  - when: any\n    steps:\n      - txt: hello\n      - echo: {{chunks: 0}}\n"
    );
    let mistakes = parse(&text).expect_err("two mistakes");
    let told: Vec<String> = mistakes
        .iter()
        .map(|m| format!("{}:{}: {}", m.line, m.column, m.message))
        .collect();
    assert_eq!(
        told,
        [
            "6:9: unknown step `txt`; did you mean `text`?",
            "7:24: `chunks` must be an integer between 1 and 1000",
        ]
    );
    for text in [
        "",
        "- a\n",
        "a: [\n",
        "scenario: other\nname: x\nturns: []\n",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_scenario_file_can_be_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mine.yaml");
    let text = format!(
        "{HEAD}turns:\n  - when: {{regex: 'add (?<a>[0-9]+)'}}\n    steps: [{{text: 'number {{a}}'}}]\n"
    );
    std::fs::write(&file, text).expect("a file");
    let mut client = start(&["acp", "--scenario", &file.to_string_lossy()]);
    client.initialize(serde_json::json!({}));
    client.new_session(1002);
    client.prompt(1003, "add 12");
    client.prompt(1004, "something else");
    let tape = client.finish();
    assert_eq!(tape.said(), "number 12");
    assert_eq!(tape.answer(1004)["result"]["stopReason"], "end_turn");
}
