//! Other processes: those of the host, and the supervisor of the sandbox.

use crate::matrix::Control::{self, Escapes, Kernel, Root};
use crate::matrix::{Case, run, twin, wall};
use crate::policies::{listed, visible};

const SEC: &str = "A29-SEC-04 A45-SEC-05";
const EMPTY: Control =
    Control::None("our helper has an empty environment, with and without a sandbox");

fn cases() -> Vec<Case> {
    vec![
        wall("environ_of", "{victim}", "A29-SBX-10 A45-SEC-05", Escapes),
        wall("environ_of", "parent", "A29-SBX-10 A45-SEC-05", EMPTY),
        wall("environ_of", "1", "A29-SBX-10 A45-SEC-05", EMPTY),
        wall("memory_file_of", "{victim} {address}", SEC, Escapes),
        wall(
            "memory_file_of",
            "1 4096",
            SEC,
            Control::None("without a sandbox nothing is mapped at that address"),
        ),
        wall("memory_of", "{victim} {address}", SEC, Kernel),
        wall("signal", "{victim}", SEC, Escapes),
        wall("signal", "{runner}", SEC, Escapes),
        wall("signal", "parent", SEC, Escapes),
        wall("signal", "1", SEC, Root),
        wall("signal_descriptor", "{victim}", SEC, Escapes),
        wall("signal_descriptor", "1", SEC, Root),
        wall("trace", "{victim}", SEC, Kernel),
        wall("trace", "parent", SEC, Root),
        wall(
            "trace",
            "1",
            SEC,
            Control::None("it would trace process 1 of the host"),
        ),
        wall("descriptor_of", "{victim} 0", SEC, Kernel),
        wall("descriptor_of", "parent 3", SEC, Root),
        wall("compare", "{victim}", SEC, Kernel),
        wall("compare", "parent", SEC, Control::RootAndKernel),
        wall("priority_of", "{victim}", SEC, Escapes),
        wall("enter_namespace_of", "{victim}", SEC, Root),
        wall("type_into_terminal", "", "A29-SBX-12", Kernel).on_terminal(),
        twin("environment", "", "A29-SBX-10").on_terminal(),
    ]
}

#[tokio::test]
async fn listed_processes() {
    run("process/29", listed, &cases()).await;
}

#[tokio::test]
async fn visible_processes() {
    run("process/36", visible, &cases()).await;
}
