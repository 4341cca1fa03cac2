//! Preparations that the host executes later: git, editors, shells and other agents use what is in
//! the working directory.

use super::preparation::{Door, Kind, Preparation, Steps, with};
use Door::{Run as R, Sandbox as S, Serve as V};

/// The working directory is a repository with one commit.
const INIT: &[&str] = &[
    "run",
    "sh",
    "-c",
    "git init -q && git config user.name x && git config user.email x@example.org && \
     git add open.txt && git commit -qm first",
];
const REPOSITORY: Steps = &[INIT];

/// What a developer does next.
const COMMIT: Steps = &[&["run", "git", "commit", "-q", "--allow-empty", "-m", "next"]];
const STATUS: Steps = &[&["run", "git", "status", "--short"]];

/// A configuration that runs a program at `git status`.
const FSMONITOR: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = echo <payload> > <victim>/executed; false #\n";

/// A repository in the directory `evil`, with this configuration.
const EVIL: &[&str] = &["repository", "evil", FSMONITOR];

/// A repository in the directory `sub`.
const SUB: &[&str] = &[
    "run",
    "sh",
    "-c",
    "git init -q sub && cd sub && git config user.name x && git config user.email x@example.org",
];

/// A file that a program of the host executes or obeys.
macro_rules! planted {
    ($name:expr, $doors:expr, $dir:expr, $path:expr) => {
        Preparation::host(
            $name,
            $doors,
            &[],
            &[&["mkdir", $dir], &["write", $path, "<payload>"]],
            &[&["read", $path]],
        )
    };
}

/// The same, where the file exists.
macro_rules! replaced {
    ($name:expr, $doors:expr, $dir:expr, $path:expr) => {
        Preparation::host(
            $name,
            $doors,
            &[&["mkdir", $dir], &["write", $path, "of the user"]],
            &[&["write", "new", "<payload>"], &["rename", "new", $path]],
            &[&["read", $path]],
        )
    };
}

