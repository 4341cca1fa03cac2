//! Rule `install-few-managers`: `install` lists fewer than three package managers or no `download`.

use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Level, Rule, Scope, Severity, Source};
use agentproto_manifest::{Doctype, Entry, Node};

pub static INSTALL_FEW_MANAGERS: Rule = Rule {
    slug: "install-few-managers",
    title: "`install` lists fewer than three package managers or no `download`",
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

pub(super) fn few_managers<'d>(ctx: &RuleContext<'d>, entry: &'d Entry, methods: &[Node]) {
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
    // A bundle that ships its binary does not need package managers.
    let found = managers.count_ones();
    if methods.len() == own || (found >= 3 && download) {
        return;
    }
    let managers = match found {
        0 => "no package manager".to_owned(),
        1 => "only one package manager".to_owned(),
        found => format!("only {found} package managers"),
    };
    let message = match (found >= 3, download) {
        (true, _) => {
            "`install` has no `download` for machines without these package managers".to_owned()
        }
        (false, true) => format!("`install` covers {managers}"),
        (false, false) => format!("`install` covers {managers} and has no `download`"),
    };
    ctx.report(
        FindingDraft::new(&INSTALL_FEW_MANAGERS, entry, message)
            .help("list at least three package managers, and a `download` as the fallback"),
    );
}
