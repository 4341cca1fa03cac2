//! Badges for a README: flat SVG, and JSON for the endpoint badges of shields.io.

use std::io::{self, Write};

use agentproto_text::{self as text, clip};
use serde_json::json;

use crate::words;

/// Advance widths of Verdana for the characters from space to tilde, in thousandths of an em.
const VERDANA: [u16; 95] = [
    352, 394, 459, 818, 636, 1076, 727, 269, 454, 454, 636, 818, 364, 454, 364, 454, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 454, 454, 818, 818, 818, 545, 1000, 684, 686, 698, 771, 632,
    575, 775, 751, 421, 455, 693, 557, 843, 748, 787, 603, 787, 695, 684, 616, 732, 684, 989, 685,
    615, 685, 454, 454, 454, 818, 636, 636, 601, 623, 521, 623, 596, 352, 623, 633, 274, 344, 592,
    274, 973, 633, 607, 623, 623, 427, 521, 394, 633, 592, 818, 592, 592, 525, 635, 454, 635, 818,
];
const FONT_SIZE: f64 = 11.0;
/// Space on each side of a text, in pixels.
const PADDING: f64 = 6.0;
/// Maximum length of a text.
const MAX_CHARACTERS: usize = 40;

/// The contents of a badge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// Text on the left.
    pub label: String,
    /// Text on the right.
    pub message: String,
    /// Color of the right side.
    pub color: Color,
}

/// Color of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// Everything passed.
    Green,
    /// Something failed.
    Red,
    /// The result is incomplete.
    Yellow,
    /// Nothing failed, but the target does not qualify.
    Grey,
}

impl Color {
    fn hex(self) -> &'static str {
        match self {
            Color::Green => "#2a7f3e",
            Color::Red => "#b3261e",
            Color::Yellow => "#8a6100",
            Color::Grey => "#5f6670",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Color::Green => "brightgreen",
            Color::Red => "red",
            Color::Yellow => "yellow",
            Color::Grey => "lightgrey",
        }
    }
}

impl Badge {
    /// Label and message as one text.
    pub fn text(&self) -> String {
        format!("{}: {}", self.label, self.message)
    }
}

/// Writes a badge as SVG. `about` becomes its description, for screen readers.
pub fn svg(badge: &Badge, about: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let shown = |text: &str| clip(&text::escape_line(text), MAX_CHARACTERS).into_owned();
    let (label, message) = (shown(&badge.label), shown(&badge.message));
    let (left, right) = (width(&label), width(&message));
    let (left_box, right_box) = (left + 2.0 * PADDING, right + 2.0 * PADDING);
    let total = left_box + right_box;
    let title = words::safe_html(&format!("{label}: {message}"));
    let about = about.map_or_else(String::new, |about| {
        format!("<desc>{}</desc>\n", words::safe_html(about))
    });
    let text = |at: f64, width: f64, content: &str| {
        let content = words::safe_html(content);
        format!(
            "<text x=\"{at:.1}\" y=\"14\" textLength=\"{width:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\">{content}</text>"
        )
    };
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{total:.1}\" height=\"20\" \
         role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n{about}\
         <clipPath id=\"r\"><rect width=\"{total:.1}\" height=\"20\" rx=\"3\"/></clipPath>\n\
         <g clip-path=\"url(#r)\">\
         <rect width=\"{left_box:.1}\" height=\"20\" fill=\"#3d434b\"/>\
         <rect x=\"{left_box:.1}\" width=\"{right_box:.1}\" height=\"20\" fill=\"{}\"/></g>\n\
         <g fill=\"#fff\" font-family=\"Verdana,Geneva,DejaVu Sans,sans-serif\" \
         font-size=\"{FONT_SIZE}\">{}{}</g>\n\
         </svg>",
        badge.color.hex(),
        text(PADDING, left, &label),
        text(left_box + PADDING, right, &message),
    )
}

/// Writes a badge as JSON for the endpoint badges of shields.io.
pub fn endpoint(badge: &Badge, out: &mut dyn Write) -> io::Result<()> {
    let badge = json!({
        "schemaVersion": 1,
        "label": clip(&text::escape_line(&badge.label), MAX_CHARACTERS),
        "message": badge.message,
        "color": badge.color.name(),
        "isError": badge.color == Color::Red,
    });
    writeln!(out, "{}", text::pretty(&badge)?)
}

/// Width of a text in the badge's font, in pixels.
fn width(text: &str) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| {
            let ascii = u32::from(c).checked_sub(0x20);
            let known = ascii.and_then(|i| VERDANA.get(usize::try_from(i).ok()?));
            // Outside ASCII, a full em is wide enough for nearly every character.
            f64::from(known.copied().unwrap_or(1000)) / 1000.0
        })
        .sum();
    (em * FONT_SIZE * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_match_the_font() {
        assert_eq!(width(""), 0.0);
        assert!(width("WWW") > 2.0 * width("iii"));
        assert_eq!(width("~"), 9.0);
        assert_eq!(width("日"), 11.0);
    }
}
