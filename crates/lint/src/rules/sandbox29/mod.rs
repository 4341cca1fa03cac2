//! The AIP-29 sandbox: network, files, child processes, environment.

mod catalog;
mod words;

use catalog::*;
use words::{EgressFault, egress_fault, holds_secret, is_everything, literal_head};
pub(super) use words::{has_secret_name, wildcard_covers};

use crate::context::{Context, Draft};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::{Violation, draft};
use agentproto_manifest::globs;
use agentproto_manifest::{Doctype, Node};
use agentproto_text::short;

pub static FAMILY: Family = Family {
    name: "sandbox29",
    rules: &[
        &REQUIRED_BLOCKS,
        &EXEC_ALLOW_REQUIRED,
        &SPAWN_WITHOUT_ALLOW,
        &ALLOW_NO_SPAWN_LIST,
        &SPAWN_PRIVILEGED,
        &EGRESS_WILDCARD,
        &EGRESS_CIDR_PORT_SCHEME,
        &INGRESS_URL,
        &FS_GLOB_INVALID,
        &FS_BROAD_WRITE,
        &DENY_SHADOWS,
        &ENV_SET_SECRET,
        &ENV_PASS_AND_SET,
        &SSH_NOT_DENIED,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Cli, Doctype::Tool],
        run: check,
    }],
};

fn required_block<'d>(ctx: &Context<'d>, violation: &Violation<'d>) {
    let Some(block) = violation.missing.as_deref() else {
        return ctx.report(draft(ctx, violation));
    };
    // The narrowest value that the schema takes.
    let empty = if block == "exec" {
        "{allow: false}"
    } else {
        "{}"
    };
    let report = Draft::new(
        &REQUIRED_BLOCKS,
        violation.place.clone(),
        format!("`sandbox` does not name the block `{block}`"),
    )
    .help(format!(
        "add `{block}: {empty}` if nothing is to be granted"
    ))
    .fix_if(
        Safety::Safe,
        format!("Add `{block}: {empty}`"),
        edits::add_entry(ctx.doc, violation.node, block, empty),
    );
    ctx.report(report);
}

fn allow_required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        draft(ctx, v).help("add `allow: false`, or `allow: true` with the programs in `spawn`"),
    );
}

fn check(ctx: &Context<'_>) {
    let Some(sandbox) = ctx.root.get("sandbox") else {
        return;
    };
    if let Some(egress) = sandbox.at(&["network", "egress"]) {
        check_egress(ctx, egress);
    }
    if let Some(ingress) = sandbox.at(&["network", "ingress"]) {
        check_ingress(ctx, ingress);
    }
    if let Some(fs) = sandbox.get("fs") {
        check_fs(ctx, fs);
    }
    if let Some(exec) = sandbox.get("exec") {
        check_exec(ctx, exec);
    }
    if let Some(env) = sandbox.get("env") {
        check_env(ctx, env);
    }
}

fn check_egress<'d>(ctx: &Context<'d>, egress: &'d Node) {
    for (host, node) in egress.strings() {
        if is_everything(host) {
            let report = Draft::new(
                &EGRESS_WILDCARD,
                node,
                format!("`{host}` opens outbound traffic to every host"),
            )
            .help("name the hosts that the command calls, or a glob below their domain");
            ctx.report(report);
        } else if let Some(fault) = egress_fault(host) {
            ctx.report(egress_report(node, host, fault));
        }
    }
}

fn check_ingress<'d>(ctx: &Context<'d>, ingress: &'d Node) {
    for (url, node) in ingress.strings() {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme.is_empty() {
            let report = Draft::new(
                &INGRESS_URL,
                node,
                format!("the ingress entry `{}` is not a URL", short(url, 60)),
            )
            .help(
                "write the URL that has to be reachable, as in `https://callback.example.com/cli`",
            );
            ctx.report(report);
        }
    }
}

