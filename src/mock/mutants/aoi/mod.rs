//! AOI tools that are wrong in exactly one way.

use crate::mock::aoi::twist::Twist;

pub struct Mutant {
    pub id: &'static str,
    pub(in crate::mock) twists: [Option<Twist>; 2],
}

pub fn all() -> impl Iterator<Item = &'static Mutant> {
    [].into_iter()
}
