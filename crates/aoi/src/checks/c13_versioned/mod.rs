//! Check 13: the schema version is said in meta, and is what was asked for.

mod reported;
mod rules;

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::Capture;
use crate::model::TOOL;
use crate::probe::{Command, Probe};
use crate::rules::Rule;
use crate::schema::{EventSchema, Fit};
use crate::session::{Declared, How, Session, with_options};
use crate::stream::Stream;
pub use reported::{check as reported, is_legacy};
use rules::*;

pub const RULES: &[&Rule] = rules::ALL;

const CONVENTION: &str = "--schema-version";
/// More versions than this are not asked for.
const MOST: usize = 8;

/// The option by which a version is asked for.
pub fn flag(probe: &Probe) -> String {
    probe.schema.flag.clone().unwrap_or(CONVENTION.to_owned())
}

/// Name, versions and default of each schema that the manifest declares.
struct Offer {
    name: Option<String>,
    versions: Vec<String>,
    default: Option<String>,
}

fn offers(manifest: Option<&Value>) -> Vec<Offer> {
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let schemas = manifest.and_then(|m| m.get("schemas")?.as_array());
    let schemas = schemas.into_iter().flatten().map(|schema| {
        let versions = schema.get("versions").and_then(Value::as_array);
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        Offer {
            name: text(schema, "name"),
            versions: versions.map(str::to_owned).collect(),
            default: text(schema, "default"),
        }
    });
    schemas.collect()
}

/// The number before the first dot.
fn major(version: &str) -> Option<u64> {
    version.split('.').next()?.parse().ok()
}

/// Whether one names the other, in full or by its beginning.
fn agrees(asked: &str, said: &str) -> bool {
    let begins = |long: &str, short: &str| {
        long.strip_prefix(short)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    begins(said, asked)
}

/// Every version that can be asked for, as the probe file and the manifest write it. None
/// where there is one version and nobody speaks of an option.
pub fn versions(probe: &Probe, manifest: Option<&Value>) -> Vec<String> {
    let declared: Vec<String> = offers(manifest)
        .into_iter()
        .flat_map(|offer| offer.versions)
        .collect();
    let known = probe.schema.flag.is_some() || probe.schema.accept_flag.is_some();
    if declared.len() < 2 && probe.schema.ok.is_empty() && !known {
        return Vec::new();
    }
    let is_offered =
        |asked: &&String| declared.is_empty() || declared.iter().any(|full| agrees(asked, full));
    let mut all: Vec<String> = probe.schema.ok.iter().filter(is_offered).cloned().collect();
    for full in &declared {
        let short = major(full).map(|number| number.to_string());
        for form in short.into_iter().chain([full.clone()]) {
            if !all.contains(&form) {
                all.push(form);
            }
        }
    }
    all.truncate(MOST);
    all
}

/// The schema of a version: asked for by its name, or the usual one where that is it.
pub fn document<'d>(declared: &'d Declared, version: &str) -> Option<&'d Value> {
    let usual = || {
        let offers = offers(declared.capabilities.as_ref());
        let mut defaults = offers.iter().filter_map(|offer| offer.default.as_ref());
        defaults
            .any(|default| agrees(version, default))
            .then(|| declared.schemas.get(""))
            .flatten()
    };
    declared.schemas.get(version).or_else(usual)
}

/// One way to ask for one version.
struct Ask {
    words: Vec<String>,
    version: String,
    /// A refusal is a mistake by itself, not only where every form is refused.
    strict: bool,
    accept: bool,
}

