//! A grant is exchanged with a link again and again, while sandboxes with that grant start.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use agentproto_sandbox::Backend;

use super::doors::{Opened, Ran};
use super::preparation::{Door, Kind, Preparation, Steps, with};
use super::world::{World, binary};
use crate::world::{is_root, probe};

/// The workspace has another path inside, so that the attacker's own sandbox does not hold the
/// grant in its place.
const RACE: Preparation = with!(
    Preparation::link("race", &[Door::Sandbox], Kind::Agent36, "<work>/login", &[]),
    setup: &[&["mkdir", "login"], &["symlink", "<victim>", "lure"]],
    state_paths: &["./login/**"],
    mounted: true,
);

/// Exchanges the grant and the link until `stop` exists.
const SWAP: Steps = &[&["swap", "login", "lure", "stop"]];

/// What each sandbox tries.
const TRY: Steps = &[
    &["read", "open.txt"],
    &["reveal", "<work>/login/key"],
    &["write", "<work>/login/written", "x"],
];

/// Number of sandboxes that start during the exchange, on each backend.
fn runs() -> usize {
    if super::full() { 200 } else { 20 }
}

struct Attacker(Child);

impl Attacker {
    /// In its own sandbox, or unconfined, which no protection of the first sandbox can stop.
    fn start(world: &World, confined: bool) -> Attacker {
        let mut command: Command;
        if confined {
            command = world.command(&binary());
            command
                .args([
                    "sandbox",
                    "run",
                    "--allow-invalid",
                    "--timeout",
                    "120",
                    "--backend",
                    "native",
                ])
                .arg(&world.bundle)
                .arg("--")
                .arg(probe());
        } else {
            command = world.command(&probe());
        }
        command.arg("steps").arg(world.steps(SWAP));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Attacker(command.spawn().expect("attacker"))
    }

    /// How often the exchange worked.
    fn stop(self, world: &World) -> u64 {
        std::fs::write(world.path("work/stop"), "").expect("stop");
        let output = self.0.wait_with_output().expect("attacker");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let steps = super::doors::step_results(&text);
        let done = steps.first().filter(|step| step.ok);
        done.and_then(|step| step.how.parse().ok())
            .unwrap_or_else(|| panic!("the attacker printed: {text}"))
    }
}

/// Returns what went wrong.
fn race(backend: Backend, confined: bool, count: usize) -> Option<String> {
    let world = World::new(&RACE);
    world.unconfined(RACE.setup);
    let attacker = Attacker::start(&world, confined);
    let next = AtomicUsize::new(0);
    let before = world.victim();
    let (started, refused, escaped) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let work = || {
        while next.fetch_add(1, Ordering::Relaxed) < count {
            let opened = Opened::new(&world, &RACE, Door::Sandbox, backend);
            let ran = opened.run(TRY, true);
            let place = match ran {
                _ if world.leaks(ran.text()) => &escaped,
                Ran::Steps(..) => &started,
                _ => &refused,
            };
            place.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    let exchanged = attacker.stop(&world);
    let number = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let who = if is_root() { "root" } else { "user" };
    let attacker = if confined { "confined" } else { "unconfined" };
    println!(
        "{who} | race    | {:10} | {attacker} attacker | {count} runs: {} started, {} refused, {} escaped; {exchanged} exchanges",
        backend.as_str(),
        number(&started),
        number(&refused),
        number(&escaped),
    );
    let fault = match () {
        () if number(&escaped) > 0 => "a sandbox got the victim",
        () if world.victim() != before => "the victim changed",
        () if exchanged == 0 && !confined => "nothing was exchanged",
        () if !starts_without_race(&world, backend) => "no sandbox starts without the race",
        () => return None,
    };
    Some(format!("{backend:?}, {attacker} attacker: {fault}"))
}

/// Whether the same sandbox starts when the grant is a directory again.
fn starts_without_race(world: &World, backend: Backend) -> bool {
    let login = world.path("work/login");
    if login.is_symlink() {
        std::fs::remove_file(&login).expect("link");
        std::fs::create_dir(&login).expect("directory");
    }
    let opened = Opened::new(world, &RACE, Door::Sandbox, backend);
    matches!(opened.run(TRY, true), Ran::Steps(..))
}

#[test]
fn twice_race_for_a_grant() {
    let mut faults = Vec::new();
    for backend in super::backends() {
        faults.extend(race(backend, true, runs() / 2));
        faults.extend(race(backend, false, runs() / 2));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Without the protection the race is won: the path is checked, and then used by its name.
#[test]
fn twice_race_control() {
    let world = World::new(&RACE);
    world.unconfined(RACE.setup);
    let attacker = Attacker::start(&world, false);
    let grant = world.path("work/login");
    let won = (0..200_000).position(|_| {
        let checked = std::fs::symlink_metadata(&grant).is_ok_and(|meta| meta.is_dir());
        checked && std::fs::read_to_string(grant.join("key")).is_ok()
    });
    let exchanged = attacker.stop(&world);
    println!("race | control | won at attempt {won:?}, {exchanged} exchanges");
    assert!(won.is_some(), "the race was never won without protection");
}