fn egress_report<'d>(node: &'d Node, host: &str, fault: EgressFault<'_>) -> Draft<'d> {
    let (what, help) = match fault {
        EgressFault::Empty => (
            "is empty".to_owned(),
            "name a host, or remove the entry".to_owned(),
        ),
        EgressFault::Scheme(name) => (
            "has a scheme; egress takes host names and globs only".to_owned(),
            format!("write `{name}`"),
        ),
        EgressFault::Cidr => (
            "is a CIDR block; version 1 takes host names and globs only".to_owned(),
            "name the hosts instead".to_owned(),
        ),
        EgressFault::Path(name) => (
            "has a path; egress takes host names and globs only".to_owned(),
            format!("write `{name}`"),
        ),
        EgressFault::Port(name) => (
            "has a port; version 1 has no rules for ports".to_owned(),
            format!("write `{name}`"),
        ),
        EgressFault::Character(c) => (
            format!("has the character `{c}`, which no host name or glob has"),
            "write a host name, or a glob such as `*.example.com`".to_owned(),
        ),
    };
    let host = short(host, 60);
    Draft::new(
        &EGRESS_CIDR_PORT_SCHEME,
        node,
        format!("the egress entry `{host}` {what}"),
    )
    .help(help)
}

fn check_fs<'d>(ctx: &Context<'d>, fs: &'d Node) {
    let deny = fs.get("deny");
    for list in ["read", "write", "deny"] {
        let Some(entries) = fs.get(list) else {
            continue;
        };
        for (glob, node) in entries.strings() {
            let plain = !glob.is_empty() && !glob.contains(['[', ']', '{', '}', '\\', '\0']);
            if !plain && !globs::is_valid(glob) {
                let message = match glob {
                    "" => format!("an entry of `fs.{list}` is empty"),
                    _ => format!("`{}` is not a well-formed glob", short(glob, 60)),
                };
                let report = Draft::new(&FS_GLOB_INVALID, node, message)
                    .help("close every `[` and `{`; `~/`, `*` and `**` are allowed");
                ctx.report(report);
                continue;
            }
            if list == "deny" {
                continue;
            }
            if list == "write" && covers_root_or_home(glob) {
                let report = Draft::new(
                    &FS_BROAD_WRITE,
                    node,
                    format!("`{glob}` lets the command write to {}", root_or_home(glob)),
                )
                .help("grant the directories that the command really writes to");
                ctx.report(report);
            }
            if let Some(deny) = deny {
                check_shadow(ctx, list, glob, node, deny);
            }
        }
    }
    if ctx.is(Doctype::Cli)
        && let Some(read) = fs.get("read")
    {
        check_ssh(ctx, read, deny);
    }
}

fn check_shadow<'d>(ctx: &Context<'d>, list: &str, glob: &str, node: &'d Node, deny: &'d Node) {
    let head = literal_head(glob);
    for (denied, place) in deny.strings() {
        // What covers a glob shares its beginning; this spares the costly comparison.
        let start = literal_head(denied).trim_end_matches('/');
        let may_cover = head.starts_with(start) || glob.starts_with('$') || denied.starts_with('$');
        if may_cover && globs::covers(denied, glob) {
            let report = Draft::new(
                &DENY_SHADOWS,
                node,
                format!("`fs.{list}` grants `{glob}`, but `fs.deny` takes all of it back"),
            )
            .nearby(place.span, "denied here; deny wins")
            .help("remove the grant, or make the deny entry narrower");
            ctx.report(report);
            return;
        }
    }
}

fn covers_root_or_home(glob: &str) -> bool {
    matches!(
        glob,
        "/" | "/*"
            | "/**"
            | "/**/*"
            | "~"
            | "~/"
            | "~/*"
            | "~/**"
            | "~/**/*"
            | "$HOME"
            | "$HOME/**"
            | "${HOME}"
            | "${HOME}/**"
    )
}

fn root_or_home(glob: &str) -> &'static str {
    if glob.starts_with('/') {
        "the whole disk"
    } else {
        "the whole home directory"
    }
}

/// Where keys are: through `~`, and through the usual parents of home directories.
const KEYS: [&str; 4] = [
    "~/.ssh/id_ed25519",
    "/root/.ssh/id_ed25519",
    "/home/user/.ssh/id_ed25519",
    "/Users/user/.ssh/id_ed25519",
];

