//! Where the probe file and what the tool says of itself do not fit each other.

use crate::model::{Check, Finding, Verdict, characteristics};
use crate::probe::Place;
use crate::session::Session;
use agentproto_manifest::fields::Mistake;
use agentproto_text::closest_of;

/// These are asked for without a probe of theirs.
const DISCOVERY: [&str; 4] = ["schema", "aoi-schema", "capabilities", "input-schema"];

/// The names that `capabilities` list; none where the tool has no such list.
fn listed(session: &Session) -> Vec<&str> {
    let capabilities = session.declared.get().and_then(|d| d.capabilities.as_ref());
    let commands = capabilities.and_then(|all| all.get("commands")?.as_array());
    let entries = commands.map(Vec::as_slice).unwrap_or_default().iter();
    let names = entries.filter_map(|entry| entry.get("name")?.as_str());
    names.filter(|name| !name.trim().is_empty()).collect()
}

/// Names that the tool does not list, where one that it does list is nearly the same.
pub fn mistakes(session: &Session) -> Vec<Mistake> {
    let probe = &session.probe;
    let listed = listed(session);
    if probe.file.is_none() || listed.is_empty() {
        return Vec::new();
    }
    let commands = probe.commands.iter().map(|c| (c.name.as_str(), c.place));
    let left_out = probe.leave_out.iter();
    let left_out = left_out.map(|(name, place)| (name.as_str(), *place));
    let said: Vec<(&str, Place)> = commands.chain(left_out).collect();
    let is_said = |name: &str| said.iter().any(|(known, _)| *known == name);
    let unlisted = said.iter().filter(|(name, _)| !listed.contains(name));
    unlisted
        .filter_map(|(name, place)| {
            // Whoever names both means both.
            let others = listed.iter().copied().filter(|other| !is_said(other));
            let meant = closest_of(name, others)?;
            Some(place.mistake(format!(
                "the tool's `capabilities` list no command `{name}`; did you mean `{meant}`? (If \
                 there are both, `leave_out: [{meant}]` says so.)"
            )))
        })
        .collect()
}

/// A row for each command that the tool lists and that the probe file neither has nor leaves out.
pub fn unprobed(session: &Session) -> Vec<Finding> {
    let probe = &session.probe;
    let wanted: Vec<u8> = (1..=13).filter(|check| session.wants(*check)).collect();
    let Some(first) = wanted.first().filter(|_| probe.file.is_some()) else {
        // A command line instead of a file is about one command.
        return Vec::new();
    };
    let mut borne: Vec<_> = wanted
        .iter()
        .flat_map(|check| characteristics(Check::Number(*check)))
        .copied()
        .collect();
    borne.sort();
    borne.dedup();
    let is_said = |name: &&str| {
        DISCOVERY.contains(name)
            || probe.commands.iter().any(|command| command.name == **name)
            || probe.leave_out.iter().any(|(left, _)| left == name)
    };
    let mut names = listed(session);
    names.retain(|name| !is_said(name));
    names.sort_unstable();
    names.dedup();
    let row = |name: &str| Finding {
        check: Check::Number(*first),
        rule: format!("AOI-{first:02}.unprobed"),
        command: name.to_owned(),
        characteristics: borne.clone(),
        verdict: Verdict::Skip,
        section: "§18.2".to_owned(),
        message: "`capabilities` list this command, but there is no probe of it in the file: add \
                  one to `commands`, or its name to `leave_out`"
            .to_owned(),
        repro: Vec::new(),
        evidence: serde_json::Map::new(),
        known: false,
    };
    names.into_iter().map(row).collect()
}
