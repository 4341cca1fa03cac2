//! Finds differences between the probe file and the tool's `capabilities`.

use crate::model::{CheckId, Finding, Verdict, characteristics};
use crate::probe::ProbePosition;
use crate::rules::{Level, Rule, Topic};
use crate::session::LintSession;
use agentproto_manifest::fields::FieldError;
use agentproto_text::closest_of;

/// Discovery commands, which need no entry in the probe file.
const DISCOVERY: [&str; 4] = ["schema", "aoi-schema", "capabilities", "input-schema"];

pub static UNPROBED: Rule = Rule {
    id: "AOI-01.unprobed",
    check: CheckId::Number(1),
    level: Level::Open,
    section: "§18.2",
    requirement: "The probe file covers every command in `capabilities`. The number in the id of \
                  this rule is that of the first check that was run",
    why: "Nothing is known about a command that was not run, so its properties are not verified.",
    hint: "Add the command to `commands` in the probe file, or add its name to `leave_out` if it \
           is left out on purpose.",
    topic: Topic::Discovery,
    requirement_ids: &[],
};

/// Whether this is the id of `UNPROBED` for any check.
pub fn is_unprobed(id: &str) -> bool {
    let upper = id.to_ascii_uppercase();
    let number = upper.strip_prefix("AOI-");
    let number = number.and_then(|rest| rest.strip_suffix(".UNPROBED"));
    number.is_some_and(|number| {
        number == "NN" || (number.len() == 2 && number.parse::<CheckId>().is_ok())
    })
}

/// Command names in `capabilities`. Empty if the tool does not list its commands.
fn listed_commands(session: &LintSession) -> Vec<&str> {
    let capabilities = session.declared.get().and_then(|d| d.capabilities.as_ref());
    let commands = capabilities.and_then(|all| all.get("commands")?.as_array());
    let entries = commands.map(Vec::as_slice).unwrap_or_default().iter();
    let names = entries.filter_map(|entry| entry.get("name")?.as_str());
    names.filter(|name| !name.trim().is_empty()).collect()
}

/// Command names in the probe file that the tool does not list, but that resemble one it lists.
pub fn unknown_commands(session: &LintSession) -> Vec<FieldError> {
    let probe = &session.probe;
    let listed_commands = listed_commands(session);
    if probe.file.is_none() || listed_commands.is_empty() {
        return Vec::new();
    }
    let commands = probe.commands.iter().map(|c| (c.name.as_str(), c.position));
    let left_out = probe.leave_out.iter();
    let left_out = left_out.map(|(name, place)| (name.as_str(), *place));
    let probed: Vec<(&str, ProbePosition)> = commands.chain(left_out).collect();
    let is_probed = |name: &str| probed.iter().any(|(known, _)| *known == name);
    let unlisted = probed
        .iter()
        .filter(|(name, _)| !listed_commands.contains(name));
    unlisted
        .filter_map(|(name, place)| {
            // A listed command that the probe file also names is not a possible correction.
            let others = listed_commands.iter().copied().filter(|other| !is_probed(other));
            let closest = closest_of(name, others)?;
            Some(place.error(format!(
                "`capabilities` does not list a command `{name}`; did you mean `{closest}`? (if both \
                 commands exist, add `leave_out: [{closest}]`)"
            )))
        })
        .collect()
}

/// One `skip` finding for each listed command that the probe file neither probes nor leaves out.
pub fn unprobed(session: &LintSession) -> Vec<Finding> {
    let probe = &session.probe;
    let checks: Vec<u8> = (1..=13)
        .filter(|check| session.is_selected(*check))
        .collect();
    let Some(first) = checks.first().filter(|_| probe.file.is_some()) else {
        // A command line given instead of a probe file is about one command only.
        return Vec::new();
    };
    let mut characteristics_of_checks: Vec<_> = checks
        .iter()
        .flat_map(|check| characteristics(CheckId::Number(*check)))
        .copied()
        .collect();
    characteristics_of_checks.sort();
    characteristics_of_checks.dedup();
    let is_probed = |name: &&str| {
        DISCOVERY.contains(name)
            || probe.commands.iter().any(|command| command.name == **name)
            || probe
                .leave_out
                .iter()
                .any(|(left_out_name, _)| left_out_name == name)
    };
    let mut names = listed_commands(session);
    names.retain(|name| !is_probed(name));
    names.sort_unstable();
    names.dedup();
    let row = |name: &str| Finding {
        check: CheckId::Number(*first),
        rule: format!("AOI-{first:02}.unprobed"),
        command: name.to_owned(),
        characteristics: characteristics_of_checks.clone(),
        verdict: Verdict::Skip,
        section: UNPROBED.section.to_owned(),
        message: "`capabilities` lists this command, but the probe file does not probe it: add it \
                  to `commands`, or add its name to `leave_out`"
            .to_owned(),
        repro: Vec::new(),
        evidence: serde_json::Map::new(),
        known: false,
    };
    names.into_iter().map(row).collect()
}
