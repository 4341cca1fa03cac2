//! Check 8: a mutation reports the resources that it created, changed or deleted, with stable ids.

use std::sync::Arc;

use futures::future::join_all;

use crate::capture::Capture;
use crate::model::CheckId;
use crate::observe::{
    Effect, Mutation, ObservedState, changes, confirmation, ids, is_mutating, run_mutation,
    succeeded, why_unobserved,
};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::stream::EventStream;
use crate::verdicts::Verdicts;

pub const RULES: &[&Rule] = &[&EVENT, &ID, &FOUND, &TARGET, &DISTINCT, &COUNT, &USABLE];

const NO_OBSERVE: &str = "the probe file has no `observe`, so ids cannot be verified";

pub async fn check(session: &LintSession) {
    let mutating = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    join_all(mutating.map(|command| one(session, command))).await;
}

static EVENT: Rule = Rule {
    id: "AOI-08.event",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    requirement: "A successful mutation emits an event for what it did",
    why: "Otherwise the changes cannot be reconstructed later.",
    hint: "Emit one domain event per resource, such as created, updated or deleted.",
    topic: Topic::Ids,
    requirement_ids: &[
        "AOI-0-03",
        "AOI-14.5-01",
        "AOI-16.3-04",
        "AOI-16.3-05",
        "AOI-16.3-06",
        "AOI-18.2-08",
    ],
};

async fn one(session: &LintSession, command: &ProbeCommand) {
    let mut verdicts = Verdicts::new(session.reporter(&command.name));
    let done = run_mutation(session, command, &EVENT, async |mutation| {
        check_one(mutation, command, &mut verdicts).await
    });
    match done.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => verdicts.unverify(RULES, &why),
        Err(blocked) => blocked.report(&mut verdicts, RULES),
    }
    verdicts.report(RULES, "the probe did not get that far");
}

/// One successful run, with the state before and after.
struct Change {
    run: Arc<Capture>,
    target: Option<String>,
    before: ObservedState,
    after: ObservedState,
    ids: Vec<String>,
}

async fn run_and_observe(
    mutation: &Mutation<'_>,
    what: &str,
    is_second: bool,
) -> Result<Change, String> {
    let target = mutation.target().await?;
    let before = mutation.observe().await?;
    let usual = mutation.confirmed(target.as_deref());
    let call = mutation.other().filter(|_| is_second).unwrap_or(usual);
    let run = mutation.run(what, &call, RunOptions::default()).await;
    let after = mutation.observe().await?;
    if !succeeded(&run) {
        return Err(format!(
            "the command should succeed, but: {}",
            run.end.describe()
        ));
    }
    let stream = EventStream::parse(&run.stdout);
    let ids = ids(mutation.command, &stream);
    let ids = ids.into_iter().flatten().collect();
    Ok(Change {
        run,
        target,
        before,
        after,
        ids,
    })
}

async fn check_one(
    mutation: &Mutation<'_>,
    command: &ProbeCommand,
    verdicts: &mut Verdicts<'_>,
) -> Result<(), String> {
    let first = run_and_observe(mutation, "a change", false).await?;
    check_events(mutation, &first, verdicts);
    if first.ids.is_empty() {
        verdicts.unverify(&[&FOUND, &TARGET, &DISTINCT, &USABLE], "no id was reported");
        return Ok(());
    }
    check_found(mutation, &first, verdicts);
    check_target(command, &first, verdicts);
    check_usable(mutation, command, &first, verdicts).await?;
    let second = run_and_observe(mutation, "another change", true).await?;
    check_events(mutation, &second, verdicts);
    check_distinct(mutation, &first, &second, verdicts);
    Ok(())
}

static ID: Rule = Rule {
    id: "AOI-08.id",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    requirement: "Every such event has an id, path or URL that is neither empty nor null",
    why: "The next call and the audit refer to this id.",
    hint: "Put the id of the resource into the event, as a string or a number.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-14.5-01", "AOI-18.2-08"],
};

static COUNT: Rule = Rule {
    id: "AOI-08.count",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    requirement: "The number of such events equals the number of changes",
    why: "A missing event hides a change from the caller, and an extra event reports one that did \
          not happen.",
    hint: "Emit the event where the change is made, once per resource.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-14.5-01", "AOI-18.2-08"],
};

