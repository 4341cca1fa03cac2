//! Asks git which files changed.
//!
//! A repository is untrusted, and its configuration can name programs. So git is only asked for
//! what it has stored: trees, the index, objects and names. It never reads a file of the work tree,
//! because that runs filters that the configuration names. The files are compared here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use agentproto_lint::discover;
use agentproto_manifest::{FileSource, MAX_FILE_BYTES, PathKind, ReadError, normalize};

use crate::cli::Failure;
use crate::exit;

/// Settings that win over those of the repository. None of the commands below needs a program, so
/// these are a second line of defense.
const SETTINGS: &[&str] = &[
    // An empty value is "off" for every version of git.
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "credential.helper=",
    "diff.external=",
    "protocol.allow=never",
    "submodule.recurse=false",
    // A directory of the repository can look like a bare repository with its own configuration.
    "safe.bareRepository=explicit",
];

/// Variables for git. A partial clone must not fetch objects that it does not have.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // The language of messages must not depend on the user's settings.
    ("LC_ALL", "C"),
];

/// Variables that name programs or change the meaning of arguments.
const REMOVED: &[&str] = &[
    "GIT_ASKPASS",
    "GIT_DIFF_OPTS",
    "GIT_EXTERNAL_DIFF",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "SSH_ASKPASS",
];

/// Maximum number of links in a chain, as in Linux.
const MAX_LINKS: usize = 40;

/// A file in a tree or in the index.
struct Entry {
    is_link: bool,
    /// Id of its contents, or of the text of the link.
    object: String,
}

/// Files by path, relative to the current directory.
type Entries = BTreeMap<PathBuf, Entry>;

/// A commit whose files are compared with those of the run.
pub struct Base {
    entries: Entries,
    objects: Objects,
}

impl Base {
    /// The files of a revision below the current directory. For a range, this is the older end.
    pub fn of(reference: &str) -> Result<Base, Failure> {
        let unknown = || {
            let message = format!("unknown git revision `{reference}`");
            Failure::new(exit::USAGE, message)
        };
        if reference.starts_with('-') {
            let message = format!("`{reference}` is not a git revision");
            return Err(Failure::new(exit::USAGE, message));
        }
        check_repository("--changed")?;
        let revision = revision(reference)?.ok_or_else(unknown)?;
        Base::of_tree(&revision).map_err(|_| unknown())
    }

    fn of_tree(tree: &str) -> Result<Base, Failure> {
        let mut entries = Entries::new();
        for record in records(&["ls-tree", "-r", "-z", tree])? {
            // MODE TYPE OBJECT\tPATH
            if let Some(([mode, kind, object], path)) = fields(&record)
                && kind == "blob"
            {
                entries.insert(path, Entry::new(mode, object));
            }
        }
        let objects = Objects::start()?;
        Ok(Base { entries, objects })
    }

    /// The files of this revision.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.entries.keys().map(PathBuf::as_path)
    }

    /// The text of a file, or `None` if it did not exist, was a link, or is not text.
    pub fn text(&self, path: &Path) -> Option<String> {
        let entry = self.entries.get(path).filter(|entry| !entry.is_link)?;
        String::from_utf8(self.objects.read(&entry.object).ok()?).ok()
    }

    /// Markdown files below the current directory that differ from this revision, and new ones.
    pub fn changed(&self, files: &dyn FileSource) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = untracked()?;
        paths.extend(index()?.into_keys());
        paths.retain(|path| discover::is_candidate(path) && !path.starts_with(".."));
        paths.sort();
        paths.dedup();
        paths.retain(|path| self.differs(path, files));
        Ok(paths)
    }

    /// Whether a file exists and differs. A file that cannot be read differs, so that it is
    /// reported.
    fn differs(&self, path: &Path, files: &dyn FileSource) -> bool {
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            return false;
        };
        let Some(entry) = self.entries.get(path) else {
            return true;
        };
        if entry.is_link != meta.is_symlink() {
            return true;
        }
        let Ok(old) = self.objects.read(&entry.object) else {
            return true;
        };
        if entry.is_link {
            return std::fs::read_link(path).ok() != Some(path_of(&old));
        }
        // Git may write `\r\n` where it stores `\n`.
        files.read(path).map_or(true, |new| {
            new != old && without_carriage_returns(&new) != without_carriage_returns(&old)
        })
    }
}

fn without_carriage_returns(bytes: &[u8]) -> Vec<u8> {
    let mut kept = bytes.to_vec();
    kept.retain(|b| *b != b'\r');
    kept
}

