//! Finds differences between the probe file and the tool's `capabilities`.

use crate::model::{Check, Finding, Verdict, characteristics};
use crate::probe::Place;
use crate::session::Session;
use agentproto_manifest::fields::Mistake;
use agentproto_text::closest_of;

/// Discovery commands, which need no entry in the probe file.
const DISCOVERY: [&str; 4] = ["schema", "aoi-schema", "capabilities", "input-schema"];

/// Command names in `capabilities`. Empty if the tool does not list its commands.
fn listed(session: &Session) -> Vec<&str> {
    let capabilities = session.declared.get().and_then(|d| d.capabilities.as_ref());
    let commands = capabilities.and_then(|all| all.get("commands")?.as_array());
    let entries = commands.map(Vec::as_slice).unwrap_or_default().iter();
    let names = entries.filter_map(|entry| entry.get("name")?.as_str());
    names.filter(|name| !name.trim().is_empty()).collect()
}

/// Command names in the probe file that the tool does not list, but that resemble one it lists.
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
            // A listed command that the probe file also names is not a possible correction.
            let others = listed.iter().copied().filter(|other| !is_said(other));
            let meant = closest_of(name, others)?;
            Some(place.mistake(format!(
                "`capabilities` does not list a command `{name}`; did you mean `{meant}`? (if both \
                 commands exist, add `leave_out: [{meant}]`)"
            )))
        })
        .collect()
}

/// One `skip` finding for each listed command that the probe file neither probes nor leaves out.
pub fn unprobed(session: &Session) -> Vec<Finding> {
    let probe = &session.probe;
    let wanted: Vec<u8> = (1..=13).filter(|check| session.wants(*check)).collect();
    let Some(first) = wanted.first().filter(|_| probe.file.is_some()) else {
        // A command line given instead of a probe file is about one command only.
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
        message: "`capabilities` lists this command, but the probe file does not probe it: add it \
                  to `commands`, or add its name to `leave_out`"
            .to_owned(),
        repro: Vec::new(),
        evidence: serde_json::Map::new(),
        known: false,
    };
    names.into_iter().map(row).collect()
}
