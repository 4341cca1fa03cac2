//! Output of a child as lines. It is always drained within bounds, even if the reader is slow.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// Bounds of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum length of a line, in bytes. A longer line is cut and reported as `TooLong`.
    pub line: usize,
    /// Maximum size of lines that wait for the reader, in bytes. Above it the newest are dropped
    /// and reported as `Gap`.
    pub waiting: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            line: 16 << 20,
            waiting: 64 << 20,
        }
    }
}

/// Maximum number of lines that a reader takes at a time.
const BATCH: usize = 64;

/// A part of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A line without its line feed.
    Line {
        /// Contents of the line.
        bytes: Vec<u8>,
        /// Whether a line feed followed. Only the last line may have none.
        ended: bool,
    },
    /// A line that is too long.
    TooLong {
        /// Start of the line, up to `Bounds::line` bytes.
        start: Vec<u8>,
        /// Length of the whole line, in bytes.
        length: u64,
    },
    /// Lines that were dropped because the reader was too slow.
    Gap {
        /// Number of lines.
        lines: u64,
        /// Size of these lines, in bytes.
        bytes: u64,
    },
}

impl Piece {
    fn size(&self) -> usize {
        match self {
            Self::Line { bytes, .. } | Self::TooLong { start: bytes, .. } => bytes.len() + 64,
            Self::Gap { .. } => 64,
        }
    }
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    size: usize,
    dropped: (u64, u64),
    is_finished: bool,
}

impl Queue {
    fn add(&mut self, piece: Piece, bounds: Bounds) {
        let size = piece.size();
        if self.size + size > bounds.waiting {
            self.dropped.0 += 1;
            self.dropped.1 += size as u64;
            return;
        }
        if self.dropped.0 > 0 {
            let (lines, bytes) = std::mem::take(&mut self.dropped);
            self.pieces.push_back(Piece::Gap { lines, bytes });
            self.size += 64;
        }
        self.size += size;
        self.pieces.push_back(piece);
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(&mut self.queue.lock())
    }

    /// Adds all lines of one read at once, because locking and waking dominate the cost of small
    /// lines.
    fn push(&self, pieces: &mut Vec<Piece>, bounds: Bounds) {
        if pieces.is_empty() {
            return;
        }
        self.with(|queue| pieces.drain(..).for_each(|piece| queue.add(piece, bounds)));
        self.changed.notify_one();
    }

    fn finish(&self) {
        self.with(|queue| {
            let (lines, bytes) = std::mem::take(&mut queue.dropped);
            if lines > 0 {
                queue.pieces.push_back(Piece::Gap { lines, bytes });
            }
            queue.is_finished = true;
        });
        self.changed.notify_one();
    }
}

/// The lines of one stream, in order.
pub struct OutputLines {
    shared: Arc<Shared>,
    /// Taken from the queue, but not returned yet.
    taken: VecDeque<Piece>,
}

impl OutputLines {
    /// Starts draining a pipe in a separate task.
    pub fn drain(pipe: OwnedFd, bounds: Bounds) -> std::io::Result<Self> {
        let mut pipe = receiver(pipe)?;
        let shared = Arc::new(Shared::default());
        let to = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut buffer = vec![0; INITIAL_BUFFER];
            let mut line = LineSplitter::new(bounds);
            let mut pieces = Vec::new();
            while let Ok(read) = pipe.read(&mut buffer).await {
                if read == 0 {
                    break;
                }
                line.take(buffer.get(..read).unwrap_or_default(), |p| pieces.push(p));
                to.push(&mut pieces, bounds);
                if read == buffer.len() {
                    // More is waiting. Other sessions come first.
                    tokio::task::yield_now().await;
                }
                grow(&mut buffer, read, FULL_BUFFER);
            }
            line.finish(|p| pieces.push(p));
            to.push(&mut pieces, bounds);
            to.finish();
        });
        Ok(Self {
            shared,
            taken: VecDeque::new(),
        })
    }

    /// The next piece, or `None` at the end of the stream. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = self.taken.pop_front() {
                return Some(piece);
            }
            let is_finished = self.shared.with(|queue| {
                // One batch at a time; the rest stays in the queue, which counts its size.
                let many = queue.pieces.len().min(BATCH);
                self.taken.extend(queue.pieces.drain(..many));
                let size: usize = self.taken.iter().map(Piece::size).sum();
                queue.size = queue.size.saturating_sub(size);
                queue.is_finished
            });
            if self.taken.is_empty() {
                if is_finished {
                    return None;
                }
                self.shared.changed.notified().await;
            }
        }
    }
}

/// Initial buffer size. Most children write little, and there may be hundreds of them.
const INITIAL_BUFFER: usize = 2 << 10;

