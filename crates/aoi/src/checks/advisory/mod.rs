//! Rules beyond the 13 checks, as far as they can be checked from outside. They are reported, but
//! do not affect the matrix.

mod documents;
mod events;
mod input_schema;
mod surface;

use crate::rules::Rule;
use crate::session::LintSession;
use documents::{
    AOI_VERSIONS, COMMANDS, DRY_RUN, ID, MANIFEST, ONE_OF, OUTPUT_CLOSED, RESERVED, UNBOUNDED, VERB,
};
use events::{EXIT, HEARTBEAT, HIT, RETRY, TIMESTAMP, TRACE_ID};
use input_schema::{INPUT_DIFFERS, INPUT_OPEN, INPUT_SCHEMA};
pub use surface::UPSTREAM_ERROR;
use surface::{CODE, HELP, MACHINE_FLAG, NO_COLOR, TIMEOUT, UPSTREAM_WARNING, VERSION};

pub const RULES: &[&Rule] = &[
    &HELP,
    &VERSION,
    &NO_COLOR,
    &TIMEOUT,
    &MACHINE_FLAG,
    &INPUT_SCHEMA,
    &INPUT_OPEN,
    &INPUT_DIFFERS,
    &CODE,
    &UPSTREAM_ERROR,
    &UPSTREAM_WARNING,
    &TIMESTAMP,
    &TRACE_ID,
    &EXIT,
    &RETRY,
    &HIT,
    &HEARTBEAT,
    &UNBOUNDED,
    &AOI_VERSIONS,
    &MANIFEST,
    &COMMANDS,
    &DRY_RUN,
    &VERB,
    &RESERVED,
    &OUTPUT_CLOSED,
    &ONE_OF,
    &ID,
];

/// Checks that need runs of their own.
pub async fn check(session: &LintSession) {
    surface::check(session).await;
}

/// Checks that evaluate the runs of other checks and the discovery documents.
pub fn evaluate(session: &LintSession) {
    events::evaluate(session);
    documents::evaluate(session);
}
