//! Preparations in `$AGENTPROTO_HOME`, when the working directory contains it: the token, keys,
//! adapters, tools, packages, workspaces and logs.

use super::preparation::{Control, Door, Preparation, Second, Steps, with};
use Door::{Run as R, Sandbox as S, Serve as V};

/// The state is in the working directory. The host uses what the first run left there.
macro_rules! state {
    ($name:expr, $doors:expr, $setup:expr, $first:expr, $then:expr) => {
        with!(
            Preparation::host($name, $doors, $setup, $first, $then),
            state: "work/state",
        )
    };
}

/// The second run reads the state itself.
macro_rules! seen {
    ($name:expr, $doors:expr, $setup:expr, $first:expr, $second:expr) => {
        with!(
            Preparation::host($name, $doors, $setup, $first, &[]),
            state: "work/state",
            second: Second::Run($second),
        )
    };
}

/// An adapter that grants everything.
const EVIL_ADAPTER: Steps = &[
    &["mkdir", "<state>/adapters/helper"],
    &[
        "copy",
        "<root>/adapters/bundle/ACP.md",
        "<state>/adapters/helper/ACP.md",
    ],
    &[
        "write",
        "<state>/adapters/helper/AGENT-CLI.md",
        "<wide agent>",
    ],
];

pub const PREPARATIONS: &[Preparation] = &[
    seen!(
        "state: read the token",
        &[V],
        &[],
        &[&["list", "<work>"]],
        &[&["read", "open.txt"], &["reveal", "<state>/runtime.json"]]
    ),
    seen!(
        "state: read the key of the secrets",
        &[S, R, V],
        &[
            &["mkdir", "<state>/secrets"],
            &["copy", "<victim>/key", "<state>/secrets/key"]
        ],
        &[&["list", "<work>"]],
        &[&["read", "open.txt"], &["reveal", "<state>/secrets/key"]]
    ),
    seen!(
        "state: the key through the file service",
        &[R, V],
        &[
            &["mkdir", "<state>/secrets"],
            &["copy", "<victim>/key", "<state>/secrets/key"]
        ],
        &[&["list", "<work>"]],
        &[&["read", "open.txt"], &["acp_read", "<state>/secrets/key"]]
    ),
    seen!(
        "state: rename it out of the way",
        &[S, R],
        &[
            &["mkdir", "<state>/secrets"],
            &["copy", "<victim>/key", "<state>/secrets/key"]
        ],
        &[&["rename", "<state>", "<work>/moved"]],
        &[
            &["read", "open.txt"],
            &["reveal", "<work>/moved/secrets/key"]
        ]
    ),
    seen!(
        "state: a hard link to the key",
        &[S, R],
        &[
            &["mkdir", "<state>/secrets"],
            &["copy", "<victim>/key", "<state>/secrets/key"]
        ],
        &[&["link", "<state>/secrets/key", "<work>/alias"]],
        &[&["read", "open.txt"], &["reveal", "<work>/alias"]]
    ),
    with!(
        Preparation::host(
            "state: the key below a mount",
            &[S, R],
            &[&["mkdir", "<state>/secrets"], &["copy", "<victim>/key", "<state>/secrets/key"]],
            &[&["list", "."]],
            &[],
        ),
        state: "work/state",
        mounted: true,
        second: Second::Run(&[&["read", "open.txt"], &["reveal", "state/secrets/key"]]),
    ),
    state!(
        "state: replace the key",
        &[S, R],
        &[
            &["mkdir", "<state>/secrets"],
            &["write", "<state>/secrets/key", "x"]
        ],
        &[&["write", "<state>/secrets/key", "<payload>"]],
        &[&["read", "<state>/secrets/key"]]
    ),
    state!(
        "state: forge the audit log",
        &[S, R, V],
        &[
            &["mkdir", "<state>/audit"],
            &["write", "<state>/audit/audit-log.jsonl", ""]
        ],
        &[&[
            "append",
            "<state>/audit/audit-log.jsonl",
            "{\"forged\":\"<payload>\"}\n"
        ]],
        &[&["read", "<state>/audit/audit-log.jsonl"]]
    ),
    state!(
        "state: the audit log through the service",
        &[R, V],
        &[
            &["mkdir", "<state>/audit"],
            &["write", "<state>/audit/audit-log.jsonl", ""]
        ],
        &[&[
            "acp_write",
            "<state>/audit/audit-log.jsonl",
            "{\"forged\":\"<payload>\"}\n"
        ]],
        &[&["read", "<state>/audit/audit-log.jsonl"]]
    ),
    with!(
        Preparation::host("state: plant an adapter", &[R, V], &[], EVIL_ADAPTER, &[]),
        state: "work/state",
        second: Second::Run(super::preparation::REACH),
        control: Control::Door,
        target: Some("helper"),
        names: "helper",
    ),
    with!(
        Preparation::policy(
            "state: rewrite an installed adapter",
            &[R, V],
            super::preparation::Kind::Agent29,
            "work/state/adapters/bundle",
            &[&["write", "<manifest>", "<wide>"]],
        ),
        state: "work/state",
    ),
    with!(
        Preparation::host(
            "state: replace it by a link",
            &[R],
            &[],
            &[
                &["mkdir", "evil/adapters/helper"],
                &["copy", "<root>/adapters/bundle/ACP.md", "evil/adapters/helper/ACP.md"],
                &["write", "evil/adapters/helper/AGENT-CLI.md", "<wide agent>"],
                &["rename", "<state>", "old"],
                &["symlink", "evil", "<state>"],
            ],
            &[],
        ),
        state: "work/state",
        second: Second::Run(super::preparation::REACH),
        control: Control::Door,
        target: Some("helper"),
        names: "helper",
    ),
    state!(
        "state: replace an installed tool",
        &[S, R, V],
        &[
            &["mkdir", "<state>/tools/x-1/bin"],
            &["write", "<state>/tools/x-1/bin/x", "#!/bin/sh\n"],
        ],
        &[&["write", "<state>/tools/x-1/bin/x", "<hook>"]],
        &[&["read", "<state>/tools/x-1/bin/x"]]
    ),
    state!(
        "state: replace an npm package",
        &[S, R],
        &[
            &["mkdir", "<state>/npm/x/1.0.0/node_modules/x"],
            &["write", "<state>/npm/x/1.0.0/node_modules/x/index.js", "0"],
        ],
        &[
            &["write", "new", "<payload>"],
            &[
                "rename",
                "new",
                "<state>/npm/x/1.0.0/node_modules/x/index.js"
            ],
        ],
        &[&["read", "<state>/npm/x/1.0.0/node_modules/x/index.js"]]
    ),
    with!(
        Preparation::host(
            "state: register another workspace",
            &[V],
            &[],
            &[&[
                "write",
                "<state>/workspaces.json",
                "{\"version\":1,\"active\":\"evil\",\"workspaces\":[{\"slug\":\"evil\",\"path\":\"<victim>\",\"addedAt\":\"2026-01-01T00:00:00Z\",\"updatedAt\":\"2026-01-01T00:00:00Z\"}]}",
            ]],
            &[],
        ),
        state: "work/state",
        // Relative, so that it works in every workspace.
        second: Second::Run(&[&["list", "."], &["reveal", "key"], &["write", "written", "x"]]),
        control: Control::Door,
        workspace: Some("evil"),
    ),
    state!(
        "state: replace the database of sessions",
        &[R],
        &[&["write", "<state>/sessions.db", "x"]],
        &[&["write", "<state>/sessions.db", "<payload>"]],
        &[&["read", "<state>/sessions.db"]]
    ),
    // The default place, when the working directory is the home directory.
    with!(
        Preparation::host(
            "state: ~/.agentproto below the workspace",
            &[S, R, V],
            &[
                &["mkdir", "<state>/secrets"],
                &["copy", "<victim>/key", "<state>/secrets/key"],
            ],
            &[&["list", "<work>"]],
            &[],
        ),
        state: "work/.agentproto",
        second: Second::Run(&[
            &["read", "open.txt"],
            &["reveal", "<state>/secrets/key"],
            &["reveal", "<state>/runtime.json"],
        ]),
    ),
];
