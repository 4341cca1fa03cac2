//! Unpacks untrusted archives: tar (plain, gzip, xz) and zip. No entry can be written outside the
//! target directory. Files are written first and links last, so that nothing is written through a
//! link. Size and number of entries are limited.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use tar::EntryType;

/// Maximum length of a name in bytes.
const MAX_NAME: u64 = 4096;
/// Maximum number of bytes in the names and targets of all links. They are kept in memory until the
/// end.
const MAX_LINKS: usize = 64 << 20;
/// Maximum size in bytes of the extended headers of one entry.
const MAX_HEADER: u64 = 64 << 10;
/// Memory limit in KiB for decoding an xz stream. The largest preset needs 65 MiB.
const XZ_MEMORY_KB: u32 = 256 << 10;

/// Limits for unpacking an archive.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLimits {
    /// Unpacked size, including all headers.
    pub bytes: u64,
    /// Maximum number of entries.
    pub entries: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        ArchiveLimits {
            bytes: 4 << 30,
            entries: 200_000,
        }
    }
}

/// What a file contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveContent {
    /// An archive, unpacked into the directory.
    Tree,
    /// The program itself, without an archive around it.
    Program,
}

/// Unpacks a file into the new directory `into`. A file that is not an archive is taken for the
/// program itself and written to `single`.
pub fn unpack(
    file: &Path,
    into: &Path,
    single: &Path,
    limits: ArchiveLimits,
) -> Result<ArchiveContent, String> {
    let mut source = File::open(file).map_err(unpack_error)?;
    let mut magic = [0; 6];
    let read = fill(&mut source, &mut magic).map_err(unpack_error)?;
    source.seek(SeekFrom::Start(0)).map_err(unpack_error)?;
    let start = magic.get(..read).unwrap_or_default();
    let mut sink = Sink::new(into, limits);
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        zip_into(source, &mut sink)?;
        sink.finish()?;
        return Ok(ArchiveContent::Tree);
    }
    if start.starts_with(b"BZh") || start.starts_with(b"\x28\xb5\x2f\xfd") {
        return Err("unsupported archive format bzip2 or zstd: use gzip, xz or zip".into());
    }
    let bytes: Box<dyn Read> = if start.starts_with(b"\x1f\x8b") {
        Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::new(
            source,
        )))
    } else if start == b"\xfd7zXZ\0" {
        let source = io::BufReader::new(source);
        Box::new(lzma_rust2::XzReader::new_mem_limit(
            source,
            true,
            XZ_MEMORY_KB,
        ))
    } else {
        Box::new(source)
    };
    let mut bytes = Bounded {
        inner: bytes,
        left: limits.bytes,
    };
    let mut first = [0; 512];
    let read = fill(&mut bytes, &mut first).map_err(unpack_error)?;
    let whole = Cursor::new(first.get(..read).unwrap_or_default().to_vec()).chain(bytes);
    match is_tar(first.get(..read).unwrap_or_default()) {
        true => {
            tar_into(whole, &mut sink)?;
            sink.finish()?;
            Ok(ArchiveContent::Tree)
        }
        false if first.trim_ascii_start().starts_with(b"<") => {
            Err("the download is a web page, not an archive".to_owned())
        }
        false => {
            write_program(whole, single).map_err(unpack_error)?;
            Ok(ArchiveContent::Program)
        }
    }
}

/// Finds the program that a manifest names in an unpacked archive, and makes it executable.
pub fn program(root: &Path, name: &str) -> Result<PathBuf, String> {
    let relative = clean(Path::new(name))?;
    let path = root.join(&relative);
    let missing = || format!("no `{name}` in the archive");
    let real = path.canonicalize().map_err(|_| missing())?;
    let inside = root.canonicalize().map_err(unpack_error)?;
    if !real.starts_with(&inside) {
        return Err(format!("`{name}` points outside the archive"));
    }
    let meta = fs::metadata(&real).map_err(|_| missing())?;
    if !meta.is_file() {
        return Err(format!("`{name}` in the archive is not a file"));
    }
    fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).map_err(unpack_error)?;
    Ok(path)
}

