//! What check 11 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(
    id: &'static str,
    level: Level,
    section: &'static str,
    demands: &'static str,
    why: &'static str,
    hint: &'static str,
    register: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        check: Check::Number(11),
        level,
        section,
        demands,
        why,
        hint,
        topic: Topic::Bounds,
        register,
    }
}

pub static AT_MOST: Rule = rule(
    "AOI-11.limit",
    Level::Must,
    "§15",
    "There are never more results than the limit says",
    "A caller with room for ten cannot take eleven.",
    "Count what is emitted, and stop at the limit.",
    &[
        "AOI-15-01",
        "AOI-15-02",
        "AOI-16.1-06",
        "AOI-16.3-01",
        "AOI-18.2-11",
    ],
);
pub static TRUNCATED: Rule = rule(
    "AOI-11.truncated",
    Level::Must,
    "§15",
    "Where results are left out, summary.truncated is true",
    "A caller that is not told takes a part for the whole.",
    "Ask for one more than the limit: if it is there, set truncated to true.",
    &["AOI-15-03", "AOI-18.2-11"],
);
pub static TRUNCATED_FALSELY: Rule = rule(
    "AOI-11.truncated-falsely",
    Level::Must,
    "§15",
    "Where nothing is left out, summary.truncated is not true",
    "A caller would ask for more, again and again.",
    "Set truncated by what is left, not by whether the page is full.",
    &["AOI-15-03", "AOI-18.2-11"],
);
pub static TRUNCATED_TYPE: Rule = rule(
    "AOI-11.truncated-type",
    Level::Must,
    "§15",
    "summary.truncated is a boolean where it is there",
    "The text \"false\" is true in many languages.",
    "Write true or false without quotes.",
    &["AOI-15-03"],
);
pub static NEXT_CURSOR: Rule = rule(
    "AOI-11.next-cursor",
    Level::Should,
    "§15",
    "Where results are left out and cursors are supported, summary.next_cursor is set",
    "Without it the rest is out of reach.",
    "Set next_cursor whenever truncated is true.",
    &["AOI-15-04"],
);
pub static CURSOR_END: Rule = rule(
    "AOI-11.cursor-end",
    Level::Must,
    "§15",
    "After the last result there is no next_cursor",
    "A caller that follows cursors would never end.",
    "Set next_cursor to null, or leave it out, where nothing is left.",
    &["AOI-15-04", "AOI-18.2-11"],
);
pub static WALK: Rule = rule(
    "AOI-11.cursor-walk",
    Level::Must,
    "§15",
    "From cursor to cursor every result comes once, in the order of the whole",
    "What a page skips is never seen; what it repeats is done twice.",
    "Let the cursor say after which result the next page begins, in an order that is fixed.",
    &["AOI-16.1-07", "AOI-18.2-11"],
);
pub static BAD_CURSOR: Rule = rule(
    "AOI-11.bad-cursor",
    Level::Must,
    "§15",
    "A cursor that the tool never gave is refused with a non-zero exit",
    "Starting again from the first page looks like more results.",
    "Check the cursor; where it is none of yours, fail with category validation.",
    &["AOI-16.1-07"],
);
pub static BAD_CURSOR_CATEGORY: Rule = rule(
    "AOI-11.bad-cursor-category",
    Level::Should,
    "§9.1",
    "The error for such a cursor is of category validation or usage",
    "Portable callers branch on the category.",
    "Use validation for a value that is wrong.",
    &["AOI-16.1-07"],
);
pub static ODD_LIMIT: Rule = rule(
    "AOI-11.odd-limit",
    Level::Must,
    "§15",
    "A limit of 0, -1 or no number never means everything",
    "A mistake in a number must not open the flood gates.",
    "Refuse limits below 1 with category usage.",
    &["AOI-16.1-06", "AOI-15-02"],
);
pub static STREAMS: Rule = rule(
    "AOI-11.streams",
    Level::Must,
    "§8.3",
    "Results come one by one while the command works, not all at its end",
    "A caller that waits for the first result waits for all of them.",
    "Write and flush each event when it is known.",
    &["AOI-0-05", "AOI-21-01"],
);
pub static DEFAULT_BOUND: Rule = Rule {
    check: Check::Advisory,
    ..rule(
        "AOI-adv.default-bound",
        Level::Should,
        "§15",
        "Without a limit there is a bound, too",
        "The first call is often one without a limit.",
        "Bound by default, and say truncated.",
        &["AOI-15-01", "AOI-16.3-01"],
    )
};
