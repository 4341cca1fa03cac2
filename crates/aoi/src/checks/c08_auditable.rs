//! Check 8: a mutation reports the resources that it created, changed or deleted, with stable ids.

use std::sync::Arc;

use futures::future::join_all;

use crate::capture::Capture;
use crate::model::Check;
use crate::observe::{
    Effect, Sequence, State, changes, confirmation, ids, is_mutating, succeeded, unseen, within,
};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::Stream;

pub const RULES: &[&Rule] = &[&EVENT, &ID, &FOUND, &TARGET, &DISTINCT, &COUNT, &USABLE];

const UNSEEN: &str = "the probe file has no `observe`, so ids cannot be verified";

pub async fn check(session: &Session) {
    let mutating = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    join_all(mutating.map(|command| one(session, command))).await;
}

static EVENT: Rule = Rule {
    id: "AOI-08.event",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    demands: "A successful mutation emits an event for what it did",
    why: "Otherwise the changes cannot be reconstructed later.",
    hint: "Emit one domain event per resource, such as created, updated or deleted.",
    topic: Topic::Ids,
    register: &[
        "AOI-0-03",
        "AOI-14.5-01",
        "AOI-16.3-04",
        "AOI-16.3-05",
        "AOI-16.3-06",
        "AOI-18.2-08",
    ],
};

async fn one(session: &Session, command: &Command) {
    let mut sheet = Sheet::new(session.judge(&command.name));
    let done = within(session, command, &EVENT, async |sequence| {
        look(sequence, command, &mut sheet).await
    });
    match done.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => sheet.doubt(RULES, &why),
        Err(blocked) => blocked.tell(&mut sheet, RULES),
    }
    sheet.settle(RULES, "the probe did not get that far");
}

/// One successful run, with the state before and after.
struct Done {
    run: Arc<Capture>,
    target: Option<String>,
    before: State,
    after: State,
    ids: Vec<String>,
}

async fn act(sequence: &Sequence<'_>, what: &str, is_second: bool) -> Result<Done, String> {
    let target = sequence.target().await?;
    let before = sequence.observe().await?;
    let usual = sequence.confirmed(target.as_deref());
    let call = sequence.other().filter(|_| is_second).unwrap_or(usual);
    let run = sequence.run(what, &call, How::default()).await;
    let after = sequence.observe().await?;
    if !succeeded(&run) {
        return Err(format!(
            "the command should succeed, but: {}",
            run.end.told()
        ));
    }
    let stream = Stream::read(&run.stdout);
    let ids = ids(sequence.command, &stream);
    let ids = ids.into_iter().flatten().collect();
    Ok(Done {
        run,
        target,
        before,
        after,
        ids,
    })
}

async fn look(
    sequence: &Sequence<'_>,
    command: &Command,
    sheet: &mut Sheet<'_>,
) -> Result<(), String> {
    let first = act(sequence, "a change", false).await?;
    told(sequence, &first, sheet);
    if first.ids.is_empty() {
        sheet.doubt(&[&FOUND, &TARGET, &DISTINCT, &USABLE], "no id was reported");
        return Ok(());
    }
    found(sequence, &first, sheet);
    target(command, &first, sheet);
    usable(sequence, command, &first, sheet).await?;
    let second = act(sequence, "another change", true).await?;
    told(sequence, &second, sheet);
    distinct(sequence, &first, &second, sheet);
    Ok(())
}

static ID: Rule = Rule {
    id: "AOI-08.id",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    demands: "Every such event has an id, path or URL that is neither empty nor null",
    why: "The next call and the audit refer to this id.",
    hint: "Put the id of the resource into the event, as a string or a number.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-18.2-08"],
};

static COUNT: Rule = Rule {
    id: "AOI-08.count",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    demands: "The number of such events equals the number of changes",
    why: "A missing event hides a change from the caller, and an extra event reports one that did \
          not happen.",
    hint: "Emit the event where the change is made, once per resource.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-18.2-08"],
};

