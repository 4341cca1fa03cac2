//! What aoi:meta says about versions, over every run of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::rules::*;
use super::{Offer, agrees, offers};
use crate::canary;
use crate::capture::Capture;
use crate::rules::Rule;
use crate::schema::shortened;
use crate::session::Session;
use crate::stream::Stream;

/// One aoi:meta, and the run that it is from.
struct Meta {
    run: Arc<Capture>,
    event: Option<Value>,
    ok: bool,
}

/// To be called when everything has run.
pub fn check(session: &Session) {
    let mut by_command: BTreeMap<String, Vec<Meta>> = BTreeMap::new();
    for run in session.captures() {
        let stream = Stream::read(&run.stdout);
        if !run.is_machine || is_legacy(&stream) {
            continue;
        }
        let event = stream.meta().and_then(|line| line.json.clone());
        let ok = run.end.is_success() && stream.ok() == Some(true);
        if event.is_some() || ok {
            let metas = by_command.entry(run.command.clone()).or_default();
            metas.push(Meta { run, event, ok });
        }
    }
    let manifest = session.declared.get();
    let manifest = manifest.and_then(|declared| declared.capabilities.as_ref());
    let offers = offers(manifest);
    for (command, metas) in &by_command {
        judge(session, command, metas, &offers);
    }
}

/// The older dialect without prefixes, which is told once, by check 2.
pub fn is_legacy(stream: &Stream) -> bool {
    let first = stream.lines.first();
    first.is_some_and(|line| line.kind() == Some("meta") && line.get("aoi_version").is_some())
}

type Looked<'m> = Option<(String, &'m Capture)>;

fn judge(session: &Session, command: &str, metas: &[Meta], offers: &[Offer]) {
    let mut missing: Looked = None;
    let mut kind: Looked = None;
    let mut form: Looked = None;
    let mut undeclared: Looked = None;
    let mut default: Looked = None;
    let mut conflated: Looked = None;
    let mut incomplete: Looked = None;
    let (mut versions, mut by_default) = (0, 0);
    for meta in metas {
        let run: &Capture = &meta.run;
        let Some(event) = &meta.event else {
            set(&mut missing, "there is no aoi:meta".to_owned(), run);
            continue;
        };
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let absent: Vec<&str> = ["tool_version", "aoi_version", "schema_name"]
            .into_iter()
            .filter(|key| text(key).is_none_or(str::is_empty))
            .collect();
        if !absent.is_empty() {
            set(
                &mut incomplete,
                format!("aoi:meta lacks {}", absent.join(", ")),
                run,
            );
        }
        let version = match event.get("schema_version") {
            None | Some(Value::Null) => {
                set(
                    &mut missing,
                    "aoi:meta has no schema_version".to_owned(),
                    run,
                );
                continue;
            }
            Some(Value::String(version)) => version,
            Some(other) => {
                set(
                    &mut kind,
                    format!("schema_version is {other}, not a text"),
                    run,
                );
                continue;
            }
        };
        versions += 1;
        if !is_version(version) {
            set(&mut form, format!("schema_version is `{version}`"), run);
            continue;
        }
        let own: Vec<&Offer> = offers
            .iter()
            .filter(|offer| match (offer.name.as_deref(), text("schema_name")) {
                (Some(declared), Some(said)) => declared == said,
                _ => true,
            })
            .collect();
        let listed = own.iter().flat_map(|offer| &offer.versions);
        if !offers.is_empty() && !listed.clone().any(|listed| agrees(listed, version)) {
            let name = text("schema_name").unwrap_or("no name");
            let message = format!("`{name}` {version} is not in `capabilities`");
            set(&mut undeclared, message, run);
        }
        let is_default = meta.ok && run.version.is_none();
        if let (true, Some(wanted)) = (is_default, own.iter().find_map(|o| o.default.as_ref())) {
            by_default += 1;
            if !agrees(wanted, version) {
                let message = format!(
                    "without an option the version is {version}, and the declared default is {wanted}"
                );
                set(&mut default, message, run);
            }
        }
        if is_default && [text("tool_version"), text("aoi_version")].contains(&Some(version)) {
            let message =
                format!("schema_version is {version}, and so is another version in aoi:meta");
            set(&mut conflated, message, run);
        }
    }
    let judge = session.judge(command);
    let row =
        |rule: &'static Rule, proof: &str, wrong: Looked, looked: usize, why: &str| match wrong {
            Some((message, run)) => judge.broken(rule, message, run),
            None if looked == 0 => judge.not_applicable(rule, why),
            None => judge.pass(rule, proof),
        };
    row(
        &MISSING,
        "every aoi:meta has a schema_version",
        missing,
        metas.len(),
        "",
    );
    let none = "there is no schema_version to look at";
    row(&TYPE, "it is a text", kind, versions, none);
    row(&FORM, "it is a version", form, versions, none);
    let listed = versions * usize::from(!offers.is_empty());
    row(
        &UNDECLARED,
        "it is declared",
        undeclared,
        listed,
        "`capabilities` declares no schemas",
    );
    row(
        &DEFAULT,
        "it is the declared default",
        default,
        by_default,
        "`capabilities` declares no default",
    );
    row(
        &CONFLATED,
        "it is not the version of something else",
        conflated,
        versions,
        none,
    );
    row(
        &INCOMPLETE,
        "aoi:meta names tool, AOI and schema",
        incomplete,
        metas.len(),
        "",
    );
}

fn set<'m>(slot: &mut Looked<'m>, message: String, run: &'m Capture) {
    if slot.is_none() {
        *slot = Some((shortened(&canary::masked(&message)), run));
    }
}

/// A major number, and what a semantic version may have after it.
fn is_version(text: &str) -> bool {
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    (parts.len() <= 2 && parts.iter().all(|part| whole(part)))
        || semver::Version::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_major_number() {
        for good in ["1", "1.0", "1.0.0", "2.1.0-rc.1", "10.2.3+build"] {
            assert!(is_version(good), "{good}");
        }
        for bad in [
            "",
            "v2",
            "latest",
            "1.",
            ".1",
            "1.x.0",
            "2024-01-01",
            "1.2.3.4",
        ] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
