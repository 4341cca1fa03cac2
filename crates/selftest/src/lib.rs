//! Tests of the judges: agents, hosts and tools with one known defect each, which a judge must
//! catch by the right id, and conforming variants, which it must leave alone.

pub mod aoi;
pub mod certify;
pub mod frame;
pub mod lifecycle;
pub mod sessions;
