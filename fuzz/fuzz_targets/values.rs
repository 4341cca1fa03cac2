//! Compares with serde_yaml on texts that both accept, without anchors, tags and merge keys. The
//! trees and strings must be equal. Plain scalars with different types are skipped, because the
//! YAML versions differ there and other tests cover them.
#![no_main]

use agentproto_manifest::yaml::parse;
use agentproto_manifest::{Node, Style, Value, YamlQuirkKind};
use libfuzzer_sys::fuzz_target;
use serde_yaml::Value as Theirs;

fuzz_target!(|source: &str| {
    // A last line without a line break counts as a line here, but not in serde_yaml.
    // Unicode line breaks are line breaks only in YAML 1.1.
    if !source.ends_with('\n') || source.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        return;
    }
    let parsed = parse(source, 0);
    let has_quirk = parsed
        .quirks
        .iter()
        .any(|o| o.kind != YamlQuirkKind::Yaml11);
    if has_quirk || !parsed.problems.is_empty() {
        return;
    }
    let Some(ours) = parsed.root else { return };
    let Ok(theirs) = serde_yaml::from_str::<Theirs>(source) else {
        return;
    };
    if let Err(at) = same(&ours, &theirs) {
        panic!("{at}\n{source}\nours {ours:#?}\ntheirs {theirs:#?}");
    }
});

fn same(ours: &Node, theirs: &Theirs) -> Result<(), String> {
    let equal = match (&ours.value, theirs) {
        (Value::Str(a), Theirs::String(b)) => a == b,
        (Value::Seq(a), Theirs::Sequence(b)) => {
            for (a, b) in a.iter().zip(b) {
                same(a, b)?;
            }
            a.len() == b.len()
        }
        (Value::Map(a), Theirs::Mapping(b)) => {
            for (entry, (key, value)) in a.iter().zip(b) {
                if let Some(key) = key.as_str()
                    && key != entry.key
                {
                    return Err(format!("key {key:?} is {:?}", entry.key));
                }
                same(&entry.value, value)?;
            }
            a.len() == b.len()
        }
        (Value::Seq(_) | Value::Map(_), _) | (_, Theirs::Sequence(_) | Theirs::Mapping(_)) => false,
        (Value::Str(_), _) => ours.style == Style::Plain,
        (_, Theirs::String(_)) => ours.style == Style::Plain,
        _ => true,
    };
    if equal {
        Ok(())
    } else {
        Err(format!("{:?} against {theirs:?}", ours.value))
    }
}
