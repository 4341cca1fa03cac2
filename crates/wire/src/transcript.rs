//! Stores every line of a conversation, in order. Small transcripts stay in memory. Larger ones
//! use an unnamed file, so that an agent that floods its output uses disk space and not memory.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Maximum number of bytes of text in memory.
const MAX_BYTES_IN_MEMORY: usize = 256 << 10;
/// Maximum number of line entries in memory. An entry takes space besides its text.
const MAX_LINES_IN_MEMORY: usize = 4 << 10;
/// Maximum number of bytes of text that are stored. The text of later lines is dropped.
const MAX_BYTES: u64 = 512 << 20;
/// Maximum number of lines that are stored. Later lines are only counted.
const MAX_LINES: usize = 1 << 20;
/// Number of the first line. Numbers are lines of the file that the transcript is written to, and
/// line 1 of the file is the header. So a line number in a report leads to that line.
pub const FIRST_LINE: u64 = 2;

/// Stream of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to agent (stdin of the agent).
    ToAgent,
    /// Agent to client (stdout of the agent).
    FromAgent,
    /// Stderr of the agent.
    Stderr,
    /// Events of the process: started, exited.
    Process,
}

impl Direction {
    /// Name in a transcript file.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::ToAgent => "to-agent",
            Direction::FromAgent => "from-agent",
            Direction::Stderr => "stderr",
            Direction::Process => "process",
        }
    }

    const ALL: [Direction; 4] = [
        Direction::ToAgent,
        Direction::FromAgent,
        Direction::Stderr,
        Direction::Process,
    ];

    /// Parses the name in a transcript file.
    pub fn parse(name: &str) -> Option<Direction> {
        Self::ALL.into_iter().find(|d| d.as_str() == name)
    }
}

/// One line, without its line feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the line, counted from `FIRST_LINE` over all directions.
    pub number: u64,
    /// Stream of the line.
    pub direction: Direction,
    /// Time since the start of the transcript.
    pub at: Duration,
    /// Offset of the line in the bytes of its direction.
    pub offset: u64,
    /// The bytes as they were.
    pub bytes: Vec<u8>,
    /// Whether the line ended with a line feed.
    pub ended: bool,
    /// Original length in bytes, if the line was cut off.
    pub cut: Option<u64>,
}

impl Line {
    /// The line as text. Invalid UTF-8 is replaced.
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
    /// Offset in the stored text, counted over memory and file.
    stored_at: u64,
}

impl Entry {
    const SIZE: usize = 40;

    fn bytes(&self) -> [u8; Entry::SIZE] {
        let mut bytes = [0; Entry::SIZE];
        let numbers = [self.at_us, self.offset, self.length, self.stored_at];
        let rest = u64::from(self.kept) << 8 | u64::from(self.ended) << 4 | self.direction as u64;
        for (place, number) in bytes
            .chunks_exact_mut(8)
            .zip(numbers.into_iter().chain([rest]))
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn of(bytes: &[u8; Entry::SIZE]) -> Option<Entry> {
        let mut numbers = bytes.chunks_exact(8).map(|chunk| {
            let mut number = [0; 8];
            number.copy_from_slice(chunk);
            u64::from_le_bytes(number)
        });
        let (at_us, offset, length, stored_at) = (
            numbers.next()?,
            numbers.next()?,
            numbers.next()?,
            numbers.next()?,
        );
        let rest = numbers.next()?;
        let mut all = Direction::ALL.into_iter();
        Some(Entry {
            direction: all.find(|direction| *direction as u64 == rest & 15)?,
            ended: rest >> 4 & 1 == 1,
            at_us,
            offset,
            length,
            kept: u32::try_from(rest >> 8).ok()?,
            stored_at,
        })
    }
}

/// All lines of a conversation.
#[derive(Default)]
pub struct Transcript {
    /// The first lines. The others are in `more`.
    entries: Vec<Entry>,
    more: Option<File>,
    count: usize,
    memory: Vec<u8>,
    file: Option<File>,
    stored: u64,
    /// Number of bytes of each direction so far.
    offsets: [u64; 4],
    /// Number of lines that were not stored.
    pub dropped: u64,
}

impl Transcript {
    /// An empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of stored lines.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no line is stored.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a line and returns its number. `length` is the original length if `bytes` was cut off.
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
        if self.count >= MAX_LINES {
            self.dropped += 1;
            return self.last();
        }
        // If the disk is full, the line counts as cut off.
        let kept = self.store(bytes).unwrap_or_default();
        let entry = Entry {
            direction,
            ended,
            at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
            offset,
            length: whole,
            kept,
            stored_at: self.stored - u64::from(kept),
        };
        match self.enter(entry) {
            Ok(()) => self.count += 1,
            Err(_) => self.dropped += 1,
        }
        self.last()
    }