pub const PREPARATIONS: &[Preparation] = &[
    Preparation::host(
        "git: plant a hook",
        &[S, R, V],
        REPOSITORY,
        &[
            &["write", ".git/hooks/pre-commit", "<hook>"],
            &["chmod", ".git/hooks/pre-commit", "755"],
        ],
        COMMIT,
    ),
    // AIP-29, with the policy outside.
    with!(
        Preparation::host(
            "git: plant a hook under AIP-29",
            &[S, R],
            REPOSITORY,
            &[
                &["write", ".git/hooks/pre-commit", "<hook>"],
                &["chmod", ".git/hooks/pre-commit", "755"],
            ],
            COMMIT,
        ),
        kind: Kind::Agent29,
    ),
    with!(
        Preparation::host(
            "git: plant a hook below a mount",
            &[S, R],
            REPOSITORY,
            &[
                &["write", ".git/hooks/pre-commit", "<hook>"],
                &["chmod", ".git/hooks/pre-commit", "755"],
            ],
            COMMIT,
        ),
        mounted: true,
    ),
    Preparation::host(
        "git: replace the directory of the hooks",
        &[S, R],
        REPOSITORY,
        &[
            &["mkdir", "hooks"],
            &["write", "hooks/pre-commit", "<hook>"],
            &["chmod", "hooks/pre-commit", "755"],
            &["rename", ".git/hooks", "old"],
            &["rename", "hooks", ".git/hooks"],
        ],
        COMMIT,
    ),
    Preparation::host(
        "git: a hook through the file service",
        &[R, V],
        &[
            INIT,
            &["write", ".git/hooks/pre-commit", "#!/bin/sh\n"],
            &["chmod", ".git/hooks/pre-commit", "755"],
        ],
        &[&["acp_write", ".git/hooks/pre-commit", "<hook>"]],
        COMMIT,
    ),
    Preparation::host(
        "git: core.fsmonitor in the configuration",
        &[S, R, V],
        REPOSITORY,
        &[&["write", ".git/config", FSMONITOR]],
        STATUS,
    ),
    Preparation::host(
        "git: rename over the configuration",
        &[S],
        REPOSITORY,
        &[
            &["write", "new", FSMONITOR],
            &["rename", "new", ".git/config"],
        ],
        STATUS,
    ),
    Preparation::host(
        "git: the configuration through the service",
        &[R, V],
        REPOSITORY,
        &[&["acp_write", ".git/config", FSMONITOR]],
        STATUS,
    ),
    Preparation::host(
        "git: core.hooksPath in the configuration",
        &[S, R],
        REPOSITORY,
        &[
            &["append", ".git/config", "[core]\n\thooksPath = hooks\n"],
            &["mkdir", "hooks"],
            &["write", "hooks/pre-commit", "<hook>"],
            &["chmod", "hooks/pre-commit", "755"],
        ],
        COMMIT,
    ),
    Preparation::host(
        "git: config.worktree",
        &[S, R],
        &[
            &["run", "git", "init", "-q"],
            &["run", "git", "config", "extensions.worktreeConfig", "true"],
        ],
        &[&["write", ".git/config.worktree", FSMONITOR]],
        STATUS,
    ),
    Preparation::host(
        "git: replace the whole .git",
        &[S, R],
        REPOSITORY,
        &[
            EVIL,
            &["rename", ".git", "old"],
            &["rename", "evil", ".git"],
        ],
        STATUS,
    ),
    Preparation::host(
        "git: .git becomes a file with a gitdir",
        &[S, R],
        REPOSITORY,
        &[
            EVIL,
            &["append", "evil/config", "\tworktree = <work>\n"],
            &["rename", ".git", "old"],
            &["write", ".git", "gitdir: evil\n"],
        ],
        STATUS,
    ),
    Preparation::host(
        "git: plant .git where there is none",
        &[S, R],
        &[],
        &[EVIL, &["rename", "evil", ".git"]],
        STATUS,
    ),
    // The working directory is a worktree of a repository elsewhere.
    Preparation::host(
        "git: the gitdir of a worktree",
        &[S, R],
        WORKTREE,
        &[
            EVIL,
            &["append", "evil/config", "\tworktree = <work>\n"],
            &["write", ".git", "gitdir: <work>/evil\n"],
        ],
        STATUS,
    ),
    // A worktree below the working directory has its files in `.git/worktrees`.
    Preparation::host(
        "git: the common directory of a worktree",
        &[S, R],
        &[INIT, &["run", "git", "worktree", "add", "-q", "tree"]],
        &[
            EVIL,
            &["write", ".git/worktrees/tree/commondir", "<work>/evil\n"],
        ],
        &[&["run", "git", "-C", "tree", "status", "--short"]],
    ),
    Preparation::host(
        "git: the configuration of a submodule",
        &[S],
        &[
            SUB,
            INIT,
            &["mkdir", ".git/modules"],
            &["rename", "sub/.git", ".git/modules/sub"],
            &["write", "sub/.git", "gitdir: ../.git/modules/sub\n"],
        ],
        &[
            &["write", ".git/modules/sub/config", FSMONITOR],
            &[
                "append",
                ".git/modules/sub/config",
                "\tworktree = ../../../sub\n",
            ],
        ],
        &[&["run", "git", "-C", "sub", "status", "--short"]],
    ),
    Preparation::host(
        "git: a hook of a nested repository",
        &[S, R],
        &[INIT, SUB],
        &[
            &["write", "sub/.git/hooks/pre-commit", "<hook>"],
            &["chmod", "sub/.git/hooks/pre-commit", "755"],
        ],
        &[&[
            "run",
            "git",
            "-C",
            "sub",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "next",
        ]],
    ),
    // An earlier run has set the mode of a reserved name.
    Preparation::host(
        "git: a nested repository that looks like a reserved name",
        &[S, R],
        &[INIT, SUB, &["chmod", "sub/.git", "1555"]],
        &[
            &["chmod", "sub/.git", "755"],
            &["write", "sub/.git/config", FSMONITOR],
        ],
        &[&["run", "git", "-C", "sub", "status", "--short"]],
    ),
    with!(
        Preparation::host(
            "git: a new repository in a subdirectory",
            &[S],
            REPOSITORY,
            &[
                EVIL,
                &["mkdir", "deep"],
                &["rename", "evil", "deep/.git"],
            ],
            &[&["run", "git", "-C", "deep", "status", "--short"]],
        ),
        known: Some(NEW_REPOSITORY),
    ),
    with!(
        Preparation::host(
            "git: a new bare repository",
            &[S],
            REPOSITORY,
            &[
                EVIL,
                &["append", "evil/config", "\tworktree = <work>\n"],
            ],
            &[&["run", "git", "-C", "evil", "status", "--short"]],
        ),
        known: Some(NEW_REPOSITORY),
    ),
    // Editors, shells and other agents.
    // An earlier run has made the directory read-only.
    Preparation::host(
        "editor: plant .vscode/tasks.json in a read-only directory",
        &[S, R],
        &[&["chmod", ".", "555"]],
        &[
            &["chmod", ".", "755"],
            &["mkdir", ".vscode"],
            &["write", ".vscode/tasks.json", "<payload>"],
        ],
        &[&["read", ".vscode/tasks.json"]],
    ),
    planted!(
        "editor: plant .vscode/tasks.json",
        &[S, R, V],
        ".vscode",
        ".vscode/tasks.json"
    ),
    replaced!(
        "editor: replace .vscode/settings.json",
        &[S, R],
        ".vscode",
        ".vscode/settings.json"
    ),
    Preparation::host(
        "editor: .vscode through the file service",
        &[R, V],
        &[&["mkdir", ".vscode"]],
        &[&["acp_write", ".vscode/tasks.json", "<payload>"]],
        &[&["read", ".vscode/tasks.json"]],
    ),
    Preparation::host(
        "editor: .vscode becomes a link",
        &[S],
        &[&["mkdir", ".vscode"]],
        &[
            &["mkdir", "evil"],
            &["write", "evil/tasks.json", "<payload>"],
            &["rmdir", ".vscode"],
            &["symlink", "evil", ".vscode"],
        ],
        &[&["read", ".vscode/tasks.json"]],
    ),
    planted!(
        "editor: plant .idea/workspace.xml",
        &[S],
        ".idea",
        ".idea/workspace.xml"
    ),
    planted!(
        "agent: plant .claude/settings.json",
        &[S, R, V],
        ".claude",
        ".claude/settings.json"
    ),
    replaced!(
        "agent: replace .claude/settings.json",
        &[R],
        ".claude",
        ".claude/settings.json"
    ),
    planted!(
        "agent: plant .cursor/mcp.json",
        &[S],
        ".cursor",
        ".cursor/mcp.json"
    ),
    planted!("agent: plant .mcp.json", &[S, R], ".", ".mcp.json"),
    planted!("shell: plant .envrc", &[S, R], ".", ".envrc"),
    replaced!(
        "git: replace .husky/pre-commit",
        &[S],
        ".husky",
        ".husky/pre-commit"
    ),
];

/// The limit, as docs/sandbox.md states it.
const NEW_REPOSITORY: &str = "A program can make a new repository in a directory of its own.";

/// A repository elsewhere, of which the working directory becomes a worktree.
const WORKTREE: Steps = &[
    &[
        "run",
        "sh",
        "-c",
        "cd <root>/shared && git init -q repo && cd repo && git config user.name x && \
         git config user.email x@example.org && git commit -q --allow-empty -m first && \
         git worktree add -q ../tree",
    ],
    &["rename", "<root>/shared/tree/.git", "<work>/.git"],
];
