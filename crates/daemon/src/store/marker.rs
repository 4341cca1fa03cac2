//! A small file beside the database. Its blocks are allocated in advance, so it can be written when
//! the disk is full. It says what the database should contain, and which sessions have items that
//! could not be stored.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Size of the file in bytes. The session ids start at `IDS`.
const SIZE: usize = 64 << 10;
const IDS: usize = 64;

pub struct Marker {
    file: File,
    /// Length of the ids in the file.
    ids: usize,
}

/// What an earlier run of the daemon has written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Number of the last command that the database accepted.
    pub committed: u64,
    /// Sessions with items that were not stored.
    pub unstored: Vec<String>,
}

impl Marker {
    /// Opens the file, allocates its blocks, and returns what it contains.
    pub fn open(path: &Path) -> io::Result<(Marker, Marked)> {
        let file = super::private_file(path)?;
        let mut bytes = vec![0; SIZE];
        let mut length = 0;
        while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, length as u64)? {
                0 => break,
                read => length += read,
            }
        }
        let text = |part: &[u8]| {
            let end = part.iter().position(|byte| *byte == 0);
            String::from_utf8_lossy(part.get(..end.unwrap_or(part.len())).unwrap_or_default())
                .into_owned()
        };
        let (head, ids) = bytes.split_at(IDS);
        let ids = text(ids);
        let marked = Marked {
            committed: text(head).trim().parse().unwrap_or(0),
            unstored: ids.lines().map(str::to_owned).collect(),
        };
        if length < SIZE {
            // Zeros, because a sparse file would have no blocks.
            file.write_all_at(&vec![0; SIZE - length], length as u64)?;
        }
        let marker = Marker {
            file,
            ids: ids.len(),
        };
        Ok((marker, marked))
    }

    /// Records the last command that the database has accepted.
    pub fn set_committed(&self, last: u64) {
        // If this fails, the next start reports less than it could.
        let _ = self.file.write_all_at(format!("{last:<20}").as_bytes(), 0);
    }

    /// Records the sessions with items that are not stored. Ids beyond the size of the file are left
    /// out.
    pub fn set_unstored<'a>(&mut self, ids: impl Iterator<Item = &'a str>) {
        let mut text = String::new();
        for id in ids {
            if IDS + text.len() + id.len() + 2 > SIZE {
                break;
            }
            text.push_str(id);
            text.push('\n');
        }
        let length = text.len();
        if length == 0 && self.ids == 0 {
            return;
        }
        let mut bytes = text.into_bytes();
        bytes.resize(self.ids.max(length) + 1, 0);
        if self.file.write_all_at(&bytes, IDS as u64).is_ok() {
            self.ids = length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("marker");
        let (mut marker, marked) = Marker::open(&path).expect("opened");
        assert_eq!(marked, Marked::default());
        marker.set_committed(4_000_000_000);
        marker.set_committed(17);
        marker.set_unstored(["ses_1", "ses_2"].into_iter());
        let (_, marked) = Marker::open(&path).expect("opened");
        assert_eq!(marked.committed, 17);
        assert_eq!(marked.unstored, ["ses_1", "ses_2"]);
        marker.set_unstored(["ses_2"].into_iter());
        let (mut marker, marked) = Marker::open(&path).expect("opened");
        assert_eq!(marked.unstored, ["ses_2"]);
        marker.set_unstored([].into_iter());
        assert!(Marker::open(&path).expect("opened").1.unstored.is_empty());
        assert_eq!(std::fs::metadata(&path).expect("there").len(), SIZE as u64);
    }
}
