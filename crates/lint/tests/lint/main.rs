//! Tests of the linter, from the text of a manifest to the printed report.

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
