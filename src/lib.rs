//! agentproto: lint agent manifests, run the agents they describe, certify what they do.

pub use agentproto_lint as lint;
pub use agentproto_manifest as manifest;
