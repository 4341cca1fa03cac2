//! `agentproto explain NAME`: a rule of the linters, a statement of a suite or of the register.

use std::io::Write;

use crate::cli::args::Explain;
use crate::cli::{Failure, Outcome, coverage, io_failure};
use crate::exit;
use agentproto_lint::registry;
use agentproto_lint::render::docs;
use agentproto_text::closest_of;
use agentproto_text::plain;

pub fn run(args: &Explain, out: &mut dyn Write) -> Outcome {
    let name = args.rule.trim();
    #[cfg(target_os = "linux")]
    if name.to_ascii_uppercase().starts_with("AOI-") && !coverage::is_statement(name) {
        return aoi(args, out);
    }
    if let Some(rule) = registry::find(name) {
        match args.output.as_str() {
            "json" => docs::explain_json(rule, out),
            "jsonl" => docs::explain_jsonl(rule, out),
            _ => docs::explain_human(rule, out),
        }
        .map_err(io_failure)?;
        return Ok(exit::CLEAN);
    }
    #[cfg(target_os = "linux")]
    if statement(name, &args.output, out)? {
        return Ok(exit::CLEAN);
    }
    if coverage::explain(name, &args.output, out)? {
        return Ok(exit::CLEAN);
    }
    let name = plain(name);
    let failure = Failure::new(
        exit::USAGE,
        format!("there is no rule and no statement `{name}`"),
    );
    Err(match closest(&name) {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`agentproto rules` and `agentproto coverage` list them all"),
    })
}

/// A statement of the suites; `false` where there is none of that name.
#[cfg(target_os = "linux")]
fn statement(name: &str, output: &str, out: &mut dyn Write) -> Result<bool, Failure> {
    use crate::cli::statement::{self as docs, Page};
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
    docs::explain(&pages, output, out).map_err(io_failure)?;
    Ok(true)
}

/// What was meant, among everything that can be explained.
fn closest(name: &str) -> Option<String> {
    let rules = registry::closest(name).map(str::to_owned);
    rules.or_else(|| {
        // Its neighbours first: the ids of one chapter differ in two digits.
        let chapter = name.rsplit_once('-').map_or(name, |(chapter, _)| chapter);
        let chapter = chapter.to_uppercase();
        let (near, far): (Vec<String>, Vec<String>) = coverage::ids()
            .into_iter()
            .partition(|id| id.starts_with(&chapter));
        let parts = near.chunks(near.len().max(1)).chain(far.chunks(500));
        let mut found = parts.filter_map(|ids| closest_of(name, ids.iter().map(String::as_str)));
        found.next().map(str::to_owned)
    })
}

/// A rule of `aoi-lint`.
#[cfg(target_os = "linux")]
fn aoi(args: &Explain, out: &mut dyn Write) -> Outcome {
    use agentproto_aoi::render::docs;
    use agentproto_aoi::rules;
    let name = args.rule.trim();
    let Some(rule) = rules::find(name) else {
        let failure = Failure::new(exit::USAGE, format!("there is no rule `{name}`"));
        let names = rules::all().map(|rule| rule.id);
        return Err(match closest_of(name, names) {
            Some(id) => failure.hint(format!("did you mean `{id}`?")),
            None => failure.hint("`agentproto rules --kind aoi` lists them all"),
        });
    };
    match args.output.as_str() {
        "json" => docs::explain_json(rule, out),
        "jsonl" => docs::explain_jsonl(rule, out),
        _ => docs::explain_human(rule, out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
