//! A file of commands in front of the database, for data that must survive a crash at once. Writing
//! to it takes microseconds, a commit takes far longer. The database gets the same commands later.
//! Commands that it has are not replayed from here.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::log::LogCommand;
use crate::model::SessionRecord;
use crate::ring::{ItemKind, LogItem};

/// Maximum length of a line in bytes. Items are far smaller.
const MAX_LINE: u64 = 64 << 20;
/// Maximum number of bytes buffered in memory before they are written.
const MAX_BUFFERED: usize = 1 << 20;

/// One command on its line.
#[derive(Deserialize, Serialize)]
struct JournalEntry<'a> {
    /// Number of the command. It increases across all runs of the host.
    n: u64,
    #[serde(flatten)]
    data: JournalData<'a>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum JournalData<'a> {
    Item {
        session: Cow<'a, str>,
        seq: u64,
        epoch: u64,
        kind: Cow<'a, str>,
        data: Cow<'a, str>,
    },
    Record(Box<Cow<'a, SessionRecord>>),
    Forget(Cow<'a, str>),
}

pub struct Journal {
    file: File,
    length: u64,
    /// Serialized commands that are not in the file yet, and the number of the last one.
    buffered: Vec<u8>,
    last_buffered: u64,
}

impl Journal {
    /// Opens the file, and returns the commands of an earlier run with their numbers.
    pub fn open(path: &Path) -> io::Result<(Journal, Vec<(u64, LogCommand)>)> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut file = File::options()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let (left, whole) = read(&mut file)?;
        // Cut off a partial line, so that new lines do not continue it.
        file.set_len(whole)?;
        let length = file.seek(SeekFrom::End(0))?;
        let journal = Journal {
            file,
            length,
            buffered: Vec::new(),
            last_buffered: 0,
        };
        Ok((journal, left))
    }

    /// Buffers a command until `save`. Commands up to `committed` are in the database and are dropped
    /// from the buffer.
    pub fn buffer(&mut self, n: u64, command: &LogCommand, committed: u64) {
        if committed >= self.last_buffered {
            self.buffered.clear();
        }
        let data = match command {
            LogCommand::Item(session, item) => JournalData::Item {
                session: (&**session).into(),
                seq: item.seq,
                epoch: item.epoch,
                kind: item.kind.as_str().into(),
                data: item.data().into(),
            },
            LogCommand::Record(session) => JournalData::Record(Box::new(Cow::Borrowed(session))),
            LogCommand::Forget(id) => JournalData::Forget(id.as_str().into()),
            LogCommand::WaitCommitted(_) | LogCommand::Stop => return,
        };
        if serde_json::to_writer(&mut self.buffered, &JournalEntry { n, data }).is_ok() {
            self.buffered.push(b'\n');
        }
        self.last_buffered = n;
        if self.buffered.len() > MAX_BUFFERED {
            // A caller that needs the data safe calls `save` itself, and gets the error then.
            let _ = self.save();
        }
    }

    /// Writes all buffered commands to the file. After that they survive a crash of this process.
    pub fn save(&mut self) -> io::Result<()> {
        if self.buffered.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write_all(&self.buffered) {
            // A partial line would corrupt the following ones.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(error);
        }
        self.length += self.buffered.len() as u64;
        self.buffered.clear();
        Ok(())
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Empties the file, because the database has everything.
    pub fn clear(&mut self) {
        self.buffered.clear();
        if self.length > 0 && self.file.set_len(0).is_ok() {
            let _ = self.file.seek(SeekFrom::Start(0));
            self.length = 0;
        }
    }
}

/// Readable commands, and the end offset of the last complete line. The last line may be incomplete
/// after a crash.
fn read(file: &mut File) -> io::Result<(Vec<(u64, LogCommand)>, u64)> {
    let mut lines = BufReader::new(file);
    let mut found = Vec::new();
    let mut line = Vec::new();
    let mut whole = 0;
    loop {
        line.clear();
        let read = io::Read::take(&mut lines, MAX_LINE).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok((found, whole));
        }
        whole += read as u64;
        if let Ok(entry) = serde_json::from_slice::<JournalEntry>(&line)
            && let Some(command) = entry.data.command()
        {
            found.push((entry.n, command));
        }
    }
}

impl JournalData<'_> {
    fn command(self) -> Option<LogCommand> {
        Some(match self {
            JournalData::Item {
                session,
                seq,
                epoch,
                kind,
                data,
            } => LogCommand::Item(
                session.into(),
                LogItem::new(epoch, seq, ItemKind::from_name(&kind)?, &data),
            ),
            JournalData::Record(session) => LogCommand::Record(Box::new(session.into_owned())),
            JournalData::Forget(id) => LogCommand::Forget(id.into_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(seq: u64, data: &str) -> LogCommand {
        LogCommand::Item("ses_1".into(), LogItem::new(7, seq, ItemKind::Line, data))
    }

    fn described(left: &[(u64, LogCommand)]) -> Vec<String> {
        let describe = |(n, command): &(u64, LogCommand)| match command {
            LogCommand::Item(session, item) => {
                format!("{n} {session} {} {}", item.id(), item.data())
            }
            LogCommand::Forget(id) => format!("{n} forget {id}"),
            _ => format!("{n} other"),
        };
        left.iter().map(describe).collect()
    }

    #[test]
    fn saved_orders_are_read_back_and_a_partial_line_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal, left) = Journal::open(&path).expect("opened");
        assert!(left.is_empty());
        journal.buffer(1, &item(0, "\"a\\nb\""), 0);
        journal.buffer(2, &LogCommand::Forget("ses_0".to_owned()), 0);
        journal.save().expect("written");
        journal.buffer(3, &item(1, "\"held only\""), 0);
        drop(journal);
        let mut file = File::options().append(true).open(&path).expect("there");
        file.write_all(br#"{"n":4,"item":{"session":"#)
            .expect("torn");
        let (mut journal, left) = Journal::open(&path).expect("opened");
        assert_eq!(
            described(&left),
            ["1 ses_1 7-0 \"a\\nb\"", "2 forget ses_0"]
        );
        journal.clear();
        journal.buffer(5, &item(2, "2"), 0);
        journal.save().expect("written");
        let (_, left) = Journal::open(&path).expect("opened");
        assert_eq!(described(&left), ["5 ses_1 7-2 2"]);
    }

    #[test]
    fn committed_orders_are_not_held() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path).expect("opened");
        journal.buffer(1, &item(0, "0"), 0);
        journal.buffer(2, &item(1, "1"), 0);
        // Both are already in the database.
        journal.buffer(3, &item(2, "2"), 2);
        journal.save().expect("written");
        let (_, left) = Journal::open(&path).expect("opened");
        assert_eq!(described(&left), ["3 ses_1 7-2 2"]);
    }
}
