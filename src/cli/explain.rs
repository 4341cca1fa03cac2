//! `agentproto explain RULE`.

use std::io::Write;

use super::args::Explain;
use super::{Failure, Outcome, io_failure};
use crate::exit;
use crate::lint::registry;
use crate::report::{Meta, docs};

pub fn run(args: &Explain, out: &mut dyn Write) -> Outcome {
    let Some(rule) = registry::find(args.rule.trim()) else {
        let failure = Failure::new(exit::USAGE, format!("there is no rule `{}`", args.rule));
        return Err(match registry::closest(&args.rule) {
            Some(slug) => failure.hint(format!("did you mean `{slug}`?")),
            None => failure.hint("`agentproto rules` lists them all"),
        });
    };
    match args.output.as_str() {
        "json" => docs::explain_json(rule, out),
        "jsonl" => docs::explain_jsonl(rule, &Meta::default(), out),
        _ => docs::explain_human(rule, out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
