//! Changes every value of every manifest in the specs. The linter must reject what the published
//! schema rejects. It may also reject more, because a schema cannot express everything.

use std::collections::BTreeSet;
use std::path::Path;

use agentproto_lint::{LintOptions, Profile, RuleSet, Severity, lint_files};
use agentproto_manifest::{Disk, Doctype, Overlay};
use serde_json::{Value, json};

use crate::explained::{EXPLAINED, Side};
use crate::extract::Extracted;
use crate::published::{Published, frontmatter};
use crate::stubs;

/// Changes that the linter accepts although the schema rejects them, and the number of all
/// changes.
pub fn survivors(
    dir: &Path,
    extracted: &Extracted,
    published: &Published,
) -> Result<(usize, Vec<String>), String> {
    let rules = RuleSet::profile_defaults(Profile::Spec);
    let mut tried = 0;
    let mut out = Vec::new();
    for (i, printed) in extracted.printed.iter().enumerate() {
        let Ok(manifest) = frontmatter(&printed.text) else {
            continue;
        };
        let dir = dir.join(format!("{i:02}"));
        let laid = stubs::lay_out(&dir, printed, &extracted.printed);
        let mut files = laid.map_err(|e| e.to_string())?;
        let subject = files.first().cloned().unwrap_or_default();
        files.sort();
        let errors = |text: String| -> BTreeSet<(&str, String)> {
            let mut overlay = Overlay::new(&Disk);
            overlay.texts.insert(subject.clone(), Some(text));
            let found = lint_files(&files, &LintOptions::new(&rules, &overlay, &dir)).findings;
            let own = found
                .into_iter()
                .filter(|f| f.severity == Severity::Error && f.file == subject);
            own.map(|f| (f.rule.slug, f.pointer)).collect()
        };
        // Ignore errors that the example already has without the change.
        let before = errors(printed.text.clone());
        let known: BTreeSet<String> = places(published, printed.doctype, &manifest);
        for (change, mutant) in mutants(&manifest) {
            tried += 1;
            let refused = places(published, printed.doctype, &mutant);
            let Some(place) = refused.difference(&known).next() else {
                continue;
            };
            let yaml = serde_yaml::to_string(&mutant).map_err(|e| e.to_string())?;
            if errors(format!("---\n{yaml}---\n")).is_subset(&before) {
                let origin = &printed.origin;
                out.push(format!("{origin}: {change}: rejected at `{place}`"));
            }
        }
    }
    Ok((tried, out))
}

/// Places of schema errors that are not intended differences.
fn places(published: &Published, doctype: Doctype, manifest: &Value) -> BTreeSet<String> {
    let complaints = published.judge(doctype, manifest).into_iter();
    complaints
        .map(|c| c.pointer)
        .filter(|pointer| !is_explained(doctype, pointer))
        .collect()
}

fn is_explained(doctype: Doctype, pointer: &str) -> bool {
    EXPLAINED.iter().any(|e| {
        let inside = e.what.strip_suffix("/*").is_some_and(|p| {
            pointer
                .strip_prefix(p)
                .is_some_and(|rest| rest.starts_with('/'))
        });
        e.side == Side::SchemaOnly && e.doctype == doctype && (e.what == pointer || inside)
    })
}

fn mutants(manifest: &Value) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    walk(manifest, String::new(), &mut places);
    let odd = [
        json!(null),
        json!(-1),
        json!(1.5),
        json!(true),
        json!(""),
        json!("Not Right!"),
        json!([]),
        json!(["a", "a"]),
        json!({}),
    ];
    let mut out = Vec::new();
    for place in &places {
        for value in &odd {
            let mut mutant = manifest.clone();
            if let Some(node) = mutant.pointer_mut(place) {
                *node = value.clone();
                out.push((format!("{place} becomes {value}"), mutant));
            }
        }
        let mut mutant = manifest.clone();
        if let Some(Value::Object(map)) = mutant.pointer_mut(place) {
            map.insert("unheard_of".to_owned(), json!("x"));
            out.push((format!("{place} gets an unknown field"), mutant));
        }
        let Some((parent, key)) = place.rsplit_once('/') else {
            continue;
        };
        let mut mutant = manifest.clone();
        if let Some(Value::Object(map)) = mutant.pointer_mut(parent) {
            map.shift_remove(&key.replace("~1", "/").replace("~0", "~"));
            out.push((format!("{place} is removed"), mutant));
        }
    }
    // Keep only documents that are mappings.
    out.retain(|(_, mutant)| mutant.is_object());
    out
}

fn walk(value: &Value, place: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                walk(inner, format!("{place}/{key}"), out);
            }
        }
        Value::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                walk(inner, format!("{place}/{i}"), out);
            }
        }
        _ => {}
    }
    out.push(place);
}
