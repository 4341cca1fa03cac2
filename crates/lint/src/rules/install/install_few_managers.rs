//! Few package managers are covered.

use crate::context::{Context, Draft};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{Doctype, Entry, Node};

pub static INSTALL_FEW_MANAGERS: Rule = Rule {
    slug: "install-few-managers",
    title: "Few package managers are covered",
    severity: Severity::Info,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Authoring with SKILL.md",
    },
    decides: &["A29-SKILL-01"],
    doctypes: &[Doctype::Cli],
    scope: Scope::CrossField,
    docs: include_str!("install-few-managers.md"),
    ..Rule::BASE
};

/// Methods that name a package of a package manager.
const MANAGERS: [&str; 10] = [
    "brew", "apt", "dnf", "pacman", "choco", "scoop", "npm", "pip", "cargo", "go",
];

pub(super) fn few_managers<'d>(ctx: &Context<'d>, entry: &'d Entry, methods: &[Node]) {
    let (mut managers, mut download, mut own) = (0_u16, false, 0);
    for method in methods {
        match method.str_at(&["method"]) {
            Some("download") => download = true,
            Some("vendored") => own += 1,
            Some(name) => {
                if let Some(i) = MANAGERS.iter().position(|known| *known == name) {
                    managers |= 1 << i;
                }
            }
            None => {}
        }
    }
    // A binary that ships with the bundle is in no package manager.
    let found = managers.count_ones();
    if methods.len() == own || (found >= 3 && download) {
        return;
    }
    let message = match (found >= 3, download) {
        (true, _) => {
            "there is no `download` for machines without these package managers".to_owned()
        }
        (false, true) => format!("only {found} package manager(s) are covered"),
        (false, false) => {
            format!("only {found} package manager(s) are covered, and there is no `download`")
        }
    };
    ctx.report(
        Draft::new(&INSTALL_FEW_MANAGERS, entry, message)
            .help("cover at least three package managers and a `download` as the last resort"),
    );
}
