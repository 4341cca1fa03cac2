//! Random JSON for the tests of the arms.

use proptest::prelude::*;
use serde_json::Value;

/// Any JSON, built from words that the arms look for.
pub fn any_value() -> impl Strategy<Value = Value> {
    const WORDS: &str = "type|kind|event|msg|update|data|delta|text|message|content|thinking|id|call_id|name|tool|args|arguments|result|output|is_error|isError|exit_code|status|level|info|assistant|user|system|init|stream_event|content_block_delta|text_delta|thinking_delta|tool_use|tool_result|agent_message|agent_reasoning|exec_command_begin|exec_command_end|init|error|severity|success|session_id|parent_tool_use_id|subtype|requestedSchema|properties|required|enum|oneOf|const|default|url|boolean|string|role|tool_id|tool_name|parameters|invocation|structuredContent|stop_reason|end_turn|turnId|reason|é";
    let words: Vec<&str> = WORDS.split('|').collect();
    let word = proptest::sample::select(words);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let entries = proptest::collection::vec((word.clone(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            entries.prop_map(|list| {
                let map = list.into_iter().map(|(k, v)| (k.to_owned(), v));
                Value::Object(map.collect())
            }),
        ]
    })
}
