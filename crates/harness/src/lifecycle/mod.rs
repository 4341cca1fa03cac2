//! Certifies a bundle through the runtime. Each case is a probe, which uses the runtime like a
//! caller and checks the result. The manifest is the claim. The live agent, its process and the
//! audit log are the evidence.

mod audit;
mod before;
mod capabilities;
mod context;
mod continuation;
mod patches;
mod process_info;
mod refusals;
mod sandbox;
mod secrets;
mod start;
mod target;
mod teardown;
mod turns;

use std::path::Path;

use tokio::time::Instant;

use crate::probe::{self, Probes};
use crate::run::RunConfig;
use crate::run::case::{CaseOutcome, NoVerdict};
use crate::suite::Case;
use context::ProbeContext;
pub use target::{BundleOptions, BundleTarget};

/// The probes, each with the requirements that it can decide.
pub const PROBES: Probes = Probes(&[
    ("install", &["A45-LIFE-02", "A29-REQ-07"]),
    ("version", &["A29-VER-02", "A45-LIFE-03", "A29-VER-06"]),
    ("setup", &["A45-SETUP-06", "A45-SETUP-02", "A45-SETUP-07"]),
    ("secrets", &["A45-AUTH-03", "A45-AUTH-04", "A45-AUTH-05"]),
    (
        "start",
        &[
            "A45-LIFE-05",
            "A45-LIFE-06",
            "A45-SETUP-05",
            "A29-SETUP-21",
            "A29-VER-08",
            "A44-LIFEC-01",
        ],
    ),
    ("sandbox", &["A45-LIFE-04", "A29-PRIN-02"]),
    (
        "capabilities",
        &[
            "A44-CONF-05",
            "A44-TRANS-03",
            "A45-CAP-06",
            "A45-CAP-07",
            "A45-CAP-09",
            "A45-SESS-08",
        ],
    ),
    ("modes", &["A45-MODE-03", "A45-MODE-04", "A45-MODE-05"]),
    (
        "options",
        &["A45-OPT-04", "A45-OPT-05", "A45-OPT-07", "A45-OPT-08"],
    ),
    (
        "refusals",
        &["A45-MODE-06", "A45-OPT-09", "A45-OPT-10", "A45-CONT-10"],
    ),
    ("no-continuation", &["A45-CONT-03"]),
    ("pinned-session", &["A45-CONT-04"]),
    ("transcript", &["A45-CONT-07"]),
    ("native-resume", &["A45-CONT-08", "A45-SESS-07"]),
    ("events", &["A45-EVT-01", "A45-EVT-07", "A45-CAP-02"]),
    ("tool-events", &["A45-CAP-03", "A45-EVT-03", "A45-EVT-04"]),
    ("questions", &["A45-CAP-08", "A45-EVT-06"]),
    ("cancel", &["A45-API-03"]),
    ("idle", &["A45-SESS-02"]),
    (
        "teardown",
        &["A45-LIFE-08", "A45-LIFE-09", "A44-LIFEC-03", "A44-SEC-08"],
    ),
    ("audit", &["A44-SEC-05", "A45-LIFE-07", "A45-SEC-03"]),
]);

/// Runs a case of probes in its own directory.
pub(crate) async fn run_case(case: &Case, config: &RunConfig, root: &Path) -> CaseOutcome {
    let start_time = Instant::now();
    let Some(target) = config.launcher.bundle() else {
        let why = "this requires a bundle, but the target is a command";
        return CaseOutcome::no_verdict(NoVerdict::NotApplicable(why.to_owned()));
    };
    let mut probe = ProbeContext::new(target, config, root);
    let probes = async {
        for name in probe::of(case) {
            run_probe(name, &mut probe).await?;
        }
        Ok(())
    };
    let late = |seconds| {
        let why = format!("the case did not finish within {seconds} s");
        NoVerdict::Error(why)
    };
    let no_verdict = probe::bounded(config, probes, late).await;
    probe.finish(case, no_verdict, start_time.elapsed())
}

async fn run_probe(name: &str, probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    match name {
        "install" => before::install(probe).await,
        "version" => before::version(probe).await,
        "setup" => before::setup(probe).await,
        "secrets" => secrets::secrets(probe).await,
        "start" => start::start(probe).await,
        "sandbox" => sandbox::sandbox(probe).await,
        "capabilities" => capabilities::capabilities(probe).await,
        "modes" => patches::modes(probe).await,
        "options" => patches::options(probe).await,
        "refusals" => refusals::refusals(probe),
        "no-continuation" => continuation::none(probe).await,
        "pinned-session" => continuation::pinned(probe).await,
        "transcript" => continuation::transcript(probe).await,
        "native-resume" => continuation::native_resume(probe).await,
        "events" => turns::events(probe).await,
        "tool-events" => turns::tools(probe).await,
        "questions" => turns::permission_prompts(probe).await,
        "cancel" => turns::cancel(probe).await,
        "idle" => turns::idle(probe).await,
        "teardown" => teardown::teardown(probe).await,
        "audit" => audit::audit(probe).await,
        other => Err(NoVerdict::Error(format!("unknown probe `{other}`"))),
    }
}

/// Whether stages started in order.
fn in_order<T: PartialOrd>(stages: &[T]) -> bool {
    stages.is_sorted()
}
