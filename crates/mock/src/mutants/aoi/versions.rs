//! Check 13: the schema version is reported, and it is the requested one.

use serde_json::{Value, json};

use super::tools::*;

const FIRST: &[&str] = &["search", "x", "--schema-version", "1"];
const NONE: &[&str] = &["search", "x", "--schema-version", "9999"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-13-version-unsaid", "AOI-13.version-missing")
            .describe("The meta event does not contain the schema version.")
            .violates(&["AOI-5-02", "AOI-8.1-03"])
            .event("aoi:meta", removes("schema_version")),
        mutant("aoi-13-version-number", "AOI-13.version-type")
            .describe("The schema version is a number.")
            .event("aoi:meta", sets("schema_version", 2)),
        mutant("aoi-13-version-short", "AOI-13.version-form")
            .describe("The schema version has no minor and no patch part.")
            .events(|info, _, event| {
                let version = format!("v{}", info.major);
                on("aoi:meta", event, |e| set(e, "schema_version", version))
            }),
        mutant("aoi-13-version-undeclared", "AOI-13.version-undeclared")
            .describe("The capabilities do not list the schema version.")
            .violates(&["AOI-17-03"])
            .events(|info, _, event| {
                let version = format!("{}.9.9", info.major);
                on("aoi:meta", event, |e| set(e, "schema_version", version))
            }),
        mutant("aoi-13-default-differs", "AOI-13.default-differs")
            .describe("The capabilities list a different default from the one that the tool uses.")
            .run(&["capabilities", "--output", "json"])
            .document(|document| {
                if let Some(default) = document.pointer_mut("/schemas/0/default") {
                    *default = "1.4.0".into();
                }
            }),
        mutant("aoi-13-version-ignored", "AOI-13.not-honoured")
            .describe("`--schema-version` has no effect on a search.")
            .violates(&["AOI-16.1-04", "AOI-5.1-02"])
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
        mutant("aoi-13-accept-ignored", "AOI-13.not-honoured")
            .describe("`--accept-schema` has no effect.")
            .violates(&["AOI-5.1-02"])
            .run(&[
                "search",
                "x",
                "--accept-schema",
                "com.example.mock-aoi.events@1",
            ])
            .without("--accept-schema", true),
        mutant("aoi-13-only-meta-changes", "AOI-13.events-differ")
            .describe("The meta event says version 1, but the events have version 2.")
            .violates(&["AOI-5.1-02", "AOI-19-02"])
            .run(FIRST)
            .quirk(Quirk::EventsOfVersionTwo),
        mutant("aoi-13-only-events-change", "AOI-13.not-honoured")
            .describe("The events have version 1, but the meta event says 2.0.0.")
            .violates(&["AOI-16.1-04", "AOI-5.1-02"])
            .run(FIRST)
            .event("aoi:meta", sets("schema_version", "2.0.0")),
        mutant("aoi-13-default-events-old", "AOI-13.events-differ")
            .describe("The meta event says version 2, but the events have version 1.")
            .violates(&["AOI-5.1-02"])
            .quirk(Quirk::EventsOfVersionOne),
        mutant("aoi-13-unsupported-is-default", "AOI-13.unsupported-served")
            .describe("An unsupported version returns the default.")
            .violates(&["AOI-16.1-04"])
            .run(NONE)
            .quirk(Quirk::UnknownVersionIsDefault),
        mutant("aoi-13-unsupported-exits-zero", "AOI-13.unsupported-exit")
            .describe("An unsupported version exits with code 0.")
            .run(NONE)
            .exit(|info, code| match info.value("--schema-version") {
                Some("9999") => 0,
                _ => code,
            }),
        mutant(
            "aoi-13-unsupported-is-mute",
            "AOI-13.unsupported-unstructured",
        )
        .describe("An unsupported version causes prose on stderr after the meta event.")
        .run(NONE)
        .events(|info, _, event| match info.value("--schema-version") {
            Some("9999") if is(&event, "aoi:error") => {
                stderr("mock-aoi: no such version\n");
                vec![EventFrame::Exit(64)]
            }
            _ => send(event),
        }),
        mutant(
            "aoi-13-unsupported-after-data",
            "AOI-13.unsupported-after-data",
        )
        .describe("An unsupported version is rejected only after the first result.")
        .run(NONE)
        .quirk(Quirk::UnknownVersionAfterData),
        mutant("aoi-13-short-form-fails", "AOI-13.not-honoured")
            .describe("Only full version numbers are accepted.")
            .violates(&["AOI-16.1-04", "AOI-5.1-02"])
            .run(FIRST)
            .quirk(Quirk::ShortVersionFails),
        mutant("aoi-13-other-name-passes", "AOI-13.name-ignored")
            .describe("`--accept-schema` accepts any name.")
            .run(&["search", "x", "--accept-schema", "org.other.events@1"])
            .quirk(Quirk::OtherSchemaNamePasses)
            .expect_warning(),
        mutant("aoi-13-schemas-are-one", "AOI-13.schemas-identical")
            .describe("The schemas of version 1 and version 2 are the same.")
            .violates(&["AOI-10.1-02", "AOI-19-02"])
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
        mutant("aoi-13-versions-are-one", "AOI-13.conflated")
            .describe("Tool, AOI and schema have the same version.")
            .event("aoi:meta", sets("tool_version", "2.0.0"))
            .expect_warning(),
        mutant("aoi-13-declared-not-offered", "AOI-13.not-honoured")
            .describe("The capabilities list a version that the tool rejects.")
            .violates(&["AOI-16.1-04", "AOI-5.1-02"])
            .run(&["capabilities", "--output", "json"])
            .document(|document| {
                let versions = document.pointer_mut("/schemas/0/versions");
                if let Some(Value::Array(versions)) = versions {
                    versions.push(json!("3.0.0"));
                }
            }),
    ]
}