fn unpack_error(error: impl std::fmt::Display) -> String {
    format!("cannot unpack the archive: {error}")
}

fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while let Some(rest) = buffer.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

/// A reader that fails after a number of bytes.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other("it exceeds the size limit"))?;
        Ok(n)
    }
}

/// Detects a tar header by its magic or, in formats older than the magic, by its checksum.
fn is_tar(block: &[u8]) -> bool {
    if block.get(257..262) == Some(b"ustar") {
        return true;
    }
    let Ok(header) = <&[u8; 512]>::try_from(block) else {
        return false;
    };
    let sum = header.iter().enumerate().map(|(i, byte)| match i {
        148..156 => u32::from(b' '),
        _ => u32::from(*byte),
    });
    let header = tar::Header::from_byte_slice(header);
    header
        .cksum()
        .is_ok_and(|stored| stored != 0 && stored == sum.sum::<u32>())
}

fn write_program(mut from: impl Read, to: &Path) -> io::Result<()> {
    let mut file = new_file(to, 0o755)?;
    if io::copy(&mut from, &mut file)? == 0 {
        return Err(io::Error::other("the file is empty"));
    }
    Ok(())
}

fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(path)
}

/// A relative path inside the archive, without `..`.
fn clean(name: &Path) -> Result<PathBuf, String> {
    let mut out = PathBuf::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => out.push(part),
            Component::CurDir => {}
            _ => {
                return Err(format!(
                    "`{}` points outside the archive",
                    name.to_string_lossy()
                ));
            }
        }
    }
    check_length(&out)?;
    Ok(out)
}

fn check_length(name: &Path) -> Result<(), String> {
    match name.as_os_str().len() as u64 {
        0..=MAX_NAME => Ok(()),
        _ => Err("the archive contains a name that is too long".to_owned()),
    }
}

/// Writes the entries of an archive.
struct Sink {
    root: PathBuf,
    left: u64,
    entries: u64,
    /// Links, created at the end. Hard links come first, because they are files. All names and
    /// targets are checked before they are kept.
    hard: Vec<(PathBuf, PathBuf)>,
    soft: Vec<(PathBuf, PathBuf)>,
    /// Remaining bytes for names and targets of links.
    links_left: usize,
}

impl Sink {
    fn new(root: &Path, limits: ArchiveLimits) -> Self {
        Sink {
            root: root.to_owned(),
            left: limits.bytes,
            entries: limits.entries,
            hard: Vec::new(),
            soft: Vec::new(),
            links_left: MAX_LINKS,
        }
    }

    fn count(&mut self) -> Result<(), String> {
        self.entries = self
            .entries
            .checked_sub(1)
            .ok_or("the archive contains too many files")?;
        Ok(())
    }

    fn dir(&mut self, name: &Path) -> Result<(), String> {
        make_dirs(&self.root, &clean(name)?).map(drop)
    }

    fn file(&mut self, name: &Path, mode: u32, size: u64, from: impl Read) -> Result<(), String> {
        if size > self.left {
            return Err(format!(
                "`{}` exceeds the size limit",
                name.to_string_lossy()
            ));
        }
        let path = place(&self.root, name)?;
        // Like in tar, a later entry of the same name replaces the earlier one.
        if fs::symlink_metadata(&path).is_ok_and(|m| m.is_file()) {
            fs::remove_file(&path).map_err(unpack_error)?;
        }
        // Set-id bits and write access for others are never taken from an archive.
        let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        let mut file = new_file(&path, mode).map_err(unpack_error)?;
        let mut from = Bounded {
            inner: from,
            left: self.left,
        };
        io::copy(&mut from, &mut file).map_err(unpack_error)?;
        self.left = from.left;
        file.flush().map_err(unpack_error)
    }

    fn hard_link(&mut self, name: &Path, target: &Path) -> Result<(), String> {
        let link = (clean(name)?, clean(target)?);
        self.count_link(&link)?;
        self.hard.push(link);
        Ok(())
    }

    fn soft_link(&mut self, name: &Path, target: PathBuf) -> Result<(), String> {
        check_length(&target)?;
        let name = clean(name)?;
        if !stays_inside(&name, &target) {
            return Err(outside(&name, &target));
        }
        let link = (name, target);
        self.count_link(&link)?;
        self.soft.push(link);
        Ok(())
    }

