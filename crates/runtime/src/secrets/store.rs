//! The encrypted secret store of a home: one file, replaced as a whole. Its key is in a file in the
//! same directory or in the desktop keyring. Names are encrypted like values.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::{keyring, random};
use crate::error::{Code, Error};
use crate::home::Home;

pub(super) const FILE: &str = "secrets/store";
pub(super) const KEY_FILE: &str = "secrets/key";
/// First line of the file, authenticated together with the encrypted data.
const HEADER: &[u8] = b"agentproto-secrets 1\n";
const NONCE: usize = 24;

/// A value, and whether it is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredValue {
    /// The value. It is zeroed when dropped.
    pub value: String,
    /// Whether it must be redacted.
    pub secret: bool,
}

impl Drop for StoredValue {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

impl std::fmt::Debug for StoredValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredValue(…)")
    }
}

/// Owner of a value: a bundle at its location, in one workspace or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretScope {
    /// `id@major`.
    pub bundle: String,
    /// The bundle's directory. Another bundle with the same id does not get the value.
    pub origin: String,
    /// The workspace, or `None` for all workspaces.
    pub workspace: Option<String>,
}

impl SecretScope {
    fn slot(&self, kind: ValueKind, name: &str) -> String {
        let workspace = self.workspace.as_deref();
        serde_json::json!([self.bundle, self.origin, workspace, kind.as_str(), name]).to_string()
    }

    /// The same owner in all workspaces.
    pub fn everywhere(&self) -> SecretScope {
        SecretScope {
            workspace: None,
            ..self.clone()
        }
    }
}

/// What a stored value is named by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ValueKind {
    /// An AIP-19 slug.
    Slug,
    /// A variable that setup persisted.
    Variable,
}

impl ValueKind {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

type Entries = BTreeMap<String, StoredValue>;

/// The secret store of a home.
#[derive(Clone)]
pub struct SecretStore {
    home: Home,
}

impl SecretStore {
    /// Opens the store of a home. Nothing is read yet.
    pub fn new(home: &Home) -> Self {
        SecretStore { home: home.clone() }
    }

    /// The value in exactly this scope.
    pub fn get(
        &self,
        scope: &SecretScope,
        kind: ValueKind,
        name: &str,
    ) -> Result<Option<StoredValue>, Error> {
        Ok(self.read()?.remove(&scope.slot(kind, name)))
    }

    /// Looks in the workspace first, then in the values for all workspaces.
    pub fn find(
        &self,
        scope: &SecretScope,
        kind: ValueKind,
        name: &str,
    ) -> Result<Option<StoredValue>, Error> {
        let mut entries = self.read()?;
        let slots = [scope.slot(kind, name), scope.everywhere().slot(kind, name)];
        Ok(slots.iter().find_map(|slot| entries.remove(slot)))
    }

    /// Stores a value, and replaces an earlier one.
    pub fn put(
        &self,
        scope: &SecretScope,
        kind: ValueKind,
        name: &str,
        stored: StoredValue,
    ) -> Result<(), Error> {
        self.change(|entries| {
            entries.insert(scope.slot(kind, name), stored);
        })
    }

    /// Removes a value in both scopes. Returns whether there was one.
    pub fn remove(&self, scope: &SecretScope, kind: ValueKind, name: &str) -> Result<bool, Error> {
        let mut existed = false;
        self.change(|entries| {
            for scope in [scope.clone(), scope.everywhere()] {
                existed |= entries.remove(&scope.slot(kind, name)).is_some();
            }
        })?;
        Ok(existed)
    }

    fn change(&self, change: impl FnOnce(&mut Entries)) -> Result<(), Error> {
        let _lock = self.home.lock("secrets")?;
        let mut entries = self.read()?;
        change(&mut entries);
        self.write(&entries)
    }

    /// Whether a value was ever stored.
    pub fn exists(&self) -> Result<bool, Error> {
        Ok(self.home.read(FILE)?.is_some())
    }

    fn read(&self) -> Result<Entries, Error> {
        let Some(bytes) = self.home.read(FILE)? else {
            return Ok(Entries::new());
        };
        let Some(key) = self.key()? else {
            return Err(self.store_error("its key is missing"));
        };
        let sealed = bytes.strip_prefix(HEADER);
        let Some((nonce, sealed)) = sealed.and_then(|rest| rest.split_first_chunk::<NONCE>())
        else {
            return Err(self.store_error("it is not a secret store"));
        };
        let payload = Payload {
            msg: sealed,
            aad: HEADER,
        };
        let plain = cipher(&key).decrypt(&XNonce::from(*nonce), payload);
        let plain =
            plain.map_err(|_| self.store_error("it was changed, or encrypted with another key"))?;
        let plain = Zeroizing::new(plain);
        serde_json::from_slice(&plain).map_err(|_| self.store_error("its contents are invalid"))
    }

    fn write(&self, entries: &Entries) -> Result<(), Error> {
        let key = match self.key()? {
            Some(key) => key,
            None => self.new_key()?,
        };
        let plain = serde_json::to_vec(entries).map(Zeroizing::new);
        let plain = plain.map_err(|e| self.store_error(&format!("it cannot be written: {e}")))?;
        let nonce: [u8; NONCE] = random::bytes()?;
        let payload = Payload {
            msg: &plain,
            aad: HEADER,
        };
        let sealed = cipher(&key).encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| self.store_error("it cannot be encrypted"))?;
        self.home.write(FILE, &[HEADER, &nonce, &sealed].concat())
    }

    fn key(&self) -> Result<Option<Zeroizing<[u8; 32]>>, Error> {
        if self.home.path(keyring::MARKER).exists() {
            return match keyring::known_key(&self.home) {
                Some(key) => Ok(Some(key)),
                None => Err(self.store_error("its key is in the keyring, which was not unlocked")),
            };
        }
        let Some(bytes) = self.home.read(KEY_FILE)?.map(Zeroizing::new) else {
            return Ok(None);
        };
        let path = self.home.path(KEY_FILE);
        let open = std::fs::metadata(&path).is_ok_and(|meta| meta.mode() & 0o077 != 0);
        if open {
            let what = format!("the key `{}` is readable by other users", path.display());
            return Err(Error::new(Code::SecretUnavailable, what).hint(
                "run `chmod 600` on it, and replace the secrets if another user may have read it",
            ));
        }
        match <[u8; 32]>::try_from(bytes.as_slice()) {
            Ok(key) => Ok(Some(Zeroizing::new(key))),
            Err(_) => Err(self.store_error("its key has the wrong length")),
        }
    }

    fn new_key(&self) -> Result<Zeroizing<[u8; 32]>, Error> {
        let key: [u8; 32] = random::bytes()?;
        self.home.write(KEY_FILE, &key)?;
        Ok(Zeroizing::new(key))
    }

    fn store_error(&self, why: &str) -> Error {
        let path = self.home.path(FILE);
        let what = format!("cannot open the secret store `{}`: {why}", path.display());
        Error::new(Code::SecretUnavailable, what).hint(
            "restore the store and its key from a backup, or remove both and enter the secrets again",
        )
    }
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key))
}
