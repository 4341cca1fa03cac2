//! A file of commands in front of the database, for data that must survive a crash at once. Writing
//! to it takes microseconds, a commit takes far longer. The database gets the same commands later.
//! Commands that it has are not replayed from here.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::log::{Gap, LogCommand};
use crate::model::SessionRecord;
use crate::ring::{ItemKind, LogItem};

/// Maximum length of a line in bytes. Items are far smaller.
const MAX_LINE: u64 = 64 << 20;

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
    Gap {
        session: Cow<'a, str>,
        first: u64,
        epoch: u64,
        missed: Option<u64>,
    },
    Forget(Cow<'a, str>),
}

pub struct Journal {
    file: File,
    length: u64,
    /// Number of the last command in the file.
    last: u64,
}

impl Journal {
    /// Opens the file, and returns the commands of an earlier run with their numbers.
    pub fn open(path: &Path) -> io::Result<(Journal, Vec<(u64, LogCommand)>)> {
        let mut file = super::private_file(path)?;
        let (left, whole) = read(&mut file)?;
        // Cut off a partial line, so that new lines do not continue it.
        file.set_len(whole)?;
        let length = file.seek(SeekFrom::End(0))?;
        let last = left.last().map_or(0, |(n, _)| *n);
        let journal = Journal { file, length, last };
        Ok((journal, left))
    }

    /// Writes those of the given commands that are not in the file yet. After that they survive a
    /// crash of this process.
    pub fn save<'c>(
        &mut self,
        commands: impl Iterator<Item = (u64, &'c LogCommand)>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut last = self.last;
        for (n, command) in commands.filter(|(n, _)| *n > self.last) {
            let data = JournalData::of(command);
            serde_json::to_writer(&mut bytes, &JournalEntry { n, data })?;
            bytes.push(b'\n');
            last = n;
        }
        if let Err(error) = self.file.write_all(&bytes) {
            // A partial line would corrupt the following ones.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(error);
        }
        self.length += bytes.len() as u64;
        self.last = last;
        Ok(())
    }

    /// Number of the last command in the file.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Empties the file, because the database has everything.
    pub fn clear(&mut self) {
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

impl<'a> JournalData<'a> {
    fn of(command: &'a LogCommand) -> Self {
        match command {
            LogCommand::Item(session, item) => JournalData::Item {
                session: (&**session).into(),
                seq: item.seq,
                epoch: item.epoch,
                kind: item.kind.as_str().into(),
                data: item.data().into(),
            },
            LogCommand::Record(session) => JournalData::Record(Box::new(Cow::Borrowed(session))),
            LogCommand::Gap(session, gap) => JournalData::Gap {
                session: (&**session).into(),
                first: gap.first,
                epoch: gap.epoch,
                missed: gap.missed,
            },
            LogCommand::Forget(id) => JournalData::Forget(id.as_str().into()),
        }
    }

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
            JournalData::Gap {
                session,
                first,
                epoch,
                missed,
            } => LogCommand::Gap(
                session.into(),
                Gap {
                    first,
                    epoch,
                    missed,
                },
            ),
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

    fn save(journal: &mut Journal, commands: &[(u64, LogCommand)]) {
        let commands = commands.iter().map(|(n, command)| (*n, command));
        journal.save(commands).expect("written");
    }

    #[test]
    fn saved_commands_are_read_back_and_a_partial_line_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal, left) = Journal::open(&path).expect("opened");
        assert!(left.is_empty());
        let forget = LogCommand::Forget("ses_0".to_owned());
        save(&mut journal, &[(1, item(0, "\"a\\nb\"")), (2, forget)]);
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
        save(&mut journal, &[(5, item(2, "2"))]);
        let (_, left) = Journal::open(&path).expect("opened");
        assert_eq!(described(&left), ["5 ses_1 7-2 2"]);
    }

    #[test]
    fn a_command_is_written_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path).expect("opened");
        save(&mut journal, &[(1, item(0, "0")), (2, item(1, "1"))]);
        save(&mut journal, &[(2, item(1, "1")), (3, item(2, "2"))]);
        let (_, left) = Journal::open(&path).expect("opened");
        let expected = ["1 ses_1 7-0 0", "2 ses_1 7-1 1", "3 ses_1 7-2 2"];
        assert_eq!(described(&left), expected);
    }
}