/// Checks the events, their ids and their number.
fn check_events(mutation: &Mutation<'_>, done: &Change, verdicts: &mut Verdicts<'_>) {
    let command = mutation.command;
    let stream = EventStream::parse(&done.run.stdout);
    let events = changes(command, &stream).len();
    let expected = match command.events.is_empty() {
        true => "domain event".to_owned(),
        false => format!("event of type {}", command.events.join(" or ")),
    };
    let violation = (events == 0).then(|| format!("the command succeeds, but emits no {expected}"));
    verdicts.decide(
        &EVENT,
        "the command reports what it did",
        violation,
        &done.run,
    );
    match events {
        0 => verdicts.not_verified(&ID, "no event was emitted"),
        _ => {
            let nameless = events.saturating_sub(done.ids.len());
            let violation = (nameless > 0).then(|| {
                let place = command.id.as_deref().unwrap_or("/id, /path or /url");
                format!("{nameless} of {events} events have no id at {place}")
            });
            verdicts.decide(&ID, "every event has an id", violation, &done.run);
        }
    }
    match done.before.effect(&done.after) {
        Effect::Some {
            count: Some(count),
            summary,
        } => {
            let violation =
                (count != events).then(|| format!("{events} events, but these changes: {summary}"));
            verdicts.decide(
                &COUNT,
                "the number of events equals the number of changes",
                violation,
                &done.run,
            );
        }
        Effect::Some { count: None, .. } => {
            verdicts.not_applicable(&COUNT, "`observe` shows changes, but cannot count them");
        }
        Effect::None => verdicts.not_verified(&COUNT, "the output of `observe` did not change"),
        Effect::Unknown => {
            verdicts.not_verified(&COUNT, why_unobserved(mutation.session, NO_OBSERVE))
        }
    }
}

static FOUND: Rule = Rule {
    id: "AOI-08.id-found",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    requirement: "The reported id is the one under which the resource exists",
    why: "A caller cannot use an id that no other command knows.",
    hint: "Emit the id under which the resource is stored, not that of the request.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-14.5-01", "AOI-18.2-08"],
};

/// A created resource exists afterwards, a deleted one existed before, and a changed one exists in
/// both states.
fn check_found(mutation: &Mutation<'_>, done: &Change, verdicts: &mut Verdicts<'_>) {
    for id in &done.ids {
        let (before, after) = (done.before.contains_id(id), done.after.contains_id(id));
        match (before, after) {
            (Some(false), Some(false)) => {
                let message =
                    format!("`{id}` is reported, but `observe` shows it neither before nor after");
                verdicts.violation(&FOUND, message, &done.run);
            }
            (Some(_), Some(_)) => verdicts.pass(&FOUND, "`observe` shows the id"),
            _ => verdicts.not_verified(&FOUND, why_unobserved(mutation.session, NO_OBSERVE)),
        }
    }
    if done.before.effect(&done.after) == Effect::None {
        let why = "the output of `observe` did not change, so the id may belong to anything";
        verdicts.not_verified(&FOUND, why);
    }
}

static TARGET: Rule = Rule {
    id: "AOI-08.id-target",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5",
    requirement: "An event about a given resource has the id of that resource",
    why: "The caller must see that the command changed the resource that it named.",
    hint: "Emit the id of the resource that was changed or deleted.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-16.3-05", "AOI-16.3-06"],
};

fn check_target(command: &ProbeCommand, done: &Change, verdicts: &mut Verdicts<'_>) {
    let is_named = command.ok.iter().any(|word| word.contains("{id}"));
    match done.target.as_ref().filter(|_| is_named) {
        None => verdicts.not_applicable(&TARGET, "the command does not take the id of a resource"),
        Some(id) => {
            let violation = (!done.ids.contains(id)).then(|| {
                format!(
                    "the command was run on `{id}`, but reports {}",
                    done.ids.join(", ")
                )
            });
            verdicts.decide(
                &TARGET,
                "the command reports the id that it was given",
                violation,
                &done.run,
            );
        }
    }
}

/// Whether `capabilities` documents which arguments name the resource.
fn has_natural_key(session: &LintSession, command: &ProbeCommand) -> bool {
    let declared = session.declared.get();
    let entry = declared.and_then(|declared| declared.command(&command.name));
    entry
        .and_then(|entry| entry.get("natural_key")?.as_str())
        .is_some_and(|key| !key.is_empty())
}

static DISTINCT: Rule = Rule {
    id: "AOI-08.id-distinct",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5",
    requirement: "Different resources have different ids",
    why: "Two resources with the same id cannot be distinguished.",
    hint: "Take ids from the store, not from a constant or the clock.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-14.5-01"],
};

fn check_distinct(
    mutation: &Mutation<'_>,
    first: &Change,
    second: &Change,
    verdicts: &mut Verdicts<'_>,
) {
    let mut all: Vec<&String> = first.ids.iter().chain(&second.ids).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    if all.len() == count {
        return verdicts.pass(&DISTINCT, "two runs report different ids");
    }
    match same_resource(mutation, first, second) {
        SameResource::Two => {
            let ids = [first.ids.join(", "), second.ids.join(", ")];
            let message = format!(
                "two runs on different resources report {} and {}",
                ids[0], ids[1]
            );
            verdicts.violation(&DISTINCT, message, &second.run);
        }
        SameResource::One => {
            verdicts.not_applicable(&DISTINCT, "both runs name the same resource (natural key)");
        }
        SameResource::Unknown(why) => verdicts.not_verified(&DISTINCT, why),
    }
}

