//! The monitors over the real mock: nothing to blame on the correct one, and each mutant is
//! blamed for what it breaks.

mod mutants;
mod scripts;
mod talk;
