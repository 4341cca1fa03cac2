//! Check 13: the schema version is said, and is what was asked for.

use serde_json::{Value, json};

use super::tools::*;

const FIRST: &[&str] = &["search", "x", "--schema-version", "1"];
const NONE: &[&str] = &["search", "x", "--schema-version", "9999"];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-13-version-unsaid",
        "AOI-13.version-missing",
        "The meta event does not say the schema version.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| remove(e, "schema_version"))),
    ),
    mutant(
        "aoi-13-version-number",
        "AOI-13.version-type",
        "The schema version is a number.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| set(e, "schema_version", 2))),
    ),
    mutant(
        "aoi-13-version-short",
        "AOI-13.version-form",
        "The schema version has no minor and no patch part.",
        SEARCH,
        Twist::Event(|facts, _, event| {
            let version = format!("v{}", facts.major);
            on("aoi:meta", event, |e| set(e, "schema_version", version))
        }),
    ),
    mutant(
        "aoi-13-version-undeclared",
        "AOI-13.version-undeclared",
        "The schema version is none that the capabilities know.",
        SEARCH,
        Twist::Event(|facts, _, event| {
            let version = format!("{}.9.9", facts.major);
            on("aoi:meta", event, |e| set(e, "schema_version", version))
        }),
    ),
    mutant(
        "aoi-13-default-differs",
        "AOI-13.default-differs",
        "The capabilities name another default than the tool uses.",
        &["capabilities", "--output", "json"],
        Twist::Document(|_, mut document| {
            if let Some(default) = document.pointer_mut("/schemas/0/default") {
                *default = "1.4.0".into();
            }
            Frame::Json(document)
        }),
    ),
    mutant(
        "aoi-13-version-ignored",
        "AOI-13.not-honoured",
        "`--schema-version` has no meaning for a search.",
        FIRST,
        Twist::Args(|args| {
            let is_discovery = args
                .iter()
                .any(|word| word.contains("schema") && !word.starts_with("--schema-v"));
            match is_discovery {
                true => args,
                false => without(args, "--schema-version", true),
            }
        }),
    ),
    mutant(
        "aoi-13-accept-ignored",
        "AOI-13.not-honoured",
        "`--accept-schema` has no meaning.",
        &[
            "search",
            "x",
            "--accept-schema",
            "com.example.mock-aoi.events@1",
        ],
        Twist::Args(|args| without(args, "--accept-schema", true)),
    ),
    mutant(
        "aoi-13-only-meta-changes",
        "AOI-13.events-differ",
        "Version 1 is only said; the events are those of version 2.",
        FIRST,
        Twist::Quirk(Quirk::EventsOfVersionTwo),
    ),
    mutant(
        "aoi-13-only-events-change",
        "AOI-13.not-honoured",
        "Version 1 is only done; the meta event says 2.0.0.",
        FIRST,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| set(e, "schema_version", "2.0.0"))),
    ),
    mutant(
        "aoi-13-default-events-old",
        "AOI-13.events-differ",
        "The events of version 2 are those of version 1.",
        SEARCH,
        Twist::Quirk(Quirk::EventsOfVersionOne),
    ),
    mutant(
        "aoi-13-unsupported-is-default",
        "AOI-13.unsupported-served",
        "A version that is not offered gives the default.",
        NONE,
        Twist::Quirk(Quirk::UnknownVersionIsDefault),
    ),
    mutant(
        "aoi-13-unsupported-exits-zero",
        "AOI-13.unsupported-exit",
        "A version that is not offered gives exit code 0.",
        NONE,
        Twist::Exit(|facts, code| match facts.value("--schema-version") {
            Some("9999") => 0,
            _ => code,
        }),
    ),
    mutant(
        "aoi-13-unsupported-is-mute",
        "AOI-13.unsupported-unstructured",
        "A version that is not offered gives prose on stderr after the meta event.",
        NONE,
        Twist::Event(|facts, _, event| match facts.value("--schema-version") {
            Some("9999") if is(&event, "aoi:error") => {
                stderr("mock-aoi: no such version\n");
                vec![Frame::Exit(64)]
            }
            _ => send(event),
        }),
    ),
    mutant(
        "aoi-13-unsupported-after-data",
        "AOI-13.unsupported-after-data",
        "A version that is not offered is refused after the first result.",
        NONE,
        Twist::Quirk(Quirk::UnknownVersionAfterData),
    ),
    mutant(
        "aoi-13-short-form-fails",
        "AOI-13.not-honoured",
        "Only full versions are understood.",
        FIRST,
        Twist::Quirk(Quirk::ShortVersionFails),
    ),
    mutant(
        "aoi-13-other-name-passes",
        "AOI-13.name-ignored",
        "`--accept-schema` takes any name.",
        &["search", "x", "--accept-schema", "org.other.events@1"],
        Twist::Quirk(Quirk::OtherSchemaNamePasses),
    )
    .warns(),
    mutant(
        "aoi-13-schemas-are-one",
        "AOI-13.schemas-identical",
        "The schema of version 1 is that of version 2.",
        &["schema", "--schema-version", "1"],
        Twist::Args(|args| {
            match args
                .iter()
                .any(|word| word == "schema" || word == "--schema")
            {
                true => without(args, "--schema-version", true),
                false => args,
            }
        }),
    ),
    mutant(
        "aoi-13-versions-are-one",
        "AOI-13.conflated",
        "Tool, AOI and schema have one version.",
        SEARCH,
        Twist::Event(|_, _, event| on("aoi:meta", event, |e| set(e, "tool_version", "2.0.0"))),
    )
    .warns(),
    mutant(
        "aoi-13-declared-not-offered",
        "AOI-13.not-honoured",
        "The capabilities name a version that is refused.",
        &["capabilities", "--output", "json"],
        Twist::Document(|_, mut document| {
            let versions = document.pointer_mut("/schemas/0/versions");
            if let Some(Value::Array(versions)) = versions {
                versions.push(json!("3.0.0"));
            }
            Frame::Json(document)
        }),
    ),
];