    fn enter(&mut self, entry: Entry) -> io::Result<()> {
        let Some(at) = self.count.checked_sub(MAX_LINES_IN_MEMORY) else {
            self.entries.push(entry);
            return Ok(());
        };
        let file = match &mut self.more {
            Some(file) => file,
            none => none.insert(unnamed_file()?),
        };
        file.write_all_at(&entry.bytes(), (at * Entry::SIZE) as u64)
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        let Some(at) = index.checked_sub(MAX_LINES_IN_MEMORY) else {
            return self.entries.get(index).copied();
        };
        if index >= self.count {
            return None;
        }
        let mut bytes = [0; Entry::SIZE];
        let file = self.more.as_ref()?;
        file.read_exact_at(&mut bytes, (at * Entry::SIZE) as u64)
            .ok()?;
        Entry::of(&bytes)
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
        if self.stored + u64::from(length) > MAX_BYTES {
            return Ok(0);
        }
        if self.file.is_none() && self.memory.len() + bytes.len() <= MAX_BYTES_IN_MEMORY {
            self.memory.extend_from_slice(bytes);
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(unnamed_file()?),
            };
            file.write_all_at(bytes, self.stored - self.memory.len() as u64)?;
        }
        self.stored += u64::from(length);
        Ok(length)
    }

    /// Number of the last line. `FIRST_LINE - 1` if there is none.
    pub fn last(&self) -> u64 {
        self.count as u64 + FIRST_LINE - 1
    }

    /// Numbers of all lines.
    pub fn numbers(&self) -> RangeInclusive<u64> {
        FIRST_LINE..=self.last()
    }

    /// The line with a number.
    pub fn line(&self, number: u64) -> Option<Line> {
        let index = usize::try_from(number.checked_sub(FIRST_LINE)?).ok()?;
        let entry = self.entry(index)?;
        let mut bytes = vec![0; entry.kept as usize];
        let memory = self.memory.len() as u64;
        if entry.stored_at + u64::from(entry.kept) <= memory {
            let from = usize::try_from(entry.stored_at).ok()?;
            let kept = self.memory.get(from..from + bytes.len())?;
            bytes.copy_from_slice(kept);
        } else {
            let file = self.file.as_ref()?;
            file.read_exact_at(&mut bytes, entry.stored_at - memory)
                .ok()?;
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

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        self.numbers().filter_map(|n| self.line(n))
    }
}

/// Opens a file without a name, which is deleted when its handle is closed.
fn unnamed_file() -> io::Result<File> {
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
    fn lines_are_read_back_from_memory_and_disk() {
        let mut transcript = Transcript::new();
        let long = vec![b'x'; MAX_BYTES_IN_MEMORY - 2];
        transcript.push(Direction::ToAgent, Duration::ZERO, b"{}", true, None);
        let at = Duration::from_millis(3);
        transcript.push(Direction::FromAgent, at, &long, true, None);
        transcript.push(Direction::FromAgent, at, b"tail", false, Some(1 << 30));
        transcript.push(Direction::FromAgent, at, &long, true, None);
        let lines: Vec<Line> = transcript.lines().collect();
        assert_eq!(lines[0].bytes, b"{}");
        assert_eq!(lines[1].bytes, long);
        assert_eq!((lines[1].number, lines[1].offset), (3, 0));
        assert_eq!(lines[2].bytes, b"tail");
        assert_eq!(lines[2].cut, Some(1 << 30));
        assert_eq!(lines[2].offset, long.len() as u64 + 1);
        assert_eq!(lines[3].bytes, long);
        assert!(transcript.memory.len() <= MAX_BYTES_IN_MEMORY);
    }

    #[test]
    fn only_the_first_lines_are_kept_in_memory() {
        let mut transcript = Transcript::new();
        let count = 3 * MAX_LINES_IN_MEMORY;
        for i in 0..count {
            let direction = Direction::ALL[i % 4];
            let text = format!("line {i}");
            let length = (i % 3 == 0).then_some(1 << 33);
            let at = Duration::from_micros(i as u64);
            let number = transcript.push(direction, at, text.as_bytes(), i % 2 == 0, length);
            assert_eq!(number, i as u64 + FIRST_LINE);
        }
        assert_eq!(transcript.len(), count);
        assert_eq!(transcript.entries.len(), MAX_LINES_IN_MEMORY);
        let mut seen = 0;
        for (i, line) in transcript.lines().enumerate() {
            assert_eq!(line.text(), format!("line {i}"));
            assert_eq!(line.direction, Direction::ALL[i % 4]);
            assert_eq!(line.ended, i % 2 == 0);
            assert_eq!(line.cut, (i % 3 == 0).then_some(1 << 33));
            assert_eq!(line.at, Duration::from_micros(i as u64));
            seen += 1;
        }
        assert_eq!(seen, count);
        assert!(transcript.line(transcript.last() + 1).is_none());
    }
}
