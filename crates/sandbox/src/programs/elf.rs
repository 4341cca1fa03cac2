//! What an ELF file requires from the loader, read from its headers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef, StringTable};

use super::bytes_to_path;

/// Maximum size of a table, in bytes. Larger tables are not read, because no legitimate program has
/// them.
const MAX_TABLE_BYTES: u64 = 64 << 20;

/// The requirements of one ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// `PT_INTERP`: the loader. `None` for static programs and for libraries.
    pub loader: Option<PathBuf>,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<PathBuf>,
    /// `DT_RPATH`, unless there is a `DT_RUNPATH`.
    pub rpath: Vec<PathBuf>,
    pub runpath: Vec<PathBuf>,
    /// Whether it is 64-bit, and the machine. A library of another kind does not match.
    pub kind: (bool, u16),
}

/// Cache of headers, because most programs share their libraries.
#[derive(Clone, Debug, Default)]
pub struct HeaderCache(RefCell<HashMap<PathBuf, Option<Rc<Elf>>>>);

impl HeaderCache {
    /// Like `read`, but returns `None` for a file that cannot be read.
    pub fn get(&self, path: &Path) -> Option<Rc<Elf>> {
        if let Some(known) = self.0.borrow().get(path) {
            return known.clone();
        }
        let elf = read(path).ok().flatten().map(Rc::new);
        self.0.borrow_mut().insert(path.to_owned(), elf.clone());
        elf
    }
}

/// Reads an ELF file. Returns `None` if it is something else or truncated.
pub fn read(path: &Path) -> io::Result<Option<Elf>> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let cache = ReadCache::new(file);
    let data = &cache;
    let Ok(ident) = data.read_bytes_at(0, 5) else {
        return Ok(None);
    };
    let origin = path.parent().unwrap_or(Path::new("/"));
    Ok(match ident {
        [0x7f, b'E', b'L', b'F', 2] => {
            parse::<elf::FileHeader64<object::Endianness>, _>(data, origin)
        }
        [0x7f, b'E', b'L', b'F', 1] => {
            parse::<elf::FileHeader32<object::Endianness>, _>(data, origin)
        }
        _ => None,
    })
}

fn parse<'d, H, R>(data: R, origin: &Path) -> Option<Elf>
where
    H: FileHeader<Endian = object::Endianness>,
    R: ReadRef<'d>,
{
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut out = Elf {
        kind: (header.is_class_64(), header.e_machine(endian).0),
        ..Elf::default()
    };
    let mut dynamic: &[H::Dyn] = &[];
    for segment in segments {
        if segment.p_filesz(endian).into() > MAX_TABLE_BYTES {
            continue;
        }
        if let Ok(Some(loader)) = segment.interpreter(endian, data) {
            out.loader = Some(bytes_to_path(loader));
        }
        if let Ok(Some(entries)) = segment.dynamic(endian, data) {
            dynamic = entries;
        }
    }
    let mut table = (0u64, 0u64);
    let (mut needed, mut rpath, mut runpath) = (Vec::new(), None, None);
    for entry in dynamic {
        let value: u64 = entry.d_val(endian).into();
        match entry.d_tag(endian) {
            elf::DT_NULL => break,
            elf::DT_STRTAB => table.0 = value,
            elf::DT_STRSZ => table.1 = value,
            elf::DT_NEEDED => needed.push(value),
            elf::DT_RPATH => rpath = Some(value),
            elf::DT_RUNPATH => runpath = Some(value),
            _ => {}
        }
    }
    let start = file_offset::<H>(segments, endian, table.0);
    let Some(start) = start.filter(|_| table.1 <= MAX_TABLE_BYTES) else {
        return Some(out);
    };
    let strings = StringTable::new(data, start, start.checked_add(table.1)?);
    let text = |at: u64| strings.get(u32::try_from(at).ok()?).ok();
    out.needed = needed
        .into_iter()
        .filter_map(text)
        .map(bytes_to_path)
        .collect();
    let list = |at: Option<u64>| {
        at.and_then(text).map_or_else(Vec::new, |text| {
            let parts = text.split(|b| *b == b':');
            parts.filter_map(|part| search_path(part, origin)).collect()
        })
    };
    out.runpath = list(runpath);
    // A loader that supports RUNPATH ignores RPATH if both are present.
    out.rpath = if runpath.is_some() {
        Vec::new()
    } else {
        list(rpath)
    };
    Some(out)
}

/// Converts an address to a file offset. The loader finds the table by its address.
fn file_offset<H: FileHeader>(
    segments: &[H::ProgramHeader],
    endian: H::Endian,
    address: u64,
) -> Option<u64> {
    segments
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD)
        .find_map(|s| {
            let from: u64 = s.p_vaddr(endian).into();
            let inside = address.checked_sub(from)?;
            let size: u64 = s.p_filesz(endian).into();
            let offset: u64 = s.p_offset(endian).into();
            (inside < size)
                .then(|| offset.checked_add(inside))
                .flatten()
        })
}

/// One entry of a search path. Relative entries depend on the working directory and are skipped.
fn search_path(text: &[u8], origin: &Path) -> Option<PathBuf> {
    for name in [&b"$ORIGIN"[..], b"${ORIGIN}"] {
        if let Some(rest) = text.strip_prefix(name) {
            let rest = bytes_to_path(rest.strip_prefix(b"/").unwrap_or(rest));
            return Some(origin.join(rest));
        }
    }
    let path = bytes_to_path(text);
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_dynamic_program() {
        let own = std::env::current_exe().expect("a path");
        let elf = read(&own).expect("readable").expect("ELF");
        assert_eq!(elf.kind.0, cfg!(target_pointer_width = "64"));
        if cfg!(target_env = "gnu") {
            let loader = elf.loader.expect("a loader");
            assert!(loader.to_string_lossy().contains("ld-linux"));
            assert!(elf.needed.iter().any(|n| n.starts_with("libc.so.6")));
        }
    }

    #[test]
    fn origin_is_the_directory_of_the_file() {
        let dir = Path::new("/opt/x/bin");
        let find = |text: &str| search_path(text.as_bytes(), dir);
        assert_eq!(find("$ORIGIN/../lib"), Some("/opt/x/bin/../lib".into()));
        assert_eq!(find("${ORIGIN}"), Some("/opt/x/bin/".into()));
        assert_eq!(find("/usr/lib/x"), Some("/usr/lib/x".into()));
        assert_eq!(find("lib"), None);
        assert_eq!(find(""), None);
    }

    #[test]
    fn truncated_files_are_not_programs() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("bytes");
        for length in [0, 3, 4, 5, 20, 63, 64, 100, 400, 4000] {
            let path = dir.path().join(length.to_string());
            std::fs::write(&path, own.get(..length).expect("bytes")).expect("written");
            let read = read(&path).expect("readable");
            assert!(read.is_none_or(|elf| elf.needed.is_empty()), "{length}");
        }
    }
}
