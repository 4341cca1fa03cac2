//! The second escape matrix: two runs each. The first run may do everything that its policy allows
//! to prepare the second one. Each preparation must be blocked in the first run, refused in the
//! second run, or harmless, and must reach the victim without the protection.
//!
//! By default, the native backend runs every preparation through its first door and through a sample
//! of the others, and bubblewrap runs a sample. The second half, as an unprivileged user, runs smaller
//! samples.
//! `ESCAPE_TWICE=all`, as in `tests/escape/run`, runs everything, and the full number of races.
//! `ESCAPE_TWICE_ONLY=TEXT` runs the preparations whose name contains the text, on both backends.

mod doors;
mod links;
mod policy;
mod preparation;
mod race;
mod repository;
mod siblings;
mod state;
mod verdict;
mod world;

use agentproto_sandbox::Backend;

use preparation::{Door, Preparation};

/// Whether everything runs.
fn full() -> bool {
    std::env::var("ESCAPE_TWICE").is_ok_and(|depth| depth == "all")
}

/// Text that the names of the preparations must contain.
fn only() -> String {
    std::env::var("ESCAPE_TWICE_ONLY").unwrap_or_default()
}

/// Whether a preparation runs on a backend, through its first door or another one.
fn chosen(index: usize, backend: Backend, first_door: bool) -> bool {
    let second_half = std::env::var_os(crate::accounts::PROBE).is_some();
    let sample = match backend {
        Backend::Native if second_half => index.is_multiple_of(if first_door { 2 } else { 6 }),
        Backend::Native => first_door || index.is_multiple_of(3),
        Backend::Bubblewrap => index.is_multiple_of(8),
    };
    sample || full() || !only().is_empty()
}

fn all() -> impl Iterator<Item = &'static Preparation> {
    let tables: [&[Preparation]; 4] = [
        policy::PREPARATIONS,
        repository::PREPARATIONS,
        state::PREPARATIONS,
        links::PREPARATIONS,
    ];
    tables.into_iter().flatten()
}

/// The backends that agentproto accepts on this machine.
fn backends() -> Vec<Backend> {
    match doors::bubblewrap_refused() {
        None => Backend::ALL.to_vec(),
        Some(why) => {
            assert!(!full(), "bubblewrap cannot be used: {why}");
            println!("bubblewrap is not tested, because agentproto refuses it here: {why}");
            vec![Backend::Native]
        }
    }
}

fn through(door: Door, count: usize) {
    let of_door = || all().filter(|preparation| preparation.doors.contains(&door));
    assert_eq!(of_door().count(), count, "preparations of {door:?}");
    let siblings = siblings::SIBLINGS
        .iter()
        .filter(|sibling| sibling.doors.contains(&door));
    let chosen: Vec<Preparation> = of_door()
        .chain(siblings)
        .filter(|preparation| preparation.name.contains(&only()))
        .copied()
        .collect();
    verdict::table(door, &chosen, &backends());
}

/// No preparation disappears, and no two have the same name.
#[test]
fn twice_the_preparations_are_complete() {
    let mut names: Vec<&str> = all().map(|preparation| preparation.name).collect();
    assert_eq!(names.len(), PREPARATIONS);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), PREPARATIONS, "a name is used twice");
    assert!(all().all(|preparation| !preparation.doors.is_empty()));
    assert_eq!(siblings::SIBLINGS.len(), 13);
    let guide = include_str!("../../../docs/sandbox.md");
    let joined = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    for limit in all().filter_map(|preparation| preparation.known) {
        assert!(joined.contains(limit), "docs/sandbox.md must say: {limit}");
    }
}

const PREPARATIONS: usize = 123;

#[test]
fn twice_through_sandbox_run() {
    through(Door::Sandbox, 91);
}

#[test]
fn twice_through_run() {
    through(Door::Run, 82);
}

#[test]
fn twice_through_serve() {
    through(Door::Serve, 43);
}

/// A backend that is refused runs nothing.
#[test]
fn twice_a_refused_backend_runs_nothing() {
    if doors::bubblewrap_refused().is_none() {
        println!("bubblewrap is not refused here, so the matrix uses it");
        return;
    }
    let preparation = siblings::SIBLINGS.first().expect("a sibling");
    let world = world::World::new(preparation);
    let opened = doors::Opened::new(&world, preparation, Door::Sandbox, Backend::Bubblewrap);
    let ran = opened.run(&[&["write", "made", "x"]], false);
    assert!(
        matches!(&ran, doors::Ran::Refused { code, .. } if code == "sandbox_unenforceable"),
        "{ran:?}"
    );
    assert!(!world.path("work/made").exists());
}