    fn count_link(&mut self, (name, target): &(PathBuf, PathBuf)) -> Result<(), String> {
        let size = name.as_os_str().len() + target.as_os_str().len();
        let left = self.links_left.checked_sub(size);
        self.links_left = left.ok_or("the archive contains too many or too long links")?;
        Ok(())
    }

    fn finish(self) -> Result<(), String> {
        fs::create_dir_all(&self.root).map_err(unpack_error)?;
        let root = self.root.canonicalize().map_err(unpack_error)?;
        for (name, target) in self.hard {
            let from = root.join(target);
            if !fs::symlink_metadata(&from).is_ok_and(|m| m.is_file()) {
                return Err(format!(
                    "`{}` links to a file that is not in the archive",
                    name.to_string_lossy()
                ));
            }
            fs::hard_link(from, place(&root, &name)?).map_err(unpack_error)?;
        }
        let mut made = Vec::new();
        for (name, target) in self.soft {
            let at = place(&root, &name)?;
            symlink(&target, &at).map_err(unpack_error)?;
            made.push((at, name, target));
        }
        for (at, name, target) in made {
            match at.canonicalize() {
                Ok(real) if real.starts_with(&root) => {}
                Ok(_) => return Err(outside(&name, &target)),
                // A dangling link is removed, so that it cannot resolve later.
                Err(_) => fs::remove_file(&at).map_err(unpack_error)?,
            }
        }
        Ok(())
    }
}

/// Whether a relative link at `name` does not leave the directory that is unpacked. A link that
/// leaves it and returns would depend on the name of the directory.
fn stays_inside(name: &Path, target: &Path) -> bool {
    let mut depth = name.components().count().saturating_sub(1);
    target.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir => match depth.checked_sub(1) {
            Some(less) => {
                depth = less;
                true
            }
            None => false,
        },
        Component::RootDir | Component::Prefix(_) => false,
    })
}

fn outside(name: &Path, target: &Path) -> String {
    format!(
        "`{}` links to `{}`, outside the archive",
        name.to_string_lossy(),
        target.to_string_lossy()
    )
}

/// Where to write an entry, after its parent directories were created.
fn place(root: &Path, name: &Path) -> Result<PathBuf, String> {
    let name = clean(name)?;
    let parent = make_dirs(root, name.parent().unwrap_or(Path::new("")))?;
    Ok(parent.join(name.file_name().unwrap_or_default()))
}

/// Creates a directory and its parents below `root`. It does not follow links of the archive, so
/// that it creates nothing outside.
fn make_dirs(root: &Path, below: &Path) -> Result<PathBuf, String> {
    let mut path = root.to_owned();
    fs::create_dir_all(root).map_err(unpack_error)?;
    for part in below.components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(format!(
                    "`{}` in the archive is both a directory and a file or link",
                    path.strip_prefix(root).unwrap_or(&path).to_string_lossy()
                ));
            }
            Err(_) => {
                let mut builder = fs::DirBuilder::new();
                builder.mode(0o755).create(&path).map_err(unpack_error)?;
            }
        }
    }
    Ok(path)
}