fn asks(probe: &Probe, declared: &Declared, thorough: bool) -> Vec<Ask> {
    let manifest = declared.capabilities.as_ref();
    let flag = flag(probe);
    let all = versions(probe, manifest);
    let mut asks: Vec<Ask> = Vec::new();
    let by_flag = probe.schema.flag.is_some() || probe.schema.accept_flag.is_none();
    for version in all.iter().filter(|_| by_flag) {
        let strict = probe.schema.ok.contains(version) && probe.schema.flag.is_some();
        if thorough || strict {
            asks.push(Ask {
                words: vec![flag.clone(), version.clone()],
                version: version.clone(),
                strict,
                accept: false,
            });
        }
    }
    let name = offers(manifest).into_iter().find_map(|offer| offer.name);
    if let (Some(accept), Some(name), true) = (&probe.schema.accept_flag, name, thorough) {
        for version in &all {
            asks.push(Ask {
                words: vec![accept.clone(), format!("{name}@{version}")],
                version: version.clone(),
                strict: probe.schema.ok.contains(version),
                accept: true,
            });
        }
    }
    asks
}

/// Asks every command that changes nothing for each version, and for one that is not offered.
pub async fn check(session: &Session) {
    let Some(declared) = session.declared.get() else {
        return;
    };
    identical(session, declared);
    let harmless = session.commands().iter().filter(|command| {
        !command.unbounded
            && !command.mutating
            && !command.needs_auth
            && command.input.is_none()
            && !command.ok.is_empty()
    });
    let runs = harmless
        .enumerate()
        .map(|(number, command)| negotiate(session, declared, command, number == 0));
    join_all(runs).await;
}

async fn ask(session: &Session, command: &Command, words: &[String], how: How) -> Arc<Capture> {
    let line = session.fill(&command.ok, &[], session.common());
    let line = with_options(&line, words);
    session
        .run(&command.name, "schema version", &line, how)
        .await
}

async fn negotiate(session: &Session, declared: &Declared, command: &Command, thorough: bool) {
    let judge = session.judge(&command.name);
    let asks = asks(&session.probe, declared, thorough);
    if asks.is_empty() && session.probe.schema.unsupported.is_none() {
        let why = "there is one version, and no option to ask for another";
        return judge.not_applicable(&HONOURED, why);
    }
    let runs = join_all(asks.iter().map(|one| {
        let how = How {
            version: Some(one.version.clone()),
            ..How::default()
        };
        ask(session, command, &one.words, how)
    }))
    .await;
    honoured(session, command, &asks, &runs);
    let usual = ask(session, command, &[], How::default()).await;
    let both: Vec<_> = asks.iter().zip(&runs).collect();
    events(session, declared, command, &usual, &both);
    unsupported(session, command).await;
    if thorough {
        other_name(session, command, &asks, &runs).await;
    }
}

/// What aoi:meta says of the schema's version.
fn said(run: &Capture) -> Option<String> {
    let stream = Stream::read(&run.stdout);
    let version = stream.meta()?.get("schema_version")?;
    version.as_str().map(str::to_owned)
}

fn honoured(session: &Session, command: &Command, asks: &[Ask], runs: &[Arc<Capture>]) {
    let judge = session.judge(&command.name);
    let sure = session.probe.schema.flag.is_some() || session.probe.schema.accept_flag.is_some();
    let mut kept = 0;
    for (ask, run) in asks.iter().zip(runs) {
        let line = ask.words.join(" ");
        if !run.end.is_success() {
            let others = asks.iter().zip(runs).filter(|(other, _)| {
                other.accept == ask.accept && major(&other.version) == major(&ask.version)
            });
            let mut others = others.map(|(_, run)| run.end.is_success());
            if (ask.strict || !others.any(|well| well)) && sure {
                let message = format!("`{line}` is refused: {}", run.end.told());
                return judge.broken(&HONOURED, message, run);
            }
            continue;
        }
        match said(run) {
            Some(version) if agrees(&ask.version, &version) => kept += 1,
            Some(version) => {
                let message = format!("`{line}` gives schema_version `{version}`");
                return judge.broken(&HONOURED, message, run);
            }
            None => {
                let message = format!("with `{line}` aoi:meta has no schema_version");
                return judge.broken(&HONOURED, message, run);
            }
        }
    }
    match kept {
        0 => judge.not_verified(&HONOURED, "no version could be asked for"),
        _ => judge.pass(
            &HONOURED,
            format!("{kept} requests gave what was asked for"),
        ),
    }
}

