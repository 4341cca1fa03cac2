//! Every line of a conversation, in order. Small ones stay in memory; what grows beyond goes to
//! a file without a name, so that an agent that floods costs disk and not memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// So much text stays in memory.
const IN_MEMORY: usize = 256 << 10;
/// So much text is kept in all; later lines are counted only.
const MOST_BYTES: u64 = 512 << 20;
const MOST_LINES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToAgent,
    FromAgent,
    Stderr,
    /// What the process did: started, exited.
    Process,
}

impl Direction {
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::ToAgent => "to-agent",
            Direction::FromAgent => "from-agent",
            Direction::Stderr => "stderr",
            Direction::Process => "process",
        }
    }

    pub fn named(name: &str) -> Option<Direction> {
        let all = [
            Direction::ToAgent,
            Direction::FromAgent,
            Direction::Stderr,
            Direction::Process,
        ];
        all.into_iter().find(|d| d.as_str() == name)
    }
}

/// One line as it was, without its line feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1 over all directions.
    pub number: u64,
    pub direction: Direction,
    /// Since the start of the transcript.
    pub at: Duration,
    /// Where it began in the bytes of its direction.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Whether a line feed ended it.
    pub ended: bool,
    /// Its true length, where only the beginning was kept.
    pub cut: Option<u64>,
}

impl Line {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Clone, Copy)]
struct Entry {
    direction: Direction,
    ended: bool,
    at_us: u64,
    offset: u64,
    length: u64,
    kept: u32,
    /// In the text kept so far, memory and file together.
    place: u64,
}

#[derive(Default)]
pub struct Transcript {
    entries: Vec<Entry>,
    memory: Vec<u8>,
    file: Option<File>,
    stored: u64,
    /// Bytes of each direction so far.
    offsets: [u64; 4],
    /// Lines that were counted only.
    pub lost: u64,
}

impl Transcript {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a line; gives its number. `length` is its true length where `bytes` is a beginning.
    pub fn push(
        &mut self,
        direction: Direction,
        at: Duration,
        bytes: &[u8],
        ended: bool,
        length: Option<u64>,
    ) -> u64 {
        let whole = length.unwrap_or(bytes.len() as u64);
        let offset = self.advance(direction, whole + u64::from(ended));
        if self.entries.len() >= MOST_LINES {
            self.lost += 1;
            return self.entries.len() as u64;
        }
        // What a full disk cannot hold is told as cut.
        let kept = self.store(bytes).unwrap_or_default();
        self.entries.push(Entry {
            direction,
            ended,
            at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
            offset,
            length: whole,
            kept,
            place: self.stored - u64::from(kept),
        });
        self.entries.len() as u64
    }

    fn advance(&mut self, direction: Direction, by: u64) -> u64 {
        let place = match direction {
            Direction::ToAgent => &mut self.offsets[0],
            Direction::FromAgent => &mut self.offsets[1],
            Direction::Stderr => &mut self.offsets[2],
            Direction::Process => &mut self.offsets[3],
        };
        let offset = *place;
        *place += by;
        offset
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<u32> {
        let Ok(length) = u32::try_from(bytes.len()) else {
            return Ok(0);
        };
        if self.stored + u64::from(length) > MOST_BYTES {
            return Ok(0);
        }
        if self.file.is_none() && self.memory.len() + bytes.len() <= IN_MEMORY {
            self.memory.extend_from_slice(bytes);
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(unnamed()?),
            };
            file.write_all_at(bytes, self.stored - self.memory.len() as u64)?;
        }
        self.stored += u64::from(length);
        Ok(length)
    }

    /// The line of this number, from 1.
    pub fn line(&self, number: u64) -> Option<Line> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let entry = *self.entries.get(index)?;
        let mut bytes = vec![0; entry.kept as usize];
        let memory = self.memory.len() as u64;
        if entry.place + u64::from(entry.kept) <= memory {
            let from = usize::try_from(entry.place).ok()?;
            let kept = self.memory.get(from..from + bytes.len())?;
            bytes.copy_from_slice(kept);
        } else {
            let file = self.file.as_ref()?;
            file.read_exact_at(&mut bytes, entry.place - memory).ok()?;
        }
        Some(Line {
            number,
            direction: entry.direction,
            at: Duration::from_micros(entry.at_us),
            offset: entry.offset,
            bytes,
            ended: entry.ended,
            cut: (u64::from(entry.kept) < entry.length).then_some(entry.length),
        })
    }

    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        (1..=self.entries.len() as u64).filter_map(|n| self.line(n))
    }
}

/// A file that nothing can open by name, and that is gone with its handle.
fn unnamed() -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let dir = std::env::temp_dir();
    #[cfg(target_os = "linux")]
    if let Ok(file) = options
        .clone()
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
        .open(&dir)
    {
        return Ok(file);
    }
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = dir.join(format!(
        "agentproto-transcript-{}-{count}",
        std::process::id()
    ));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were_from_memory_and_disk() {
        let mut transcript = Transcript::new();
        let long = vec![b'x'; IN_MEMORY - 2];
        transcript.push(Direction::ToAgent, Duration::ZERO, b"{}", true, None);
        let at = Duration::from_millis(3);
        transcript.push(Direction::FromAgent, at, &long, true, None);
        transcript.push(Direction::FromAgent, at, b"tail", false, Some(1 << 30));
        transcript.push(Direction::FromAgent, at, &long, true, None);
        let lines: Vec<Line> = transcript.lines().collect();
        assert_eq!(lines[0].bytes, b"{}");
        assert_eq!(lines[1].bytes, long);
        assert_eq!((lines[1].number, lines[1].offset), (2, 0));
        assert_eq!(lines[2].bytes, b"tail");
        assert_eq!(lines[2].cut, Some(1 << 30));
        assert_eq!(lines[2].offset, long.len() as u64 + 1);
        assert_eq!(lines[3].bytes, long);
        assert!(transcript.memory.len() <= IN_MEMORY);
    }
}
