//! One findings model → every output format, one file each.
