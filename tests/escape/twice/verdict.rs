//! Carries out preparations and decides: blocked in the first run, refused in the second run,
//! harmless, or a hole.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentproto_sandbox::Backend;

use super::doors::{Opened, Ran, StepResult, step_results};
use super::preparation::{Control, Door, Kind, Preparation, Second, Steps, with};
use super::world::World;
use crate::world::is_root;

/// Worlds at a time. The runs mostly wait for other processes.
const WORKERS: usize = 4;

/// The decision about one preparation.
pub struct Verdict {
    /// `Err` is a hole, or a test that proves nothing.
    pub result: Result<&'static str, &'static str>,
    pub how: String,
    /// What both runs printed.
    pub output: String,
}

/// What the host sees after the second run.
struct Seen {
    ran: Option<Ran>,
    text: String,
    reached: Option<String>,
}

fn reached(world: &World, token: Option<&str>, text: &str, host: bool) -> Option<String> {
    let backwards = |text: &str| text.chars().rev().collect::<String>();
    if world.leaks(text) {
        return Some("it read the secret of the victim".to_owned());
    }
    if let Some(token) = token
        && (text.contains(token) || text.contains(&backwards(token)))
    {
        return Some("it read the token of the daemon".to_owned());
    }
    if host && text.contains(&world.payload) {
        return Some("the host uses what it planted".to_owned());
    }
    None
}

/// The second part: another run, or the host.
fn second(
    world: &World,
    preparation: &Preparation,
    run: &dyn Fn(Steps) -> (Option<Ran>, String),
    token: Option<&str>,
) -> Seen {
    let before = world.victim();
    let mut heard = String::new();
    let (ran, text) = match preparation.second {
        Second::Run(steps) => run(steps),
        Second::Host(steps) => (None, world.unconfined(steps)),
        Second::Fifo(path, steps) => {
            let mut options = OpenOptions::new();
            let reader = options
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(world.fill(path));
            let done = run(steps);
            if let Ok(mut reader) = reader {
                let mut bytes = [0; 4096];
                let length = reader.read(&mut bytes).unwrap_or(0);
                heard = String::from_utf8_lossy(&bytes[..length]).into_owned();
            }
            done
        }
    };
    let host = matches!(preparation.second, Second::Host(_));
    let mut found = reached(world, token, &text, host);
    if heard.contains(&world.payload) {
        found = Some("the host read what it wrote into a FIFO".to_owned());
    }
    if world.victim() != before {
        found = Some("it changed the victim".to_owned());
    }
    Seen {
        ran,
        text,
        reached: found,
    }
}

/// Carries out both runs in the sandbox.
pub fn judge(preparation: &Preparation, door: Door, backend: Backend) -> Verdict {
    let world = World::new(preparation);
    let setup = world.unconfined(preparation.setup);
    let mut output = String::new();
    if let Some(failed) = step_results(&setup).iter().find(|step| !step.ok) {
        let how = format!("setup: {}: {}", failed.step, failed.how);
        return Verdict {
            result: Err("BROKEN"),
            how,
            output: setup,
        };
    }
    let before = world.victim();
    let opened = Opened::new(&world, preparation, door, backend);
    let first = opened.run(preparation.first, false);
    let _ = writeln!(output, "--- first run\n{}", first.text());
    let early = reached(&world, opened.token(), first.text(), false);
    let touched = (world.victim() != before).then(|| "it changed the victim".to_owned());
    let run = |steps: Steps| {
        let ran = opened.run(steps, true);
        let text = ran.text().to_owned();
        (Some(ran), text)
    };
    let seen = second(&world, preparation, &run, opened.token());
    let _ = writeln!(output, "--- second run\n{}", seen.text);
    let early = early.or(touched);
    let path = world.fill(preparation.names);
    let (result, how) = decide(preparation, &path, &first, early, &seen);
    Verdict {
        result,
        how,
        output,
    }
}

type Decision = (Result<&'static str, &'static str>, String);

