//! Every requirement that counts as proven has something that fails if its check is removed:
//!
//! - a lint rule or an AOI check: a mutant that names the requirement and that only this check finds
//! - a case or monitor of a suite: a mutant that names the requirement, or a requirement that the
//!   suite states to be the same (`register`), or the monitor that checks it (`watched`)
//! - everything else: a test whose first statement is `proves!`
//!
//! The list is `suites/proofs.tsv`, which `agentproto coverage` reads. The tests of the mutants are
//! in `crates/lint/tests/lint/rules.rs`, `tests/judges` and `tests/selftest`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use agentproto_harness::suite::{Suite, built_in, names};
use agentproto_lint::registry;
use agentproto_mock::{AgentKind, mutants};
use agentproto_selftest::{lifecycle, sessions};
use agentproto_suites::{Requirement, can_prove, proofs, register};
use serde::Deserialize;

use crate::proof_lines;

/// Id, kind and proof, as in a line of `suites/proofs.tsv`.
type Rows = BTreeSet<(String, String, String)>;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn registered() -> BTreeMap<&'static str, Requirement> {
    register().map(|row| (row.id, row)).collect()
}

/// A mutant or conforming variant of the linter. `crates/lint/tests/lint/common/cases.rs` has all
/// its fields.
#[derive(Deserialize)]
struct LintCase {
    rule: String,
    #[serde(default)]
    spare: bool,
    #[serde(default)]
    requirements: Vec<String>,
}

/// The requirements that a mutant of a rule or check violates: those that it names, or else the
/// only one that the rule decides. A mutant always shows that a linter's own duty is done.
fn violated<'a>(
    named: impl Iterator<Item = &'a str>,
    decides: &'a [&'a str],
    all: &BTreeMap<&str, Requirement>,
) -> BTreeSet<&'a str> {
    let mut ids: BTreeSet<&str> = named.collect();
    for id in &ids {
        assert!(
            decides.contains(id),
            "a mutant names {id}, but its rule decides {decides:?}"
        );
    }
    if let ([only], true) = (decides, ids.is_empty()) {
        ids.insert(only);
    }
    let duties = decides
        .iter()
        .filter(|id| all.get(**id).is_some_and(|row| row.binds == "linter"));
    ids.extend(duties);
    ids
}

fn by_rules(rows: &mut Rows) {
    let all = registered();
    for entry in std::fs::read_dir(root().join("fixtures/mutants"))
        .expect("mutants")
        .flatten()
    {
        let text = std::fs::read_to_string(entry.path()).expect("readable");
        let cases: Vec<LintCase> = serde_yaml::from_str(&text).expect("a list of mutants");
        for case in cases {
            let rule = registry::find(&case.rule).expect("a known rule");
            let named = case.requirements.iter().map(String::as_str);
            let ids: BTreeSet<&str> = match case.spare {
                // A conforming variant shows that a permission is granted.
                true => named.collect(),
                false => violated(named, rule.decides, &all),
            };
            for id in ids {
                let is_permission = all.get(id).is_some_and(|row| row.level == "MAY");
                assert!(
                    !case.spare || is_permission,
                    "a conforming variant of {} names {id}, which is not a MAY",
                    rule.slug
                );
                rows.insert((id.to_owned(), "rule".to_owned(), rule.slug.to_owned()));
            }
        }
    }
}

fn by_checks(rows: &mut Rows) {
    let all = registered();
    for mutant in mutants::aoi::all() {
        let rule = agentproto_aoi::rules::find(mutant.requirement).expect("a known rule");
        for id in violated(mutant.violates.iter().copied(), rule.requirement_ids, &all) {
            rows.insert((id.to_owned(), "check".to_owned(), rule.id.to_owned()));
        }
    }
}

/// Requirements of the suites that mutants break, with the name of the suite.
fn broken() -> BTreeSet<(&'static str, &'static str)> {
    let mut broken = BTreeSet::new();
    for (kind, suites) in [
        (AgentKind::Acp, &["acp", "open-design"][..]),
        (AgentKind::AcpV2, &["acp-v2-draft"]),
        (AgentKind::Mcp, &["mcp"]),
    ] {
        for suite in suites {
            broken.extend(mutants::of(kind).map(|mutant| (*suite, mutant.requirement)));
        }
    }
    broken.extend(
        lifecycle::mutants()
            .iter()
            .map(|m| ("lifecycle", m.requirement)),
    );
    broken.extend(
        sessions::mutants()
            .iter()
            .map(|m| ("sessions", m.requirement)),
    );
    broken
}

