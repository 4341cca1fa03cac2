//! `tools/<id>@<major>/` in the home: programs installed by this runtime. Each installation is a
//! generation in its own directory, which is never renamed, because many tools cannot be moved. The
//! link `bin` points to the newest generation and is replaced atomically when the generation is
//! complete.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::entry::Method;
use super::{Installed, vendored};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::home::{self, Home};
use agentproto_sandbox::programs::INSTALL_RECORD as RECORD;
use agentproto_sandbox::programs::find::is_program;

/// Maximum size in bytes of a record that is read back.
const MAX_RECORD: u64 = 64 << 10;

pub struct ToolStore {
    home: Home,
    /// Path relative to the home.
    below: PathBuf,
    pub identity: String,
}

impl ToolStore {
    pub fn for_bundle(ctx: &Context) -> Result<ToolStore, Error> {
        let identity = ctx.bundle.identity()?;
        // The identity becomes a directory name.
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let fits = identity.split_once('@').is_some_and(|(id, major)| {
            (1..=64).contains(&id.len())
                && id.starts_with(|c: char| c != '-')
                && id.chars().all(plain)
                && (1..=20).contains(&major.len())
                && major.chars().all(|c| c.is_ascii_digit())
        });
        if !fits {
            let what = "`id` must be lower-case letters, digits and dashes, and `version` a semantic version (AIP-29, Required fields)";
            return Err(ctx.bundle.invalid(ctx.bundle.root(), what));
        }
        Ok(ToolStore {
            home: ctx.home.clone(),
            below: Path::new("tools").join(&identity),
            identity,
        })
    }

    pub fn dir(&self) -> PathBuf {
        self.home.path(&self.below)
    }

    /// An earlier installation, if the manifest still declares the method that it came from.
    /// Another bundle with the same id does not get it.
    pub fn find(&self, ctx: &Context, name: &str, methods: &[Method]) -> Option<Installed> {
        let generation = self.current()?;
        let file = generation.join(RECORD);
        if fs::metadata(&file).ok()?.len() > MAX_RECORD {
            return None;
        }
        let record: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        let from = record.get("from")?;
        let method = methods.iter().find(|m| m.identity() == *from)?;
        let bin = match method {
            Method::Vendored { path } => vendored::check(&ctx.bundle.dir, path).ok()?,
            _ => generation.join("bin").join(name),
        };
        is_program(&bin).then(|| Installed {
            bin,
            method: Some(method.name().to_owned()),
        })
    }

    /// The generation that `bin` points to.
    fn current(&self) -> Option<PathBuf> {
        let dir = self.dir();
        let to = fs::read_link(dir.join("bin")).ok()?;
        let name = to.parent()?.file_name()?;
        Some(dir.join(name))
    }

    /// Removes everything that was installed for the bundle.
    pub fn clear(&self) {
        let _ = fs::remove_file(self.dir().join("bin"));
        let _ = fs::remove_dir_all(self.dir());
    }

    /// Creates a new generation. It is removed when dropped, unless it is activated.
    pub fn new_generation(&self) -> Result<NewGeneration, Error> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let name = format!(
            "{:x}-{}-{}",
            since.unwrap_or_default().as_millis(),
            std::process::id(),
            home::unique()
        );
        let dir = self.home.dir(self.below.join(name))?;
        Ok(NewGeneration {
            dir,
            is_active: false,
        })
    }

    /// Makes a generation the current one. The previous one stays for processes that still run it.
    /// Older and unfinished ones are removed.
    pub fn activate(
        &self,
        mut generation: NewGeneration,
        method: &Method,
    ) -> Result<PathBuf, Error> {
        let unwritable = |e: io::Error| {
            let what = format!(
                "cannot write the installation in `{}`: {e}",
                generation.dir.display()
            );
            Error::new(Code::StateUnwritable, what)
        };
        let name = generation.dir.file_name().unwrap_or_default().to_owned();
        let record = json!({ "from": method.identity(), "at": agentproto_text::time::now() });
        home::write_private(&generation.dir.join(RECORD), record.to_string().as_bytes())
            .map_err(unwritable)?;
        home::make_dir(&generation.dir.join("bin")).map_err(unwritable)?;
        let before = self.current();
        let dir = self.dir();
        let beside = dir.join(format!(".bin-{}-{}", std::process::id(), home::unique()));
        symlink(Path::new(&name).join("bin"), &beside)
            .and_then(|()| fs::rename(&beside, dir.join("bin")))
            .map_err(unwritable)?;
        generation.is_active = true;
        let active = generation.dir.clone();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let stays = path == active || Some(&path) == before.as_ref();
            if !stays && entry.file_type().is_ok_and(|t| t.is_dir()) {
                let _ = fs::remove_dir_all(path);
            }
        }
        Ok(active)
    }
}

/// A generation under construction.
pub struct NewGeneration {
    pub dir: PathBuf,
    is_active: bool,
}

impl NewGeneration {
    /// Creates the link `bin/<name>` to a program elsewhere.
    pub fn link(&self, name: &str, program: &Path) -> io::Result<()> {
        let bin = self.dir.join("bin");
        home::make_dir(&bin)?;
        symlink(program, bin.join(name))
    }
}

impl Drop for NewGeneration {
    fn drop(&mut self) {
        if !self.is_active {
            let _ = fs::remove_dir_all(&self.dir);
            // If nothing was ever installed, the bundle's directory is empty and is removed.
            if let Some(parent) = self.dir.parent() {
                let _ = fs::remove_dir(parent);
            }
        }
    }
}
