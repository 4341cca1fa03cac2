//! `agentproto explain NAME`: explains a lint rule, or a requirement of a suite or of the register.

use std::io::Write;

use crate::cli::args::{Explain, Output};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_lint::registry;
use agentproto_lint::render::docs;
use agentproto_text::{escape_line, wrap_markdown};

/// Maximum number of names that a hint lists.
const MAX_NAMES: usize = 12;

pub fn run(args: &Explain, out: &mut dyn Write) -> Outcome {
    if args.output != Output::Human || !terminal::is_terminal() {
        return explain(args, out);
    }
    let mut page = Vec::new();
    let code = explain(args, &mut page)?;
    let page = wrap_markdown(&String::from_utf8_lossy(&page), terminal::width());
    out.write_all(page.as_bytes()).map_err(io_failure)?;
    Ok(code)
}

/// Writes the page, with each paragraph on one line.
fn explain(args: &Explain, out: &mut dyn Write) -> Outcome {
    let name = args.rule.trim();
    #[cfg(agents)]
    if let Some(outcome) = super::agents::explain::tool_rule(args, out) {
        return outcome;
    }
    if let Some(rule) = registry::find(name) {
        match args.output {
            Output::Json => docs::explain_json(rule, out),
            Output::Jsonl => docs::explain_jsonl(rule, out),
            Output::Human => docs::explain_human(rule, out),
        }
        .map_err(io_failure)?;
        return Ok(exit::CLEAN);
    }
    #[cfg(agents)]
    if super::agents::explain::any_requirement(name, args.output, out)? {
        return Ok(exit::CLEAN);
    }
    #[cfg(agents)]
    let known = super::agents::explain::requirements();
    #[cfg(not(agents))]
    let known: Vec<String> = Vec::new();
    let starting = starting_with(name, &known);
    let name = escape_line(name);
    let failure = Failure::new(exit::USAGE, format!("unknown rule or requirement `{name}`"));
    let meant = registry::closest(&name).map(str::to_owned);
    #[cfg(agents)]
    let meant = meant.or_else(|| super::agents::explain::closest_requirement(&name));
    Err(match meant {
        _ if !starting.is_empty() => failure.hint(format!("names that start with it: {starting}")),
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`agentproto rules` and `agentproto coverage` list all names"),
    })
}

/// The first rules and requirements whose name starts with this one.
fn starting_with(name: &str, requirements: &[String]) -> String {
    if name.is_empty() {
        return String::new();
    }
    let rules = registry::rules().map(|rule| rule.slug);
    let names = rules.chain(requirements.iter().map(String::as_str));
    let starts = |known: &&str| {
        let start = known.get(..name.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    let mut names: Vec<&str> = names.filter(starts).take(MAX_NAMES + 1).collect();
    if names.len() > MAX_NAMES {
        names.truncate(MAX_NAMES);
        names.push("…");
    }
    names.join(", ")
}
