//! Items of one session with consecutive numbers, compressed together. Each item is stored twice, as
//! an event and as lines of text, so its blocks compress well.

use super::log::LogRow;
use crate::ring::{ItemKind, LogItem};

/// Maximum size in bytes of a block before compression. A larger item gets its own block.
pub const MAX_BLOCK_BYTES: usize = 256 << 10;
/// A damaged block may claim any size. No item is larger than this.
const MAX_DECODED_BYTES: usize = 128 << 20;

/// Encodes the kind, the data and a line feed of each item. JSON has no raw line feeds.
pub fn encode(items: &[&LogItem]) -> Vec<u8> {
    let size = items.iter().map(|item| item.data().len() + 2).sum();
    let mut text = Vec::with_capacity(size);
    for item in items {
        text.push(letter(item.kind));
        text.extend_from_slice(item.data().as_bytes());
        text.push(b'\n');
    }
    lz4_flex::compress_prepend_size(&text)
}

/// The items of a block, or `None` if it is damaged.
pub fn decode(first: u64, epoch: u64, block: &[u8]) -> Option<Vec<LogRow>> {
    let (size, compressed) = lz4_flex::block::uncompressed_size(block).ok()?;
    if size > MAX_DECODED_BYTES {
        return None;
    }
    let text = String::from_utf8(lz4_flex::decompress(compressed, size).ok()?).ok()?;
    let lines = text.split_terminator('\n').zip(first..);
    let row = |(line, seq): (&str, u64)| {
        let kind = kind(*line.as_bytes().first()?)?;
        Some(LogRow {
            seq,
            epoch,
            kind,
            data: line.get(1..)?.to_owned(),
        })
    };
    lines.map(row).collect()
}

const KINDS: [(ItemKind, u8); 6] = [
    (ItemKind::Line, b'l'),
    (ItemKind::Status, b's'),
    (ItemKind::Event, b'e'),
    (ItemKind::Permission, b'p'),
    (ItemKind::Prompt, b'u'),
    (ItemKind::Gap, b'g'),
];

fn letter(kind: ItemKind) -> u8 {
    let found = KINDS.iter().find(|(known, _)| *known == kind);
    found.map_or(b'e', |(_, letter)| *letter)
}

fn kind(letter: u8) -> Option<ItemKind> {
    let found = KINDS.iter().find(|(_, known)| *known == letter);
    found.map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_all_kinds_are_read_back() {
        let items: Vec<LogItem> = KINDS
            .iter()
            .zip(7..)
            .map(|((kind, _), seq)| {
                LogItem::new(3, seq, *kind, &format!("{{\"n\":\"{seq} \\n é\"}}"))
            })
            .collect();
        let block = encode(&items.iter().collect::<Vec<_>>());
        let rows = decode(7, 3, &block).expect("a block");
        assert_eq!(rows.len(), KINDS.len());
        for (row, item) in rows.iter().zip(&items) {
            assert_eq!(
                (row.seq, row.epoch, row.kind),
                (item.seq, item.epoch, item.kind)
            );
            assert_eq!(row.data, item.data());
        }
    }

    #[test]
    fn a_damaged_block_is_refused() {
        let item = LogItem::new(1, 0, ItemKind::Line, "\"some text that is long enough\"");
        let block = encode(&[&item]);
        assert!(decode(0, 1, &block).is_some());
        assert!(decode(0, 1, &[]).is_none());
        assert!(decode(0, 1, block.get(..block.len() - 3).expect("a part")).is_none());
        assert!(decode(0, 1, &[0xff; 64]).is_none());
        let mut unknown = block;
        unknown[5] = b'x';
        assert!(decode(0, 1, &unknown).is_none());
    }
}