/// Decides about two runs. `early` is how the first run reached the victim, and `path` is what a
/// refusal must name.
fn decide(
    preparation: &Preparation,
    path: &str,
    first: &Ran,
    early: Option<String>,
    seen: &Seen,
) -> Decision {
    if let Some(how) = early {
        return (Err("HOLE"), format!("in the first run {how}"));
    }
    if let Some(how) = &seen.reached {
        return (Err("HOLE"), how.clone());
    }
    if preparation.works {
        let both = [Some(first), seen.ran.as_ref()];
        return match both.into_iter().flatten().find_map(why_not) {
            None => (Ok("works"), String::new()),
            Some(how) => (Err("TOO STRICT"), how),
        };
    }
    let refused = |word, code: &str, text: &str| match text.contains(path) {
        true => (Ok(word), code.to_owned()),
        false => (
            Err("VAGUE"),
            format!("the refusal ({code}) does not name `{path}`"),
        ),
    };
    match (first, &seen.ran) {
        (Ran::Broken(_), _) => (Err("BROKEN"), "the first run has no result".to_owned()),
        (_, Some(Ran::Broken(_))) => (Err("BROKEN"), "the second run has no result".to_owned()),
        (Ran::Refused { code, text }, _) if preparation.refused_at_once => {
            refused("refused in run 1", code, text)
        }
        (Ran::Refused { code, .. }, _) => (
            Err("TOO STRICT"),
            format!("the first run was refused: {code}"),
        ),
        (Ran::Steps(..), ran) => match (why_not(first), ran) {
            (Some(how), _) => (Ok("blocked in run 1"), how),
            (None, Some(Ran::Refused { code, text })) => refused("refused in run 2", code, text),
            // The first step of a second run uses what the original policy grants.
            (None, Some(Ran::Steps(steps, _))) => match steps.first() {
                Some(step) if step.ok => {
                    let rest: Vec<&str> = steps.iter().skip(1).map(|s| s.how.as_str()).collect();
                    (Ok("harmless"), rest.join("; "))
                }
                _ => (
                    Err("BROKEN"),
                    "the second run cannot use what the original policy grants".to_owned(),
                ),
            },
            (None, _) => (Ok("harmless"), "the host does not use it".to_owned()),
        },
    }
}

/// Why not every step of a run was carried out.
fn why_not(ran: &Ran) -> Option<String> {
    match (ran, ran.first_failure()) {
        (Ran::Steps(..), None) => None,
        (_, Some(step)) => Some(format!("{}: {}", step.step, step.how)),
        _ => Some("it was refused, or has no result".to_owned()),
    }
}

/// The same without a sandbox, or with a sandbox that the preparation was free to change. It must
/// reach the victim.
pub fn control(preparation: &Preparation, door: Door) -> Verdict {
    let world = World::new(preparation);
    world.unconfined(preparation.setup);
    let opened = Opened::new(&world, preparation, door, Backend::Native);
    let before = world.victim();
    let first = world.unconfined(preparation.first);
    let early = reached(&world, opened.token(), &first, false)
        .or_else(|| (world.victim() != before).then(|| "it changed the victim".to_owned()));
    let run = |steps: Steps| match preparation.control {
        Control::Door => {
            let ran = opened.run(steps, true);
            let text = ran.text().to_owned();
            (Some(ran), text)
        }
        Control::Open | Control::None(_) => (None, world.unconfined(steps)),
    };
    let seen = second(&world, preparation, &run, opened.token());
    let output = format!("--- first run\n{first}--- second run\n{}", seen.text);
    let failed = step_results(&first).into_iter().find(|step| !step.ok);
    let (result, how) = match (failed, early.or_else(|| seen.reached.clone())) {
        (Some(step), _) => (Err("NO CONTROL"), format!("{}: {}", step.step, step.how)),
        (None, Some(how)) => (Ok("reached"), how),
        // Nothing but the sandbox keeps the first run from planting it, and the second run refuses
        // what was planted: there are two barriers.
        (None, None) if names_path(&seen, &world.fill(preparation.names)) => {
            (Ok("planted"), "the second run refuses it".to_owned())
        }
        (None, None) => (Err("NO CONTROL"), "it does not reach the victim".to_owned()),
    };
    Verdict {
        result,
        how,
        output,
    }
}

/// Whether the second run was refused, and the refusal names the path.
fn names_path(seen: &Seen, path: &str) -> bool {
    matches!(&seen.ran, Some(Ran::Refused { text, .. }) if text.contains(path))
}

/// One cell of the table: a backend, or the control.
type Cell = Option<Backend>;