/// Every schema that could be had, with its version.
fn schemas(declared: &Declared) -> Vec<(&str, EventSchema)> {
    let all = declared.schemas.iter();
    all.filter_map(|(version, document)| {
        Some((version.as_str(), EventSchema::read(document).ok()?))
    })
    .collect()
}

/// The first event of a run that a schema refuses: its line, and why.
fn refused(schema: &EventSchema, stream: &Stream) -> Option<(usize, String)> {
    stream.lines.iter().find_map(|line| {
        let event = line.json.as_ref()?;
        let kind = line.kind().unwrap_or("an event without type");
        match schema.judge(event) {
            Fit::Fits => None,
            Fit::Breaks(why) => Some((line.number, format!("{kind}: {why}"))),
            Fit::Undefined => Some((line.number, format!("the schema has no `{kind}`"))),
        }
    })
}

/// Events of each version against its schema; a schema that takes anything proves nothing. What
/// is wrong in every version is no matter of versions: check 4 tells it.
fn events(
    session: &Session,
    declared: &Declared,
    command: &Command,
    usual: &Capture,
    runs: &[(&Ask, &Arc<Capture>)],
) {
    let judge = session.judge(&command.name);
    let schemas = schemas(declared);
    let usual = Stream::read(&usual.stdout);
    let plain = schemas.iter().find(|(version, _)| version.is_empty());
    let is_sound = plain.is_some_and(|(_, schema)| refused(schema, &usual).is_none());
    let (mut proven, mut broken) = (0, 0);
    for (ask, run) in runs.iter().filter(|(_, run)| run.end.is_success()) {
        let Some(document) = document(declared, &ask.version) else {
            continue;
        };
        let Ok(schema) = EventSchema::read(document) else {
            continue;
        };
        let stream = Stream::read(&run.stdout);
        if let Some((line, why)) = refused(&schema, &stream) {
            broken += 1;
            let fits_another = schemas
                .iter()
                .any(|(_, other)| refused(other, &stream).is_none());
            if is_sound || fits_another {
                let asked = ask.words.join(" ");
                let message = format!(
                    "line {line} with `{asked}` is not as `schema` of that version says: {why}"
                );
                return judge.broken(&EVENTS, message, run);
            }
            continue;
        }
        let tells = stream.domain().chain(stream.summary());
        let mut tells = tells.filter_map(|line| line.json.as_ref()).take(3);
        if tells.any(|event| schema.discriminates(event)) {
            proven += 1;
        }
    }
    match (proven, broken) {
        (_, 1..) => judge.not_verified(&EVENTS, "events fit no schema (check 4)"),
        (0, 0) => {
            let why = "no run of a version could be held against a schema of that version";
            judge.not_verified(&EVENTS, why);
        }
        _ => judge.pass(
            &EVENTS,
            format!("{proven} runs fit the schema of their version"),
        ),
    }
}

async fn unsupported(session: &Session, command: &Command) {
    let judge = session.judge(&command.name);
    let schema = &session.probe.schema;
    let Some(flag) = &schema.flag else {
        return;
    };
    let version = schema.unsupported.clone().unwrap_or("9999".to_owned());
    let words = [flag.clone(), version];
    let run = ask(session, command, &words, How::default()).await;
    let line = words.join(" ");
    let stream = Stream::read(&run.stdout);
    let served = stream.ok() == Some(true);
    let message = format!("`{line}` is served as if it were offered");
    let wrong = served.then_some(message);
    judge.held(
        &UNSUPPORTED_SERVED,
        &format!("`{line}` is not served"),
        wrong,
        &run,
    );
    let wrong = run
        .end
        .is_success()
        .then(|| format!("`{line}` ends with exit 0"));
    judge.held(&UNSUPPORTED_EXIT, &run.end.told(), wrong, &run);
    if served {
        return;
    }
    let data = stream.domain().next().map(|line| line.number);
    let wrong = data.map(|number| format!("line {number} with `{line}` is data"));
    judge.held(&UNSUPPORTED_LATE, "there is no data before it", wrong, &run);
    let mute = !stream.lines.is_empty() && stream.errors().next().is_none();
    let wrong = mute.then(|| format!("with `{line}` the stream begins, and has no aoi:error"));
    let proof = match stream.lines.is_empty() {
        true => "it is refused before the stream starts",
        false => "it is refused with an aoi:error",
    };
    judge.held(&UNSUPPORTED_MUTE, proof, wrong, &run);
}