/// Checks the events, their ids and their number.
fn told(sequence: &Sequence<'_>, done: &Done, sheet: &mut Sheet<'_>) {
    let command = sequence.command;
    let stream = Stream::read(&done.run.stdout);
    let events = changes(command, &stream).len();
    let wanted = match command.events.is_empty() {
        true => "domain event".to_owned(),
        false => format!("event of type {}", command.events.join(" or ")),
    };
    let wrong = (events == 0).then(|| format!("the command succeeds, but emits no {wanted}"));
    sheet.held(&EVENT, "the command reports what it did", wrong, &done.run);
    match events {
        0 => sheet.not_verified(&ID, "no event was emitted"),
        _ => {
            let nameless = events.saturating_sub(done.ids.len());
            let wrong = (nameless > 0).then(|| {
                let place = command.id.as_deref().unwrap_or("/id, /path or /url");
                format!("{nameless} of {events} events have no id at {place}")
            });
            sheet.held(&ID, "every event has an id", wrong, &done.run);
        }
    }
    match done.before.effect(&done.after) {
        Effect::Some {
            count: Some(count),
            told,
        } => {
            let wrong =
                (count != events).then(|| format!("{events} events, but these changes: {told}"));
            sheet.held(
                &COUNT,
                "the number of events equals the number of changes",
                wrong,
                &done.run,
            );
        }
        Effect::Some { count: None, .. } => {
            sheet.not_applicable(&COUNT, "`observe` shows changes, but cannot count them");
        }
        Effect::None => sheet.not_verified(&COUNT, "the output of `observe` did not change"),
        Effect::Unseen => sheet.not_verified(&COUNT, unseen(sequence.session, UNSEEN)),
    }
}

static FOUND: Rule = Rule {
    id: "AOI-08.id-found",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    demands: "The reported id is the one under which the resource exists",
    why: "A caller cannot use an id that no other command knows.",
    hint: "Emit the id under which the resource is stored, not that of the request.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-18.2-08"],
};

/// A created resource exists afterwards, a deleted one existed before, and a changed one exists in
/// both states.
fn found(sequence: &Sequence<'_>, done: &Done, sheet: &mut Sheet<'_>) {
    for id in &done.ids {
        let (before, after) = (done.before.mentions(id), done.after.mentions(id));
        match (before, after) {
            (Some(false), Some(false)) => {
                let message =
                    format!("`{id}` is reported, but `observe` shows it neither before nor after");
                sheet.broken(&FOUND, message, &done.run);
            }
            (Some(_), Some(_)) => sheet.pass(&FOUND, "`observe` shows the id"),
            _ => sheet.not_verified(&FOUND, unseen(sequence.session, UNSEEN)),
        }
    }
    if done.before.effect(&done.after) == Effect::None {
        let why = "the output of `observe` did not change, so the id may belong to anything";
        sheet.not_verified(&FOUND, why);
    }
}

static TARGET: Rule = Rule {
    id: "AOI-08.id-target",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5",
    demands: "An event about a given resource has the id of that resource",
    why: "The caller must see that the command changed the resource that it named.",
    hint: "Emit the id of the resource that was changed or deleted.",
    topic: Topic::Ids,
    register: &["AOI-16.3-05", "AOI-16.3-06"],
};

fn target(command: &Command, done: &Done, sheet: &mut Sheet<'_>) {
    let is_named = command.ok.iter().any(|word| word.contains("{id}"));
    match done.target.as_ref().filter(|_| is_named) {
        None => sheet.not_applicable(&TARGET, "the command does not take the id of a resource"),
        Some(id) => {
            let wrong = (!done.ids.contains(id)).then(|| {
                format!(
                    "the command was run on `{id}`, but reports {}",
                    done.ids.join(", ")
                )
            });
            sheet.held(
                &TARGET,
                "the command reports the id that it was given",
                wrong,
                &done.run,
            );
        }
    }
}

/// Whether `capabilities` documents which arguments name the resource.
fn has_natural_key(session: &Session, command: &Command) -> bool {
    let declared = session.declared.get();
    let entry = declared.and_then(|declared| declared.command(&command.name));
    entry
        .and_then(|entry| entry.get("natural_key")?.as_str())
        .is_some_and(|key| !key.is_empty())
}

static DISTINCT: Rule = Rule {
    id: "AOI-08.id-distinct",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5",
    demands: "Different resources have different ids",
    why: "Two resources with the same id cannot be distinguished.",
    hint: "Take ids from the store, not from a constant or the clock.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01"],
};

