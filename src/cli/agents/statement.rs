//! `agentproto explain TR-13`: what a requirement says, what checks it, and how to fix violations.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::cli::args::Output;
use agentproto_harness::model::Level;
use agentproto_harness::suite::{Case, Requirement, Suite};
use agentproto_mock::Kind;
use agentproto_mock::mutants;
use agentproto_report::aoi::{Fields, object};
use agentproto_text as text;

/// A requirement and its suite.
pub struct Page<'s> {
    pub suite: &'s Suite,
    pub requirement: &'s Requirement,
}

/// A defect of one of our mocks that violates a requirement.
struct Fault {
    id: &'static str,
    wrong: &'static str,
}

impl Page<'_> {
    fn cases(&self) -> impl Iterator<Item = &Case> {
        let id = &self.requirement.id;
        let cases = self.suite.cases.iter();
        cases.filter(move |case| case.decides.contains(id))
    }

    fn faults(&self) -> Vec<Fault> {
        let id = self.requirement.id.as_str();
        let mocks = [Kind::Acp, Kind::AcpV2, Kind::Mcp].into_iter();
        let of_mocks = mocks.flat_map(mutants::of).filter(|m| m.requirement == id);
        let mut faults: Vec<Fault> = of_mocks
            .map(|m| Fault {
                id: m.id,
                wrong: m.wrong,
            })
            .collect();
        let of_bundles = agentproto_selftest::lifecycle::mutants().into_iter();
        let of_bundles = of_bundles.filter(|m| m.requirement == id);
        faults.extend(of_bundles.map(|m| Fault {
            id: m.id,
            wrong: m.wrong,
        }));
        faults
    }

    pub fn markdown(&self) -> String {
        let Page { suite, requirement } = self;
        let id = &requirement.id;
        let mut page = format!(
            "# {id}\n\n{} · {} · suite `{}`, {}\n\n{}.\n\n## Checked by\n\n",
            requirement.level.as_str(),
            requirement.source,
            suite.name,
            requirement.section,
            requirement.statement.trim_end_matches('.'),
        );
        for case in self.cases() {
            let title = case.title.trim_end_matches('.');
            page.push_str(&format!(
                "- case `{}`: {title}{}\n",
                case.id,
                case.needs.told()
            ));
        }
        if !requirement.watched.is_empty() {
            page.push_str("- monitors, on every line of every case\n");
        }
        if requirement.level != Level::Must {
            page.push_str("\nA violation is a warning, because this is not a MUST.\n");
        }
        let faults = self.faults();
        if !faults.is_empty() {
            page.push_str("\n## Known violations\n\n");
            for fault in faults {
                let wrong = fault.wrong.trim_end_matches('.');
                page.push_str(&format!("- {wrong} (`{}`)\n", fault.id));
            }
        }
        if let Some(hint) = &requirement.hint {
            page.push_str(&format!("\n## How to fix it\n\n{hint}\n"));
        }
        let others = requirement.register.iter().filter(|other| *other != id);
        let others: Vec<&str> = others.map(String::as_str).collect();
        if !others.is_empty() {
            let others = others.join(", ");
            page.push_str(&format!("\nIt also covers {others} of the register.\n"));
        }
        page.push_str(&format!(
            "\n## Run only this requirement\n\n    agentproto certify {}--only {id} {}\n",
            match suite.name.as_str() {
                "acp" | "lifecycle" => String::new(),
                name => format!("--suite {name} "),
            },
            match suite.name.as_str() {
                "lifecycle" => "BUNDLE",
                "mcp" => "-- my-server",
                _ => "-- my-agent acp",
            }
        ));
        page
    }

    fn record(&self) -> Fields {
        let Page { suite, requirement } = self;
        let cases = self.cases().map(
            |case| json!({ "id": case.id, "title": case.title, "prompts": case.needs.prompts }),
        );
        let faults = self.faults().into_iter();
        let faults = faults.map(|f| json!({ "id": f.id, "wrong": f.wrong }));
        object(json!({
            "schema": "agentproto.statement/v1",
            "id": requirement.id,
            "suite": suite.name,
            "section": requirement.section,
            "level": requirement.level.as_str(),
            "statement": requirement.statement,
            "source": requirement.source,
            "hint": requirement.hint,
            "cases": cases.collect::<Vec<_>>(),
            "watched": !requirement.watched.is_empty(),
            "register": requirement.register,
            "faults": faults.collect::<Vec<_>>(),
            "markdown": self.markdown(),
        }))
    }
}

pub fn explain(pages: &[Page<'_>], output: Output, out: &mut dyn Write) -> io::Result<()> {
    match output {
        Output::Json => {
            for page in pages {
                writeln!(out, "{}", text::pretty(&Value::Object(page.record()))?)?;
            }
            Ok(())
        }
        Output::Jsonl => {
            let documents = pages
                .iter()
                .map(|p| (p.requirement.id.as_str(), p.markdown()));
            agentproto_report::aoi::pages_jsonl(documents, out)
        }
        Output::Human => {
            let pages: Vec<String> = pages.iter().map(Page::markdown).collect();
            out.write_all(pages.join("\n").as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use agentproto_harness::suite;

    use super::*;

    #[test]
    fn every_requirement_page_has_its_source_and_its_checks() {
        for name in suite::names() {
            let suite = suite::built_in(name).unwrap().unwrap();
            for requirement in &suite.requirements {
                let page = Page {
                    suite: &suite,
                    requirement,
                };
                let text = page.markdown();
                let id = &requirement.id;
                assert!(text.contains(&requirement.source), "{id}");
                assert!(
                    text.contains("- case `") || text.contains("- monitors"),
                    "{id}"
                );
            }
        }
    }
}
