//! What to do after a run, by what came of it.

use super::{Options, prompting, words};
use crate::model::{CaseResult, RECORDING, Report, Verdict};

/// Sentences, the most urgent first.
pub fn steps(report: &Report, options: &Options) -> Vec<String> {
    let mut steps = Vec::new();
    if report.results.is_empty() {
        return steps;
    }
    let ran = options.command == "certify" && report.target.kind != RECORDING;
    let worst = first(report);
    if report.never_answered.is_some() && ran {
        steps.push(
            "Start the command by hand and type a line: it must stay, and answer on standard \
             output. Where it needs longer to start, raise --timeout."
                .to_owned(),
        );
    } else if let Some(row) = worst {
        let id = &row.requirement;
        if ran {
            steps.push(format!(
                "Mend {id}, then run the same command with --only {id} until it passes."
            ));
        }
        steps.push(format!(
            "`agentproto explain {id}` says what is demanded, and what decides it."
        ));
        if ran && !report.partial && words::known(report) == 0 {
            steps.push(
                "To go on with what fails today: --output json > baseline.json now, and \
                 --baseline baseline.json from then on; only what is new fails."
                    .to_owned(),
            );
        }
    } else if report.partial && ran {
        steps.push("Run it again to its end: much was not looked at.".to_owned());
    } else if report.summary.certified && ran && prompting::of(report).is_some() {
        steps.push(
            "A certificate is worth what was tested: give the prompts above (--prompts FILE), or \
             --mock-llm, and see more of it."
                .to_owned(),
        );
    } else if report.summary.certified && ran && options.report_dir.is_none() {
        steps.push("Show it: --report-dir DIR writes the page to link to, and a badge.".to_owned());
    }
    if report.shard.is_some() {
        steps.push(
            "Save every shard with --output json, then `agentproto report merge` gives the \
             verdict of the whole."
                .to_owned(),
        );
    }
    steps.push(match &options.report_dir {
        Some(dir) => {
            let page = dir.join("report.html");
            format!("Every row with its wire lines: {}", page.to_string_lossy())
        }
        None => "Every row with its wire lines: --output html > report.html; every format and all \
                 transcripts: --report-dir DIR."
            .to_owned(),
    });
    steps
}

/// The failure to begin with.
fn first(report: &Report) -> Option<&CaseResult> {
    let of = |known: bool| {
        let mut rows = report.results.iter();
        rows.find(|r| r.verdict == Verdict::Fail && r.known == known)
    };
    of(false).or_else(|| of(true))
}
