//! Checks that choices which the manifest does not offer are refused before anything runs.

use super::stand::Stand;
use crate::run::case::Blocked;
use agentproto_manifest::views::AgentOption;
use agentproto_runtime::choices::{Given, Wanted};
use agentproto_runtime::fault::Code;

const NOBODY: &str = "no-such-choice";

pub fn refusals(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    // Check first that the agent can be loaded at all.
    stand
        .load(stand.wanted())
        .map_err(|fault| stand.refused(&fault))?;
    let mut mode = stand.wanted();
    mode.mode = Some(NOBODY.to_owned());
    refused(stand, "A45-MODE-06", mode, Code::ModeUnknown);
    let mut option = stand.wanted();
    option
        .options
        .push((NOBODY.to_owned(), Given::Text("1".to_owned())));
    refused(stand, "A45-OPT-10", option, Code::OptionUnknown);
    let mut continuation = stand.wanted();
    continuation.continuation = Some(NOBODY.to_owned());
    refused(
        stand,
        "A45-CONT-10",
        continuation,
        Code::ContinuationUnsupported,
    );
    let bundle = stand.subject.target.bundle.clone();
    let agent = bundle.agent();
    let wrong: Vec<(String, Given)> = agent
        .into_iter()
        .flat_map(|agent| agent.options())
        .filter_map(|option| Some((option.id()?.to_owned(), wrong_value(option)?)))
        .collect();
    if wrong.is_empty() {
        let why = "the manifest has no option with a restricted type".to_owned();
        stand.open("A45-OPT-09", Blocked::NotApplicable(why));
    }
    for (id, value) in wrong {
        let mut wanted = stand.wanted();
        wanted.options.retain(|(known, _)| *known != id);
        wanted.options.push((id, value));
        refused(stand, "A45-OPT-09", wanted, Code::OptionInvalid);
    }
    Ok(())
}

/// A value that is invalid for an option.
fn wrong_value(option: AgentOption<'_>) -> Option<Given> {
    let text = match option.kind()? {
        "boolean" => "perhaps".to_owned(),
        "integer" => match (option.max(), option.min()) {
            (Some(max), _) if max < i64::MAX => (max + 1).to_string(),
            (_, Some(min)) if min > i64::MIN => (min - 1).to_string(),
            _ => "many".to_owned(),
        },
        "enum" => NOBODY.to_owned(),
        _ => return None,
    };
    Some(Given::Text(text))
}

fn refused(stand: &mut Stand<'_>, id: &str, wanted: Wanted, code: Code) {
    let what = format!("{wanted:?}");
    match stand.load(wanted) {
        Err(fault) => {
            let line = stand.fault(&fault);
            let other = fault.code != code;
            let against = other.then(|| {
                format!(
                    "refused with `{}` instead of `{}`",
                    fault.code.as_str(),
                    code.as_str()
                )
            });
            stand.verdict(id, against, &[line]);
        }
        Ok(_) => stand.broken(id, format!("this was accepted: {what}"), &[]),
    }
}
