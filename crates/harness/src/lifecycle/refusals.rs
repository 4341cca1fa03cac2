//! Checks that choices which the manifest does not offer are refused before anything runs.

use super::context::ProbeContext;
use crate::run::case::NoVerdict;
use agentproto_manifest::views::AgentOption;
use agentproto_runtime::choices::{Choices, OptionValue};
use agentproto_runtime::error::Code;

const UNKNOWN_NAME: &str = "no-such-choice";

pub fn refusals(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    // Check first that the agent can be loaded at all.
    probe
        .load(probe.choices())
        .map_err(|error| probe.no_verdict_for(&error))?;
    let mut mode = probe.choices();
    mode.mode = Some(UNKNOWN_NAME.to_owned());
    check_refused(probe, "A45-MODE-06", mode, Code::ModeUnknown);
    let mut option = probe.choices();
    option
        .options
        .push((UNKNOWN_NAME.to_owned(), OptionValue::Text("1".to_owned())));
    check_refused(probe, "A45-OPT-10", option, Code::OptionUnknown);
    let mut continuation = probe.choices();
    continuation.continuation = Some(UNKNOWN_NAME.to_owned());
    check_refused(
        probe,
        "A45-CONT-10",
        continuation,
        Code::ContinuationUnsupported,
    );
    let bundle = probe.subject.target.bundle.clone();
    let agent = bundle.agent();
    let wrong: Vec<(String, OptionValue)> = agent
        .into_iter()
        .flat_map(|agent| agent.options())
        .filter_map(|option| Some((option.id()?.to_owned(), wrong_value(option)?)))
        .collect();
    if wrong.is_empty() {
        let why = "the manifest has no option with a restricted type".to_owned();
        probe.undecided("A45-OPT-09", NoVerdict::NotApplicable(why));
    }
    for (id, value) in wrong {
        let mut choices = probe.choices();
        choices.options.retain(|(known, _)| *known != id);
        choices.options.push((id, value));
        check_refused(probe, "A45-OPT-09", choices, Code::OptionInvalid);
    }
    Ok(())
}

/// A value that is invalid for an option.
fn wrong_value(option: AgentOption<'_>) -> Option<OptionValue> {
    let text = match option.kind()? {
        "boolean" => "perhaps".to_owned(),
        "integer" => match (option.max(), option.min()) {
            (Some(max), _) if max < i64::MAX => (max + 1).to_string(),
            (_, Some(min)) if min > i64::MIN => (min - 1).to_string(),
            _ => "many".to_owned(),
        },
        "enum" => UNKNOWN_NAME.to_owned(),
        _ => return None,
    };
    Some(OptionValue::Text(text))
}

fn check_refused(probe: &mut ProbeContext<'_>, id: &str, choices: Choices, code: Code) {
    let what = format!("{choices:?}");
    match probe.load(choices) {
        Err(error) => {
            let line = probe.note_error(&error);
            let other = error.code != code;
            let against = other.then(|| {
                format!(
                    "refused with `{}` instead of `{}`",
                    error.code.as_str(),
                    code.as_str()
                )
            });
            probe.verdict(id, against, &[line]);
        }
        Ok(_) => probe.violation(id, format!("this was accepted: {what}"), &[]),
    }
}
