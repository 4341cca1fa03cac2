//! Collects the output of a tool within bounds, and parses it (AIP-29, output conventions).

use serde_json::Value;

use agentproto_manifest::{to_json, yaml};
use agentproto_text::strict_json;

/// Format of a tool's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    /// Text, which is not parsed.
    Text,
    /// One JSON value.
    Json,
    /// One YAML document.
    Yaml,
    /// Bytes, which are not parsed.
    Binary,
}

/// The stream that a piece of output came from. A terminal has only `Stdout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// The stream as text.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The start of a stream, up to a limit.
#[derive(Debug, Default)]
pub struct Kept {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Number of bytes that the tool wrote.
    pub written: u64,
}

impl Kept {
    /// Adds bytes, and keeps at most `limit` in total.
    pub fn push(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.bytes.len());
        let kept = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.bytes.extend_from_slice(kept);
        self.written += bytes.len() as u64;
    }

    /// Whether bytes were left out.
    pub fn is_cut(&self) -> bool {
        self.written > self.bytes.len() as u64
    }

    /// The bytes as text, without a character that was cut in half.
    pub fn text(&self) -> String {
        let mut bytes = self.bytes.as_slice();
        if self.is_cut()
            && let Err(error) = std::str::from_utf8(bytes)
            && error.error_len().is_none()
        {
            bytes = bytes.get(..error.valid_up_to()).unwrap_or_default();
        }
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Parses output in a structured format. Text and bytes have no value. An error is a clause about
/// the tool's output.
pub fn parse(format: Format, bytes: &[u8]) -> Result<Option<Value>, String> {
    match format {
        Format::Text | Format::Binary => Ok(None),
        Format::Json => {
            let parsed = strict_json::read(bytes)
                .map_err(|e| format!("its output is not valid JSON: {e}"))?;
            Ok(Some(parsed.value))
        }
        Format::Yaml => {
            let text = std::str::from_utf8(bytes)
                .map_err(|e| format!("its output is not valid YAML: {e}"))?;
            let parsed = yaml::parse_with_subject(text, 0, "its output");
            match (parsed.problems.first(), parsed.root) {
                (Some(problem), _) => Err(problem.message.clone()),
                (None, Some(root)) => Ok(Some(to_json(&root))),
                (None, None) => Ok(Some(Value::Null)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_format_is_parsed() {
        let of = |format, text: &str| parse(format, text.as_bytes());
        assert_eq!(of(Format::Json, " {\"a\": 1}\n"), Ok(Some(json!({"a": 1}))));
        assert_eq!(
            of(Format::Yaml, "- a\n- b: 2\n"),
            Ok(Some(json!(["a", {"b": 2}])))
        );
        assert_eq!(of(Format::Text, "{"), Ok(None));
        assert_eq!(parse(Format::Binary, b"\xff\0"), Ok(None));
        for text in ["{", "", "a: 1", "{} {}", "warning\n{}"] {
            assert!(of(Format::Json, text).is_err(), "{text}");
        }
        assert!(of(Format::Yaml, "a: [").is_err());
        assert!(parse(Format::Yaml, b"\xff").is_err());
    }

    #[test]
    fn a_long_output_is_cut_between_characters() {
        let mut kept = Kept::default();
        kept.push("a€".as_bytes(), 3);
        kept.push(b"more", 3);
        assert!(kept.is_cut());
        assert_eq!((kept.text().as_str(), kept.written), ("a", 8));
    }
}
