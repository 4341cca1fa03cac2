//! Script files: the parser and the schema agree, and mistakes are reported with line and column.

use agentproto_mock::llm::{Script, parse};
use serde_json::Value;

use crate::llm::client::HEAD;

fn validator() -> jsonschema::Validator {
    let text = include_str!("../../../schemas/model-script.schema.json");
    let schema: Value = serde_json::from_str(text).expect("JSON");
    jsonschema::meta::validate(&schema).expect("a schema");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn as_json(text: &str) -> Value {
    let yaml: serde_yaml::Value = serde_yaml::from_str(text).expect("YAML");
    serde_json::to_value(yaml).expect("JSON")
}

#[test]
fn the_built_in_script_is_valid() {
    let text = Script::certify_text();
    let script = parse(text).expect("a script");
    assert_eq!(script.name, "certify");
    let errors: Vec<String> = validator()
        .iter_errors(&as_json(text))
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(Script::certify().rules.len(), script.rules.len());
    for key in [
        "text",
        "tool",
        "permission",
        "fs_read",
        "fs_write",
        "terminal",
        "slow",
        "plan",
        "thought",
        "recall",
    ] {
        assert!(
            text.contains(&format!("contains: \"certify:{key}\"")),
            "{key}"
        );
    }
}

#[test]
fn parser_and_schema_accept_the_same_scripts() {
    let schema = validator();
    for rest in [
        "rules: []\n",
        "description: d\nrules: [{when: any, times: 1, reply: []}]\n",
        "rules: [{when: {contains: a, tool_result: true}, reply: [{text: a}]}]\n",
        "rules: [{when: {regex: '^a$'}, reply: [{thought: [a, b]}]}]\n",
        "rules: [{reply: [{text: {chunks: a, every_ms: 5, repeat: 3}}]}]\n",
        "rules: [{reply: [{call: {tool: a}}, {call: [{tool: [a, /^b/], args: {x: [1]}}]}]}]\n",
        "rules: [{reply: [{call: {tool: a, args: 'free'}}]}]\n",
        "rules: [{reply: [{usage: {input: 1}}, {stop: refusal}, {error: 429}]}]\n",
        "rules: [{reply: [{error: {status: 529, message: m}}, {delay_ms: 0}, {hang: true}]}]\n",
        "rules: [{reply: [{cut: true}]}, {reply: [{garbage: '{{'}]}]\n",
    ] {
        let text = format!("{HEAD}{rest}");
        assert!(parse(&text).is_ok(), "{rest}: {:?}", parse(&text).err());
        assert!(schema.is_valid(&as_json(&text)), "{rest}");
    }
}

#[test]
fn parser_and_schema_refuse_the_same_scripts() {
    let schema = validator();
    for rest in [
        "",
        "rules: 5\n",
        "rules: []\nodd: 1\n",
        "rules: [5]\n",
        "rules: [{when: any}]\n",
        "rules: [{when: sometimes, reply: []}]\n",
        "rules: [{when: {}, reply: []}]\n",
        "rules: [{when: {contain: a}, reply: []}]\n",
        "rules: [{when: {contains: a, regex: b}, reply: []}]\n",
        "rules: [{when: {tool_result: 5}, reply: []}]\n",
        "rules: [{times: 0, reply: []}]\n",
        "rules: [{reply: [text]}]\n",
        "rules: [{reply: [{text: a, thought: b}]}]\n",
        "rules: [{reply: [{text: 5}]}]\n",
        "rules: [{reply: [{text: {every_ms: 5}}]}]\n",
        "rules: [{reply: [{text: {chunks: a, repeat: 0}}]}]\n",
        "rules: [{reply: [{call: {args: {}}}]}]\n",
        "rules: [{reply: [{call: []}]}]\n",
        "rules: [{reply: [{call: {tool: a, args: 5}}]}]\n",
        "rules: [{reply: [{usage: {input: -1}}]}]\n",
        "rules: [{reply: [{stop: tired}]}]\n",
        "rules: [{reply: [{error: 200}]}]\n",
        "rules: [{reply: [{error: {message: m}}]}]\n",
        "rules: [{reply: [{delay_ms: -1}]}]\n",
        "rules: [{reply: [{hang: false}]}]\n",
        "rules: [{reply: [{cut: 1}]}]\n",
        "rules: [{reply: [{garbage: [a]}]}]\n",
        "rules: [{reply: [{txt: a}]}]\n",
    ] {
        let text = format!("{HEAD}{rest}");
        assert!(parse(&text).is_err(), "{rest}");
        assert!(!schema.is_valid(&as_json(&text)), "{rest}");
    }
}

#[test]
fn mistakes_have_a_position() {
    let cases = [
        (
            "rules:\n- reply:\n  - txt: a\n",
            5,
            5,
            "did you mean `text`?",
        ),
        (
            "rules:\n- when: {regex: '('}\n  reply: []\n",
            4,
            17,
            "not a valid ECMAScript regular expression",
        ),
        (
            "rules:\n- reply:\n  - call: {tool: '/(/'}\n",
            5,
            18,
            "not a valid ECMAScript regular expression",
        ),
        (
            "rules:\n- reply: [{text: {chunks: [a, b], repeat: 100000}}]\n",
            4,
            18,
            "more than 100000 chunks",
        ),
    ];
    for (rest, line, column, message) in cases {
        let mistakes = parse(&format!("{HEAD}{rest}")).expect_err("a mistake");
        let first = &mistakes[0];
        assert_eq!((first.line, first.column), (line, column), "{mistakes:?}");
        assert!(first.message.contains(message), "{mistakes:?}");
    }
    let wrong = parse("script: agentproto.scenario/v1\nname: x\nrules: []\n");
    assert!(
        wrong.expect_err("another format")[0]
            .message
            .contains("agentproto.model-script/v1")
    );
    assert!(parse("").is_err());
    assert!(parse("- a\n").is_err());
    assert!(parse("rules: [").is_err());
}