/// Buffer size for a child that writes much. What one read returns takes a fraction of a millisecond
/// to process, and other sessions wait for it.
const FULL_BUFFER: usize = 16 << 10;

/// Gives a buffer its full size after it was filled by one read.
fn grow(buffer: &mut Vec<u8>, read: usize, full: usize) {
    if read == buffer.len() && read < full {
        *buffer = vec![0; full];
    }
}

fn receiver(pipe: OwnedFd) -> std::io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(pipe)
}

/// Splits bytes into lines.
pub struct LineSplitter {
    bounds: Bounds,
    line: Vec<u8>,
    length: u64,
}

impl LineSplitter {
    /// Starts without any bytes.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            line: Vec::new(),
            length: 0,
        }
    }

    /// Adds bytes. `emit` gets each line that they complete.
    pub fn take(&mut self, mut bytes: &[u8], mut emit: impl FnMut(Piece)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = bytes.split_at(end);
            self.add(head);
            emit(self.piece(true));
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.add(bytes);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        let room = self.bounds.line.saturating_sub(self.line.len());
        let stored = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.line.extend_from_slice(stored);
    }

    fn piece(&mut self, ended: bool) -> Piece {
        let bytes = std::mem::take(&mut self.line);
        let length = std::mem::take(&mut self.length);
        if length > bytes.len() as u64 {
            Piece::TooLong {
                start: bytes,
                length,
            }
        } else {
            Piece::Line { bytes, ended }
        }
    }

    fn finish(&mut self, mut emit: impl FnMut(Piece)) {
        if self.length > 0 {
            emit(self.piece(false));
        }
    }
}

/// The last bytes of stderr, which error messages quote.
#[derive(Default)]
pub struct StderrTail {
    stored: Arc<Mutex<VecDeque<u8>>>,
    task: Option<tokio::task::JoinHandle<()>>,
}

/// Size of the tail: enough for a stack trace, and short enough to print.
const TAIL_BYTES: usize = 16 << 10;

impl StderrTail {
    /// Drains a pipe and keeps its end. Every chunk also goes to `also`.
    pub fn drain(
        pipe: OwnedFd,
        mut also: impl FnMut(&[u8]) + Send + 'static,
    ) -> std::io::Result<Self> {
        let mut pipe = receiver(pipe)?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let stored = Arc::clone(&tail);
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; INITIAL_BUFFER];
            while let Ok(read) = pipe.read(&mut buffer).await {
                if read == 0 {
                    break;
                }
                let bytes = buffer.get(..read).unwrap_or_default();
                also(bytes);
                let mut stored = stored.lock();
                stored.extend(bytes);
                let excess = stored.len().saturating_sub(TAIL_BYTES);
                stored.drain(..excess);
                drop(stored);
                grow(&mut buffer, read, TAIL_BYTES);
            }
        });
        Ok(Self {
            stored: tail,
            task: Some(task),
        })
    }

    /// Waits until everything was read. The writers are gone by then.
    pub async fn finish(&mut self) {
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }

    /// The current tail as text.
    pub fn text(&self) -> String {
        let stored = self.stored.lock();
        let (a, b) = stored.as_slices();
        String::from_utf8_lossy(&[a, b].concat()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&str], line: usize) -> Vec<Piece> {
        let mut splitter = LineSplitter::new(Bounds { line, waiting: 0 });
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.take(chunk.as_bytes(), |p| pieces.push(p));
        }
        splitter.finish(|p| pieces.push(p));
        pieces
    }

    fn line(text: &str, ended: bool) -> Piece {
        Piece::Line {
            bytes: text.into(),
            ended,
        }
    }

    #[test]
    fn lines_do_not_depend_on_chunks() {
        let wanted = [line("ab", true), line("", true), line("c", false)];
        assert_eq!(split(&["ab\n\nc"], 9), wanted);
        assert_eq!(split(&["a", "b\n", "\n", "c"], 9), wanted);
    }

    #[test]
    fn a_long_line_is_cut_and_reported() {
        let start = b"abc".to_vec();
        assert_eq!(
            split(&["ab", "cdef\nx\n"], 3),
            [Piece::TooLong { start, length: 6 }, line("x", true)]
        );
    }

    #[test]
    fn unread_lines_are_dropped_and_reported() {
        let shared = Shared::default();
        let bounds = Bounds {
            line: 10,
            waiting: 140,
        };
        for _ in 0..4 {
            shared.push(&mut vec![line("aaaa", true)], bounds);
        }
        shared.finish();
        let pieces: Vec<_> = shared.with(|q| q.pieces.drain(..).collect());
        assert_eq!(pieces.len(), 3);
        assert_eq!(
            pieces[2],
            Piece::Gap {
                lines: 2,
                bytes: 136
            }
        );
    }
}
