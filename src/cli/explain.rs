//! `agentproto explain NAME`: explains a lint rule, or a requirement of a suite or of the register.

use std::io::Write;

use crate::cli::args::{Explain, Output};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_lint::registry;
use agentproto_lint::render::docs;
use agentproto_text::{escape_line, wrap_markdown};

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
    let name = escape_line(name);
    let failure = Failure::new(exit::USAGE, format!("unknown rule or requirement `{name}`"));
    let meant = registry::closest(&name).map(str::to_owned);
    #[cfg(agents)]
    let meant = meant.or_else(|| super::agents::explain::closest_requirement(&name));
    Err(match meant {
        Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
        None => failure.hint("`agentproto rules` and `agentproto coverage` list all names"),
    })
}
