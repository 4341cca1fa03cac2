//! A tool inside a bundle: its keys replace those of the bundle, and may only narrow them.

use super::aip29::Declared;
use super::block::{ClauseValue, Pairs};
use super::error::PolicyError;
use agentproto_manifest::globs;

type List = Option<Vec<ClauseValue<String>>>;

/// Applies the tool's block to the bundle's block. Returns an error for a clause that widens it.
pub fn apply(bundle: Declared, tool: Declared) -> Result<Declared, PolicyError> {
    let hosts = globs::wildcard_covers;
    let names =
        |granted: &str, requested: &str| granted == requested || globs::matches(granted, requested);
    let mut unknown = bundle.unknown;
    unknown.extend(tool.unknown);
    let bundle_allows = bundle.allow.as_ref().is_some_and(|a| a.value);
    if let Some(own) = tool.allow.as_ref().filter(|a| a.value && !bundle_allows) {
        return Err(widens(own, "the bundle does not allow child processes"));
    }
    let allow = tool.allow.or(bundle.allow);
    let spawn = match allow.as_ref().is_some_and(|a| a.value) {
        true => list(bundle.spawn, tool.spawn, "programs", |g, w| g == w)?,
        // Nothing can be started, even if it is listed.
        false => tool.spawn.or(bundle.spawn),
    };
    let bundle_tty = bundle.tty.as_ref().is_some_and(|t| t.value);
    if let Some(own) = tool.tty.as_ref().filter(|t| t.value && !bundle_tty) {
        return Err(widens(own, "the bundle does not require a terminal"));
    }
    let set = set(&bundle.set, &bundle.pass, tool.set)?;
    Ok(Declared {
        egress: list(bundle.egress, tool.egress, "hosts", hosts)?,
        ingress: list(bundle.ingress, tool.ingress, "inbound URLs", hosts)?,
        read: list(bundle.read, tool.read, "readable paths", covers_path)?,
        write: list(bundle.write, tool.write, "writable paths", covers_path)?,
        deny: deny(bundle.deny, tool.deny)?,
        allow,
        spawn,
        pass: list(bundle.pass, tool.pass, "variables", names)?,
        set: set.or(bundle.set),
        tty: tool.tty.or(bundle.tty),
        unknown,
    })
}

fn widens<T>(declared: &ClauseValue<T>, why: impl Into<String>) -> PolicyError {
    PolicyError::Widens {
        at: declared.position.clone(),
        clause: declared.clause.text.clone(),
        why: why.into(),
    }
}

fn covers_path(granted: &str, requested: &str) -> bool {
    granted == requested || globs::covers(granted, requested)
}

/// Checks that an entry of the bundle covers every entry of the tool's list.
fn list(
    bundle: List,
    tool: List,
    what: &str,
    covers: impl Fn(&str, &str) -> bool,
) -> Result<List, PolicyError> {
    let Some(own) = tool else {
        return Ok(bundle);
    };
    let granted = bundle.unwrap_or_default();
    for requested in &own {
        if !granted.iter().any(|g| covers(&g.value, &requested.value)) {
            return Err(widens(
                requested,
                format!("it is not among the {what} that the bundle grants"),
            ));
        }
    }
    Ok(Some(own))
}

/// Checks that the tool's own list includes everything that the bundle denies.
fn deny(bundle: List, tool: List) -> Result<List, PolicyError> {
    let Some(own) = tool else {
        return Ok(bundle);
    };
    for denied in bundle.iter().flatten() {
        if !own.iter().any(|d| covers_path(&d.value, &denied.value)) {
            let why = format!(
                "the tool's own `fs.deny` does not include it, in {}",
                first_position(&own)
            );
            return Err(widens(denied, why));
        }
    }
    Ok(Some(own))
}

fn first_position(own: &[ClauseValue<String>]) -> String {
    own.first().map_or_else(
        || "an empty list".to_owned(),
        |declared| declared.position.to_string(),
    )
}

fn set(
    bundle: &Option<Pairs>,
    passed: &List,
    tool: Option<Pairs>,
) -> Result<Option<Pairs>, PolicyError> {
    for (name, own) in tool.iter().flatten() {
        let fixed = bundle.iter().flatten().find(|(n, _)| n == name);
        match fixed {
            Some((_, declared)) if declared.value == own.value => {}
            Some(_) => return Err(widens(own, "the bundle sets a different value")),
            // A fixed value is narrower than any value of the host.
            None if passed
                .iter()
                .flatten()
                .any(|p| globs::matches(&p.value, name)) => {}
            None => return Err(widens(own, "the bundle neither sets nor passes it")),
        }
    }
    Ok(tool)
}
