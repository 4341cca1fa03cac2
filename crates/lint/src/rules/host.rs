//! Rules that `agentproto doctor` checks against this machine. They belong to no family, because
//! the linter cannot check them from files alone.

use crate::registry;
use crate::rule::{Level, Rule, Scope, Severity, Source};

const INSTALL_METHODS: Source = Source {
    spec: "AIP-29",
    section: "Install methods",
};

/// The manifest, or one that it refers to, has errors, so hosts refuse it. `doctor` reports each
/// error under its own rule, and this one if there are none.
pub static MANIFEST_INVALID: Rule = Rule {
    slug: "manifest-invalid",
    title: "The manifest has errors, so hosts refuse it",
    source: Source::aip45("Conformance"),
    scope: Scope::Host,
    ..Rule::BASE
};

/// `requires` excludes this machine.
pub static HOST_OS_MISMATCH: Rule = Rule {
    slug: "host-os-mismatch",
    title: "`requires` excludes this machine",
    source: INSTALL_METHODS,
    decides: &["A29-INSTALL-16"],
    scope: Scope::Host,
    ..Rule::BASE
};

/// The host would skip an install method on this machine.
pub static HOST_UNSUPPORTED_METHOD: Rule = Rule {
    slug: "host-unsupported-method",
    title: "This machine does not support an install method, so the host skips it",
    severity: Severity::Info,
    level: Level::May,
    source: INSTALL_METHODS,
    scope: Scope::Host,
    ..Rule::BASE
};

/// The version of the installed program is outside `version_check.range`.
pub static VC_PROBE_OUT_OF_RANGE: Rule = Rule {
    slug: "vc-probe-out-of-range",
    title: "The version of the installed program is outside `version_check.range`",
    source: Source {
        spec: "AIP-29",
        section: "Version detection",
    },
    decides: &["A29-VER-06", "A29-SKILL-02"],
    scope: Scope::Host,
    ..Rule::BASE
};

/// The program writes results to stderr, but `output.stream` does not declare it.
pub static OUT_MIXED_UNDECLARED: Rule = Rule {
    slug: "out-mixed-undeclared",
    title: "The program writes results to stderr, but the manifest does not declare it",
    severity: Severity::Info,
    source: Source {
        spec: "AIP-29",
        section: "Output conventions",
    },
    decides: &["A29-OUT-13"],
    scope: Scope::Host,
    ..Rule::BASE
};

/// The host cannot enforce the sandbox that the bundle declares.
pub static HOST_SANDBOX_UNSUPPORTED: Rule = Rule {
    slug: "host-sandbox-unsupported",
    title: "This machine cannot enforce the sandbox of the bundle",
    source: Source {
        spec: "AIP-36",
        section: "Conformance rules",
    },
    scope: Scope::Host,
    ..Rule::BASE
};

/// Always passes on this host, which implements the OAuth flow. `doctor` reports it anyway, so that
/// callers that compare hosts get the same rows from every host.
pub static SETUP_OAUTH_UNSUPPORTED_HOST: Rule = Rule {
    slug: "setup-oauth-unsupported-host",
    title: "The host does not support the OAuth flow that `setup` requires",
    severity: Severity::Info,
    level: Level::May,
    source: Source {
        spec: "AIP-29",
        section: "Setup",
    },
    scope: Scope::Host,
    ..Rule::BASE
};

/// Always passes on this host, like [`SETUP_OAUTH_UNSUPPORTED_HOST`].
pub static MCP_ARM_UNIMPLEMENTED: Rule = Rule {
    slug: "mcp-arm-unimplemented",
    title: "The host does not implement the protocol `mcp`",
    severity: Severity::Info,
    level: Level::May,
    source: Source::aip45("Protocol"),
    scope: Scope::Host,
    ..Rule::BASE
};

/// The lint rule `install-vendored-missing`, as `doctor` reports it. The linter looks at the files
/// of the bundle, and `doctor` checks whether this host can use them.
pub fn install_vendored_missing() -> Rule {
    for_host("install-vendored-missing", INSTALL_METHODS)
}

/// The lint rule `auth-env-isolation`, as `doctor` reports it. The linter looks at the declared
/// provider, and `doctor` checks what this host can enforce.
pub fn auth_env_isolation() -> Rule {
    Rule {
        // `run` refuses to start the agent.
        severity: Severity::Error,
        ..for_host(
            "auth-env-isolation",
            Source::aip45("Security considerations"),
        )
    }
}

/// A copy of a lint rule that refers to the spec section about hosts.
fn for_host(slug: &'static str, source: Source) -> Rule {
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
    fn only_shared_rules_are_in_the_lint_registry() {
        for rule in [install_vendored_missing(), auth_env_isolation()] {
            assert!(registry::find(rule.slug).is_some(), "{}", rule.slug);
        }
        for rule in [
            &HOST_OS_MISMATCH,
            &HOST_UNSUPPORTED_METHOD,
            &VC_PROBE_OUT_OF_RANGE,
            &OUT_MIXED_UNDECLARED,
            &HOST_SANDBOX_UNSUPPORTED,
            &SETUP_OAUTH_UNSUPPORTED_HOST,
            &MCP_ARM_UNIMPLEMENTED,
        ] {
            assert!(registry::find(rule.slug).is_none(), "{}", rule.slug);
        }
    }
}
