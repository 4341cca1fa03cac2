//! `agentproto explain RULE`.

use std::io::Write;

use super::args::Explain;
use super::{Failure, Outcome, io_failure};
use crate::exit;
use crate::lint::registry;
use crate::report::{Meta, docs};

pub fn run(args: &Explain, out: &mut dyn Write) -> Outcome {
    #[cfg(target_os = "linux")]
    if args.rule.trim().to_ascii_uppercase().starts_with("AOI-") {
        return aoi(args, out);
    }
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

/// A rule of `aoi-lint`.
#[cfg(target_os = "linux")]
fn aoi(args: &Explain, out: &mut dyn Write) -> Outcome {
    use crate::aoi::rules;
    use crate::report::aoi_lint::docs;
    let name = args.rule.trim();
    let Some(rule) = rules::find(name) else {
        let failure = Failure::new(exit::USAGE, format!("there is no rule `{name}`"));
        let names = rules::all().map(|rule| rule.id);
        return Err(match crate::lint::text::closest_of(name, names) {
            Some(id) => failure.hint(format!("did you mean `{id}`?")),
            None => failure.hint("`agentproto rules --kind aoi` lists them all"),
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