/// `--accept-schema` with a name that is not the tool's.
async fn other_name(session: &Session, command: &Command, asks: &[Ask], runs: &[Arc<Capture>]) {
    let Some(accept) = &session.probe.schema.accept_flag else {
        return;
    };
    let judge = session.judge(&command.name);
    let mut good = asks.iter().zip(runs);
    let good = good.find(|(ask, run)| ask.accept && run.end.is_success());
    let Some((ask_well, _)) = good else {
        let why = format!("no request with `{accept}` was served");
        return judge.not_verified(&NAME, why);
    };
    let other = format!("org.example.another@{}", ask_well.version);
    let words = [accept.clone(), other];
    let how = How {
        version: Some(ask_well.version.clone()),
        ..How::default()
    };
    let run = ask(session, command, &words, how).await;
    let wrong = run
        .end
        .is_success()
        .then(|| format!("`{}` is served", words.join(" ")));
    judge.held(&NAME, "another name is refused", wrong, &run);
}

/// The schemas of different versions are different ones.
fn identical(session: &Session, declared: &Declared) {
    let judge = session.judge(TOOL);
    let mut seen: Vec<(&String, &Value)> = Vec::new();
    for (version, document) in &declared.schemas {
        if !version.is_empty() && !seen.iter().any(|(known, _)| major(known) == major(version)) {
            seen.push((version, document));
        }
    }
    if seen.len() < 2 {
        return judge.not_applicable(&IDENTICAL, "there is no second version of the schema");
    }
    for (index, (version, document)) in seen.iter().enumerate() {
        let same = seen.iter().take(index).find(|(_, other)| other == document);
        if let Some((other, _)) = same {
            let message = format!("the schemas of the versions {other} and {version} are the same");
            let runs = session.captures();
            let run = runs.iter().find(|run| run.command == TOOL);
            return match run {
                Some(run) => judge.broken(&IDENTICAL, message, run),
                None => judge.not_verified(&IDENTICAL, message),
            };
        }
    }
    judge.pass(
        &IDENTICAL,
        format!("{} versions have schemas of their own", seen.len()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(versions: &[&str]) -> Value {
        json!({ "schemas": [{ "name": "a.b", "versions": versions, "default": "2.0.0" }] })
    }

    #[test]
    fn a_version_is_named_in_full_or_by_its_beginning() {
        for (asked, said, expected) in [
            ("1", "1.4.0", true),
            ("1.4", "1.4.0", true),
            ("1.4.0", "1.4.0", true),
            ("1", "10.0.0", false),
            ("1.4.0", "1", false),
            ("2", "1.4.0", false),
        ] {
            assert_eq!(agrees(asked, said), expected, "{asked} {said}");
        }
    }

    /// AOI-5.1-02, AOI-17-03.
    #[test]
    fn what_can_be_asked_for_comes_from_both_sides() {
        let mut probe = Probe::default();
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
        // What the tool no longer declares is not asked for.
        assert_eq!(
            versions(&probe, Some(&manifest(&["2.0.0"]))),
            ["2", "2.0.0"]
        );
        assert_eq!(flag(&probe), "--sv");
    }
}
