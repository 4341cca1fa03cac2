//! What check 7 demands.

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
        check: Check::Number(7),
        level,
        section,
        demands,
        why,
        hint,
        topic: Topic::Idempotency,
        register,
    }
}

pub static KEY_DECLARED: Rule = rule(
    "AOI-07.declared-key",
    Level::Must,
    "§17",
    "A command that declares supports_idempotency_key takes a key",
    "Callers retry what they are told is safe to retry.",
    "Accept --idempotency-key, or declare that there is none.",
    &["AOI-17-05", "AOI-18.2-07"],
);
pub static KEY: Rule = rule(
    "AOI-07.key",
    Level::Should,
    "§14.4",
    "A write takes an idempotency key, or has a natural key",
    "After a lost answer nobody knows whether to try again.",
    "Take --idempotency-key KEY and remember what it gave, or derive the id from the input.",
    &["AOI-14.4-01", "AOI-16.1-09"],
);
pub static REPLAY: Rule = rule(
    "AOI-07.replay",
    Level::Must,
    "§14.4",
    "The same words with the same key succeed again",
    "A retry that fails looks like a write that failed.",
    "Where the key is known, answer with what was answered before.",
    &["AOI-16.1-09", "AOI-18.2-07"],
);
pub static RESULT: Rule = rule(
    "AOI-07.replay-result",
    Level::Must,
    "§14.4",
    "A replay tells the same ids as the first run",
    "The caller needs the id of what its first, lost answer made.",
    "Keep the events of the first run with the key, and emit them again.",
    &["AOI-18.2-07"],
);
pub static DETAILS: Rule = rule(
    "AOI-07.replay-details",
    Level::Open,
    "§14.4",
    "A replay tells of the same events as the first run, but for times and the like",
    "A caller that compares both answers should find them alike.",
    "Emit the stored events; mark a replay in the summary, not in the events.",
    &["AOI-18.2-07"],
);
pub static EFFECT: Rule = rule(
    "AOI-07.replay-effect",
    Level::Must,
    "§14.4",
    "A replay has no second effect",
    "That is what the key is for.",
    "Store key and result in one step with the change.",
    &["AOI-14.4-01", "AOI-18.2-07"],
);
pub static OTHER_KEY: Rule = rule(
    "AOI-07.other-key",
    Level::Must,
    "§14.4",
    "Another key is another write",
    "A tool that takes every key for the first one loses writes.",
    "Look the key up as it is given, and do the work where it is new.",
    &["AOI-16.1-09"],
);
pub static WITHOUT: Rule = rule(
    "AOI-07.without-key",
    Level::Should,
    "§14.4",
    "Without a key every run is a write of its own, unless the input is its own key",
    "A missing key must not be taken for a key that was seen.",
    "Remember results only for keys that were given.",
    &["AOI-14.4-01"],
);
pub static NATURAL: Rule = rule(
    "AOI-07.natural-key",
    Level::Should,
    "§14.4",
    "Where the input is its own key, that is documented",
    "Whoever wants two things alike gets one, and does not know why.",
    "Say `natural key` in the command's --help, or natural_key in its entry of capabilities.",
    &["AOI-14.4-01"],
);
pub static CONFLICT: Rule = rule(
    "AOI-07.key-conflict",
    Level::Should,
    "§9.1",
    "A known key with other words is refused with category conflict",
    "The caller would take the answer of another write for its own.",
    "Keep a fingerprint of the input with the key; where it differs, fail with category conflict.",
    &["AOI-9.1-06"],
);
pub static RACE: Rule = Rule {
    check: Check::Advisory,
    ..rule(
        "AOI-adv.idempotent-race",
        Level::Open,
        "§14.4",
        "Two runs at once with the same key have one effect",
        "A retry often starts while the first try still runs.",
        "Take the key under a lock before the work begins.",
        &["AOI-14.4-01"],
    )
};
