//! What check 9 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(id: &'static str, level: Level, section: &'static str) -> Rule {
    Rule {
        id,
        check: Check::Number(9),
        level,
        section,
        demands: "",
        why: "Output goes into logs, transcripts and the memory of agents: a secret in it is out.",
        hint: "Print names of flags and variables, never their values; at most a hash as `input_fingerprint`.",
        topic: Topic::Secrets,
        register: &[],
    }
}

pub static FLAG: Rule = Rule {
    demands: "The value of a flag such as --token or --password is not printed, accepted or refused",
    register: &["AOI-11-02", "AOI-11-03", "AOI-16.1-13", "AOI-18.2-09"],
    ..rule("AOI-09.flag-value", Level::Must, "§11")
};
pub static HEADER: Rule = Rule {
    demands: "The value of a custom header is not printed",
    register: &["AOI-11-02", "AOI-11-05"],
    ..rule("AOI-09.header", Level::Must, "§11")
};
pub static USERINFO: Rule = Rule {
    demands: "The password of a URL is not printed",
    hint: "Print scheme, host and path of a URL, and nothing else of it.",
    register: &["AOI-11-02", "AOI-11-04"],
    ..rule("AOI-09.url-userinfo", Level::Must, "§11")
};
pub static QUERY: Rule = Rule {
    demands: "Tokens and signatures in the query of a URL are not printed",
    hint: "Print scheme, host and path of a URL, and nothing else of it.",
    register: &["AOI-11-02", "AOI-11-04"],
    ..rule("AOI-09.url-query", Level::Must, "§11")
};
pub static ENVIRONMENT: Rule = Rule {
    demands: "Values of environment variables are not printed, with --debug or without",
    register: &["AOI-8.3-02", "AOI-11-06", "AOI-16.1-13"],
    ..rule("AOI-09.environment", Level::Must, "§11")
};
pub static CONFIG: Rule = Rule {
    demands: "What stands in credential files is not printed",
    register: &["AOI-11-07"],
    ..rule("AOI-09.config-file", Level::Must, "§11")
};
pub static STDIN: Rule = Rule {
    demands: "A refused line of input that looks like a secret is not quoted",
    hint: "Name the line by its number, not by its text.",
    register: &["AOI-11-02"],
    ..rule("AOI-09.stdin", Level::Must, "§11")
};
pub static INTERRUPTED: Rule = Rule {
    demands: "A run that is interrupted shows no secret of its words",
    register: &["AOI-11-02"],
    ..rule("AOI-09.on-signal", Level::Must, "§11")
};
pub static OPERAND: Rule = Rule {
    demands: "A refused operand such as `password=…` is not quoted",
    hint: "Say which place the operand has, not what it is.",
    register: &["AOI-11-02"],
    ..rule("AOI-09.rejected-operand", Level::Should, "§11")
};
pub static WRITTEN: Rule = Rule {
    demands: "A run leaves no secret of its words in files",
    why: "Logs and caches are read by others, and stay.",
    register: &["AOI-11-02"],
    ..rule("AOI-09.written-file", Level::Should, "§11")
};
pub static ARGV: Rule = Rule {
    demands: "aoi:meta does not repeat the command line",
    why: "The caller knows what it passed; whoever reads the stream later need not.",
    hint: "Write `command`, and `args_redacted: true` where something was left out.",
    register: &["AOI-8.3-02", "AOI-11-01", "AOI-11-08"],
    ..rule("AOI-09.argv", Level::Must, "§8.3")
};

pub const ALL: &[&Rule] = &[
    &FLAG,
    &HEADER,
    &USERINFO,
    &QUERY,
    &ENVIRONMENT,
    &CONFIG,
    &STDIN,
    &INTERRUPTED,
    &OPERAND,
    &WRITTEN,
    &ARGV,
];
