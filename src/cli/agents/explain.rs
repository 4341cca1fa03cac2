//! What `explain` knows besides the rules of `lint`: rules of `aoi-lint`, and requirements of the
//! suites and of the register.

use std::io::Write;

use super::coverage;
use crate::cli::args::{Explain, Output};
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_text::closest_of;

/// Explains a rule of `aoi-lint`, if the name looks like one.
pub fn tool_rule(args: &Explain, out: &mut dyn Write) -> Option<Outcome> {
    let name = args.rule.trim();
    let is_rule = name.to_ascii_uppercase().starts_with("AOI-") && !coverage::is_requirement(name);
    is_rule.then(|| aoi(args, out))
}

/// Explains a requirement of a suite or of the register. Returns `false` if the name is unknown.
pub fn any_requirement(name: &str, output: Output, out: &mut dyn Write) -> Result<bool, Failure> {
    Ok(suite_requirement(name, output, out)? || coverage::explain(name, output, out)?)
}

/// Explains a requirement of the suites. Returns `false` if the name is unknown.
fn suite_requirement(name: &str, output: Output, out: &mut dyn Write) -> Result<bool, Failure> {
    use crate::cli::agents::requirement as docs;
    use crate::cli::agents::requirement::Page;
    use agentproto_harness::suite;
    let suites = suite::names().filter_map(|name| suite::built_in(name)?.ok());
    let suites: Vec<suite::Suite> = suites.collect();
    let mut pages: Vec<Page> = Vec::new();
    for suite in &suites {
        let of_case = suite.cases.iter().filter(|case| case.id == name);
        let of_case: Vec<&String> = of_case.flat_map(|case| &case.decides).collect();
        for requirement in &suite.requirements {
            if requirement.id.eq_ignore_ascii_case(name) || of_case.contains(&&requirement.id) {
                pages.push(Page { suite, requirement });
            }
        }
    }
    if pages.is_empty() {
        return Ok(false);
    }
    let is_case = !pages
        .iter()
        .any(|page| page.requirement.id.eq_ignore_ascii_case(name));
    if is_case && output == Output::Human {
        let ids: Vec<&str> = pages
            .iter()
            .map(|page| page.requirement.id.as_str())
            .collect();
        let of = ids.join(", ");
        writeln!(out, "`{name}` is a case. It checks {of}:\n").map_err(io_failure)?;
    }
    docs::explain(&pages, output, out).map_err(io_failure)?;
    Ok(true)
}

/// The ids of all requirements.
pub fn requirements() -> Vec<String> {
    coverage::ids()
}

/// The requirement id that is closest to `name`.
pub fn closest_requirement(name: &str) -> Option<String> {
    // Ids of the same chapter first: they differ in two digits.
    let chapter = name.rsplit_once('-').map_or(name, |(chapter, _)| chapter);
    let chapter = chapter.to_uppercase();
    let (near, far): (Vec<String>, Vec<String>) = coverage::ids()
        .into_iter()
        .partition(|id| id.starts_with(&chapter));
    let parts = near.chunks(near.len().max(1)).chain(far.chunks(500));
    let mut found = parts.filter_map(|ids| closest_of(name, ids.iter().map(String::as_str)));
    found.next().map(str::to_owned)
}

/// Explains a rule of `aoi-lint`.
fn aoi(args: &Explain, out: &mut dyn Write) -> Outcome {
    use agentproto_aoi::render::docs;
    use agentproto_aoi::rules;
    let name = args.rule.trim();
    let Some(rule) = rules::find(name) else {
        let failure = Failure::new(exit::USAGE, format!("unknown rule `{name}`"));
        let names = rules::all().map(|rule| rule.id);
        return Err(match closest_of(name, names) {
            Some(id) => failure.hint(format!("did you mean `{id}`?")),
            None => failure.hint("`agentproto rules --kind aoi` lists all rules"),
        });
    };
    match args.output {
        Output::Json => docs::explain_json(rule, out),
        Output::Jsonl => docs::explain_jsonl(rule, out),
        Output::Human => docs::explain_human(rule, out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