fn check_ssh<'d>(ctx: &Context<'d>, read: &'d Node, deny: Option<&'d Node>) {
    for (glob, node) in read.strings() {
        // A grant that names the directory is meant; only a broad one is an oversight.
        if glob.contains(".ssh") || !glob.starts_with(['~', '/', '$']) {
            continue;
        }
        let head = literal_head(glob);
        let reached = KEYS.iter().find(|key| {
            (key.starts_with(head) || glob.starts_with('$')) && globs::matches(glob, key)
        });
        let Some(key) = reached else {
            continue;
        };
        let denied = deny.is_some_and(|deny| {
            deny.strings()
                .any(|(d, _)| globs::matches(d, key) || globs::matches(d, KEYS[0]))
        });
        if !denied {
            let report = Draft::new(
                &SSH_NOT_DENIED,
                node,
                format!("`{glob}` lets the command read the SSH keys"),
            )
            .help("add `~/.ssh/**` to `sandbox.fs.deny`");
            ctx.report(report);
            return;
        }
    }
}

/// Programs that start any program they are told to.
const OPEN_DOORS: [&str; 24] = [
    "sh",
    "bash",
    "zsh",
    "dash",
    "fish",
    "ksh",
    "csh",
    "tcsh",
    "ash",
    "busybox",
    "cmd",
    "powershell",
    "pwsh",
    "sudo",
    "su",
    "doas",
    "pkexec",
    "runas",
    "env",
    "xargs",
    "nohup",
    "setsid",
    "nsenter",
    "chroot",
];

fn check_exec<'d>(ctx: &Context<'d>, exec: &'d Node) {
    let allow = exec.entry("allow");
    let spawn = exec.entry("spawn");
    let allowed = allow.and_then(|e| e.value.as_bool());
    let listed = spawn.is_some_and(|e| !e.value.items().is_empty());
    if let (Some(allow), Some(spawn), Some(false), true) = (allow, spawn, allowed, listed) {
        let report = Draft::new(
            &SPAWN_WITHOUT_ALLOW,
            spawn,
            "`exec.spawn` lists programs, but `exec.allow` is false",
        )
        .nearby(allow.value.span, "no child process may start")
        .help("set `allow: true`, or remove the list");
        ctx.report(report);
    }
    let list_is_empty = spawn.is_none_or(|e| e.value.is_seq() && e.value.items().is_empty());
    if let (Some(allow), Some(true), true, true) =
        (allow, allowed, list_is_empty, ctx.is(Doctype::Cli))
    {
        let report = Draft::new(
            &ALLOW_NO_SPAWN_LIST,
            &allow.value,
            "`exec.allow` is true, but `exec.spawn` names no program",
        )
        .help("list in `spawn` the programs that the command starts, or set `allow: false`");
        ctx.report(report);
    }
    for (program, node) in spawn
        .map_or(&[][..], |e| e.value.items())
        .iter()
        .filter_map(|n| Some((n.as_str()?, n)))
    {
        let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let wild = !name.is_empty() && name.bytes().all(|b| b == b'*');
        if wild || OPEN_DOORS.contains(&name) {
            let report = Draft::new(
                &SPAWN_PRIVILEGED,
                node,
                format!("`{program}` in the spawn list can start any other program"),
            )
            .help("list the programs that it would start in its place");
            ctx.report(report);
        }
    }
}

fn check_env<'d>(ctx: &Context<'d>, env: &'d Node) {
    let Some(set) = env.get("set") else {
        return;
    };
    let pass = env.get("pass");
    for entry in set.entries() {
        if entry
            .value
            .as_str()
            .is_some_and(|value| holds_secret(&entry.key, value))
        {
            let report = Draft::new(
                &ENV_SET_SECRET,
                entry,
                format!("`env.set` writes the secret `{}` into the manifest", entry.key),
            )
            .help(format!(
                "declare it in SECRETS.md and name it in `env.pass`: `{}`; then replace the value that was published",
                entry.key
            ));
            ctx.report(report);
        }
        let passed = pass.and_then(|list| list.strings().find(|(name, _)| *name == entry.key));
        if let Some((name, node)) = passed {
            let report = Draft::new(
                &ENV_PASS_AND_SET,
                entry,
                format!(
                    "`{name}` is set here and passed from the host too; the value set here wins"
                ),
            )
            .nearby(node.span, "passed here")
            .help("keep it in one of the two lists");
            ctx.report(report);
        }
    }
}
