//! Streams of failed upstream tools as the input of commands that change something. Checks of other
//! modules cover the commands that change nothing.

use super::InputCheck;
use super::runner::InputCase;
use crate::checks::advisory::UPSTREAM_ERROR;
use crate::checks::c03_verifiable::UPSTREAM as UPSTREAM_CUT;
use crate::rules::Rule;
use crate::verdicts::Verdicts;

/// An error of an upstream tool.
pub(super) const UPSTREAM_FAILURE: &str = r#"{"type":"aoi:error","category":"temporary","code":"UPSTREAM_DOWN","message":"It is down.","retryable":true}"#;

/// The lines of two broken streams.
pub(super) struct BrokenUpstream {
    /// A stream that ends before its summary.
    pub cut: Option<Vec<String>>,
    /// A stream with an aoi:error.
    pub failed: Vec<String>,
}

impl InputCheck<'_> {
    pub(super) async fn broken_upstream(
        &self,
        broken: BrokenUpstream,
        verdicts: &mut Verdicts<'_>,
    ) {
        let cases: [(&'static Rule, &str, Option<Vec<String>>, &str); 2] = [
            (
                &UPSTREAM_CUT,
                "a stream without its summary",
                broken.cut,
                "the input ended without the upstream summary, but `ok` is true",
            ),
            (
                &UPSTREAM_ERROR,
                "a stream with an aoi:error",
                Some(broken.failed),
                "the upstream tool reported an error, but `ok` is true",
            ),
        ];
        for (rule, what, lines, message) in cases {
            let Some(lines) = lines else { continue };
            let case = InputCase::new(what, &lines);
            match self.runner.run(&case, self.modes.usual()).await {
                Ok(out) => {
                    let claims = out.run.end.is_success() && out.stream.ok() == Some(true);
                    let violation = claims.then(|| message.to_owned());
                    verdicts.decide(rule, "a broken stream is a failure", violation, &out.run);
                }
                Err(blocked) => blocked.report(verdicts, &[rule]),
            }
        }
    }
}
