//! The two versions of the event schema: how they are requested, and how they differ.

use serde_json::{Map, Value};

use super::args::ParsedArgs;
use super::changes::Quirk;
use super::stream::ToolError;
use super::surface::{SCHEMA_NAME, VERSIONS};

/// The full version of a major version.
pub fn full(major: u64) -> Option<&'static str> {
    let prefix = format!("{major}.");
    VERSIONS.into_iter().find(|v| v.starts_with(&prefix))
}

pub fn major(version: &str) -> u64 {
    let major = version.split('.').next().unwrap_or_default();
    major.parse().unwrap_or_default()
}

pub fn newest() -> u64 {
    major(VERSIONS[VERSIONS.len() - 1])
}

/// The major version that the command line requests.
pub fn requested(words: &ParsedArgs, quirks: &[Quirk]) -> Result<u64, ToolError> {
    let has = |quirk: Quirk| quirks.contains(&quirk);
    let unsupported = || {
        let supported: Vec<&str> = supported(quirks);
        let message = format!(
            "Unsupported schema version; supported versions: {}.",
            supported.join(", ")
        );
        ToolError::new("usage", "SCHEMA_VERSION_UNSUPPORTED", message).with("supported", supported)
    };
    let named = match words.value("--accept-schema") {
        None => None,
        Some(text) => {
            let (name, version) = text.split_once('@').unwrap_or((text, ""));
            if name != SCHEMA_NAME && !has(Quirk::OtherSchemaNamePasses) {
                let message = format!("Unknown schema name; expected {SCHEMA_NAME}.");
                return Err(ToolError::new("usage", "SCHEMA_UNKNOWN", message));
            }
            Some(version)
        }
    };
    let Some(version) = words.value("--schema-version").or(named) else {
        return Ok(newest());
    };
    let found = supported(quirks).into_iter().find(|supported| {
        *supported == version
            || (!has(Quirk::ShortVersionFails) && major(supported).to_string() == version)
    });
    match found {
        Some(found) => Ok(major(found)),
        None if has(Quirk::UnknownVersionIsDefault) => Ok(newest()),
        None => Err(unsupported()),
    }
}

pub fn supported(quirks: &[Quirk]) -> Vec<&'static str> {
    let one = quirks.contains(&Quirk::OneVersion);
    let skipped = if one { VERSIONS.len() - 1 } else { 0 };
    VERSIONS.into_iter().skip(skipped).collect()
}

/// Converts a domain event to the format of a version. All events are created in the newest one.
pub fn shape(major: u64, event: Value) -> Value {
    let Value::Object(fields) = event else {
        return event;
    };
    if major != 1 {
        return Value::Object(fields);
    }
    let mut shaped = Map::new();
    for (name, value) in fields {
        if let Some(name) = old_name(&name) {
            shaped.insert(name.to_owned(), value);
        }
    }
    Value::Object(shaped)
}

/// The name of a field in version 1. `None` if version 1 does not have it.
pub fn old_name(name: &str) -> Option<&str> {
    Some(match name {
        "rank" => "position",
        "title" => "heading",
        "snippet" => "text",
        "name" => "label",
        "sequence" => "number",
        "score" => return None,
        same => same,
    })
}
