//! Suggestions for what to do after a run, depending on its results.

use super::{RenderOptions, prompting, words};
use crate::model::{CaseResult, LoginNeed, RECORDING, Report, Verdict};

/// Sentences, the most urgent first.
pub fn steps(report: &Report, options: &RenderOptions) -> Vec<String> {
    let mut steps = Vec::new();
    if report.results.is_empty() {
        return steps;
    }
    let ran = options.command == "certify" && report.target.kind != RECORDING;
    let worst = first(report);
    if let Some(login) = report.needs_login.as_ref().filter(|_| ran) {
        steps.push(unlock(login));
    }
    if let Some(refusal) = report.not_started.as_ref().filter(|_| ran) {
        let hint = refusal.hint.as_deref();
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        steps.push(format!(
            "Fix {} first: the agent was not started, so almost nothing was tested{hint}.",
            refusal.code
        ));
    } else if report.never_answered.is_some() && ran {
        steps.push(
            "Start the command by hand and type a line: the agent must keep running and answer on \
             stdout. If it needs more time to start, raise --timeout."
                .to_owned(),
        );
    } else if report.lacks_initialize() && ran && worst.is_none() {
        steps.push(
            "Answer `initialize` with a result first: `agentproto explain IN-01` shows how it is \
             checked."
                .to_owned(),
        );
    } else if let Some(row) = worst {
        let id = &row.requirement;
        if ran {
            steps.push(match report.selection {
                true => format!("Fix {id}, then run the same command again."),
                false => {
                    format!("Fix {id}, then run the same command with --only {id} until it passes.")
                }
            });
        }
        steps.push(format!(
            "`agentproto explain {id}` shows the requirement and how it is checked."
        ));
        if ran && !report.partial && words::known_failures(report) == 0 {
            steps.push(
                "To accept the current failures: save them with --output json > baseline.json, \
                 then pass --baseline baseline.json, so that only new failures count."
                    .to_owned(),
            );
        }
    } else if report.partial && ran {
        steps.push("Run it again to the end: many cases did not run.".to_owned());
    } else if report.summary.certified && ran && prompting::of(report).is_some() {
        steps.push(
            "A certificate covers only what was tested: pass the prompts above (--prompts FILE) or \
             --mock-llm to test more."
                .to_owned(),
        );
    }
    if report.shard.is_some() {
        steps.push(
            "Save every shard with --output json, then run `agentproto report merge` to get the \
             verdict of the whole run."
                .to_owned(),
        );
    }
    steps.push(match &options.report_dir {
        Some(dir) => {
            let page = dir.join("report.html");
            format!(
                "{} shows every row with its messages.",
                page.to_string_lossy()
            )
        }
        None => "To see every row with its messages, add --output html > report.html. \
                 --report-dir DIR writes all formats, the transcripts and a badge."
            .to_owned(),
    });
    steps
}

/// How to test what needs a login.
fn unlock(login: &LoginNeed) -> String {
    let method = match login.methods.as_slice() {
        [] => "pass a login method with --auth-method".to_owned(),
        ids => format!(
            "pass --auth-method with one of its methods ({})",
            ids.join(", ")
        ),
    };
    let recipe = match &login.recipe {
        Some(name) => format!(" `--recipe {name}` has these settings for this agent."),
        None => String::new(),
    };
    format!(
        "The agent requires a login, so nothing that needs a session was tested. Log in before the \
         run, or {method}. To test it without an account, use a scripted model: --mock-llm, with \
         --env NAME=VALUE for the model's address and key, and --home DIR for settings files.{recipe}"
    )
}

/// The failure to fix first.
fn first(report: &Report) -> Option<&CaseResult> {
    let of = |known: bool| {
        let mut rows = report.results.iter();
        rows.find(|r| r.verdict == Verdict::Fail && r.known == known)
    };
    of(false).or_else(|| of(true))
}