fn by_suites(rows: &mut Rows) {
    let broken = broken();
    // A monitor has the id of the requirement of ACP that it checks.
    let monitors: BTreeSet<&str> = broken
        .iter()
        .filter(|(suite, _)| *suite == "acp")
        .map(|(_, id)| *id)
        .collect();
    for name in names() {
        let suite: Suite = built_in(name).expect("a suite").expect("without mistakes");
        for requirement in &suite.requirements {
            let id = requirement.id.as_str();
            let has_mutant = broken.contains(&(name, id));
            let has_case = suite
                .cases
                .iter()
                .any(|case| case.decides.contains(&requirement.id));
            let mut kinds = Vec::new();
            if has_mutant && has_case {
                kinds.push("case");
            }
            let watched = || {
                requirement
                    .monitors
                    .iter()
                    .any(|m| monitors.contains(m.as_str()))
            };
            if !requirement.monitors.is_empty() && (has_mutant || watched()) {
                kinds.push("monitor");
            }
            let promised = register()
                .filter(|row| row.deciders().any(|by| by == format!("case:{name}/{id}")))
                .map(|row| row.id);
            let same = requirement
                .register
                .iter()
                .map(String::as_str)
                .chain(promised);
            let ids: BTreeSet<&str> = same.chain([id]).collect();
            for kind in kinds {
                for other in &ids {
                    let proof = format!("{name}/{id}");
                    rows.insert(((*other).to_owned(), kind.to_owned(), proof));
                }
            }
        }
    }
}

fn by_tests(rows: &mut Rows) {
    let (lines, mistakes) = proof_lines::find(&root());
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    for line in lines {
        for id in line.ids {
            rows.insert((id, "test".to_owned(), line.test.clone()));
        }
    }
}

/// Everything that the mutants and tests of this repository prove.
fn collected() -> Rows {
    let mut rows = Rows::new();
    by_rules(&mut rows);
    by_checks(&mut rows);
    by_suites(&mut rows);
    by_tests(&mut rows);
    let all = registered();
    rows.retain(|(id, kind, proof)| {
        let row = all.get(id.as_str());
        row.is_none_or(|row| can_prove(kind, proof, row.binds) && row.reason().is_none())
    });
    rows
}

#[test]
fn the_list_of_proofs_is_up_to_date() {
    let rows = collected();
    let lost: BTreeSet<&str> = proofs()
        .map(|proof| proof.id)
        .filter(|id| !rows.iter().any(|(known, ..)| known == id))
        .collect();
    let mut text = "id\tkind\tproof\n".to_owned();
    for (id, kind, proof) in &rows {
        text += &format!("{id}\t{kind}\t{proof}\n");
    }
    let path = root().join("suites/proofs.tsv");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("written");
        return;
    }
    assert!(
        lost.is_empty(),
        "these requirements were proven and are not any more: {lost:?}"
    );
    let known = std::fs::read_to_string(&path).expect("suites/proofs.tsv");
    assert!(
        known == text,
        "suites/proofs.tsv is out of date: cargo xtask docs"
    );
}

/// A requirement with the keyword MUST or SHOULD is proven, or the register says why it cannot be,
/// or it is in the list of what is still open.
#[test]
fn every_must_and_should_is_proven_or_explained() {
    let rows = collected();
    let proven: BTreeSet<&str> = rows.iter().map(|(id, ..)| id.as_str()).collect();
    let open: Vec<&str> = register()
        .filter(|row| matches!(row.level, "MUST" | "SHOULD"))
        .filter(|row| row.reason().is_none() && !proven.contains(row.id))
        .map(|row| row.id)
        .collect();
    assert_eq!(
        open, OPEN,
        "left: not proven and not explained; right: the list OPEN in tests/repository/proofs.rs"
    );
}

/// Requirements with the keyword MUST or SHOULD that nothing proves yet. Delete an id when a test
/// proves it, and never add one.
const OPEN: &[&str] = &[];
