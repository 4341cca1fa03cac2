//! Finds the end of a request's body. The body is passed on byte for byte. Nothing after its end
//! may reach a host that it was not meant for.

/// The framing of the body, from the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
}

/// Tracks a body as its bytes arrive.
#[derive(Debug)]
pub struct Body {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain(u64),
    /// Number of digits of a chunk's size so far, and its value.
    Size {
        digits: u8,
        value: u64,
    },
    Extension {
        value: u64,
        length: u16,
    },
    SizeEnd(u64),
    Chunk(u64),
    ChunkReturn,
    ChunkNewline,
    /// Length of a trailer line so far. An empty trailer line ends the body.
    Trailer(u16),
    TrailerEnd {
        empty: bool,
    },
    Done,
}

/// Maximum length of a chunk extension or trailer line, in bytes.
const MAX_LINE: u16 = 8 * 1024;
/// Maximum number of digits of a chunk's size.
const MAX_DIGITS: u8 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunked body of the request is invalid")]
pub struct InvalidBody;

impl Body {
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Plain(length),
            Framing::Chunked => State::Size {
                digits: 0,
                value: 0,
            },
        };
        Self { state }
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns how many of these bytes belong to the body.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, InvalidBody> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            taken += match self.state {
                State::Done => break,
                State::Plain(left) => self.skip(rest, left, State::Plain, State::Done),
                State::Chunk(left) => self.skip(rest, left, State::Chunk, State::ChunkReturn),
                state => {
                    let byte = rest.first().copied().unwrap_or_default();
                    self.state = step(state, byte).ok_or(InvalidBody)?;
                    1
                }
            };
        }
        Ok(taken)
    }

    fn skip(&mut self, rest: &[u8], left: u64, more: fn(u64) -> State, then: State) -> usize {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let left = left.saturating_sub(count as u64);
        self.state = if left == 0 { then } else { more(left) };
        count
    }
}

fn step(state: State, byte: u8) -> Option<State> {
    Some(match (state, byte) {
        (State::Size { digits, value }, b) if b.is_ascii_hexdigit() && digits < MAX_DIGITS => {
            State::Size {
                digits: digits + 1,
                value: value << 4 | u64::from(char::from(b).to_digit(16)?),
            }
        }
        (State::Size { digits: 1.., value }, b'\r') => State::SizeEnd(value),
        (State::Size { digits: 1.., value }, b';' | b' ' | b'\t') => {
            State::Extension { value, length: 0 }
        }
        (State::Extension { value, .. }, b'\r') => State::SizeEnd(value),
        (State::Extension { value, length }, b) if b != b'\n' && length < MAX_LINE => {
            State::Extension {
                value,
                length: length + 1,
            }
        }
        (State::SizeEnd(0), b'\n') => State::Trailer(0),
        (State::SizeEnd(size), b'\n') => State::Chunk(size),
        (State::ChunkReturn, b'\r') => State::ChunkNewline,
        (State::ChunkNewline, b'\n') => State::Size {
            digits: 0,
            value: 0,
        },
        (State::Trailer(length), b'\r') => State::TrailerEnd { empty: length == 0 },
        (State::Trailer(length), b) if b != b'\n' && length < MAX_LINE => {
            State::Trailer(length + 1)
        }
        (State::TrailerEnd { empty: true }, b'\n') => State::Done,
        (State::TrailerEnd { empty: false }, b'\n') => State::Trailer(0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of bytes of the body, and whether it is complete. The input is split into pieces of
    /// every size.
    fn length(framing: Framing, bytes: &[u8]) -> Result<(usize, bool), InvalidBody> {
        let mut results = Vec::new();
        for piece in 1..=bytes.len().max(1) {
            let mut body = Body::new(framing);
            let mut total = 0;
            let mut result = Ok(());
            for part in bytes.chunks(piece) {
                match body.take(part) {
                    Ok(count) => total += count,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            results.push(result.map(|()| (total, body.is_done())));
        }
        results.dedup();
        assert_eq!(results.len(), 1, "{results:?}");
        results[0]
    }

    #[test]
    fn the_end_of_a_body_is_found() {
        assert_eq!(length(Framing::Length(0), b"GET"), Ok((0, true)));
        assert_eq!(length(Framing::Length(3), b"abcGET"), Ok((3, true)));
        assert_eq!(length(Framing::Length(9), b"abc"), Ok((3, false)));
        let whole = |text: &str| length(Framing::Chunked, format!("{text}GET").as_bytes());
        for text in [
            "0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "A;x=y\r\n0123456789\r\n00\r\nT: v\r\nU: w\r\n\r\n",
            "1 \r\n\r\r\n0\r\n\r\n",
        ] {
            assert_eq!(whole(text), Ok((text.len(), true)), "{text:?}");
        }
        assert_eq!(length(Framing::Chunked, b"3\r\nab"), Ok((5, false)));
        for text in [
            "\r\n",
            "g\r\n",
            "3\nabc",
            "3\r\nabcd",
            "0\r\n\n",
            "-1\r\n",
            "1111111111111111\r\n",
        ] {
            assert_eq!(
                length(Framing::Chunked, text.as_bytes()),
                Err(InvalidBody),
                "{text:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>, text in "[0-9a-f;\r\n]{0,40}", size: u64) {
            for framing in [Framing::Chunked, Framing::Length(size)] {
                let mut body = Body::new(framing);
                let _ = body.take(&bytes);
                let _ = body.take(text.as_bytes());
            }
        }
    }
}
