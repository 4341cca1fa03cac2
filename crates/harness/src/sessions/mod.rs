//! Certifies a session host by its URL (AIP-46). Each case is a probe, which acts like a client of
//! the host and checks the raw bytes of the responses.

mod follow;
mod gates;
mod http;
mod life;
mod mcp;
mod record;
mod routes;
mod sse;
mod stand;
mod stream;
mod target;
mod tls;
mod tools;
mod turns;
mod visit;

use std::path::Path;

use tokio::time::Instant;

use crate::probe::{self, Probes};
use crate::run::Setting;
use crate::run::case::{Blocked, Played};
use crate::suite::Case;
pub use http::encoded;
use stand::Stand;
pub use target::{Address, HostTarget, USUAL_ADAPTER};

/// The probes, each with the requirements that it can decide.
pub const PROBES: Probes = Probes(&[
    (
        "record",
        &[
            "A46-HTTP-02",
            "A46-HTTP-03",
            "A46-HTTP-04",
            "A46-MODEL-01",
            "A46-MODEL-02",
            "A46-MODEL-03",
            "A46-MODEL-04",
            "A46-MODEL-05",
            "A46-MODEL-06",
            "A46-MODEL-07",
            "A46-MODEL-09",
            "A46-MODEL-10",
            "A46-MODEL-11",
            "A46-SPAWN-05",
        ],
    ),
    ("routes", &["A46-HTTP-01"]),
    ("cwd", &["A46-WS-04", "A46-SPAWN-03"]),
    ("workspace", &["A46-SPAWN-02", "A46-WS-08"]),
    ("adapter", &["A46-SPAWN-01", "A46-COMPAT-03"]),
    ("first-prompt", &["A46-SPAWN-04"]),
    ("many", &["A46-SCOPE-01"]),
    ("ready", &["A46-STATUS-01"]),
    (
        "kill",
        &[
            "A46-HTTP-06",
            "A46-STATUS-04",
            "A46-STATUS-09",
            "A46-MODEL-07",
            "A46-MODEL-09",
        ],
    ),
    ("forget", &["A46-HTTP-07"]),
    ("forget-alive", &["A46-STATUS-05"]),
    (
        "turn",
        &[
            "A46-HTTP-05",
            "A46-TURN-01",
            "A46-TURN-06",
            "A46-PROJ-01",
            "A46-PROJ-02",
            "A46-PROJ-07",
        ],
    ),
    ("recall", &["A46-TURN-02", "A46-TURN-03"]),
    ("overlap", &["A46-TURN-04", "A46-HTTP-05"]),
    ("thought", &["A46-PROJ-03"]),
    ("tool", &["A46-PROJ-04"]),
    ("question", &["A46-PROJ-06"]),
    (
        "stream",
        &[
            "A46-HTTP-08",
            "A46-SSE-01",
            "A46-SSE-02",
            "A46-SSE-03",
            "A46-SSE-04",
            "A46-MODEL-08",
        ],
    ),
    ("keep-alive", &["A46-SSE-06"]),
    ("mcp-tools", &["A46-MCP-01"]),
    ("mcp-start", &["A46-MCP-02"]),
    ("mcp-prompt", &["A46-MCP-03"]),
    ("mcp-overlap", &["A46-TURN-05"]),
    ("mcp-list", &["A46-MCP-04"]),
    ("mcp-output", &["A46-MCP-05"]),
    ("mcp-kill", &["A46-MCP-06"]),
    ("mcp-registry", &["A46-MCP-07"]),
    ("auth", &["A46-SEC-02"]),
    ("rebinding", &["SES-01"]),
    ("unknown-session", &["SES-02"]),
    ("bad-requests", &["SES-03"]),
    ("unknown-members", &["SES-04"]),
    ("media-types", &["SES-05"]),
]);

/// Plays a case of probes.
pub(crate) async fn play(case: &Case, setting: &Setting, root: &Path) -> Played {
    let begun = Instant::now();
    let Some(host) = setting.launcher.host() else {
        let why = "this requires a session host: pass its address with --url";
        return Played::blocked(Blocked::NotApplicable(why.to_owned()));
    };
    let mut stand = Stand::new(host, setting, root);
    let probes = async {
        for name in probe::of(case) {
            // Boxed, because some of these futures are large.
            Box::pin(play_probe(name, &mut stand)).await?;
        }
        Ok(())
    };
    let late = |seconds| {
        let why = format!("the case did not finish within {seconds} s because of the host");
        Blocked::NotVerified(why)
    };
    let blocked = probe::bounded(setting, probes, late).await;
    Box::pin(stand.clean_up()).await;
    stand.finish(case, blocked, begun.elapsed())
}

async fn play_probe(name: &str, stand: &mut Stand<'_>) -> Result<(), Blocked> {
    match name {
        "record" => routes::record(stand).await,
        "routes" => routes::routes(stand).await,
        "cwd" => routes::cwd(stand).await,
        "workspace" => routes::workspace(stand).await,
        "adapter" => gates::adapter(stand).await,
        "first-prompt" => turns::first_prompt(stand).await,
        "many" => life::many(stand).await,
        "ready" => life::ready(stand).await,
        "kill" => life::kill(stand).await,
        "forget" => life::forget(stand).await,
        "forget-alive" => life::forget_alive(stand).await,
        "turn" => turns::turn(stand).await,
        "recall" => turns::recall(stand).await,
        "overlap" => turns::overlap(stand).await,
        "thought" => turns::prefix(stand, "thought", "[thought]", "A46-PROJ-03").await,
        "tool" => turns::prefix(stand, "tool", "[tool]", "A46-PROJ-04").await,
        "question" => turns::prefix(stand, "permission", "[awaiting input]", "A46-PROJ-06").await,
        "stream" => stream::stream(stand).await,
        "keep-alive" => stream::keep_alive(stand).await,
        "mcp-tools" => tools::tools(stand).await,
        "mcp-start" => tools::start(stand).await,
        "mcp-prompt" => tools::prompt(stand).await,
        "mcp-overlap" => tools::overlap(stand).await,
        "mcp-list" => tools::list(stand).await,
        "mcp-output" => tools::output(stand).await,
        "mcp-kill" => tools::kill(stand).await,
        "mcp-registry" => tools::registry(stand).await,
        "auth" => gates::auth(stand).await,
        "rebinding" => gates::rebinding(stand).await,
        "unknown-session" => gates::unknown_session(stand).await,
        "bad-requests" => gates::bad_requests(stand).await,
        "unknown-members" => gates::unknown_members(stand).await,
        "media-types" => gates::media_types(stand).await,
        other => Err(Blocked::Error(format!("unknown probe `{other}`"))),
    }
}
