//! Chooses the arm for a proprietary protocol: an executable adapter, a codec, or an npm package.

use std::sync::Arc;

use super::adapter::{self, Executable};
use super::codec::{CodecArm, CodecKind};
use super::npm::{NodeAdapter, Package};
use super::permissions::PermissionBroker;
use super::{Arm, LaunchSpec};
use crate::context::Context;
use crate::error::Error;

/// Uses the first of `adapter_exec` and `codec` in `metadata.agentproto`, otherwise the package in
/// `adapter` (A45-PROTO-03).
pub fn proprietary(
    context: Arc<Context>,
    spec: LaunchSpec,
    broker: PermissionBroker,
) -> Result<Box<dyn Arm>, Error> {
    if let Some(argv) = adapter::from_manifest(&context.bundle)? {
        return Ok(Box::new(Executable::new(context, argv, spec, broker)));
    }
    if let Some(kind) = CodecKind::from_manifest(&context.bundle)? {
        return Ok(Box::new(CodecArm::new(context, spec, kind)));
    }
    let package = Package::from_manifest(&context.bundle)?;
    Ok(Box::new(NodeAdapter::new(context, package, spec, broker)))
}
