//! Preparations that put a link, a FIFO or another directory in the place of a grant.

use super::preparation::{Control, Door, Kind, Preparation, Second, with};
use Door::{Run as R, Sandbox as S, Serve as V};

/// Reaches the victim through a granted name.
macro_rules! through {
    ($path:expr) => {
        Second::Run(&[
            &["read", "open.txt"],
            &["reveal", concat!($path, "/key")],
            &["reveal", "<victim>/key"],
            &["write", concat!($path, "/written"), "x"],
            &["write", "<victim>/written", "x"],
        ])
    };
}

pub const PREPARATIONS: &[Preparation] = &[
    with!(
        Preparation::link(
            "link: a cache with its own grant",
            &[S, R, V],
            Kind::Agent29,
            "<work>/cache",
            &[&["rmdir", "cache"], &["symlink", "<victim>", "cache"]],
        ),
        setup: &[&["mkdir", "cache"]],
        write: &["./cache/**"],
        second: through!("cache"),
    ),
    with!(
        Preparation::link(
            "link: a policy file with such a cache",
            &[S],
            Kind::Plain,
            "<work>/cache",
            &[&["rename", "cache", "old"], &["symlink", "../victim", "cache"]],
        ),
        setup: &[&["mkdir", "cache"]],
        write: &["./cache/**"],
        second: through!("cache"),
    ),
    with!(
        Preparation::link(
            "link: an exchange with the cache",
            &[S],
            Kind::Agent29,
            "<work>/cache",
            &[&["symlink", "<victim>", "new"], &["exchange", "new", "cache"]],
        ),
        setup: &[&["mkdir", "cache"]],
        write: &["./cache/**"],
        second: through!("cache"),
    ),
    with!(
        Preparation::link(
            "link: a directory for reading",
            &[S, R],
            Kind::Agent29,
            "<work>/data",
            &[&["rmdir", "data"], &["symlink", "<victim>", "data"]],
        ),
        setup: &[&["mkdir", "data"]],
        read: &["./data/**"],
        second: through!("data"),
    ),
    with!(
        Preparation::link(
            "link: a single file for reading",
            &[S, R, V],
            Kind::Agent29,
            "<work>/input.txt",
            &[&["unlink", "input.txt"], &["symlink", "<victim>/key", "input.txt"]],
        ),
        setup: &[&["write", "input.txt", "x"]],
        read: &["./input.txt"],
        second: Second::Run(&[&["read", "open.txt"], &["reveal", "input.txt"]]),
    ),
    with!(
        Preparation::link(
            "link: the parent of a grant",
            &[S, R],
            Kind::Agent29,
            "<work>/deep",
            &[&["rename", "deep", "old"], &["symlink", "<victim>", "deep"]],
        ),
        setup: &[&["mkdir", "deep/cache"]],
        write: &["./deep/cache/**"],
        second: through!("deep/cache"),
    ),
    with!(
        Preparation::link(
            "link: the parent of a missing directory",
            &[S, R],
            Kind::Agent29,
            "<work>/deep",
            &[&["rename", "deep", "old"], &["symlink", "<victim>", "deep"]],
        ),
        setup: &[&["mkdir", "deep"]],
        write: &["./deep/made/**"],
        second: Second::Run(&[
            &["read", "open.txt"],
            &["mkdir", "deep/made"],
            &["write", "deep/made/written", "x"],
        ]),
    ),
    with!(
        Preparation::link(
            "link: the directory of a wildcard",
            &[S],
            Kind::Agent29,
            "<work>/conf",
            &[&["rename", "conf", "old"], &["symlink", "<victim>", "conf"]],
        ),
        setup: &[&["mkdir", "conf"], &["write", "conf/a.txt", "x"]],
        read: &["./conf/*.txt"],
        second: Second::Run(&[&["read", "open.txt"], &["reveal", "conf/key.txt"]]),
    ),
    with!(
        Preparation::link(
            "link: from one grant into another",
            &[S, R],
            Kind::Agent29,
            "<root>/other/data",
            &[&["rmdir", "<root>/other/data"], &["symlink", "<victim>", "<root>/other/data"]],
        ),
        setup: &[&["mkdir", "<root>/other/data"]],
        write: &["<root>/other/**", "<root>/other/data/**"],
        second: through!("<root>/other/data"),
    ),
    with!(
        Preparation::link(
            "link: a chain of two links",
            &[S],
            Kind::Agent29,
            "<work>/cache",
            &[
                &["symlink", "<victim>", "step"],
                &["rmdir", "cache"],
                &["symlink", "step", "cache"],
            ],
        ),
        setup: &[&["mkdir", "cache"]],
        write: &["./cache/**"],
        second: through!("cache"),
    ),
    with!(
        Preparation::link(
            "link: auth.state.paths under AIP-36",
            &[S, R, V],
            Kind::Agent36,
            "<work>/login",
            &[&["rmdir", "login"], &["symlink", "<victim>", "login"]],
        ),
        setup: &[&["mkdir", "login"]],
        state_paths: &["./login/**"],
        second: through!("login"),
    ),
    with!(
        Preparation::link(
            "link: auth.state.paths under AIP-29",
            &[S, R],
            Kind::Agent29,
            "<work>/login",
            &[&["rmdir", "login"], &["symlink", "<victim>", "login"]],
        ),
        setup: &[&["mkdir", "login"]],
        state_paths: &["./login/**"],
        second: through!("login"),
    ),
    with!(
        Preparation::link(
            "link: a missing auth.state.paths",
            &[R, V],
            Kind::Agent36,
            "<work>/login",
            &[&["symlink", "<victim>", "login"]],
        ),
        state_paths: &["./login/**"],
        second: through!("login"),
    ),
    // The workspace has another path inside, where the grant is not a mount of its own.
    with!(
        Preparation::link(
            "link: auth.state.paths below a mount",
            &[S, R, V],
            Kind::Agent36,
            "<work>/login",
            &[&["rename", "login", "old"], &["symlink", "<victim>", "login"]],
        ),
        setup: &[&["mkdir", "login"]],
        state_paths: &["./login/**"],
        mounted: true,
        second: Second::Run(&[
            &["read", "open.txt"],
            &["reveal", "<work>/login/key"],
            &["write", "<work>/login/written", "x"],
        ]),
    ),
    with!(
        Preparation::link(
            "link: a terminal below a mount",
            &[R, V],
            Kind::Agent36,
            "<work>/login",
            &[
                &["rename", "login", "old"],
                &["symlink", "<victim>", "login"],
                &["terminal", "<probe>", "steps", "[[\"reveal\",\"<work>/login/key\"],[\"write\",\"<work>/login/written\",\"x\"]]"],
            ],
        ),
        setup: &[&["mkdir", "login"]],
        state_paths: &["./login/**"],
        mounted: true,
        second: Second::Run(&[
            &["read", "open.txt"],
            &["reveal", "<work>/login/key"],
            &["write", "<work>/login/written", "x"],
        ]),
    ),
    // A terminal of the same session uses the policy again.
    with!(
        Preparation::link(
            "link: a terminal after the exchange",
            &[R, V],
            Kind::Agent36,
            "<work>/login",
            &[
                &["rename", "login", "old"],
                &["symlink", "<victim>", "login"],
                &["terminal", "<probe>", "steps", "[[\"reveal\",\"login/key\"],[\"write\",\"login/written\",\"x\"]]"],
            ],
        ),
        setup: &[&["mkdir", "login"]],
        state_paths: &["./login/**"],
        second: through!("login"),
    ),
    // What a denial hides must stay hidden under another name.
    with!(
        Preparation::link(
            "denial: rename the directory above",
            &[S, R],
            Kind::Agent29,
            "<work>/deep",
            &[&["rename", "deep", "moved"]],
        ),
        setup: &[&["mkdir", "deep/middle"], &["copy", "<victim>/key", "deep/middle/secret"]],
        deny: &["./deep/middle/secret"],
        second: Second::Run(&[
            &["read", "open.txt"],
            &["reveal", "moved/middle/secret"],
        ]),
    ),
    with!(
        Preparation::link(
            "denial: replace the directory by a link",
            &[S, R],
            Kind::Agent29,
            "<work>/deep",
            &[&["rename", "deep", "moved"], &["symlink", "open.txt", "deep"]],
        ),
        setup: &[&["mkdir", "deep"], &["copy", "<victim>/key", "deep/secret"]],
        deny: &["./deep/secret"],
        second: Second::Run(&[&["read", "open.txt"], &["reveal", "moved/secret"]]),
    ),
    with!(
        Preparation::link(
            "denial: a hard link to the file",
            &[S, R],
            Kind::Agent29,
            "<work>/secret",
            &[&["link", "secret", "alias"]],
        ),
        setup: &[&["copy", "<victim>/key", "secret"]],
        deny: &["./secret"],
        second: Second::Run(&[&["read", "open.txt"], &["reveal", "alias"]]),
    ),
    // FIFOs: a host process reads what the sandbox writes.
    with!(
        Preparation::link(
            "FIFO: in a directory for reading",
            &[S, R],
            Kind::Agent29,
            "<root>/shared/fifo",
            &[&["list", "<root>/shared"]],
        ),
        setup: &[&["fifo", "<root>/shared/fifo"]],
        refused_at_once: true,
        read: &["<root>/shared/**"],
        second: Second::Fifo(
            "<root>/shared/fifo",
            &[&["read", "open.txt"], &["put", "<root>/shared/fifo", "<payload>"]],
        ),
    ),
    with!(
        Preparation::link(
            "FIFO: a file becomes a link to one",
            &[S],
            Kind::Agent29,
            "<work>/pipe",
            &[&["unlink", "pipe"], &["symlink", "<victim>/fifo", "pipe"]],
        ),
        setup: &[&["write", "pipe", ""], &["fifo", "<victim>/fifo"]],
        write: &["./pipe"],
        second: Second::Fifo(
            "<victim>/fifo",
            &[&["read", "open.txt"], &["put", "pipe", "<payload>"]],
        ),
    ),
    with!(
        Preparation::link(
            "FIFO: in the place of a file for reading",
            &[S, R],
            Kind::Agent29,
            "<work>/input.txt",
            &[&["unlink", "input.txt"], &["fifo", "input.txt"]],
        ),
        setup: &[&["write", "input.txt", "x"]],
        read: &["./input.txt"],
        second: Second::Run(&[&["read", "open.txt"], &["read", "input.txt"]]),
        control: Control::None("the second run must not wait for it"),
    ),
    // Registered workspaces, one inside the other.
    with!(
        Preparation::link(
            "workspace: an inner one becomes a link",
            &[V],
            Kind::Agent36,
            "<work>/inner",
            &[&["rmdir", "inner"], &["symlink", "<victim>", "inner"]],
        ),
        setup: NESTED,
        second: Second::Run(&[
            &["list", "."],
            &["reveal", "<work>/inner/key"],
            &["reveal", "key"],
            &["write", "<work>/inner/written", "x"],
        ]),
        workspace: Some("inner"),
        refused_at_once: true,
    ),
    with!(
        Preparation::link(
            "workspace: the parent of an inner one",
            &[V],
            Kind::Agent36,
            "<work>/deep",
            &[&["rename", "deep", "old"], &["symlink", "<victim>", "deep"]],
        ),
        setup: &[
            &["mkdir", "deep/cache"],
            &["write", "<state>/workspaces.json", "{\"version\":1,\"active\":\"inner\",\"workspaces\":[{\"slug\":\"inner\",\"path\":\"<work>/deep/cache\",\"addedAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\"}]}"],
        ],
        second: Second::Run(&[
            &["list", "."],
            &["reveal", "<work>/deep/cache/key"],
            &["reveal", "key"],
            &["write", "<work>/deep/cache/written", "x"],
        ]),
        workspace: Some("inner"),
        refused_at_once: true,
    ),
    // A bundle that is a link into the writable directory.
    with!(
        Preparation::policy(
            "link: a bundle that is a link to the workspace",
            &[S, R],
            Kind::Agent29,
            "adapters/bundle",
            &[&["write", "pack/AGENT-CLI.md", "<wide>"]],
        ),
        setup: &[
            &["rename", "<root>/adapters/bundle", "pack"],
            &["symlink", "<work>/pack", "<root>/adapters/bundle"],
        ],
        control: Control::Door,
        refused_at_once: true,
    ),
];

/// `outer` is the working directory, and `inner` is in it.
const NESTED: super::preparation::Steps = &[
    &["mkdir", "inner"],
    &[
        "write",
        "<state>/workspaces.json",
        "{\"version\":1,\"active\":\"outer\",\"workspaces\":[{\"slug\":\"outer\",\"path\":\"<work>\",\"addedAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\"},{\"slug\":\"inner\",\"path\":\"<work>/inner\",\"addedAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\"}]}",
    ],
];
