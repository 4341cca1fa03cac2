//! The linter, from the text of a manifest to what is printed of it.

mod aip45;
mod any_input;
mod baseline;
mod changed;
mod common;
mod edits;
mod fixes;
mod ignores;
mod long_inputs;
mod outputs;
mod outputs_any;
mod register;
mod rules;
mod schemas;
mod spec_examples;
mod wording;