/// The git index as a source of files: what would be committed. References also resolve to staged
/// texts. Files that the index does not know, and that git ignores, are those on disk.
pub struct Staged<'d> {
    /// The last commit. Without one, it has no files.
    pub base: Base,
    /// Markdown files below the current directory that were added or changed since the last commit.
    pub paths: Vec<PathBuf>,
    /// Staged files, or `None` if a file of the disk or of the last commit is not staged.
    entries: BTreeMap<PathBuf, Option<Entry>>,
    links: BTreeSet<PathBuf>,
    /// Links must not lead out of this directory.
    root: PathBuf,
    working_dir: PathBuf,
    disk: &'d dyn FileSource,
}

impl<'d> Staged<'d> {
    /// Reads the index.
    pub fn read(root: &Path, disk: &'d dyn FileSource) -> Result<Self, Failure> {
        check_repository("--staged")?;
        let tree = match revision("HEAD")? {
            Some(head) => head,
            None => empty_tree()?,
        };
        let base = Base::of_tree(&tree)?;
        let mut paths = names(&[
            "diff-index",
            "--cached",
            "--name-only",
            "-z",
            "--relative",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
            // `git add --intent-to-add` does not stage a file.
            "--ita-invisible-in-index",
            "--diff-filter=d",
            &tree,
            "--",
        ])?;
        paths.retain(|path| discover::is_candidate(path));
        paths.sort();
        let mut index = index()?;
        index.retain(|path, entry| entry.is_link || discover::is_candidate(path));
        let links = index.iter().filter(|(_, entry)| entry.is_link);
        let links = links.map(|(path, _)| path.clone()).collect();
        let mut entries: BTreeMap<PathBuf, Option<Entry>> = BTreeMap::new();
        for (path, entry) in index {
            let below = !path.starts_with("..");
            let staged = !below
                || base.entries.contains_key(&path)
                || entry.is_link
                || paths.binary_search(&path).is_ok();
            entries.insert(path, staged.then_some(entry));
        }
        let unstaged = untracked()?
            .into_iter()
            .chain(base.entries.keys().cloned())
            .filter(|path| discover::is_candidate(path));
        for path in unstaged {
            entries.entry(path).or_insert(None);
        }
        Ok(Staged {
            base,
            paths,
            entries,
            links,
            root: root.to_owned(),
            working_dir: std::env::current_dir().unwrap_or_default(),
            disk,
        })
    }

    /// Follows staged links by their text.
    fn resolve(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let mut at = path.to_owned();
        if self.links.is_empty() {
            return Ok(at);
        }
        for _ in 0..MAX_LINKS {
            let link = at.ancestors().filter(|part| self.links.contains(*part));
            let Some(link) = link.last().map(Path::to_owned) else {
                return Ok(at);
            };
            let text = match self.entries.get(&link) {
                Some(Some(entry)) => path_of(&self.base.objects.read(&entry.object)?),
                _ => return Err(ReadError::NotFound),
            };
            let rest = at.strip_prefix(&link).unwrap_or(Path::new(""));
            let next = link.parent().unwrap_or(Path::new("")).join(&text);
            let next = normalize(&next.join(rest));
            let real = normalize(&self.working_dir.join(&next));
            if text.is_absolute() || !real.starts_with(&self.root) {
                return Err(ReadError::LeavesTree { link, target: text });
            }
            at = next;
        }
        Err(ReadError::Io("too many symbolic links".to_owned()))
    }
}

impl FileSource for Staged<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let path = self.resolve(path)?;
        match self.entries.get(&path) {
            Some(Some(entry)) => self.base.objects.read(&entry.object),
            Some(None) => Err(ReadError::NotFound),
            None => self.disk.read(&path),
        }
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        let path = self.resolve(path).ok()?;
        match self.entries.get(&path) {
            Some(Some(_)) => Some(PathKind::File { executable: false }),
            Some(None) => None,
            None => self.disk.kind(&path),
        }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let mut names: BTreeSet<String> = self.disk.list(dir).into_iter().collect();
        for (path, entry) in &self.entries {
            if path.parent() == Some(dir)
                && let Some(name) = path.file_name().and_then(|n| n.to_str())
            {
                match entry {
                    Some(_) => names.insert(name.to_owned()),
                    None => names.remove(name),
                };
            }
        }
        names.into_iter().collect()
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        match self.entries.get(path) {
            Some(_) => None,
            None => self.disk.link_target(path),
        }
    }
}

impl Entry {
    fn new(mode: &str, object: &str) -> Entry {
        Entry {
            is_link: mode == "120000",
            object: object.to_owned(),
        }
    }
}

/// All files of the index. For a file with a merge conflict, this is our version.
fn index() -> Result<Entries, Failure> {
    let mut entries = Entries::new();
    for record in records(&["ls-files", "--stage", "-z", "--", ":/"])? {
        // MODE OBJECT STAGE\tPATH
        let Some(([mode, object, stage], path)) = fields(&record) else {
            continue;
        };
        let is_submodule = mode == "160000";
        if !is_submodule && (matches!(stage, "0" | "2") || !entries.contains_key(&path)) {
            entries.insert(path, Entry::new(mode, object));
        }
    }
    Ok(entries)
}

