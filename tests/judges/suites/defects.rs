//! The table of defects of real agents: each named case finds its defect in a mutant.

use std::collections::BTreeSet;
use std::path::Path;

use agentproto_harness::suite::{self, Suite};
use agentproto_mock::AgentKind;
use agentproto_mock::mutants::{self, AgentMutant};

use crate::certify;

/// The scenario whose agent asks the mock model.
const MODEL: &str = "model";

/// One row of the table.
struct Defect {
    number: &'static str,
    reports: &'static str,
    defect: &'static str,
    requirement: &'static str,
    case: &'static str,
    mutant: &'static str,
}

fn table() -> Vec<Defect> {
    let lines = agentproto_suites::ACP_DEFECTS.lines().skip(1);
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [number, reports, defect, requirement, case, mutant] = cells[..] else {
            panic!("a row needs six cells: {line}");
        };
        Defect {
            number,
            reports,
            defect,
            requirement,
            case,
            mutant,
        }
    });
    rows.collect()
}

fn acp() -> Suite {
    let suite = suite::built_in("acp").expect("a suite");
    suite.expect("no mistakes")
}

fn mutant(id: &str) -> &'static AgentMutant {
    let found = mutants::of(AgentKind::Acp).find(|mutant| mutant.id == id);
    found.unwrap_or_else(|| panic!("unknown mutant {id}"))
}

#[test]
fn every_case_and_mutant_of_the_table_exists() {
    let (suite, rows) = (acp(), table());
    assert_eq!(rows.len(), 25);
    let mut numbers = BTreeSet::new();
    for row in &rows {
        assert!(numbers.insert(row.number), "{} is a duplicate", row.number);
        assert!(!row.reports.is_empty() && !row.defect.is_empty());
        assert_eq!(
            mutant(row.mutant).requirement,
            row.requirement,
            "{}",
            row.mutant
        );
        let requirement = suite.requirement(row.requirement);
        let requirement = requirement.unwrap_or_else(|| panic!("no {}", row.requirement));
        let case = suite.cases.iter().find(|case| case.id == row.case);
        let case = case.unwrap_or_else(|| panic!("unknown case {}", row.case));
        assert!(
            case.decides.contains(&requirement.id) || !requirement.monitors.is_empty(),
            "{} does not decide {}",
            row.case,
            row.requirement
        );
    }
}

/// Runs one case on a mutant, or on the correct mock, and returns the verdicts on a requirement.
fn verdicts(row: &Defect, id: &str) -> Vec<String> {
    let scenario = format!("MOCK_SCENARIO={}", mutant(row.mutant).scenario);
    let defect = format!("MOCK_MUTANT={id}");
    let mut args = vec!["--mock", "acp", "--only", row.case, "--timeout", "10"];
    args.extend(["--env", &scenario, "--env", &defect]);
    if mutant(row.mutant).scenario == MODEL {
        args.push("--mock-llm");
    }
    let (output, report) = certify::run(&args);
    assert!(report.is_object(), "{output:?}");
    let verdicts = certify::verdicts(&report, row.requirement);
    verdicts.into_iter().map(str::to_owned).collect()
}

/// Whether a row of the table is tested: all of them in the full self-test, else a sample.
fn is_tested(row: &Defect) -> bool {
    crate::is_full_depth() || row.number.ends_with('5') || row.number.ends_with('9')
}

#[test]
fn each_case_finds_the_defect_and_spares_the_correct_agent() {
    let rows: Vec<Defect> = table().into_iter().filter(is_tested).collect();
    let tests: Vec<_> = rows
        .into_iter()
        .map(|row| {
            std::thread::spawn(move || {
                let found = verdicts(&row, row.mutant);
                let bad = ["fail", "warn"];
                let is_bad = |verdict: &String| bad.contains(&verdict.as_str());
                let mut wrong = Vec::new();
                if !found.iter().any(is_bad) {
                    wrong.push(format!("{} misses {}: {found:?}", row.case, row.mutant));
                }
                let spared = verdicts(&row, "");
                if spared.iter().any(is_bad) {
                    wrong.push(format!("{} on the correct agent: {spared:?}", row.case));
                }
                wrong
            })
        })
        .collect();
    let wrong: Vec<String> = tests
        .into_iter()
        .flat_map(|test| test.join().expect("no panic"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn page() -> String {
    let mut page = "# Defects of real agents\n\n\
        <!-- Generated from suites/acp-defects.tsv by `cargo xtask docs`. -->\n\n\
        These defects of ACP agents were reported in public issue trackers. For each one, a case of\n\
        the suite [acp](acp.md) finds it, and a [mutant](../mocks.md) of the mock agent has it. The\n\
        data is in `suites/acp-defects.tsv`.\n\n\
        | defect | reported for | requirement | case | mutant |\n|---|---|---|---|---|\n"
        .to_owned();
    for row in table() {
        page.push_str(&format!(
            "| {} | {} | {} | `{}` | `{}` |\n",
            row.defect, row.reports, row.requirement, row.case, row.mutant
        ));
    }
    page.push_str(
        "\nTo see what a case finds: `agentproto certify --mock acp --only CASE --env \
         MOCK_MUTANT=MUTANT`.\nIf the mutant needs a model, add `--mock-llm --env \
         MOCK_SCENARIO=model`.\n",
    );
    page
}

#[test]
fn the_page_about_defects_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/suites/acp-defects.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is out of date; run `cargo xtask docs` to update it",
        path.display()
    );
}