/// Reads tar entries. Long names are read here with a limit, because the library would read them
/// into memory without one.
fn tar_into(from: impl Read, sink: &mut Sink) -> Result<(), String> {
    let mut archive = tar::Archive::new(from);
    let mut long_name = None;
    let mut long_link = None;
    for entry in archive.entries().map_err(unpack_error)?.raw(true) {
        let mut entry = entry.map_err(unpack_error)?;
        sink.count()?;
        let kind = entry.header().entry_type();
        let size = entry.size();
        match kind {
            EntryType::GNULongName => long_name = Some(long(&mut entry, MAX_NAME)?),
            EntryType::GNULongLink => long_link = Some(long(&mut entry, MAX_NAME)?),
            EntryType::XHeader => {
                let header = long(&mut entry, MAX_HEADER)?;
                for pair in tar::PaxExtensions::new(&header) {
                    let pair = pair.map_err(unpack_error)?;
                    match pair.key_bytes() {
                        b"path" => long_name = Some(pair.value_bytes().to_vec()),
                        b"linkpath" => long_link = Some(pair.value_bytes().to_vec()),
                        b"size" => {
                            return Err("the archive contains a file of more than 8 GiB".to_owned());
                        }
                        key if key.starts_with(b"GNU.sparse") => return Err(sparse()),
                        _ => {}
                    }
                }
            }
            EntryType::XGlobalHeader => {}
            _ => {
                let name = match long_name.take() {
                    Some(bytes) => path_of(&bytes),
                    None => path_of(&entry.header().path_bytes()),
                };
                let target = match long_link.take() {
                    Some(bytes) => Some(path_of(&bytes)),
                    None => entry.header().link_name_bytes().map(|b| path_of(&b)),
                };
                let mode = entry.header().mode().unwrap_or(0o644);
                match (kind, target) {
                    (EntryType::Directory, _) => sink.dir(&name)?,
                    (EntryType::Regular | EntryType::Continuous, _) => {
                        // Old archives mark a directory by a trailing slash.
                        match name.as_os_str().as_encoded_bytes().ends_with(b"/") {
                            true => sink.dir(&name)?,
                            false => sink.file(&name, mode, size, &mut entry)?,
                        }
                    }
                    (EntryType::Symlink, Some(target)) => sink.soft_link(&name, target)?,
                    (EntryType::Link, Some(target)) => sink.hard_link(&name, &target)?,
                    (EntryType::GNUSparse, _) => return Err(sparse()),
                    _ => {
                        return Err(format!(
                            "`{}` in the archive is not a file, a directory or a link",
                            name.to_string_lossy()
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

fn sparse() -> String {
    "the archive contains sparse files, which are not supported".to_owned()
}

fn long(entry: &mut impl Read, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    entry
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(unpack_error)?;
    if bytes.len() as u64 > most {
        return Err("the archive contains a header that is too long".to_owned());
    }
    Ok(bytes)
}

/// The name up to the first NUL, which ends names in tar.
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    let name = bytes.get(..end).unwrap_or_default();
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

fn zip_into(source: File, sink: &mut Sink) -> Result<(), String> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(source)).map_err(unpack_error)?;
    for index in 0..archive.len() {
        sink.count()?;
        let mut entry = archive.by_index(index).map_err(unpack_error)?;
        let name = PathBuf::from(entry.name().map_err(unpack_error)?.into_owned());
        if name.as_os_str().as_encoded_bytes().contains(&0) {
            return Err("the archive contains a name with a NUL byte".to_owned());
        }
        let mode = entry.unix_mode().unwrap_or(0o644);
        if entry.is_dir() {
            sink.dir(&name)?;
        } else if entry.is_symlink() {
            let target = path_of(&long(&mut entry, MAX_NAME)?);
            sink.soft_link(&name, target)?;
        } else {
            let size = entry.size();
            sink.file(&name, mode, size, &mut entry)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_checked_and_counted_before_they_are_kept() {
        let mut sink = Sink::new(Path::new("/nowhere"), ArchiveLimits::default());
        let long = PathBuf::from("x/".repeat(30 << 10));
        assert!(sink.soft_link(Path::new("a"), long.clone()).is_err());
        assert!(sink.soft_link(&long, "a".into()).is_err());
        assert!(sink.hard_link(Path::new("a"), &long).is_err());
        assert!(sink.soft_link(Path::new("a"), "../b".into()).is_err());
        assert!(sink.hard_link(Path::new("../a"), Path::new("b")).is_err());
        assert_eq!((sink.soft.len(), sink.hard.len()), (0, 0));
        let target = "x".repeat(MAX_NAME as usize);
        let most = MAX_LINKS / target.len();
        let mut add = |n: usize| match n % 2 {
            0 => sink.soft_link(Path::new("a"), target.clone().into()),
            _ => sink.hard_link(Path::new("a"), Path::new(&target)),
        };
        let kept = (0..2 * most).take_while(|n| add(*n).is_ok()).count();
        assert!(kept <= most && kept > most - 10, "{kept}");
    }
}
