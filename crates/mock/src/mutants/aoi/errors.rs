//! Errors whose category does not agree with the exit code or with `retryable`.

use super::tools::*;

/// A run that fails with a usage error and exit code 64.
const BAD_USAGE: &[&str] = &["search", "x", "--no-such-flag"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        exit(
            "aoi-advisory-exit-of-validation",
            "validation",
            &["AOI-6-04"],
        )
        .describe("Invalid data has the exit code of a usage error."),
        exit(
            "aoi-advisory-exit-of-temporary",
            "temporary",
            &["AOI-6-05", "AOI-6-09"],
        )
        .describe("An unavailable service has the exit code of a usage error."),
        exit("aoi-advisory-exit-of-internal", "internal", &["AOI-6-06"])
            .describe("A defect of the tool has the exit code of a usage error."),
        exit("aoi-advisory-exit-of-io", "io", &["AOI-6-07", "AOI-6-08"])
            .describe("An I/O error has the exit code of a usage error."),
        exit("aoi-advisory-exit-of-authz", "authz", &["AOI-6-10"])
            .describe("A missing permission has the exit code of a usage error."),
        exit("aoi-advisory-exit-of-config", "config", &["AOI-6-11"])
            .describe("An invalid configuration has the exit code of a usage error."),
        exit("aoi-advisory-exit-of-timeout", "timeout", &["AOI-6-12"])
            .describe("A timeout has the exit code of a usage error."),
        retry(
            "aoi-05-validation-is-retryable",
            "validation",
            &["AOI-9.1-02"],
        )
        .describe("Invalid data is reported as retryable."),
        retry("aoi-05-authz-is-retryable", "authz", &["AOI-9.1-04"])
            .describe("A missing permission is reported as retryable."),
        retry(
            "aoi-05-not-found-is-retryable",
            "not_found",
            &["AOI-9.1-05"],
        )
        .describe("A missing target is reported as retryable."),
        retry("aoi-05-config-is-retryable", "config", &["AOI-9.1-14"])
            .describe("An invalid configuration is reported as retryable."),
        retry("aoi-05-throttled-is-final", "rate_limited", &["AOI-9.1-07"])
            .describe("A throttled request is reported as not retryable."),
        retry("aoi-05-temporary-is-final", "temporary", &["AOI-9.1-09"])
            .describe("An unavailable service is reported as not retryable."),
        retry("aoi-05-timeout-is-final", "timeout", &["AOI-9.1-10"])
            .describe("A timeout is reported as not retryable."),
    ]
}

/// A usage error with another category. Its exit code stays 64.
fn exit(id: &'static str, category: &'static str, ids: &'static [&'static str]) -> AoiMutant {
    mutant(id, "AOI-adv.exit-category")
        .violates(ids)
        .run(BAD_USAGE)
        .event_if(failed("usage"), "aoi:error", move |error| {
            set(error, "category", category);
            set(error, "retryable", is_retryable(category));
        })
        .expect_warning()
}

/// A usage error with another category, and with the opposite of its `retryable`.
fn retry(id: &'static str, category: &'static str, ids: &'static [&'static str]) -> AoiMutant {
    mutant(id, "AOI-05.retryable-contradicts")
        .violates(ids)
        .run(BAD_USAGE)
        .event_if(failed("usage"), "aoi:error", move |error| {
            set(error, "category", category);
            set(error, "retryable", !is_retryable(category));
        })
        .expect_warning()
}

/// Whether a retry may succeed (AOI-CLI §9.1).
fn is_retryable(category: &str) -> bool {
    matches!(category, "rate_limited" | "temporary" | "timeout")
}
