//! All events of machine mode. Only events in this list can be emitted. Their schemas are in
//! `$defs` of `schemas/events.schema.json`.

macro_rules! events {
    ($($name:ident = $text:literal,)*) => {
        /// The type of an event. The emitter writes `aoi:meta` and `aoi:summary` itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum EventType {
            $(
                #[doc = concat!("`", $text, "`.")]
                $name,
            )*
        }

        impl EventType {
            /// Every event type.
            pub const ALL: &[EventType] = &[$(EventType::$name,)*];

            /// Value of `type` in a line.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(EventType::$name => $text,)*
                }
            }
        }
    };
}

events! {
    Meta = "aoi:meta",
    Summary = "aoi:summary",
    Error = "aoi:error",
    Warning = "aoi:warning",
    Check = "aoi:check",
    Plan = "aoi:plan",
    Progress = "aoi:progress",
    AgentPrompt = "agent-prompt",
    AoiMutant = "aoi-mutant",
    AoiRule = "aoi-rule",
    AoiVariant = "aoi-variant",
    Asked = "asked",
    AuditLog = "audit-log",
    AuthStatus = "auth-status",
    Clause = "clause",
    Difference = "difference",
    Doc = "doc",
    Document = "document",
    Egress = "egress",
    Finding = "finding",
    HostSession = "host-session",
    Installed = "installed",
    Listening = "listening",
    Model = "model",
    Mutant = "mutant",
    Output = "output",
    Pair = "pair",
    Recipe = "recipe",
    Requirement = "requirement",
    Result = "result",
    Rule = "rule",
    Sandboxed = "sandboxed",
    Scenario = "scenario",
    Secret = "secret",
    Session = "session",
    SessionEvent = "session-event",
    SetupStep = "setup-step",
    SignInLink = "sign-in-link",
    TextDelta = "text-delta",
    Thought = "thought",
    ToolCall = "tool-call",
    ToolCommand = "tool-command",
    ToolOutput = "tool-output",
    ToolResult = "tool-result",
    Transcript = "transcript",
    TurnEnd = "turn-end",
    Variant = "variant",
    Workspace = "workspace",
}

impl EventType {
    /// Whether the event counts as a result: the command's own events, and checks.
    pub fn is_result(self) -> bool {
        self == EventType::Check || !self.as_str().starts_with("aoi:")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every event has a schema, and every type that the schema selects is an event.
    #[test]
    fn the_schema_has_exactly_the_known_events() {
        let text = agentproto_schemas::EVENTS;
        let schema: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let selected = schema["allOf"].as_array().expect("cases").iter();
        let selected: BTreeSet<&str> = selected
            .map(|case| {
                let kind = case["if"]["properties"]["type"]["const"].as_str();
                let kind = kind.expect("a type");
                assert_eq!(case["then"]["$ref"], format!("#/$defs/{kind}"));
                assert!(schema["$defs"][kind].is_object(), "{kind} has no schema");
                kind
            })
            .collect();
        let known: BTreeSet<&str> = EventType::ALL.iter().map(|event| event.as_str()).collect();
        assert_eq!(known, selected);
        assert_eq!(known.len(), EventType::ALL.len());
    }
}
