//! Certifies a session host by its URL (AIP-46). Each case is a probe, which acts like a client of
//! the host and checks the raw bytes of the responses.

mod access;
mod context;
mod door;
mod event_stream;
mod http;
mod life;
mod mcp;
mod record;
mod routes;
mod session;
mod sse;
mod stdio;
mod stream;
mod target;
mod tls;
mod tools;
mod turns;

use std::path::Path;

use tokio::time::Instant;

use crate::probe::{self, Probes};
use crate::run::RunConfig;
use crate::run::case::{CaseOutcome, NoVerdict};
use crate::suite::Case;
use context::ProbeContext;
pub use door::{McpDoor, StdioPipes};
pub use http::percent_encode;
pub use target::{DEFAULT_ADAPTER, HostAddress, HostTarget};

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
    ("mcp-stdio", &["SES-06", "SES-07"]),
    ("auth", &["A46-SEC-02"]),
    ("rebinding", &["SES-01"]),
    ("unknown-session", &["SES-02"]),
    ("bad-requests", &["SES-03"]),
    ("unknown-members", &["SES-04"]),
    ("media-types", &["SES-05"]),
]);

/// Runs a case of probes.
pub(crate) async fn run_case(case: &Case, config: &RunConfig, root: &Path) -> CaseOutcome {
    let start_time = Instant::now();
    let Some(host) = config.launcher.host() else {
        let why = "this requires a session host: pass its address with --url";
        return CaseOutcome::no_verdict(NoVerdict::NotApplicable(why.to_owned()));
    };
    let mut probe = ProbeContext::new(host, config, root);
    let probes = async {
        for name in probe::of(case) {
            // Boxed, because some of these futures are large.
            Box::pin(run_probe(name, &mut probe)).await?;
        }
        Ok(())
    };
    let late = |seconds| {
        let why = format!("the case did not finish within {seconds} s because of the host");
        NoVerdict::NotVerified(why)
    };
    let no_verdict = probe::bounded(config, probes, late).await;
    Box::pin(probe.clean_up()).await;
    probe.finish(case, no_verdict, start_time.elapsed())
}

async fn run_probe(name: &str, probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    match name {
        "record" => routes::record(probe).await,
        "routes" => routes::routes(probe).await,
        "cwd" => routes::cwd(probe).await,
        "workspace" => routes::workspace(probe).await,
        "adapter" => access::adapter(probe).await,
        "first-prompt" => turns::first_prompt(probe).await,
        "many" => life::many(probe).await,
        "ready" => life::ready(probe).await,
        "kill" => life::kill(probe).await,
        "forget" => life::forget(probe).await,
        "forget-alive" => life::forget_alive(probe).await,
        "turn" => turns::turn(probe).await,
        "recall" => turns::recall(probe).await,
        "overlap" => turns::overlap(probe).await,
        "thought" => turns::prefix(probe, "thought", "[thought]", "A46-PROJ-03").await,
        "tool" => turns::prefix(probe, "tool", "[tool]", "A46-PROJ-04").await,
        "question" => turns::prefix(probe, "permission", "[awaiting input]", "A46-PROJ-06").await,
        "stream" => stream::stream(probe).await,
        "keep-alive" => stream::keep_alive(probe).await,
        "mcp-tools" => tools::tools(probe).await,
        "mcp-start" => tools::start(probe).await,
        "mcp-prompt" => tools::prompt(probe).await,
        "mcp-overlap" => tools::overlap(probe).await,
        "mcp-list" => tools::list(probe).await,
        "mcp-output" => tools::output(probe).await,
        "mcp-kill" => tools::kill(probe).await,
        "mcp-registry" => tools::registry(probe).await,
        "mcp-stdio" => stdio::stdio(probe).await,
        "auth" => access::auth(probe).await,
        "rebinding" => access::rebinding(probe).await,
        "unknown-session" => access::unknown_session(probe).await,
        "bad-requests" => access::bad_requests(probe).await,
        "unknown-members" => access::unknown_members(probe).await,
        "media-types" => access::media_types(probe).await,
        other => Err(NoVerdict::Error(format!("unknown probe `{other}`"))),
    }
}
