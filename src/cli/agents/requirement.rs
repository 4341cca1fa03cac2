//! `agentproto explain TR-13`: what a requirement says, what checks it, and how to fix violations.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::cli::args::Output;
use agentproto_harness::model::{Level, Profile};
use agentproto_harness::suite::{Case, Requirement, Suite};
use agentproto_harness::tck;
use agentproto_mock::AgentKind;
use agentproto_mock::mutants;
use agentproto_report::aoi::{Fields, object};
use agentproto_text as text;

/// A requirement and its suite.
pub struct Page<'s> {
    pub suite: &'s Suite,
    pub requirement: &'s Requirement,
}

/// A defect of one of our mocks that violates a requirement.
struct KnownViolation {
    id: &'static str,
    defect: &'static str,
}

impl Page<'_> {
    fn cases(&self) -> impl Iterator<Item = &Case> {
        let id = &self.requirement.id;
        let cases = self.suite.cases.iter();
        cases.filter(move |case| case.decides.contains(id))
    }

    fn violations(&self) -> Vec<KnownViolation> {
        let id = self.requirement.id.as_str();
        let mocks = [AgentKind::Acp, AgentKind::AcpV2, AgentKind::Mcp].into_iter();
        let of_mocks = mocks.flat_map(mutants::of).filter(|m| m.requirement == id);
        let mut violations: Vec<KnownViolation> = of_mocks
            .map(|m| KnownViolation {
                id: m.id,
                defect: m.defect,
            })
            .collect();
        let of_bundles = agentproto_selftest::lifecycle::mutants().into_iter();
        let of_bundles = of_bundles.filter(|m| m.requirement == id);
        violations.extend(of_bundles.map(|m| KnownViolation {
            id: m.id,
            defect: m.defect,
        }));
        violations
    }

    /// The requirements of the official kit that this one decides.
    fn kit(&self) -> Vec<tck::KitRequirement> {
        let kit = tck::requirements(&self.suite.name);
        kit.filter(|kit| kit.text.ours().any(|id| id == self.requirement.id))
            .collect()
    }

    fn of_kit(&self) -> String {
        let kit = self.kit();
        if kit.is_empty() {
            return String::new();
        }
        let mut text = "## In the official kit (acp-tck)\n\n".to_owned();
        for kit in kit {
            let note = match kit.text.note {
                "" => String::new(),
                note => format!(" ({}: {note})", kit.agreement),
            };
            let what = kit.text.what;
            text.push_str(&format!("- {} ({}): {what}{note}\n", kit.text.id, kit.tier));
        }
        text + "\n"
    }

    pub fn markdown(&self) -> String {
        let Page { suite, requirement } = self;
        let id = &requirement.id;
        let statement = requirement.statement.trim_end_matches('.');
        let of_spec = agentproto_suites::register().find(|registered| registered.id == id);
        let of_spec = of_spec.map(|registered| registered.text.trim_end_matches('.'));
        // The suite checks what can be seen from outside.
        let statement = match of_spec.filter(|text| *text != statement) {
            Some(text) => format!("{text}.\n\nThe suite `{}` checks: {statement}.", suite.name),
            None => format!("{statement}."),
        };
        let (level, about) = match requirement.level {
            Level::Info => ("not in the spec", "about "),
            level => (level.as_str(), ""),
        };
        let profile = match (requirement.level, requirement.profile) {
            (Level::Must, Profile::Strict) => " (profile `strict`)",
            _ => "",
        };
        let mut page = format!(
            "# {id}\n\n{level}{profile} · {about}{} · suite `{}`, {}\n\n{statement}\n\n",
            requirement.source, suite.name, requirement.section,
        );
        if let Some(basis) = &requirement.basis {
            page.push_str(&format!(
                "## Source\n\n{} ({}): {}.\n\n",
                requirement.source,
                basis.binding.describe(),
                basis.says,
            ));
        }
        page.push_str(&self.of_kit());
        page.push_str("## Checked by\n\n");
        for case in self.cases() {
            let title = case.title.trim_end_matches('.');
            page.push_str(&format!(
                "- case `{}`: {title}{}\n",
                case.id,
                case.needs.describe()
            ));
        }
        if !requirement.monitors.is_empty() {
            page.push_str("- monitors, on every line of every case\n");
        }
        page.push_str(&super::coverage::proven_by_id(id));
        match requirement.level {
            Level::Must => {}
            Level::Info => page.push_str("\nA violation is a warning.\n"),
            _ => page.push_str("\nA violation is a warning, because this is not a MUST.\n"),
        }
        if let (Level::Must, Profile::Strict) = (requirement.level, requirement.profile) {
            page.push_str(
                "\nA violation is a failure only with `--profile strict` or `--only`, because the \
                 official kit of the protocol does not demand this.\n",
            );
        }
        let violations = self.violations();
        if !violations.is_empty() {
            page.push_str("\n## Mocks with this defect\n\n");
            for violation in violations {
                let defect = violation.defect.trim_end_matches('.');
                page.push_str(&format!("- {defect} (`{}`)\n", violation.id));
            }
        }
        if let Some(hint) = &requirement.hint {
            page.push_str(&format!("\n## How to fix it\n\n{hint}\n"));
        }
        let others = requirement.register.iter().filter(|other| *other != id);
        let others: Vec<&str> = others.map(String::as_str).collect();
        if !others.is_empty() {
            let list = others.join(", ");
            page.push_str(&format!(
                "\n{id} also covers the requirements {list} (see `agentproto explain {}`).\n",
                others[0]
            ));
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
        let violations = self.violations().into_iter();
        let violations = violations.map(|f| json!({ "id": f.id, "wrong": f.defect }));
        object(json!({
            "schema": "agentproto.statement/v1",
            "id": requirement.id,
            "suite": suite.name,
            "section": requirement.section,
            "level": requirement.level.as_str(),
            "statement": requirement.statement,
            "source": requirement.source,
            "profile": requirement.profile,
            "basis": requirement.basis,
            "tck": self.kit().iter().map(|kit| kit.text.id).collect::<Vec<_>>(),
            "hint": requirement.hint,
            "cases": cases.collect::<Vec<_>>(),
            "watched": !requirement.monitors.is_empty(),
            "register": requirement.register,
            "faults": violations.collect::<Vec<_>>(),
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
