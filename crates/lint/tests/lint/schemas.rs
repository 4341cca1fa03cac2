//! Compares our evaluator with the `jsonschema` crate: both must agree on every document.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use agentproto_lint::Location;
use agentproto_lint::shape::{SCHEMAS, shapes_for, violations};
use agentproto_manifest::{Doctype, Document, Node, to_json};
use proptest::prelude::*;
use serde_json::Value;

fn schema_text(doctype: Doctype) -> &'static str {
    let file = format!("/{}", doctype.file_name().replace(".md", ".schema.json"));
    SCHEMAS
        .iter()
        .find(|(id, _)| id.ends_with(&file))
        .expect("a schema")
        .1
}

fn validator(doctype: Doctype) -> jsonschema::Validator {
    let mut registry = jsonschema::Registry::new();
    for (id, text) in SCHEMAS {
        let schema: Value = serde_json::from_str(text).expect("JSON");
        let resource = jsonschema::Draft::Draft202012.create_resource(schema);
        // Register both base URLs, because the specs use both.
        let other = if id.contains("/docs/") {
            id.replace("/docs/", "/schemas/")
        } else {
            id.replace("/schemas/", "/docs/")
        };
        registry = registry.add(*id, resource.clone()).expect("resource");
        registry = registry.add(other, resource).expect("resource");
    }
    let registry = registry.prepare().expect("registry");
    let schema: Value = serde_json::from_str(schema_text(doctype)).expect("JSON");
    jsonschema::options()
        .with_registry(&registry)
        .should_validate_formats(true)
        .build(&schema)
        .expect("schema compiles")
}

fn ours(doctype: Doctype, root: &Node) -> bool {
    violations(shapes_for(doctype), root, Location::Value(root)).is_empty()
}

/// Replaces `${input.x}` in URLs, which is filled in later (C9). The crate does not support it.
fn filled(mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if text.contains("${input.") && text.contains("://") => {
            let mut out = text.clone();
            while let (Some(a), true) = (out.find("${input."), true) {
                let Some(b) = out[a..].find('}') else { break };
                out.replace_range(a..a + b + 1, "x");
            }
            *text = out;
        }
        Value::Array(items) => items.iter_mut().for_each(|v| *v = filled(v.take())),
        Value::Object(map) => map.values_mut().for_each(|v| *v = filled(v.take())),
        _ => {}
    }
    value
}

fn manifests() -> Vec<(Doctype, PathBuf)> {
    fn below(dir: &Path, out: &mut Vec<(Doctype, PathBuf)>) {
        for entry in std::fs::read_dir(dir).expect("fixtures").flatten() {
            let path = entry.path();
            if path.is_dir() {
                below(&path, out);
            } else if let Some(doctype) = path
                .file_name()
                .and_then(|n| n.to_str())
                .and_then(Doctype::from_file_name)
            {
                out.push((doctype, path));
            }
        }
    }
    let mut out = Vec::new();
    below(&crate::common::repository().join("fixtures"), &mut out);
    out.sort_by(|a, b| a.1.cmp(&b.1));
    out
}

#[test]
fn the_schemas_only_use_supported_keywords() {
    let known: BTreeSet<&str> = "$schema $id $ref $defs title description default type const enum pattern format minLength maxLength minimum maximum minItems maxItems uniqueItems items properties additionalProperties propertyNames required oneOf anyOf allOf if then not x-rules x-discriminator examples".split(' ').collect();
    fn walk(schema: &Value, known: &BTreeSet<&str>, at: &str) {
        let Some(object) = schema.as_object() else {
            return;
        };
        for (keyword, value) in object {
            assert!(
                known.contains(keyword.as_str()),
                "{at}: the evaluator does not support `{keyword}`"
            );
            match keyword.as_str() {
                "properties" | "$defs" => {
                    for (name, sub) in value.as_object().expect("map") {
                        walk(sub, known, &format!("{at}/{name}"));
                    }
                }
                "items" | "additionalProperties" | "propertyNames" | "if" | "then" | "not" => {
                    walk(value, known, at)
                }
                "oneOf" | "anyOf" | "allOf" => value
                    .as_array()
                    .expect("list")
                    .iter()
                    .for_each(|v| walk(v, known, at)),
                "format" => assert_eq!(value, "uri", "{at}"),
                "x-rules" => {
                    for slug in value.as_object().expect("map").values() {
                        let slug = slug.as_str().expect("slug");
                        assert!(
                            agentproto_lint::registry::find(slug).is_some(),
                            "{at}: no rule `{slug}`"
                        );
                    }
                }
                _ => {}
            }
        }
    }
    for (id, text) in SCHEMAS {
        walk(&serde_json::from_str(text).expect("JSON"), &known, id);
    }
}

