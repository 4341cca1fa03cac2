//! What must still work in two runs: ordinary work close to each protection.

use super::preparation::{Door, Kind, Preparation, with};
use Door::{Run as R, Sandbox as S, Serve as V};

pub const SIBLINGS: &[Preparation] = &[
    Preparation::works(
        "sibling: ordinary files and links, AIP-36",
        &[S, R, V],
        Kind::Agent36,
        &[
            &["mkdir", "notes"],
            &["write", "notes/a", "x"],
            &["rename", "notes/a", "notes/b"],
            &["symlink", "notes/b", "recent"],
            &["link", "notes/b", "notes/c"],
            &["write", ".gitignore", "target\n"],
        ],
        &[
            &["read", "recent"],
            &["read", "notes/c"],
            &["append", "recent", "y"],
        ],
    ),
    Preparation::works(
        "sibling: ordinary files and links, AIP-29",
        &[S, R],
        Kind::Agent29,
        &[
            &["mkdir", "notes"],
            &["write", "notes/a", "x"],
            &["rename", "notes/a", "notes/b"],
            &["symlink", "notes/b", "recent"],
            &["fifo", "pipe"],
        ],
        &[
            &["read", "recent"],
            &["append", "recent", "y"],
            &["unlink", "pipe"],
        ],
    ),
    Preparation::works(
        "sibling: the file service",
        &[R, V],
        Kind::Agent36,
        &[&["acp_write", "notes.txt", "x"], &["acp_read", "notes.txt"]],
        &[&["acp_read", "notes.txt"], &["acp_write", "notes.txt", "y"]],
    ),
    // The bundle is in the working directory, and the rest of the directory is writable.
    with!(
        Preparation::works(
            "sibling: files beside a manifest",
            &[S, R],
            Kind::Agent36,
            &[&["write", "notes.md", "x"], &["mkdir", "docs"], &["write", "docs/CLI.md", "x"]],
            &[&["read", "AGENT-CLI.md"], &["append", "docs/CLI.md", "y"]],
        ),
        bundle: "work",
    ),
    with!(
        Preparation::works(
            "sibling: files beside a policy",
            &[S],
            Kind::Plain,
            &[&["write", "notes.md", "x"], &["rename", "notes.md", "more.md"]],
            &[&["read", "policy.yaml"], &["read", "more.md"]],
        ),
        bundle: "work",
    ),
    with!(
        Preparation::works(
            "sibling: commits",
            &[S, R],
            Kind::Agent36,
            &[
                &["write", "a", "x"],
                &["run", "git", "add", "a"],
                &["run", "git", "commit", "-qm", "inside"],
            ],
            &[
                &["run", "git", "switch", "-qc", "topic"],
                &["append", "a", "y"],
                &["run", "git", "commit", "-qam", "again"],
                &["run", "git", "log", "--oneline"],
            ],
        ),
        setup: &[&[
            "run",
            "sh",
            "-c",
            "git init -q && git config user.name x && git config user.email x@example.org",
        ]],
    ),
    with!(
        Preparation::works(
            "sibling: a cache with its own grant",
            &[S, R],
            Kind::Agent29,
            &[&["write", "cache/a", "x"]],
            &[&["read", "cache/a"], &["unlink", "cache/a"]],
        ),
        setup: &[&["mkdir", "cache"]],
        write: &["./cache/**"],
    ),
    with!(
        Preparation::works(
            "sibling: auth.state.paths",
            &[S, R, V],
            Kind::Agent36,
            &[&["write", "login/a", "x"]],
            &[&["read", "login/a"]],
        ),
        setup: &[&["mkdir", "login"]],
        state_paths: &["./login/**"],
    ),
    // A link of the user, which no sandbox can change.
    with!(
        Preparation::works(
            "sibling: a link outside the grants",
            &[S, R],
            Kind::Agent29,
            &[&["read", "<root>/alias/a"]],
            &[&["read", "<root>/alias/a"]],
        ),
        setup: &[
            &["write", "<root>/shared/a", "x"],
            &["symlink", "<root>/shared", "<root>/alias"],
        ],
        read: &["<root>/alias/**"],
    ),
    with!(
        Preparation::works(
            "sibling: read the settings of an editor",
            &[S],
            Kind::Agent36,
            &[&["read", ".vscode/settings.json"]],
            &[&["read", ".vscode/settings.json"]],
        ),
        setup: &[&["mkdir", ".vscode"], &["write", ".vscode/settings.json", "{}"]],
    ),
    // The state is in the working directory: the rest of it works.
    with!(
        Preparation::works(
            "sibling: beside the state",
            &[S, R, V],
            Kind::Agent36,
            &[&["write", "a", "x"]],
            &[&["read", "a"]],
        ),
        state: "work/state",
    ),
    with!(
        Preparation::works(
            "sibling: an adapter in the state",
            &[R, V],
            Kind::Agent36,
            &[&["write", "a", "x"]],
            &[&["read", "a"], &["read", "<bundle>/SANDBOX.md"]],
        ),
        state: "work/state",
        bundle: "work/state/adapters/bundle",
    ),
    with!(
        Preparation::works(
            "sibling: a registered workspace",
            &[V],
            Kind::Agent36,
            &[&["write", "a", "x"]],
            &[&["read", "a"]],
        ),
        setup: &[&[
            "write",
            "<state>/workspaces.json",
            "{\"version\":1,\"active\":\"one\",\"workspaces\":[{\"slug\":\"one\",\"path\":\"<work>\",\"addedAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\"}]}",
        ]],
        workspace: Some("one"),
    ),
];
