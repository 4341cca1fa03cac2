//! The JSON Schemas that the specs publish, as a second check.

use std::collections::BTreeMap;
use std::path::Path;

use agentproto_manifest::Doctype;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, Registry, ValidationError, Validator};
use serde_json::{Value, json};

pub struct Published {
    schemas: BTreeMap<Doctype, Value>,
    validators: BTreeMap<Doctype, Validator>,
}

/// An error of a published schema.
pub struct Complaint {
    pub pointer: String,
    /// Whether the field is missing, so that the linter may point at its parent.
    pub missing: bool,
    pub text: String,
}

impl Published {
    pub fn load(specs: &Path) -> Result<Published, String> {
        let mut all = Vec::new();
        let folder = specs.join("resources");
        let entries = std::fs::read_dir(&folder)
            .map_err(|e| format!("{}: {e}; is this the specs directory?", folder.display()))?;
        for entry in entries.flatten() {
            let Ok(drafts) = std::fs::read_dir(entry.path().join("draft")) else {
                continue;
            };
            for file in drafts.flatten().map(|f| f.path()) {
                if file.to_string_lossy().ends_with(".schema.json") {
                    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
                    let schema: Value = serde_json::from_str(&text)
                        .map_err(|e| format!("{}: {e}", file.display()))?;
                    all.push(schema);
                }
            }
        }
        let mut registry = Registry::new();
        for schema in &all {
            let Some(id) = schema.get("$id").and_then(Value::as_str) else {
                continue;
            };
            // C21: references use /docs/ and /schemas/ for the same file.
            let plain = id.replace("/schemas/", "/docs/");
            for id in [plain.replace("/docs/", "/schemas/"), plain] {
                let resource = Draft::Draft202012.create_resource(schema.clone());
                registry = registry.add(id, resource).map_err(|e| e.to_string())?;
            }
        }
        let registry = registry.prepare().map_err(|e| e.to_string())?;
        let mut out = Published {
            schemas: BTreeMap::new(),
            validators: BTreeMap::new(),
        };
        for doctype in Doctype::ALL {
            let file = doctype.file_name().replace(".md", ".schema.json");
            let found = all.iter().find(|s| {
                let id = s.get("$id").and_then(Value::as_str).unwrap_or_default();
                id.ends_with(&format!("/{file}"))
            });
            let schema = found.ok_or_else(|| format!("schema {file} not found"))?;
            let id = schema.get("$id").cloned().unwrap_or_default();
            // AIP-17 publishes only a definition for other schemas, not a document schema.
            let id = id.as_str().unwrap_or_default();
            let entry = match doctype {
                Doctype::Runner => json!({"$ref": format!("{id}#/$defs/runner")}),
                _ => json!({"$ref": id}),
            };
            let validator = jsonschema::options()
                .with_draft(Draft::Draft202012)
                .with_registry(&registry)
                .should_validate_formats(true)
                .build(&entry)
                .map_err(|e| format!("{file}: {e}"))?;
            out.schemas.insert(doctype, schema.clone());
            out.validators.insert(doctype, validator);
        }
        Ok(out)
    }

    /// Top-level fields of a doctype.
    pub fn fields(&self, doctype: Doctype) -> Vec<String> {
        let properties = self.schemas.get(&doctype).and_then(|s| s.get("properties"));
        let map = properties.and_then(Value::as_object);
        map.map_or(Vec::new(), |m| m.keys().cloned().collect())
    }

    pub fn judge(&self, doctype: Doctype, manifest: &Value) -> Vec<Complaint> {
        let Some(validator) = self.validators.get(&doctype) else {
            return Vec::new();
        };
        validator
            .iter_errors(manifest)
            .flat_map(|e| complaints(&e))
            .collect()
    }
}

fn complaints(error: &ValidationError<'_>) -> Vec<Complaint> {
    let at = error.instance_path().as_str();
    let below = |key: &str| {
        let key = key.replace('~', "~0").replace('/', "~1");
        format!("{at}/{key}")
    };
    let one = |pointer: String, missing: bool| Complaint {
        pointer,
        missing,
        text: error.to_string(),
    };
    match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|k| one(below(k), false)).collect()
        }
        Kind::Required { property } => {
            vec![one(below(property.as_str().unwrap_or_default()), true)]
        }
        _ => vec![one(at.to_owned(), false)],
    }
}

/// Frontmatter as JSON, parsed by another YAML parser than the linter's. Keys become strings, as
/// required for `exit_codes` (C20).
pub fn frontmatter(text: &str) -> Result<Value, String> {
    let front = text.strip_prefix("---\n").ok_or("no frontmatter")?;
    let front = front.split("\n---\n").next().unwrap_or(front);
    let yaml: serde_yaml::Value = serde_yaml::from_str(front).map_err(|e| e.to_string())?;
    Ok(jsonified(yaml))
}

fn jsonified(yaml: serde_yaml::Value) -> Value {
    use serde_yaml::Value as Yaml;
    match yaml {
        Yaml::Sequence(items) => items.into_iter().map(jsonified).collect(),
        Yaml::Mapping(map) => {
            let key = |k: Yaml| match k {
                Yaml::String(s) => s,
                other => serde_json::to_string(&jsonified(other)).unwrap_or_default(),
            };
            let entries = map.into_iter().map(|(k, v)| (key(k), jsonified(v)));
            Value::Object(entries.collect())
        }
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}
