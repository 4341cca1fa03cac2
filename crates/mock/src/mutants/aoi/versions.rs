//! Check 13: the schema version is reported, and it is the requested one.

use serde_json::{Value, json};

use super::tools::*;

const FIRST: &[&str] = &["search", "x", "--schema-version", "1"];
const NONE: &[&str] = &["search", "x", "--schema-version", "9999"];

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("aoi-13-version-unsaid", "AOI-13.version-missing")
            .says("The meta event does not contain the schema version.")
            .event("aoi:meta", removes("schema_version")),
        wrong("aoi-13-version-number", "AOI-13.version-type")
            .says("The schema version is a number.")
            .event("aoi:meta", sets("schema_version", 2)),
        wrong("aoi-13-version-short", "AOI-13.version-form")
            .says("The schema version has no minor and no patch part.")
            .events(|facts, _, event| {
                let version = format!("v{}", facts.major);
                on("aoi:meta", event, |e| set(e, "schema_version", version))
            }),
        wrong("aoi-13-version-undeclared", "AOI-13.version-undeclared")
            .says("The capabilities do not list the schema version.")
            .events(|facts, _, event| {
                let version = format!("{}.9.9", facts.major);
                on("aoi:meta", event, |e| set(e, "schema_version", version))
            }),
        wrong("aoi-13-default-differs", "AOI-13.default-differs")
            .says("The capabilities list a different default from the one that the tool uses.")
            .run(&["capabilities", "--output", "json"])
            .document(|document| {
                if let Some(default) = document.pointer_mut("/schemas/0/default") {
                    *default = "1.4.0".into();
                }
            }),
        wrong("aoi-13-version-ignored", "AOI-13.not-honoured")
            .says("`--schema-version` has no effect on a search.")
            .run(FIRST)
            .args(|args| {
                let is_discovery = args
                    .iter()
                    .any(|word| word.contains("schema") && !word.starts_with("--schema-v"));
                match is_discovery {
                    true => args,
                    false => without(args, "--schema-version", true),
                }
            }),
        wrong("aoi-13-accept-ignored", "AOI-13.not-honoured")
            .says("`--accept-schema` has no effect.")
            .run(&[
                "search",
                "x",
                "--accept-schema",
                "com.example.mock-aoi.events@1",
            ])
            .without("--accept-schema", true),
        wrong("aoi-13-only-meta-changes", "AOI-13.events-differ")
            .says("The meta event says version 1, but the events have version 2.")
            .run(FIRST)
            .quirk(Quirk::EventsOfVersionTwo),
        wrong("aoi-13-only-events-change", "AOI-13.not-honoured")
            .says("The events have version 1, but the meta event says 2.0.0.")
            .run(FIRST)
            .event("aoi:meta", sets("schema_version", "2.0.0")),
        wrong("aoi-13-default-events-old", "AOI-13.events-differ")
            .says("The meta event says version 2, but the events have version 1.")
            .quirk(Quirk::EventsOfVersionOne),
        wrong("aoi-13-unsupported-is-default", "AOI-13.unsupported-served")
            .says("An unsupported version returns the default.")
            .run(NONE)
            .quirk(Quirk::UnknownVersionIsDefault),
        wrong("aoi-13-unsupported-exits-zero", "AOI-13.unsupported-exit")
            .says("An unsupported version exits with code 0.")
            .run(NONE)
            .exit(|facts, code| match facts.value("--schema-version") {
                Some("9999") => 0,
                _ => code,
            }),
        wrong(
            "aoi-13-unsupported-is-mute",
            "AOI-13.unsupported-unstructured",
        )
        .says("An unsupported version causes prose on stderr after the meta event.")
        .run(NONE)
        .events(|facts, _, event| match facts.value("--schema-version") {
            Some("9999") if is(&event, "aoi:error") => {
                stderr("mock-aoi: no such version\n");
                vec![Frame::Exit(64)]
            }
            _ => send(event),
        }),
        wrong(
            "aoi-13-unsupported-after-data",
            "AOI-13.unsupported-after-data",
        )
        .says("An unsupported version is rejected only after the first result.")
        .run(NONE)
        .quirk(Quirk::UnknownVersionAfterData),
        wrong("aoi-13-short-form-fails", "AOI-13.not-honoured")
            .says("Only full version numbers are accepted.")
            .run(FIRST)
            .quirk(Quirk::ShortVersionFails),
        wrong("aoi-13-other-name-passes", "AOI-13.name-ignored")
            .says("`--accept-schema` accepts any name.")
            .run(&["search", "x", "--accept-schema", "org.other.events@1"])
            .quirk(Quirk::OtherSchemaNamePasses)
            .warns(),
        wrong("aoi-13-schemas-are-one", "AOI-13.schemas-identical")
            .says("The schemas of version 1 and version 2 are the same.")
            .run(&["schema", "--schema-version", "1"])
            .args(|args| {
                match args
                    .iter()
                    .any(|word| word == "schema" || word == "--schema")
                {
                    true => without(args, "--schema-version", true),
                    false => args,
                }
            }),
        wrong("aoi-13-versions-are-one", "AOI-13.conflated")
            .says("Tool, AOI and schema have the same version.")
            .event("aoi:meta", sets("tool_version", "2.0.0"))
            .warns(),
        wrong("aoi-13-declared-not-offered", "AOI-13.not-honoured")
            .says("The capabilities list a version that the tool rejects.")
            .run(&["capabilities", "--output", "json"])
            .document(|document| {
                let versions = document.pointer_mut("/schemas/0/versions");
                if let Some(Value::Array(versions)) = versions {
                    versions.push(json!("3.0.0"));
                }
            }),
    ]
}
