//! Chooses the arm for a proprietary protocol: an executable adapter, a codec, or an npm package.

use std::sync::Arc;

use super::adapter::{self, Executable};
use super::codec::{Print, Style};
use super::desk::Desk;
use super::npm::{NodeAdapter, Package};
use super::{Arm, Spec};
use crate::context::Context;
use crate::fault::Fault;

/// Uses the first of `adapter_exec` and `codec` in `metadata.agentproto`, otherwise the package in
/// `adapter` (A45-PROTO-03).
pub fn proprietary(context: Arc<Context>, spec: Spec, desk: Desk) -> Result<Box<dyn Arm>, Fault> {
    if let Some(argv) = adapter::from_manifest(&context.bundle)? {
        return Ok(Box::new(Executable::new(context, argv, spec, desk)));
    }
    if let Some(style) = Style::from_manifest(&context.bundle)? {
        return Ok(Box::new(Print::new(context, spec, style)));
    }
    let package = Package::from_manifest(&context.bundle)?;
    Ok(Box::new(NodeAdapter::new(context, package, spec, desk)))
}
