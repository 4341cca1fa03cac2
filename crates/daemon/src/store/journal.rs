//! A file of orders in front of the database, for data that must survive a crash at once. Writing
//! to it takes microseconds, a commit takes far longer. The database gets the same orders later.
//! Orders that it has are not replayed from here.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::log::Order;
use crate::model::Session;
use crate::ring::{Item, Kind};

/// Maximum length of a line in bytes. Items are far smaller.
const LONGEST: u64 = 64 << 20;
/// Maximum number of bytes held in memory before they are written.
const HELD: usize = 1 << 20;

/// One order on its line.
#[derive(Deserialize, Serialize)]
struct Entry<'a> {
    /// Order number. It increases across all runs of the host.
    n: u64,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum What<'a> {
    Item {
        session: Cow<'a, str>,
        seq: u64,
        epoch: u64,
        kind: Cow<'a, str>,
        data: Cow<'a, str>,
    },
    Record(Box<Cow<'a, Session>>),
    Forget(Cow<'a, str>),
}

pub struct Journal {
    file: File,
    length: u64,
    /// Serialized orders that are not in the file yet, and the number of the last one.
    held: Vec<u8>,
    last_held: u64,
}

impl Journal {
    /// Opens the file, and returns the orders of an earlier run with their numbers.
    pub fn open(path: &Path) -> io::Result<(Journal, Vec<(u64, Order)>)> {
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
            held: Vec::new(),
            last_held: 0,
        };
        Ok((journal, left))
    }

    /// Buffers an order until `save`. Orders up to `committed` are in the database and are dropped
    /// from the buffer.
    pub fn hold(&mut self, n: u64, order: &Order, committed: u64) {
        if committed >= self.last_held {
            self.held.clear();
        }
        let what = match order {
            Order::Item(session, item) => What::Item {
                session: (&**session).into(),
                seq: item.seq,
                epoch: item.epoch,
                kind: item.kind.as_str().into(),
                data: item.data().into(),
            },
            Order::Record(session) => What::Record(Box::new(Cow::Borrowed(session))),
            Order::Forget(id) => What::Forget(id.as_str().into()),
            Order::Settle(_) | Order::Stop => return,
        };
        if serde_json::to_writer(&mut self.held, &Entry { n, what }).is_ok() {
            self.held.push(b'\n');
        }
        self.last_held = n;
        if self.held.len() > HELD {
            // A caller that needs the data safe calls `save` itself, and gets the error then.
            let _ = self.save();
        }
    }

    /// Writes all buffered orders to the file. After that they survive a crash of this process.
    pub fn save(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write_all(&self.held) {
            // A partial line would corrupt the following ones.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(error);
        }
        self.length += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Empties the file, because the database has everything.
    pub fn clear(&mut self) {
        self.held.clear();
        if self.length > 0 && self.file.set_len(0).is_ok() {
            let _ = self.file.seek(SeekFrom::Start(0));
            self.length = 0;
        }
    }
}

/// Readable orders, and the end offset of the last complete line. The last line may be incomplete
/// after a crash.
fn read(file: &mut File) -> io::Result<(Vec<(u64, Order)>, u64)> {
    let mut lines = BufReader::new(file);
    let mut found = Vec::new();
    let mut line = Vec::new();
    let mut whole = 0;
    loop {
        line.clear();
        let read = io::Read::take(&mut lines, LONGEST).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok((found, whole));
        }
        whole += read as u64;
        if let Ok(entry) = serde_json::from_slice::<Entry>(&line)
            && let Some(order) = entry.what.order()
        {
            found.push((entry.n, order));
        }
    }
}

impl What<'_> {
    fn order(self) -> Option<Order> {
        Some(match self {
            What::Item {
                session,
                seq,
                epoch,
                kind,
                data,
            } => Order::Item(
                session.into(),
                Item::new(epoch, seq, Kind::from_name(&kind)?, &data),
            ),
            What::Record(session) => Order::Record(Box::new(session.into_owned())),
            What::Forget(id) => Order::Forget(id.into_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(seq: u64, data: &str) -> Order {
        Order::Item("ses_1".into(), Item::new(7, seq, Kind::Line, data))
    }

    fn told(left: &[(u64, Order)]) -> Vec<String> {
        let tell = |(n, order): &(u64, Order)| match order {
            Order::Item(session, item) => format!("{n} {session} {} {}", item.id(), item.data()),
            Order::Forget(id) => format!("{n} forget {id}"),
            _ => format!("{n} other"),
        };
        left.iter().map(tell).collect()
    }

    #[test]
    fn saved_orders_are_read_back_and_a_partial_line_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal, left) = Journal::open(&path).expect("opened");
        assert!(left.is_empty());
        journal.hold(1, &item(0, "\"a\\nb\""), 0);
        journal.hold(2, &Order::Forget("ses_0".to_owned()), 0);
        journal.save().expect("written");
        journal.hold(3, &item(1, "\"held only\""), 0);
        drop(journal);
        let mut file = File::options().append(true).open(&path).expect("there");
        file.write_all(br#"{"n":4,"item":{"session":"#)
            .expect("torn");
        let (mut journal, left) = Journal::open(&path).expect("opened");
        assert_eq!(told(&left), ["1 ses_1 7-0 \"a\\nb\"", "2 forget ses_0"]);
        journal.clear();
        journal.hold(5, &item(2, "2"), 0);
        journal.save().expect("written");
        let (_, left) = Journal::open(&path).expect("opened");
        assert_eq!(told(&left), ["5 ses_1 7-2 2"]);
    }

    #[test]
    fn committed_orders_are_not_held() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal, _) = Journal::open(&path).expect("opened");
        journal.hold(1, &item(0, "0"), 0);
        journal.hold(2, &item(1, "1"), 0);
        // Both are already in the database.
        journal.hold(3, &item(2, "2"), 2);
        journal.save().expect("written");
        let (_, left) = Journal::open(&path).expect("opened");
        assert_eq!(told(&left), ["3 ses_1 7-2 2"]);
    }
}
