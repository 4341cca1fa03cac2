//! Defects in turns and in the shutdown.

use super::made::{acp, adapter, script, without_line};
use super::{Mutant, wrong};

pub fn mutants() -> Vec<Mutant> {
    let last = "text \"$message\"\n          end end_turn";
    let twice = format!("{last}\n          end end_turn");
    vec![
        wrong(
            "lc-banner",
            "A45-EVT-01",
            "The agent prints a greeting to stdout before the protocol starts.",
            acp().args("--scenario, banner").only_talks(),
        ),
        wrong(
            "lc-unknown-event",
            "A45-EVT-01",
            "An adapter writes an unknown event.",
            adapter().says("text \"You said: \"", "say '{\"type\":\"progress\"}'"),
        ),
        wrong(
            "lc-two-ends",
            "A45-EVT-07",
            "An adapter ends its turns twice.",
            adapter().says(last, &twice),
        ),
        wrong(
            "lc-dies-in-turn",
            "A45-EVT-07",
            "The agent crashes during a turn.",
            acp().args("--scenario, crash").only_talks(),
        ),
        wrong(
            "lc-no-end",
            "A45-EVT-07",
            "A turn never ends.",
            acp().args("--scenario, hang").only_talks(),
        ),
        wrong(
            "lc-nameless-tool",
            "A45-EVT-03",
            "A tool call has no name.",
            adapter().says("\"name\":\"search\"", "\"name\":\"\""),
        ),
        wrong(
            "lc-stray-result",
            "A45-EVT-04",
            "A tool result belongs to no tool call.",
            adapter().says("-result\",\"id\":\"1\"", "-result\",\"id\":\"2\""),
        ),
        wrong(
            "lc-blank-question",
            "A45-EVT-06",
            "A question has an empty message.",
            adapter().says("\"message\":\"May I?\"", "\"message\":\"\""),
        ),
        wrong(
            "lc-deaf-to-cancel",
            "A45-API-03",
            "A canceled turn continues.",
            acp().args("--mutant, acp-pt-11-deaf"),
        ),
        wrong(
            "lc-close-hangs",
            "A45-LIFE-08",
            "session/close is never answered.",
            script().program(&without_line("\"session/close\"")),
        ),
        wrong(
            "lc-ignores-sigterm",
            "A45-LIFE-09",
            "The agent exits neither when stdin is closed nor on SIGTERM.",
            acp().args("--scenario, ignore-sigterm").only_talks(),
        ),
        wrong(
            "lc-leaves-daemon",
            "A44-LIFEC-03",
            "The agent leaves a process behind.",
            acp().args("--scenario, daemon").only_talks(),
        ),
    ]
}