fn untracked() -> Result<Vec<PathBuf>, Failure> {
    names(&["ls-files", "--others", "--exclude-standard", "-z"])
}

/// Id of a revision, or `None` if it does not exist. For a range, this is the older end.
fn revision(reference: &str) -> Result<Option<String>, Failure> {
    let out = output(&["rev-parse", "--revs-only", reference])?;
    let out = String::from_utf8_lossy(&out);
    let older = out.lines().find_map(|line| line.strip_prefix('^'));
    Ok(older.or(out.lines().next()).map(str::to_owned))
}

fn empty_tree() -> Result<String, Failure> {
    let out = output(&["hash-object", "-t", "tree", "--stdin"])?;
    Ok(String::from_utf8_lossy(&out).trim().to_owned())
}

/// Contents of git objects, from one `git cat-file` process.
struct Objects(Mutex<Batch>);

struct Batch {
    child: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

impl Objects {
    fn start() -> Result<Objects, Failure> {
        let mut command = git(&["cat-file", "--batch"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().map_err(not_run)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(requests), Some(responses)) => Ok(Objects(Mutex::new(Batch {
                child,
                requests,
                responses: BufReader::new(responses),
            }))),
            _ => Err(not_run(std::io::Error::other("no pipes"))),
        }
    }

    fn read(&self, object: &str) -> Result<Vec<u8>, ReadError> {
        let failed = |error: std::io::Error| ReadError::Io(format!("git cat-file: {error}"));
        let mut batch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = &mut *batch;
        writeln!(batch.requests, "{object}").map_err(failed)?;
        batch.requests.flush().map_err(failed)?;
        // OBJECT TYPE SIZE, or OBJECT missing
        let mut header = String::new();
        batch.responses.read_line(&mut header).map_err(failed)?;
        let size = header.trim_end().rsplit(' ').next();
        let Some(size) = size.and_then(|size| size.parse::<u64>().ok()) else {
            return Err(ReadError::Io(format!("git does not have object {object}")));
        };
        let mut bytes = Vec::new();
        let kept = size.min(MAX_FILE_BYTES);
        let mut content = (&mut batch.responses).take(size + 1);
        (&mut content)
            .take(kept)
            .read_to_end(&mut bytes)
            .and_then(|_| std::io::copy(&mut content, &mut std::io::sink()))
            .map_err(failed)?;
        match size > kept {
            true => Err(ReadError::TooLarge(size)),
            false => Ok(bytes),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The process waits for requests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A git command that runs no program which the repository's configuration names. Git is called
/// with an argument list, never through a shell.
fn git(args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    for name in REMOVED {
        command.env_remove(name);
    }
    command.envs(ENVIRONMENT.iter().copied());
    command.args(args).stdin(Stdio::null());
    command
}

/// Checks that the current directory is in a git repository, which the option needs.
fn check_repository(option: &str) -> Result<(), Failure> {
    let Err(failure) = names(&["rev-parse", "--git-dir"]) else {
        return Ok(());
    };
    let here = std::env::current_dir().unwrap_or_default();
    Err(match failure.message.contains("not a git repository") {
        true => Failure {
            message: format!(
                "`{option}` needs a git repository, but `{}` is not in one",
                here.display()
            ),
            ..failure
        },
        false => failure,
    })
}

fn not_run(error: std::io::Error) -> Failure {
    Failure::new(exit::UNAVAILABLE, format!("git cannot be run: {error}"))
        .hint("`--changed` and `--staged` need git on PATH")
}

fn output(args: &[&str]) -> Result<Vec<u8>, Failure> {
    let run = git(args).output().map_err(not_run)?;
    if run.status.success() {
        return Ok(run.stdout);
    }
    let message = String::from_utf8_lossy(&run.stderr);
    let message = message
        .lines()
        .next()
        .unwrap_or("no message")
        .trim_start_matches("fatal: ");
    Err(Failure::new(exit::UNAVAILABLE, format!("git: {message}")))
}

fn records(args: &[&str]) -> Result<Vec<Vec<u8>>, Failure> {
    let out = output(args)?;
    let records = out.split(|b| *b == 0).filter(|record| !record.is_empty());
    Ok(records.map(<[u8]>::to_vec).collect())
}

fn names(args: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let records = records(args)?;
    Ok(records.iter().map(|name| path_of(name)).collect())
}

/// Splits `A B C\tPATH`.
fn fields(record: &[u8]) -> Option<([&str; 3], PathBuf)> {
    let tab = record.iter().position(|b| *b == b'\t')?;
    let (front, path) = record.split_at(tab);
    let mut words = std::str::from_utf8(front).ok()?.split(' ');
    let words = [words.next()?, words.next()?, words.next()?];
    Some((words, path_of(path.get(1..)?)))
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}
