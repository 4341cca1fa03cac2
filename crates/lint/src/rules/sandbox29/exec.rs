//! `sb29-spawn-without-allow`, `sb29-allow-no-spawn-list`, `sb29-spawn-privileged`.

use super::{BOTH, SANDBOX};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{Doctype, Node};

pub static SPAWN_WITHOUT_ALLOW: Rule = Rule {
    slug: "sb29-spawn-without-allow",
    title: "`exec.spawn` lists programs, but `exec.allow` is false",
    severity: Severity::Warning,
    level: Level::May,
    source: SANDBOX,
    decides: &["A29-SBX-09"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    docs: include_str!("sb29-spawn-without-allow.md"),
    ..Rule::BASE
};

pub static ALLOW_NO_SPAWN_LIST: Rule = Rule {
    slug: "sb29-allow-no-spawn-list",
    title: "`exec.allow` is true, but `exec.spawn` lists no programs",
    severity: Severity::Warning,
    level: Level::May,
    source: SANDBOX,
    decides: &["A29-SBX-09"],
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossField,
    docs: include_str!("sb29-allow-no-spawn-list.md"),
    ..Rule::BASE
};

pub static SPAWN_PRIVILEGED: Rule = Rule {
    slug: "sb29-spawn-privileged",
    title: "`exec.spawn` lists a program that can start any other program",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Security considerations",
    },
    decides: &["A29-SEC-08"],
    doctypes: BOTH,
    docs: include_str!("sb29-spawn-privileged.md"),
    ..Rule::BASE
};

/// Programs that can start any other program.
const UNRESTRICTED_PROGRAMS: [&str; 24] = [
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

pub(super) fn check_exec<'d>(ctx: &RuleContext<'d>, exec: &'d Node) {
    let allow = exec.entry("allow");
    let spawn = exec.entry("spawn");
    let allowed = allow.and_then(|e| e.value.as_bool());
    let listed = spawn.is_some_and(|e| !e.value.items().is_empty());
    if let (Some(allow), Some(spawn), Some(false), true) = (allow, spawn, allowed, listed) {
        let report = FindingDraft::new(
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
        let report = FindingDraft::new(
            &ALLOW_NO_SPAWN_LIST,
            &allow.value,
            "`exec.allow` is true, but `exec.spawn` lists no programs",
        )
        .help("list the programs that the command starts in `spawn`, or set `allow: false`");
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
        if wild || UNRESTRICTED_PROGRAMS.contains(&name) {
            let report = FindingDraft::new(
                &SPAWN_PRIVILEGED,
                node,
                format!("`{program}` in `exec.spawn` can start any other program"),
            )
            .help(format!(
                "instead of `{program}`, list the programs that it starts"
            ));
            ctx.report(report);
        }
    }
}
