//! Certifies a bundle through the runtime. Each case is a probe, which uses the runtime like a
//! caller and checks the result. The manifest is the claim. The live agent, its process and the
//! audit log are the evidence.

mod audit;
mod before;
mod capabilities;
mod continuation;
mod look;
mod patches;
mod refusals;
mod sandbox;
mod secrets;
mod stand;
mod start;
mod target;
mod teardown;
mod turns;

use std::path::Path;

use tokio::time::Instant;

use crate::probe::{self, Probes};
use crate::run::Setting;
use crate::run::case::{Blocked, Played};
use crate::suite::Case;
use stand::Stand;
pub use target::{BundleTarget, Choices};

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

/// Plays a case of probes in its own directory.
pub(crate) async fn play(case: &Case, setting: &Setting, root: &Path) -> Played {
    let begun = Instant::now();
    let Some(target) = setting.launcher.bundle() else {
        let why = "this requires a bundle, but the target is a command";
        return Played::blocked(Blocked::NotApplicable(why.to_owned()));
    };
    let mut stand = Stand::new(target, setting, root);
    let probes = async {
        for name in probe::of(case) {
            play_probe(name, &mut stand).await?;
        }
        Ok(())
    };
    let late = |seconds| {
        let why = format!("the case did not finish within {seconds} s");
        Blocked::Error(why)
    };
    let blocked = probe::bounded(setting, probes, late).await;
    stand.finish(case, blocked, begun.elapsed())
}

async fn play_probe(name: &str, stand: &mut Stand<'_>) -> Result<(), Blocked> {
    match name {
        "install" => before::install(stand).await,
        "version" => before::version(stand).await,
        "setup" => before::setup(stand).await,
        "secrets" => secrets::secrets(stand).await,
        "start" => start::start(stand).await,
        "sandbox" => sandbox::sandbox(stand).await,
        "capabilities" => capabilities::capabilities(stand).await,
        "modes" => patches::modes(stand).await,
        "options" => patches::options(stand).await,
        "refusals" => refusals::refusals(stand),
        "no-continuation" => continuation::none(stand).await,
        "pinned-session" => continuation::pinned(stand).await,
        "transcript" => continuation::transcript(stand).await,
        "native-resume" => continuation::native_resume(stand).await,
        "events" => turns::events(stand).await,
        "tool-events" => turns::tools(stand).await,
        "questions" => turns::questions(stand).await,
        "cancel" => turns::cancel(stand).await,
        "idle" => turns::idle(stand).await,
        "teardown" => teardown::teardown(stand).await,
        "audit" => audit::audit(stand).await,
        other => Err(Blocked::Error(format!("unknown probe `{other}`"))),
    }
}

/// Whether stages started in order.
fn in_order<T: PartialOrd>(stages: &[T]) -> bool {
    stages.is_sorted()
}
