//! Checks that secrets reach the environment of the agent, and nothing else.

use std::ffi::OsString;

use serde_json::json;

use super::context::ProbeContext;
use crate::run::case::NoVerdict;
use agentproto_runtime::audit;
use agentproto_runtime::error::Code;

pub async fn secrets(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let auth = probe.subject.target.bundle.common().auth();
    let state = auth.and_then(|auth| auth.state());
    let names: Vec<String> = state
        .into_iter()
        .flat_map(|s| s.env())
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        let why = "the manifest declares no environment variables for the login (`auth.state.env`)";
        return Err(NoVerdict::NotApplicable(why.to_owned()));
    }
    let mut context = probe
        .context()
        .map_err(|error| probe.no_verdict_for(&error))?;
    // Use a canary value, so that no real secret is needed or shown.
    let canary = format!("certify-canary-{}", probe.subject.marker);
    for name in &names {
        let env = std::sync::Arc::make_mut(&mut context.host_env);
        env.retain(|(known, _)| known != name.as_str());
        env.push((OsString::from(name), OsString::from(&canary)));
    }
    let home = context.home.clone();
    let agent = probe.load_in(context, probe.choices());
    let agent = agent.map_err(|error| probe.no_verdict_for(&error))?;
    let (started, seen) = probe.start_and_inspect(&agent).await;
    let session = match started {
        Ok(session) => Some(session),
        // The agent may reject the canary as a key. The process was already inspected.
        Err(error) if seen.is_some() && error.code != Code::StateUnwritable => {
            probe.note_error(&error);
            None
        }
        Err(error) => return Err(probe.no_verdict_for(&error)),
    };
    let seen = match (seen, &session) {
        (None, Some(session)) => probe.inspect_in_turn(session).await?,
        (seen, _) => seen,
    };
    if let Some(session) = session {
        probe.close(&session).await;
    }
    let Some(seen) = seen else {
        let why = "the agent's process was not found while it ran";
        return Err(NoVerdict::NotVerified(why.to_owned()));
    };
    let got: Vec<&String> = names
        .iter()
        .filter(|name| seen.variable(name).is_some())
        .collect();
    let missing: Vec<&str> = names
        .iter()
        .filter(|name| !got.contains(name))
        .map(String::as_str)
        .collect();
    let line = probe.note(&json!({"process": seen.pid, "variables": got, "missing": missing}));
    let against = (!missing.is_empty()).then(|| {
        format!(
            "`{}` did not reach the environment of the agent",
            missing.join("`, `")
        )
    });
    probe.verdict("A45-AUTH-03", against, &[line]);
    let values: Vec<&str> = got
        .iter()
        .filter_map(|name| seen.variable(name))
        .chain([canary.as_str()])
        .collect();
    let leaks = |text: &str| {
        values
            .iter()
            .any(|value| value.len() > 3 && text.contains(value))
    };
    let in_argv = seen.argv.iter().any(|word| leaks(word));
    let against = in_argv.then(|| "a secret is in the command line of the agent".to_owned());
    probe.verdict("A45-AUTH-04", against, &[line]);
    let log = std::fs::read_to_string(audit::default_path(&home)).unwrap_or_default();
    let is_logged = probe.log.lines().iter().any(|text| leaks(text));
    let against = if leaks(&log) {
        Some("a secret is in the audit log".to_owned())
    } else if is_logged {
        Some("a secret is in the events of the runtime".to_owned())
    } else {
        None
    };
    probe.verdict("A45-AUTH-05", against, &[line]);
    Ok(())
}
