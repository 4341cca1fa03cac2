//! The dashboard: one page without any asset of its own, embedded in the binary. It holds no
//! data; what it shows it asks for, with a token.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("dashboard.html");

/// Only the page's own scripts run, by their hash, whatever an agent gets into its text.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let scripts: Vec<String> = scripts(PAGE)
        .map(|script| {
            let hash = Sha256::digest(script.as_bytes());
            let hash = base64::engine::general_purpose::STANDARD.encode(hash);
            format!("'sha256-{hash}'")
        })
        .collect();
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        scripts.join(" ")
    )
});

fn scripts(page: &str) -> impl Iterator<Item = &str> {
    let after = page.split("<script>").skip(1);
    after.filter_map(|rest| Some(rest.split_once("</script>")?.0))
}

pub async fn page() -> Response {
    let policy = HeaderValue::from_str(&POLICY);
    let headers = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (
            HeaderName::from_static("content-security-policy"),
            policy.unwrap_or(HeaderValue::from_static("default-src 'none'")),
        ),
        (
            HeaderName::from_static("x-frame-options"),
            HeaderValue::from_static("DENY"),
        ),
    ];
    (headers, PAGE).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        assert!(scripts(PAGE).count() > 0);
        // Attributes on the tag would not be matched above, and run nowhere.
        assert_eq!(PAGE.matches("<script").count(), scripts(PAGE).count());
        for outside in ["src=\"http", "href=\"http", "@import", "//cdn"] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        assert!(POLICY.contains("script-src 'sha256-"));
    }
}
