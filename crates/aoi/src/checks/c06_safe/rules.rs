//! What check 6 demands.

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
        check: Check::Number(6),
        level,
        section,
        demands,
        why,
        hint,
        topic: Topic::Confirm,
        register,
    }
}

pub static REFUSES: Rule = rule(
    "AOI-06.refuses",
    Level::Must,
    "§14.3",
    "A destructive command without its confirmation exits non-zero and does not say ok",
    "A caller that forgot the confirmation must learn that nothing was done.",
    "Without --confirm: one aoi:error, a summary with ok false, exit 64, and nothing else.",
    &[
        "AOI-14.3-01",
        "AOI-14.3-02",
        "AOI-16.1-10",
        "AOI-16.3-06",
        "AOI-18.2-06",
    ],
);
pub static NO_EFFECT: Rule = rule(
    "AOI-06.no-effect",
    Level::Must,
    "§14.3",
    "A destructive command without its confirmation changes nothing",
    "An error after the deletion is too late.",
    "Look for the confirmation before anything is touched.",
    &["AOI-14.3-01"],
);
pub static PIPED_YES: Rule = rule(
    "AOI-06.piped-yes",
    Level::Must,
    "§14.3",
    "A `y` on standard input is no confirmation",
    "Whatever happens to be piped in would delete things.",
    "Take only the flag for a confirmation in machine mode; do not read standard input for it.",
    &["AOI-14.3-01", "AOI-16.1-10"],
);
pub static ENVIRONMENT: Rule = rule(
    "AOI-06.environment",
    Level::Must,
    "§14.3",
    "CI=1 and the like are no confirmation",
    "Confirmation is explicit: an agent that runs in CI has confirmed nothing.",
    "Let no variable of the environment stand for --confirm.",
    &["AOI-14.3-01", "AOI-16.1-10"],
);
pub static PROMPT: Rule = rule(
    "AOI-06.prompt",
    Level::Must,
    "§1.3",
    "Machine mode never waits for an answer, with or without a terminal",
    "Nobody is there to answer: the caller waits until its own time is over.",
    "Where a question would be asked, write an aoi:error with code INTERACTIVE_REQUIRED or a refusal and exit non-zero.",
    &["AOI-1.3-01", "AOI-1.3-03"],
);
pub static CONFIRMED: Rule = rule(
    "AOI-06.confirmed",
    Level::Must,
    "§14.3",
    "With its confirmation a destructive command does what it says",
    "A refusal means something only where the same words with --confirm act; a success that did nothing misleads.",
    "Say ok true only when the resource is gone.",
    &["AOI-16.1-10"],
);
pub static CONFIRM_COUNT: Rule = Rule {
    check: Check::Advisory,
    ..rule(
        "AOI-adv.confirm-count",
        Level::Should,
        "§14.3",
        "A wrong --confirm-count stops a bulk deletion before it begins",
        "The count guards against a pattern that matches more than was meant.",
        "Count first; where the number differs, exit non-zero with category conflict and delete nothing.",
        &["AOI-14.3-02"],
    )
};
pub static DRY_RUN_PLAN: Rule = rule(
    "AOI-06.dry-run-plan",
    Level::Must,
    "§14.2",
    "An advertised dry run exits 0 and emits at least one aoi:plan",
    "The plan is what a caller shows to whoever decides.",
    "Emit an aoi:plan with action and target for each thing that would be done.",
    &[
        "AOI-14.2-01",
        "AOI-14.2-02",
        "AOI-8.3-07",
        "AOI-16.1-08",
        "AOI-18.2-06",
    ],
);
pub static DRY_RUN_EFFECT: Rule = rule(
    "AOI-06.dry-run-effect",
    Level::Must,
    "§14.2",
    "A dry run changes nothing",
    "It is asked for because nothing may happen yet.",
    "Branch off before the first write, not before the last.",
    &["AOI-16.1-08", "AOI-18.2-06"],
);
pub static STRAY_WRITES: Rule = rule(
    "AOI-06.stray-writes",
    Level::Open,
    "§14.2",
    "Refusals and dry runs leave no files behind beside caches and logs",
    "Files that were written although nothing was to be done are often a half-done change.",
    "Write nothing before it is clear that the change will happen; name caches and logs in the probe file under `caches`.",
    &["AOI-16.1-08"],
);
pub static DECLARED: Rule = rule(
    "AOI-06.declared",
    Level::Open,
    "§17",
    "A destructive command is declared so: destructive and requires_confirm are true",
    "A caller decides by the manifest which commands it may try.",
    "Set destructive and requires_confirm to true in the command's entry of capabilities.",
    &["AOI-17-05"],
);
pub static AUTH_ERROR: Rule = rule(
    "AOI-06.interactive-required",
    Level::Must,
    "§1.3",
    "Without credentials there is an aoi:error of category authn (INTERACTIVE_REQUIRED) and a non-zero exit",
    "A caller must be able to tell its operator that a login is needed.",
    "Emit aoi:error with category authn, code INTERACTIVE_REQUIRED, retryable false and a hint, then exit 77.",
    &["AOI-1.3-05"],
);
pub static AUTH_CATEGORY: Rule = rule(
    "AOI-06.auth-category",
    Level::Must,
    "§9.1",
    "The error for missing credentials is of category authn",
    "Portable callers branch on the category.",
    "Set the category to authn; authz is for credentials that are not enough.",
    &["AOI-1.3-05"],
);
pub static BROWSER: Rule = rule(
    "AOI-06.browser",
    Level::Must,
    "§1.3",
    "Machine mode opens no browser",
    "There is no screen, and nobody to click.",
    "Start the login only in human mode; in machine mode emit INTERACTIVE_REQUIRED.",
    &["AOI-1.3-02"],
);
pub static READ_ONLY: Rule = Rule {
    id: "AOI-adv.read-only-changes",
    check: Check::Advisory,
    level: Level::Must,
    section: "§14.1",
    demands: "A command that is declared read-only changes nothing",
    why: "Callers run read-only commands without asking anybody.",
    hint: "Declare read_only false for what changes something, or stop it from doing so.",
    topic: Topic::Confirm,
    register: &["AOI-14.1-01", "AOI-14.1-02"],
};
pub static READ_ONLY_STRAYS: Rule = Rule {
    id: "AOI-adv.read-only-strays",
    check: Check::Advisory,
    level: Level::Should,
    section: "§14.1",
    demands: "A command that is declared read-only leaves no files in its home or working directory beside caches and logs",
    why: "A directory that was only read, a repository perhaps, must not be another one afterwards.",
    hint: "Write to XDG_CACHE_HOME, XDG_STATE_HOME or TMPDIR, or declare read_only false; name other caches and logs in the probe file under `caches`.",
    topic: Topic::Confirm,
    register: &["AOI-14.1-01"],
};