#[test]
fn the_schemas_are_valid_2020_12() {
    for (id, text) in SCHEMAS {
        let schema: Value = serde_json::from_str(text).expect("JSON");
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{id}");
        assert_eq!(schema["$id"], *id);
    }
}

#[test]
fn both_evaluators_agree_on_every_fixture() {
    let mut seen = 0;
    for (doctype, path) in manifests() {
        let text = std::fs::read_to_string(&path).expect("fixture");
        let doc = Document::parse(&path, text);
        let Some(root) = &doc.root else { continue };
        let value = filled(to_json(root));
        assert_eq!(
            ours(doctype, root),
            validator(doctype).is_valid(&value),
            "{}",
            path.display()
        );
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

type Bases = (
    Vec<(Doctype, String)>,
    Vec<(Doctype, jsonschema::Validator)>,
);

/// A change at one place of a conforming manifest.
#[derive(Clone, Debug)]
enum Change {
    Delete,
    Retype(&'static str),
    AddKey,
    Mangle,
}

fn changed(yaml: &str, at: usize, change: &Change) -> Option<String> {
    let text = format!("---\n{yaml}---\n");
    let doc = Document::parse("x.md", text.clone());
    let mut spans = Vec::new();
    fn collect(node: &Node, out: &mut Vec<(std::ops::Range<usize>, bool)>) {
        out.push((node.span.range(), node.is_map() || node.is_seq()));
        for entry in node.entries() {
            out.push((entry.key_span.range(), false));
            collect(&entry.value, out);
        }
        node.items().iter().for_each(|n| collect(n, out));
    }
    collect(doc.root.as_ref()?, &mut spans);
    let (range, _) = spans.get(at % spans.len())?.clone();
    let old = text.get(range.clone())?;
    let new = match change {
        Change::Delete => "~".to_owned(),
        Change::Retype(other) => (*other).to_owned(),
        Change::AddKey if old.starts_with('{') => {
            old.replacen('{', "{ zz: 1, ", 1).replace(", }", " }")
        }
        Change::AddKey => format!("{old}x"),
        Change::Mangle => old.chars().rev().collect(),
    };
    let mut out = text.clone();
    out.replace_range(range, &new);
    out.strip_prefix("---\n")?
        .strip_suffix("---\n")
        .map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_evaluators_agree_on_changed_manifests(
        which in 0usize..1000,
        at in 0usize..4000,
        change in prop_oneof![Just(Change::Delete), Just(Change::AddKey), Just(Change::Mangle), prop_oneof![Just("12"), Just("true"), Just("[a, a]"), Just("{a: 1}"), Just("text"), Just("-5"), Just("1.5"), Just("4.0")].prop_map(Change::Retype)],
    ) {
        thread_local! {
            static ALL: Bases = (
                manifests().into_iter().filter(|(_, p)| p.to_string_lossy().contains("base")).filter_map(|(d, p)| {
                    let text = std::fs::read_to_string(p).ok()?;
                    let doc = Document::parse("x.md", text);
                    let yaml = doc.slice(doc.frontmatter?.yaml).to_owned();
                    Some((d, yaml))
                }).collect(),
                Doctype::ALL.into_iter().map(|d| (d, validator(d))).collect(),
            );
        }
        ALL.with(|(manifests, validators)| {
            let (doctype, yaml) = &manifests[which % manifests.len()];
            let Some(yaml) = changed(yaml, at, &change) else { return Ok(()) };
            let doc = Document::parse("x.md", format!("---\n{yaml}---\n"));
            let Some(root) = doc.root.as_ref().filter(|_| doc.problems.is_empty()) else { return Ok(()) };
            let oracle = &validators.iter().find(|(d, _)| d == doctype).expect("all").1;
            let value = filled(to_json(root));
            prop_assert_eq!(ours(*doctype, root), oracle.is_valid(&value), "{:?}\n{}", doctype, yaml);
            Ok(())
        })?;
    }
}
