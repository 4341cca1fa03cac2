//! The frame of our HTML pages: one self-contained file, with a Content-Security-Policy that
//! forbids every other script.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::words::safe_html;
use crate::model::Verdict;

const BASE: &str = include_str!("assets/base.css");
const THEME: &str = include_str!("assets/theme.js");

pub(super) struct Page<'p> {
    pub title: &'p str,
    pub style: &'p str,
    pub script: &'p str,
    /// HTML markup. The caller has escaped all untrusted text.
    pub body: &'p str,
}

impl Page<'_> {
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let script = format!("{THEME}{}", self.script);
        let hash = STANDARD.encode(Sha256::digest(script.as_bytes()));
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'sha256-{hash}'; img-src data:; \
             base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{}</title>\n<style>\n{BASE}{}</style>\n</head>\n<body>\n{}\n\
             <script>{script}</script>\n</body>\n</html>\n",
            safe_html(self.title),
            self.style,
            self.body,
        )
    }
}

/// The CSS class that gives a verdict its color. The name `skip` belongs to the skip link.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Skip => "skipped",
        other => other.as_str(),
    }
}

/// A check mark or a cross as SVG.
pub(super) fn stamp(good: bool) -> &'static str {
    if good {
        "<svg width=\"22\" height=\"22\" viewBox=\"0 0 22 22\" aria-hidden=\"true\">\
         <circle cx=\"11\" cy=\"11\" r=\"10\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/>\
         <path d=\"M6.5 11.5l3 3 6-6.5\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/></svg>"
    } else {
        "<svg width=\"22\" height=\"22\" viewBox=\"0 0 22 22\" aria-hidden=\"true\">\
         <circle cx=\"11\" cy=\"11\" r=\"10\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/>\
         <path d=\"M7.5 7.5l7 7m0-7l-7 7\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/></svg>"
    }
}
