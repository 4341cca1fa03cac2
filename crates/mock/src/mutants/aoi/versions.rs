//! Check 13: the schema version is said, and is what was asked for.

use serde_json::{Value, json};

use super::tools::*;

const FIRST: &[&str] = &["search", "x", "--schema-version", "1"];
const NONE: &[&str] = &["search", "x", "--schema-version", "9999"];

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("aoi-13-version-unsaid", "AOI-13.version-missing")
            .says("The meta event does not say the schema version.")
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
            .says("The schema version is none that the capabilities know.")
            .events(|facts, _, event| {
                let version = format!("{}.9.9", facts.major);
                on("aoi:meta", event, |e| set(e, "schema_version", version))
            }),
        wrong("aoi-13-default-differs", "AOI-13.default-differs")
            .says("The capabilities name another default than the tool uses.")
            .run(&["capabilities", "--output", "json"])
            .document(|document| {
                if let Some(default) = document.pointer_mut("/schemas/0/default") {
                    *default = "1.4.0".into();
                }
            }),
        wrong("aoi-13-version-ignored", "AOI-13.not-honoured")
            .says("`--schema-version` has no meaning for a search.")
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
            .says("`--accept-schema` has no meaning.")
            .run(&[
                "search",
                "x",
                "--accept-schema",
                "com.example.mock-aoi.events@1",
            ])
            .without("--accept-schema", true),
        wrong("aoi-13-only-meta-changes", "AOI-13.events-differ")
            .says("Version 1 is only said; the events are those of version 2.")
            .run(FIRST)
            .quirk(Quirk::EventsOfVersionTwo),
        wrong("aoi-13-only-events-change", "AOI-13.not-honoured")
            .says("Version 1 is only done; the meta event says 2.0.0.")
            .run(FIRST)
            .event("aoi:meta", sets("schema_version", "2.0.0")),
        wrong("aoi-13-default-events-old", "AOI-13.events-differ")
            .says("The events of version 2 are those of version 1.")
            .quirk(Quirk::EventsOfVersionOne),
        wrong("aoi-13-unsupported-is-default", "AOI-13.unsupported-served")
            .says("A version that is not offered gives the default.")
            .run(NONE)
            .quirk(Quirk::UnknownVersionIsDefault),
        wrong("aoi-13-unsupported-exits-zero", "AOI-13.unsupported-exit")
            .says("A version that is not offered gives exit code 0.")
            .run(NONE)
            .exit(|facts, code| match facts.value("--schema-version") {
                Some("9999") => 0,
                _ => code,
            }),
        wrong(
            "aoi-13-unsupported-is-mute",
            "AOI-13.unsupported-unstructured",
        )
        .says("A version that is not offered gives prose on stderr after the meta event.")
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
        .says("A version that is not offered is refused after the first result.")
        .run(NONE)
        .quirk(Quirk::UnknownVersionAfterData),
        wrong("aoi-13-short-form-fails", "AOI-13.not-honoured")
            .says("Only full versions are understood.")
            .run(FIRST)
            .quirk(Quirk::ShortVersionFails),
        wrong("aoi-13-other-name-passes", "AOI-13.name-ignored")
            .says("`--accept-schema` takes any name.")
            .run(&["search", "x", "--accept-schema", "org.other.events@1"])
            .quirk(Quirk::OtherSchemaNamePasses)
            .warns(),
        wrong("aoi-13-schemas-are-one", "AOI-13.schemas-identical")
            .says("The schema of version 1 is that of version 2.")
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
            .says("Tool, AOI and schema have one version.")
            .event("aoi:meta", sets("tool_version", "2.0.0"))
            .warns(),
        wrong("aoi-13-declared-not-offered", "AOI-13.not-honoured")
            .says("The capabilities name a version that is refused.")
            .run(&["capabilities", "--output", "json"])
            .document(|document| {
                let versions = document.pointer_mut("/schemas/0/versions");
                if let Some(Value::Array(versions)) = versions {
                    versions.push(json!("3.0.0"));
                }
            }),
    ]
}