/// Carries out all preparations of a door, prints the table, and fails if there is a hole.
pub fn table(door: Door, preparations: &[Preparation], backends: &[Backend]) {
    let who = if is_root() { "root" } else { "user" };
    let mut cells: Vec<(&Preparation, Cell)> = Vec::new();
    for (index, preparation) in preparations.iter().enumerate() {
        let first_door = preparation.doors.first() == Some(&door);
        let chosen = backends
            .iter()
            .filter(|backend| super::chosen(index, **backend, first_door));
        cells.extend(chosen.map(|backend| (preparation, Some(*backend))));
        // A control without a door is the same for all of them, and the others differ little.
        let own = first_door || (preparation.control == Control::Door && super::full());
        let none = matches!(preparation.control, Control::None(_));
        if own && !none && !preparation.works {
            cells.push((preparation, None));
        }
    }
    let lines: Mutex<Vec<(usize, String, Option<String>)>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((preparation, cell)) = cells.get(index) else {
                return;
            };
            let verdict = match cell {
                Some(backend) => judge(preparation, door, *backend),
                None => control(preparation, door),
            };
            let name = cell.map_or("control", |backend| backend.as_str());
            let how: String = verdict.how.chars().take(160).collect();
            let how = how.replace('\n', " ");
            let known = preparation.known.filter(|_| verdict.result == Err("HOLE"));
            let word = match (verdict.result, known) {
                (_, Some(_)) => "known limit",
                (Ok(word) | Err(word), None) => word,
            };
            let how = match (known, preparation.control) {
                (Some(limit), _) => limit.to_owned(),
                (None, Control::None(why)) => format!("{how} (no control: {why})"),
                (None, _) => how,
            };
            let line = format!(
                "{who} | {:7} | {name:10} | {word:16} | {:47} | {how}",
                door.as_str(),
                preparation.name
            );
            let failed = verdict.result.is_err() && known.is_none();
            let fault = failed.then(|| format!("{line}\n{}", verdict.output));
            lines.lock().expect("no panic").push((index, line, fault));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let mut lines = lines.into_inner().expect("no panic");
    lines.sort();
    let mut report = String::new();
    let mut faults = String::new();
    for (_, line, fault) in &lines {
        let _ = writeln!(report, "{line}");
        if let Some(fault) = fault {
            let _ = writeln!(faults, "{fault}");
        }
    }
    assert_eq!(lines.len(), cells.len(), "a cell vanished");
    let holes = lines.iter().filter(|(_, _, fault)| fault.is_some()).count();
    println!(
        "{report}{who}, {}: {} cells, {holes} failures",
        door.as_str(),
        lines.len()
    );
    assert!(faults.is_empty(), "{holes} failures:\n{faults}");
}

#[test]
fn twice_decisions() {
    let steps = |oks: &[bool]| {
        let step = |ok: &bool| StepResult {
            step: "read".to_owned(),
            ok: *ok,
            how: String::new(),
        };
        Ran::Steps(oks.iter().map(step).collect(), String::new())
    };
    let refused = |text: &str| Ran::Refused {
        code: "sandbox_unenforceable".to_owned(),
        text: text.to_owned(),
    };
    let broken = || Ran::Broken(String::new());
    let attack = Preparation::link("x", &[Door::Sandbox], Kind::Plain, "/a", &[]);
    let at_once = with!(attack, refused_at_once: true);
    let sibling = with!(attack, works: true);
    let none = None::<&str>;
    let late = Some("it read the secret");
    for (preparation, first, second, reached, expected) in [
        (
            attack,
            steps(&[true]),
            steps(&[true, true]),
            late,
            Err("HOLE"),
        ),
        (
            attack,
            steps(&[false]),
            steps(&[true, true]),
            late,
            Err("HOLE"),
        ),
        (attack, refused("/a"), refused("/a"), late, Err("HOLE")),
        (
            attack,
            steps(&[true, false]),
            steps(&[true]),
            none,
            Ok("blocked in run 1"),
        ),
        (
            attack,
            steps(&[true]),
            refused("at /a"),
            none,
            Ok("refused in run 2"),
        ),
        (attack, steps(&[true]), refused("at /b"), none, Err("VAGUE")),
        (
            attack,
            steps(&[true]),
            steps(&[true, false]),
            none,
            Ok("harmless"),
        ),
        (
            attack,
            steps(&[true]),
            steps(&[false, false]),
            none,
            Err("BROKEN"),
        ),
        (attack, steps(&[true]), broken(), none, Err("BROKEN")),
        (attack, steps(&[false]), broken(), none, Err("BROKEN")),
        (attack, broken(), steps(&[true]), none, Err("BROKEN")),
        (
            attack,
            refused("/a"),
            refused("/a"),
            none,
            Err("TOO STRICT"),
        ),
        (
            at_once,
            refused("/a"),
            refused("/a"),
            none,
            Ok("refused in run 1"),
        ),
        (at_once, refused("/b"), refused("/b"), none, Err("VAGUE")),
        (sibling, steps(&[true]), steps(&[true]), none, Ok("works")),
        (
            sibling,
            steps(&[true]),
            refused("/a"),
            none,
            Err("TOO STRICT"),
        ),
        (
            sibling,
            steps(&[true, false]),
            steps(&[true]),
            none,
            Err("TOO STRICT"),
        ),
    ] {
        let what = format!("{first:?}, {second:?}");
        let seen = Seen {
            text: String::new(),
            reached: reached.map(str::to_owned),
            ran: Some(second),
        };
        let (result, _) = decide(&preparation, "/a", &first, None, &seen);
        assert_eq!(result, expected, "{what}");
    }
}
