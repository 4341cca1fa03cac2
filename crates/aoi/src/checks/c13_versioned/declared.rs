//! The schema versions that can be requested.

use serde_json::Value;

use crate::probe::ProbeSpec;
use crate::session::Declarations;

/// Name of the option in the spec.
const CONVENTION: &str = "--schema-version";

/// Maximum number of requested versions.
const MAX_VERSIONS: usize = 8;

/// The option that requests a version.
pub fn flag(probe: &ProbeSpec) -> String {
    probe.schema.flag.clone().unwrap_or(CONVENTION.to_owned())
}

/// Name, versions and default of one schema in `capabilities`.
pub(super) struct DeclaredSchema {
    pub(super) name: Option<String>,
    pub(super) versions: Vec<String>,
    pub(super) default: Option<String>,
}

pub(super) fn declared_schemas(manifest: Option<&Value>) -> Vec<DeclaredSchema> {
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let schemas = manifest.and_then(|m| m.get("schemas")?.as_array());
    let schemas = schemas.into_iter().flatten().map(|schema| {
        let versions = schema.get("versions").and_then(Value::as_array);
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        DeclaredSchema {
            name: text(schema, "name"),
            versions: versions.map(str::to_owned).collect(),
            default: text(schema, "default"),
        }
    });
    schemas.collect()
}

/// The number before the first dot.
pub(super) fn major(version: &str) -> Option<u64> {
    version.split('.').next()?.parse().ok()
}

/// Whether the requested version is the reported one, in full or as a prefix.
pub(super) fn matches_version(requested: &str, reported: &str) -> bool {
    let begins = |long: &str, short: &str| {
        long.strip_prefix(short)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    begins(reported, requested)
}

/// Every version that can be requested, as written in the probe file and the manifest. Empty if
/// there is only one version and no option for it.
pub fn versions(probe: &ProbeSpec, manifest: Option<&Value>) -> Vec<String> {
    let declared: Vec<String> = declared_schemas(manifest)
        .into_iter()
        .flat_map(|offer| offer.versions)
        .collect();
    let known = probe.schema.flag.is_some() || probe.schema.accept_flag.is_some();
    if declared.len() < 2 && probe.schema.ok.is_empty() && !known {
        return Vec::new();
    }
    let is_offered = |requested: &&String| {
        declared.is_empty() || declared.iter().any(|full| matches_version(requested, full))
    };
    let mut all: Vec<String> = probe.schema.ok.iter().filter(is_offered).cloned().collect();
    for full in &declared {
        let short = major(full).map(|number| number.to_string());
        for form in short.into_iter().chain([full.clone()]) {
            if !all.contains(&form) {
                all.push(form);
            }
        }
    }
    all.truncate(MAX_VERSIONS);
    all
}

/// The schema of a version: the requested one, or the default schema if it has that version.
pub fn document<'d>(declared: &'d Declarations, version: &str) -> Option<&'d Value> {
    let usual = || {
        let schemas = declared_schemas(declared.capabilities.as_ref());
        let mut defaults = schemas.iter().filter_map(|schema| schema.default.as_ref());
        defaults
            .any(|default| matches_version(version, default))
            .then(|| declared.schemas.get(""))
            .flatten()
    };
    declared.schemas.get(version).or_else(usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(versions: &[&str]) -> Value {
        json!({ "schemas": [{ "name": "a.b", "versions": versions, "default": "2.0.0" }] })
    }

    #[test]
    fn a_version_matches_in_full_or_as_a_prefix() {
        for (requested, reported, expected) in [
            ("1", "1.4.0", true),
            ("1.4", "1.4.0", true),
            ("1.4.0", "1.4.0", true),
            ("1", "10.0.0", false),
            ("1.4.0", "1", false),
            ("2", "1.4.0", false),
        ] {
            assert_eq!(
                matches_version(requested, reported),
                expected,
                "{requested} {reported}"
            );
        }
    }

    /// AOI-5.1-02, AOI-17-03.
    #[test]
    fn versions_come_from_the_probe_file_and_the_manifest() {
        let mut probe = ProbeSpec::default();
        let two = manifest(&["1.4.0", "2.0.0"]);
        assert_eq!(versions(&probe, None), Vec::<String>::new());
        assert_eq!(
            versions(&probe, Some(&manifest(&["1.0.0"]))),
            Vec::<String>::new()
        );
        assert_eq!(versions(&probe, Some(&two)), ["1", "1.4.0", "2", "2.0.0"]);
        probe.schema.flag = Some("--sv".to_owned());
        probe.schema.ok = vec!["1".to_owned(), "2".to_owned()];
        assert_eq!(versions(&probe, None), ["1", "2"]);
        assert_eq!(versions(&probe, Some(&two)), ["1", "2", "1.4.0", "2.0.0"]);
        // A version that the tool no longer declares is not requested.
        assert_eq!(
            versions(&probe, Some(&manifest(&["2.0.0"]))),
            ["2", "2.0.0"]
        );
        assert_eq!(flag(&probe), "--sv");
    }
}
