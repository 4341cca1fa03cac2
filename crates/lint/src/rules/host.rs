//! Rules that need a host to be decided: `agentproto doctor` holds a manifest against this
//! machine. They are in no family, since no check of a file can report them.

use crate::registry;
use crate::rule::{Level, Rule, Scope, Severity, Source};

const INSTALL_METHODS: Source = Source {
    spec: "AIP-29",
    section: "Install methods",
};

pub static HOST_OS_MISMATCH: Rule = Rule {
    slug: "host-os-mismatch",
    title: "`requires` excludes this machine",
    source: INSTALL_METHODS,
    decides: &["A29-INSTALL-16"],
    scope: Scope::Host,
    ..Rule::BASE
};

pub static HOST_UNSUPPORTED_METHOD: Rule = Rule {
    slug: "host-unsupported-method",
    title: "An entry of `install` would be passed over on this machine",
    severity: Severity::Info,
    level: Level::May,
    source: INSTALL_METHODS,
    scope: Scope::Host,
    ..Rule::BASE
};

pub static VC_PROBE_OUT_OF_RANGE: Rule = Rule {
    slug: "vc-probe-out-of-range",
    title: "The installed program has a version that does not fit",
    source: Source {
        spec: "AIP-29",
        section: "Version detection",
    },
    decides: &["A29-VER-06", "A29-SKILL-02"],
    scope: Scope::Host,
    ..Rule::BASE
};

pub static OUT_MIXED_UNDECLARED: Rule = Rule {
    slug: "out-mixed-undeclared",
    title: "The program writes results to standard error, and the manifest does not say so",
    severity: Severity::Info,
    source: Source {
        spec: "AIP-29",
        section: "Output conventions",
    },
    decides: &["A29-OUT-13"],
    scope: Scope::Host,
    ..Rule::BASE
};

/// A manifest may ask for what a host does not implement. This host implements it, so that the
/// row always says ok: a caller that compares hosts reads the same rows everywhere.
pub static SETUP_OAUTH_UNSUPPORTED_HOST: Rule = Rule {
    slug: "setup-oauth-unsupported-host",
    title: "The host does not run the OAuth flow that `setup` asks for",
    severity: Severity::Info,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Setup",
    },
    scope: Scope::Host,
    ..Rule::BASE
};

/// As [`SETUP_OAUTH_UNSUPPORTED_HOST`]: always ok here.
pub static MCP_ARM_UNIMPLEMENTED: Rule = Rule {
    slug: "mcp-arm-unimplemented",
    title: "The host does not implement the protocol `mcp`",
    severity: Severity::Info,
    level: Level::May,
    source: Source::aip45("Protocol"),
    scope: Scope::Host,
    ..Rule::BASE
};

/// The linter decides it from the bundle's files, a host by looking whether it could run them.
pub fn install_vendored_missing() -> Rule {
    shared("install-vendored-missing", INSTALL_METHODS)
}

/// The linter decides it from the declared provider, a host by what it can enforce.
pub fn auth_env_isolation() -> Rule {
    shared(
        "auth-env-isolation",
        Source::aip45("Security considerations"),
    )
}

/// A rule of the linter, with the section that is about hosts.
fn shared(slug: &'static str, source: Source) -> Rule {
    let known = registry::find(slug).unwrap_or(&Rule::BASE);
    Rule {
        slug,
        source,
        scope: Scope::Host,
        ..*known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_one_record() {
        for rule in [install_vendored_missing(), auth_env_isolation()] {
            assert!(registry::find(rule.slug).is_some(), "{}", rule.slug);
        }
        for rule in [
            &HOST_OS_MISMATCH,
            &HOST_UNSUPPORTED_METHOD,
            &VC_PROBE_OUT_OF_RANGE,
            &OUT_MIXED_UNDECLARED,
            &SETUP_OAUTH_UNSUPPORTED_HOST,
            &MCP_ARM_UNIMPLEMENTED,
        ] {
            assert!(registry::find(rule.slug).is_none(), "{}", rule.slug);
        }
    }
}