fn distinct(sequence: &Sequence<'_>, first: &Done, second: &Done, sheet: &mut Sheet<'_>) {
    let mut all: Vec<&String> = first.ids.iter().chain(&second.ids).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    if all.len() == count {
        return sheet.pass(&DISTINCT, "two runs report different ids");
    }
    match meant(sequence, first, second) {
        Meant::Two => {
            let ids = [first.ids.join(", "), second.ids.join(", ")];
            let message = format!(
                "two runs on different resources report {} and {}",
                ids[0], ids[1]
            );
            sheet.broken(&DISTINCT, message, &second.run);
        }
        Meant::One => {
            sheet.not_applicable(&DISTINCT, "both runs name the same resource (natural key)");
        }
        Meant::Unknown(why) => sheet.not_verified(&DISTINCT, why),
    }
}

/// Whether two runs that report the same id are about the same resource.
enum Meant {
    Two,
    /// The resource has a documented natural key, and both runs name it (§14.4).
    One,
    Unknown(&'static str),
}

fn meant(sequence: &Sequence<'_>, first: &Done, second: &Done) -> Meant {
    let command = sequence.command;
    let is_named = has_natural_key(sequence.session, command);
    if names_others(sequence.session, command) {
        return Meant::Two;
    }
    if first.target.is_some() {
        // A target that was given twice under one name is reported twice under it.
        return match (first.target == second.target, is_named) {
            (false, _) => Meant::Two,
            (true, true) => Meant::One,
            (true, false) => Meant::Unknown(
                "both runs were given the same target, and the command that creates it has no \
                 {uniq}",
            ),
        };
    }
    let is_unchanged = second.before.effect(&second.after) == Effect::None;
    // Detects a second resource under the id of the first.
    let ids = second.ids.iter();
    let doubled = match is_unchanged {
        true => Some(false),
        false => ids
            .filter_map(|id| second.before.doubled(&second.after, id))
            .max(),
    };
    match (doubled, is_named) {
        (Some(true), _) => Meant::Two,
        (Some(false), true) => Meant::One,
        (Some(false), false) => {
            Meant::Unknown("the same arguments name one resource, and `ok` has no {uniq}")
        }
        (None, _) if second.before.is_partial() || second.after.is_partial() => {
            Meant::Unknown("`observe` is truncated and may not show a second resource")
        }
        (None, true) => {
            Meant::Unknown("the command has a natural key, but the resources cannot be counted")
        }
        (None, false) => Meant::Two,
    }
}

/// Whether the second run is about another resource than the first.
fn names_others(session: &Session, command: &Command) -> bool {
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
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5",
    demands: "Commands that take such an id accept it",
    why: "Callers chain calls by id.",
    hint: "Accept the ids from `create` in `get`, `update` and `delete`.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-16.3-04"],
};

/// Runs another command on the resource that this one created.
async fn usable(
    sequence: &Sequence<'_>,
    command: &Command,
    done: &Done,
    sheet: &mut Sheet<'_>,
) -> Result<(), String> {
    let session = sequence.session;
    let takes = |other: &&Command| {
        let is_named = other.ok.iter().any(|word| word.contains("{id}"));
        other.target_from.as_ref() == Some(&command.name) && is_named && !other.needs_auth
    };
    let mut users: Vec<&Command> = session.commands().iter().filter(takes).collect();
    users.sort_by_key(|other| is_mutating(session, other));
    let (Some(user), Some(id)) = (users.first(), done.ids.first()) else {
        sheet.not_applicable(&USABLE, "no other command in the probe file takes this id");
        return Ok(());
    };
    let mut words = session.fill(&user.ok, &[("id", id)], &sequence.world);
    let missing = confirmation(session, user);
    words.extend(missing.into_iter().filter(|word| !user.ok.contains(word)));
    let how = How {
        world: Some(sequence.world.clone()),
        ..How::default()
    };
    let run = session
        .run(&user.name, "with a reported id", &words, how)
        .await;
    let wrong = (!succeeded(&run))
        .then(|| format!("`{}` does not accept `{id}`: {}", user.name, run.end.told()));
    sheet.held(&USABLE, "another command accepts the id", wrong, &run);
    Ok(())
}
