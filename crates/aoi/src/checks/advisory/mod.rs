//! Statements beyond the 13 checks, as far as they can be decided from outside. They are told,
//! and bear on no pair of the matrix.

mod documents;
mod events;
mod surface;

use crate::rules::Rule;
use crate::session::Session;
use documents::{
    AOI_VERSIONS, COMMANDS, DRY_RUN, ID, MANIFEST, ONE_OF, OUTPUT_CLOSED, RESERVED, UNBOUNDED, VERB,
};
use events::{EXIT, HEARTBEAT, HIT, RETRY, TIMESTAMP, TRACE_ID};
use surface::{
    CODE, HELP, INPUT_OPEN, INPUT_SCHEMA, MACHINE_FLAG, NO_COLOR, TIMEOUT, UPSTREAM_ERROR,
    UPSTREAM_WARNING, VERSION,
};

pub const RULES: &[&Rule] = &[
    &HELP,
    &VERSION,
    &NO_COLOR,
    &TIMEOUT,
    &MACHINE_FLAG,
    &INPUT_SCHEMA,
    &INPUT_OPEN,
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

/// What takes runs of its own.
pub async fn check(session: &Session) {
    surface::check(session).await;
}

/// What shows in the runs of others, and in what the tool says of itself.
pub fn conclude(session: &Session) {
    events::conclude(session);
    documents::conclude(session);
}
