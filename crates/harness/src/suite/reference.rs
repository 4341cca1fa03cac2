//! A suite as a Markdown page.

use super::{CaseNeeds, Suite};
use crate::model::{Level, Profile};

/// The content of docs/suites/NAME.md: every requirement, and every case with what it decides.
pub fn reference(suite: &Suite) -> String {
    let is_watched = suite.requirements.iter().any(|r| !r.monitors.is_empty());
    let monitors = match is_watched {
        true => ", and with monitors that check every line of every case",
        false => "",
    };
    let mut out = format!(
        "# {}\n\n\
         <!-- Generated from suites/{name}; `UPDATE_DOCS=1 cargo test --test judges` writes this \
         file. -->\n\n\
         `agentproto certify --suite {name}` checks {} requirements with {} cases{monitors}.\n",
        escaped(&suite.title),
        suite.requirements.len(),
        suite.cases.len(),
        name = suite.name,
    );
    let mut sections: Vec<&str> = Vec::new();
    for requirement in &suite.requirements {
        if !sections.contains(&requirement.section.as_str()) {
            sections.push(&requirement.section);
        }
    }
    for section in sections {
        out.push_str(&format!("\n## {}\n\n", escaped(section)));
        out.push_str("| requirement | level | | decided by |\n|---|---|---|---|\n");
        let here = suite.requirements.iter().filter(|r| r.section == section);
        for requirement in here.clone() {
            let cases = suite.cases.iter();
            let cases = cases.filter(|case| case.decides.contains(&requirement.id));
            let mut by: Vec<String> = cases.map(|case| format!("`{}`", case.id)).collect();
            if !requirement.monitors.is_empty() {
                by.push("monitor".to_owned());
            }
            let level = match (requirement.level, requirement.profile) {
                (Level::Must, Profile::Strict) => "MUST (strict)",
                (level, _) => level.as_str(),
            };
            let says = match &requirement.basis {
                Some(basis) => format!(
                    ": {} ({})",
                    escaped(&basis.says),
                    escaped(basis.binding.describe())
                ),
                None => String::new(),
            };
            out.push_str(&format!(
                "| **{}** | {level} | {}<br>*{}*{says} | {} |\n",
                escaped(&requirement.id),
                escaped(&requirement.statement),
                escaped(&requirement.source),
                by.join(", "),
            ));
        }
        let ids: Vec<&String> = here.map(|r| &r.id).collect();
        let cases: Vec<_> = suite
            .cases
            .iter()
            .filter(|case| case.decides.first().is_some_and(|id| ids.contains(&id)))
            .collect();
        if !cases.is_empty() {
            out.push_str("\n| case | |\n|---|---|\n");
        }
        for case in cases {
            let needs = case.needs.describe();
            let title = escaped(&case.title);
            out.push_str(&format!("| `{}` | {title}{needs} |\n", case.id));
        }
    }
    out
}

impl CaseNeeds {
    /// `; needs the prompt key `slow``, or an empty string if nothing is needed.
    pub fn describe(&self) -> String {
        let mut needs: Vec<String> = Vec::new();
        let capabilities = self.capabilities.iter();
        let capabilities = capabilities.map(|p| p.trim_start_matches('/').replace('/', "."));
        needs.extend(capabilities.map(|name| format!("capability `{name}`")));
        needs.extend(self.prompts.iter().map(|p| format!("the prompt key `{p}`")));
        needs.extend(self.auth.then(|| "a login".to_owned()));
        needs.extend(self.model.then(|| "the mock model".to_owned()));
        match needs.is_empty() {
            true => String::new(),
            false => format!("; needs {}", needs.join(", ")),
        }
    }
}

/// Escapes text for a table cell.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push(' '),
            '|' | '<' | '*' | '_' | '`' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}
