//! Check 8: a mutation tells which resources it made, changed or removed, by ids that last.

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

const UNSEEN: &str = "the probe file has no `observe`: whether the id lasts is not seen";

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
    demands: "A mutation that succeeds emits an event for what it did",
    why: "Without it nobody can say afterwards what was touched.",
    hint: "Emit one domain event, such as created, updated or deleted, per resource.",
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
    sheet.settle(RULES, "the probe did not come that far");
}

/// One run that succeeded, with what stood there before and after.
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
        return Err(format!("it was to succeed, but: {}", run.end.told()));
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
        sheet.doubt(
            &[&FOUND, &TARGET, &DISTINCT, &USABLE],
            "there is no id to follow",
        );
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
    why: "The id is what the next call, or the audit, refers to.",
    hint: "Put the id of the resource into the event, as a text or a number.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-18.2-08"],
};

static COUNT: Rule = Rule {
    id: "AOI-08.count",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    demands: "There are as many such events as there are changes",
    why: "What is not told was changed behind the caller's back; what is told too often never happened.",
    hint: "Emit the event where the change is made, once per resource.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-18.2-08"],
};

/// The events, their ids and their number.
fn told(sequence: &Sequence<'_>, done: &Done, sheet: &mut Sheet<'_>) {
    let command = sequence.command;
    let stream = Stream::read(&done.run.stdout);
    let events = changes(command, &stream).len();
    let wanted = match command.events.is_empty() {
        true => "domain event".to_owned(),
        false => format!("event of type {}", command.events.join(" or ")),
    };
    let wrong = (events == 0).then(|| format!("it succeeds without an {wanted}"));
    sheet.held(&EVENT, "it tells what it did", wrong, &done.run);
    match events {
        0 => sheet.not_verified(&ID, "there is no event to look into"),
        _ => {
            let nameless = events.saturating_sub(done.ids.len());
            let wrong = (nameless > 0).then(|| {
                let place = command.id.as_deref().unwrap_or("/id, /path or /url");
                format!("{nameless} of {events} events have no id at {place}")
            });
            sheet.held(&ID, "every event has its id", wrong, &done.run);
        }
    }
    match done.before.effect(&done.after) {
        Effect::Some {
            count: Some(count),
            told,
        } => {
            let wrong = (count != events).then(|| format!("{events} events, but {told}"));
            sheet.held(&COUNT, "as many events as changes", wrong, &done.run);
        }
        Effect::Some { count: None, .. } => {
            sheet.not_applicable(&COUNT, "`observe` shows changes, but not how many");
        }
        Effect::None => sheet.not_verified(&COUNT, "nothing that `observe` shows was changed"),
        Effect::Unseen => sheet.not_verified(&COUNT, unseen(sequence.session, UNSEEN)),
    }
}

static FOUND: Rule = Rule {
    id: "AOI-08.id-found",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5, §18.2",
    demands: "The id is the one by which the resource is known afterwards",
    why: "An id that nothing else knows leads nowhere.",
    hint: "Emit the id under which the resource is stored, not that of the request.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-18.2-08"],
};

/// Made: there afterwards. Removed: there before, and no more. Changed: there before and after.
fn found(sequence: &Sequence<'_>, done: &Done, sheet: &mut Sheet<'_>) {
    for id in &done.ids {
        let (before, after) = (done.before.mentions(id), done.after.mentions(id));
        match (before, after) {
            (Some(false), Some(false)) => {
                let message =
                    format!("`{id}` is told, but `observe` knows it neither before nor after");
                sheet.broken(&FOUND, message, &done.run);
            }
            (Some(_), Some(_)) => sheet.pass(&FOUND, "`observe` knows the id"),
            _ => sheet.not_verified(&FOUND, unseen(sequence.session, UNSEEN)),
        }
    }
    if done.before.effect(&done.after) == Effect::None {
        let why = "nothing that `observe` shows was changed: the id may be of anything";
        sheet.not_verified(&FOUND, why);
    }
}

static TARGET: Rule = Rule {
    id: "AOI-08.id-target",
    check: Check::Number(8),
    level: Level::Must,
    section: "§14.5",
    demands: "An event about a given resource has that resource's id",
    why: "A caller that asked for one must see that this one was meant.",
    hint: "Emit the id of the resource that was changed or removed.",
    topic: Topic::Ids,
    register: &["AOI-16.3-05", "AOI-16.3-06"],
};

fn target(command: &Command, done: &Done, sheet: &mut Sheet<'_>) {
    let is_named = command.ok.iter().any(|word| word.contains("{id}"));
    match done.target.as_ref().filter(|_| is_named) {
        None => sheet.not_applicable(&TARGET, "it is not about a resource that is given"),
        Some(id) => {
            let wrong = (!done.ids.contains(id))
                .then(|| format!("it was about `{id}`, but tells of {}", done.ids.join(", ")));
            sheet.held(
                &TARGET,
                "it tells the id that it was given",
                wrong,
                &done.run,
            );
        }
    }
}

/// Whether the tool says which of its words name the resource.
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
    why: "Two resources of one name cannot be told apart.",
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
        return sheet.pass(&DISTINCT, "two runs tell of different ids");
    }
    match meant(sequence, first, second) {
        Meant::Two => {
            let ids = [first.ids.join(", "), second.ids.join(", ")];
            let message = format!("two runs tell of {} and {}", ids[0], ids[1]);
            sheet.broken(&DISTINCT, message, &second.run);
        }
        Meant::One => {
            sheet.not_applicable(&DISTINCT, "both runs are about one resource, by its name");
        }
        Meant::Unknown(why) => sheet.not_verified(&DISTINCT, why),
    }
}

/// What two runs that tell the same id are about.
enum Meant {
    Two,
    /// Its name is documented, and it was named twice (§14.4).
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
        // What was given twice under one name is told twice under it.
        return match (first.target == second.target, is_named) {
            (false, _) => Meant::Two,
            (true, true) => Meant::One,
            (true, false) => Meant::Unknown(
                "both runs were given one name, and what makes the target has no {uniq}",
            ),
        };
    }
    let is_unchanged = second.before.effect(&second.after) == Effect::None;
    // A second resource under the name of the first.
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
            Meant::Unknown("the same words twice are one resource here, and `ok` has no {uniq}")
        }
        (None, _) if second.before.is_partial() || second.after.is_partial() => {
            Meant::Unknown("`observe` shows a part: whether there is a second one is not seen")
        }
        (None, true) => Meant::Unknown(
            "the words are the name, but whether there is a second one of it cannot be counted",
        ),
        (None, false) => Meant::Two,
    }
}

/// Whether the words of the second run are about another resource than those of the first.
fn names_others(session: &Session, command: &Command) -> bool {
    let all = session.commands();
    // Where a target is given, the words that made it name the resource.
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
    why: "Calls are chained by ids.",
    hint: "Take in `get`, `update` and `delete` what `create` gave out.",
    topic: Topic::Ids,
    register: &["AOI-14.5-01", "AOI-16.3-04"],
};

/// Another command that works on what this one makes.
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
        sheet.not_applicable(&USABLE, "no command of the probe file takes such an id");
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
        .run(&user.name, "with an id that was told", &words, how)
        .await;
    let wrong = (!succeeded(&run))
        .then(|| format!("`{}` does not take `{id}`: {}", user.name, run.end.told()));
    sheet.held(&USABLE, "another command takes the id", wrong, &run);
    Ok(())
}
