//! The key of the audit log. Only programs that can read it can write valid events.

use std::fs;
use std::os::unix::fs::MetadataExt;

use ring::hmac;
use zeroize::Zeroizing;

use crate::error::{Code, Error};
use crate::home::Home;
use crate::secrets::random;

/// Path of the key below the home. It is not in the directory of the log, so that a deleted log is
/// noticed.
pub const FILE: &str = "keys/audit";
/// Path of a new key until a pointer file is written with it.
const NEW_FILE: &str = "keys/audit.new";
/// Prefix of a MAC in the log.
pub const MAC_PREFIX: &str = "hmac-sha256:";

/// What a MAC is for. A MAC of one kind is not valid for another.
#[derive(Clone, Copy)]
pub enum Purpose {
    Line,
    Pointer,
}

/// A key, ready for use.
pub struct Key {
    key: hmac::Key,
    /// Public identification of the key.
    pub id: String,
}

/// The key of a home.
pub enum HomeKey {
    /// No event was ever written with a key.
    Missing,
    /// The key was created, but the switch to it may be incomplete.
    New(Key),
    /// The log must be keyed.
    InUse(Key),
}

impl HomeKey {
    /// The key, if there is one.
    pub fn get(&self) -> Option<&Key> {
        match self {
            HomeKey::New(key) | HomeKey::InUse(key) => Some(key),
            HomeKey::Missing => None,
        }
    }
}

impl Key {
    fn new(bytes: &[u8; 32]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let id = hmac::sign(&key, b"agentproto audit key id");
        let id = agentproto_text::hex(id.as_ref()).chars().take(16).collect();
        Key { key, id }
    }

    /// The MAC of some bytes, as it is written to files.
    pub fn sign(&self, purpose: Purpose, bytes: &[u8]) -> String {
        let tag = self.start(purpose, bytes).sign();
        format!("{MAC_PREFIX}{}", agentproto_text::hex(tag.as_ref()))
    }

    fn start(&self, purpose: Purpose, bytes: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(match purpose {
            Purpose::Line => b"agentproto audit line\n",
            Purpose::Pointer => b"agentproto audit head\n",
        });
        context.update(bytes);
        context
    }
}

/// Reads the key of a home.
pub fn load(home: &Home) -> Result<HomeKey, Error> {
    if let Some(key) = read(home, FILE)? {
        return Ok(HomeKey::InUse(key));
    }
    Ok(read(home, NEW_FILE)?.map_or(HomeKey::Missing, HomeKey::New))
}

fn read(home: &Home, name: &str) -> Result<Option<Key>, Error> {
    let Some(bytes) = home.read(name)?.map(Zeroizing::new) else {
        return Ok(None);
    };
    let path = home.path(name);
    if fs::metadata(&path).is_ok_and(|meta| meta.mode() & 0o077 != 0) {
        let what = format!(
            "the audit key `{}` is accessible to other users",
            path.display()
        );
        return Err(Error::new(Code::AuditBroken, what).hint(
            "run `chmod 600` on it; if another user may have read it, move the audit log and the \
             key to another place, and the next run creates new ones",
        ));
    }
    match <&[u8; 32]>::try_from(bytes.as_slice()) {
        Ok(bytes) => Ok(Some(Key::new(bytes))),
        Err(_) => {
            let what = format!(
                "the audit key `{}` was changed: it must have 32 bytes",
                path.display()
            );
            Err(Error::new(Code::AuditBroken, what)
                .hint("restore the key from a backup; without it, the audit log cannot be checked"))
        }
    }
}

/// Creates a key. It is not in use before `put_in_use`.
pub fn create(home: &Home) -> Result<Key, Error> {
    let bytes: Zeroizing<[u8; 32]> = Zeroizing::new(random::bytes()?);
    home.write(NEW_FILE, &bytes[..])?;
    Ok(Key::new(&bytes))
}

/// Ends the switch to a new key. From now on, a log without keyed events is invalid.
pub fn put_in_use(home: &Home) -> std::io::Result<()> {
    fs::rename(home.path(NEW_FILE), home.path(FILE))
}
