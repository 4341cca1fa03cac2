//! The dashboard: one page without external assets, embedded in the binary. It contains no data and
//! requests everything with a token.

use std::io::Write;
use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY,
};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

const INDEX: &str = include_str!("dashboard/index.html");
const STYLE: &str = include_str!("dashboard/style.css");
/// In this order, because each script uses the ones before it.
const SCRIPTS: [&str; 26] = [
    include_str!("dashboard/dom.js"),
    include_str!("dashboard/text.js"),
    include_str!("dashboard/api.js"),
    include_str!("dashboard/stream.js"),
    include_str!("dashboard/sessions.js"),
    include_str!("dashboard/list.js"),
    include_str!("dashboard/highlight.js"),
    include_str!("dashboard/diff.js"),
    include_str!("dashboard/markdown.js"),
    include_str!("dashboard/prose.js"),
    include_str!("dashboard/transcript.js"),
    include_str!("dashboard/talk.js"),
    include_str!("dashboard/questions.js"),
    include_str!("dashboard/meters.js"),
    include_str!("dashboard/queue.js"),
    include_str!("dashboard/composer.js"),
    include_str!("dashboard/find.js"),
    include_str!("dashboard/export.js"),
    include_str!("dashboard/detail.js"),
    include_str!("dashboard/board.js"),
    include_str!("dashboard/dialogs.js"),
    include_str!("dashboard/start.js"),
    include_str!("dashboard/notify.js"),
    include_str!("dashboard/palette.js"),
    include_str!("dashboard/keys.js"),
    include_str!("dashboard/main.js"),
];

struct Page {
    html: String,
    /// The same, compressed.
    gzip: Vec<u8>,
    policy: String,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let script = format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPTS.join("\n"));
    // Only the embedded script and style are allowed, by their hashes, whatever text an agent
    // injects. Trusted types prevent text from becoming markup.
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(&script),
        hash(STYLE)
    );
    let html = INDEX
        .replace("/*style*/", STYLE)
        .replace("/*script*/", &script);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to a vector does not fail. An empty result is not sent.
    let written = gzip.write_all(html.as_bytes());
    let gzip = written.and_then(|()| gzip.finish()).unwrap_or_default();
    Page { html, gzip, policy }
});

/// Whether a client accepts a compressed page.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    let mut codings = accepted.unwrap_or_default().split(',');
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let is_refused = quality.trim().trim_start_matches("q=").parse() == Ok(0.0);
        name.trim() == "gzip" && !is_refused
    })
}

fn hash(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let hash = base64::engine::general_purpose::STANDARD.encode(hash);
    format!("'sha256-{hash}'")
}

pub async fn page(request: HeaderMap) -> Response {
    let policy = HeaderValue::from_str(&PAGE.policy);
    let fixed = |name, value| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    let headers = [
        (
            HeaderName::from_static("content-security-policy"),
            policy.unwrap_or(HeaderValue::from_static("default-src 'none'")),
        ),
        fixed("x-frame-options", "DENY"),
        fixed("cross-origin-opener-policy", "same-origin"),
        fixed(
            "permissions-policy",
            "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        ),
    ];
    let mut response = match accepts_gzip(&request) && !PAGE.gzip.is_empty() {
        true => {
            let encoding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            (headers, encoding, PAGE.gzip.as_slice()).into_response()
        }
        false => (headers, PAGE.html.as_str()).into_response(),
    };
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(VARY, vary);
    // `&[u8]` has a type of its own, which would be a second header.
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
