//! Conforming AOI tools that look unlike the plain one.

use crate::mock::aoi::twist::{Quirk, Twist};

pub struct Variant {
    pub name: &'static str,
    /// How it is unlike others, in a sentence.
    pub what: &'static str,
    pub(in crate::mock) twists: [Option<Twist>; 2],
}

const fn bent(name: &'static str, what: &'static str, twist: Twist) -> Variant {
    Variant {
        name,
        what,
        twists: [Some(twist), None],
    }
}

pub static VARIANTS: &[Variant] = &[
    bent(
        "sorted-keys",
        "The fields of an event stand in the order of the alphabet.",
        Twist::Quirk(Quirk::Sorted),
    ),
];
