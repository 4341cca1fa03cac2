//! Defects in turns and in the shutdown.

use super::bundle::{acp, adapter, script, without_line};
use super::{Mutant, mutant};

pub fn mutants() -> Vec<Mutant> {
    let last = "text \"$message\"\n          end end_turn";
    let twice = format!("{last}\n          end end_turn");
    vec![
        mutant(
            "lc-banner",
            "A45-EVT-01",
            "The agent prints a greeting to stdout before the protocol starts.",
            acp().args("--scenario, banner").without_optional(),
        ),
        mutant(
            "lc-unknown-event",
            "A45-EVT-01",
            "An adapter writes an unknown event.",
            adapter().edit_adapter("text \"You said: \"", "say '{\"type\":\"progress\"}'"),
        ),
        mutant(
            "lc-two-ends",
            "A45-EVT-07",
            "An adapter ends its turns twice.",
            adapter().edit_adapter(last, &twice),
        ),
        mutant(
            "lc-dies-in-turn",
            "A45-EVT-07",
            "The agent crashes during a turn.",
            acp().args("--scenario, crash").without_optional(),
        ),
        mutant(
            "lc-no-end",
            "A45-EVT-07",
            "A turn never ends.",
            acp().args("--scenario, hang").without_optional(),
        ),
        mutant(
            "lc-nameless-tool",
            "A45-EVT-03",
            "A tool call has no name.",
            adapter().edit_adapter("\"name\":\"search\"", "\"name\":\"\""),
        ),
        mutant(
            "lc-stray-result",
            "A45-EVT-04",
            "A tool result belongs to no tool call.",
            adapter().edit_adapter("-result\",\"id\":\"1\"", "-result\",\"id\":\"2\""),
        ),
        mutant(
            "lc-blank-question",
            "A45-EVT-06",
            "A question has an empty message.",
            adapter().edit_adapter("\"message\":\"May I?\"", "\"message\":\"\""),
        ),
        mutant(
            "lc-deaf-to-cancel",
            "A45-API-03",
            "A canceled turn continues.",
            acp().args("--mutant, acp-pt-11-ignored"),
        ),
        mutant(
            "lc-close-hangs",
            "A45-LIFE-08",
            "session/close is never answered.",
            script().program(&without_line("\"session/close\"")),
        ),
        mutant(
            "lc-ignores-sigterm",
            "A45-LIFE-09",
            "The agent exits neither when stdin is closed nor on SIGTERM.",
            acp().args("--scenario, ignore-sigterm").without_optional(),
        ),
        mutant(
            "lc-leaves-daemon",
            "A44-LIFEC-03",
            "The agent leaves a process behind.",
            acp().args("--scenario, daemon").without_optional(),
        ),
    ]
}