/// Whether two runs that report the same id are about the same resource.
enum SameResource {
    Two,
    /// The resource has a documented natural key, and both runs name it (§14.4).
    One,
    Unknown(&'static str),
}

fn same_resource(mutation: &Mutation<'_>, first: &Change, second: &Change) -> SameResource {
    let command = mutation.command;
    let is_named = has_natural_key(mutation.session, command);
    if names_another_resource(mutation.session, command) {
        return SameResource::Two;
    }
    if first.target.is_some() {
        // A target that was given twice under one name is reported twice under it.
        return match (first.target == second.target, is_named) {
            (false, _) => SameResource::Two,
            (true, true) => SameResource::One,
            (true, false) => SameResource::Unknown(
                "both runs were given the same target, and the command that creates it has no \
                 {uniq}",
            ),
        };
    }
    let is_unchanged = second.before.effect(&second.after) == Effect::None;
    // Detects a second resource under the id of the first.
    let ids = second.ids.iter();
    let is_duplicated = match is_unchanged {
        true => Some(false),
        false => ids
            .filter_map(|id| second.before.is_duplicated(&second.after, id))
            .max(),
    };
    match (is_duplicated, is_named) {
        (Some(true), _) => SameResource::Two,
        (Some(false), true) => SameResource::One,
        (Some(false), false) => {
            SameResource::Unknown("the same arguments name one resource, and `ok` has no {uniq}")
        }
        (None, _) if second.before.is_partial() || second.after.is_partial() => {
            SameResource::Unknown("`observe` is truncated and may not show a second resource")
        }
        (None, true) => SameResource::Unknown(
            "the command has a natural key, but the resources cannot be counted",
        ),
        (None, false) => SameResource::Two,
    }
}

/// Whether the second run is about another resource than the first.
fn names_another_resource(session: &LintSession, command: &ProbeCommand) -> bool {
    let all = session.commands();
    // The resource is named by the arguments of the command that created the target.
    let mut maker = command;
    for _ in all {
        let from = maker.target_from.as_ref();
        match from.and_then(|from| all.iter().find(|other| other.name == *from)) {
            Some(below) => maker = below,
            None => break,
        }
    }
    let lines = maker.input.iter().flat_map(|input| &input.good);
    let mut words = maker.ok.iter().chain(lines);
    command.other.is_some() || words.any(|word| word.contains("{uniq}"))
}

static USABLE: Rule = Rule {
    id: "AOI-08.id-usable",
    check: CheckId::Number(8),
    level: Level::Must,
    section: "§14.5",
    requirement: "Commands that take such an id accept it",
    why: "Callers chain calls by id.",
    hint: "Accept the ids from `create` in `get`, `update` and `delete`.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-14.5-01", "AOI-16.3-04"],
};

/// Runs another command on the resource that this one created.
async fn check_usable(
    mutation: &Mutation<'_>,
    command: &ProbeCommand,
    done: &Change,
    verdicts: &mut Verdicts<'_>,
) -> Result<(), String> {
    let session = mutation.session;
    let takes = |other: &&ProbeCommand| {
        let is_named = other.ok.iter().any(|word| word.contains("{id}"));
        other.target_from.as_ref() == Some(&command.name) && is_named && !other.needs_auth
    };
    let mut users: Vec<&ProbeCommand> = session.commands().iter().filter(takes).collect();
    users.sort_by_key(|other| is_mutating(session, other));
    let (Some(user), Some(id)) = (users.first(), done.ids.first()) else {
        verdicts.not_applicable(&USABLE, "no other command in the probe file takes this id");
        return Ok(());
    };
    let mut words = session.fill(&user.ok, &[("id", id)], &mutation.dirs);
    let missing = confirmation(session, user);
    words.extend(missing.into_iter().filter(|word| !user.ok.contains(word)));
    let how = RunOptions {
        dirs: Some(mutation.dirs.clone()),
        ..RunOptions::default()
    };
    let run = session
        .run(&user.name, "with a reported id", &words, how)
        .await;
    let violation = (!succeeded(&run)).then(|| {
        format!(
            "`{}` does not accept `{id}`: {}",
            user.name,
            run.end.describe()
        )
    });
    verdicts.decide(&USABLE, "another command accepts the id", violation, &run);
    Ok(())
}
