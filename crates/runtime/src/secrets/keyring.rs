//! Keeps the store's key in the desktop keyring (Secret Service, through `secret-tool`) if one is
//! available when the store is created. Otherwise the key is a file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use zeroize::Zeroizing;

use super::random;
use super::store::{FILE, KEY_FILE};
use crate::command::finish;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::home::Home;
use crate::observe::Stage;
use crate::setup;
use agentproto_sandbox::spawn::SpawnOptions;

/// Marks that the key is in the keyring. The file contains its name there.
pub const MARKER: &str = "secrets/keyring";
/// Set to `off` to keep new keys in a file.
pub const KEYRING_VARIABLE: &str = "AGENTPROTO_KEYRING";
const PROGRAM: &str = "secret-tool";
/// Timeout of one call. The user may have to unlock the keyring.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Variables that the program needs to find the keyring and to ask for its password.
const PASSED_VARIABLES: [&str; 5] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
];

type Key = Zeroizing<[u8; 32]>;

/// Keys by home directory. Each is read from the keyring once per process.
static KEYS: LazyLock<Mutex<HashMap<PathBuf, Key>>> = LazyLock::new(Mutex::default);

pub(super) fn known_key(home: &Home) -> Option<Key> {
    let known = KEYS.lock();
    known.get(home.root()).cloned()
}

fn remember_key(home: &Home, key: Key) {
    let mut known = KEYS.lock();
    known.insert(home.root().to_owned(), key);
}

/// Reads the key from the keyring, or creates one there. Call it before the store is used. It does
/// nothing if the key is a file.
pub async fn unlock(ctx: &Context) -> Result<(), Error> {
    if let Some(name) = ctx.home.read(MARKER)? {
        if known_key(&ctx.home).is_some() {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&name).trim().to_owned();
        return match lookup(ctx, &name).await {
            Ok(key) => {
                remember_key(&ctx.home, key);
                Ok(())
            }
            Err(why) => Err(Error::new(
                Code::SecretUnavailable,
                format!("cannot read the key of the secret store from the keyring: {why}"),
            )
            .hint("unlock the keyring of your desktop and run the command again")),
        };
    }
    let is_new = ctx.home.read(KEY_FILE)?.is_none() && ctx.home.read(FILE)?.is_none();
    let has_bus = ctx.variable("DBUS_SESSION_BUS_ADDRESS").is_some();
    let is_off = ctx.variable(KEYRING_VARIABLE).is_some_and(|v| v == "off");
    let is_installed = || ctx.host_context(&[]).find(PROGRAM.as_ref()).is_ok();
    match is_new && has_bus && !is_off && is_installed() {
        true => create_key(ctx).await,
        false => Ok(()),
    }
}

/// Creates a key in the keyring. If the keyring does not accept it, the store falls back to a key
/// file.
async fn create_key(ctx: &Context) -> Result<(), Error> {
    let _setup_lock = setup::lock(ctx, Stage::Auth, "keyring".to_owned()).await?;
    if ctx.home.read(MARKER)?.is_some() || ctx.home.read(KEY_FILE)?.is_some() {
        // Another process was first.
        return Box::pin(unlock(ctx)).await;
    }
    let name = random::token()?;
    let key: Key = Zeroizing::new(random::bytes()?);
    let text = Zeroizing::new(agentproto_text::hex(&key[..]));
    let label = "--label=agentproto secret store";
    let stored = call(ctx, &["store", label], &name, &text).await;
    let back = match stored {
        Ok(_) => lookup(ctx, &name).await,
        Err(why) => Err(why),
    };
    match back {
        Ok(back) if back == key => {
            let _lock = ctx.home.lock("secrets")?;
            // A process without a keyring may have created the store in the meantime.
            if ctx.home.read(KEY_FILE)?.is_none() {
                ctx.home.write(MARKER, name.as_bytes())?;
                remember_key(&ctx.home, key);
            }
        }
        Ok(_) => ctx.observer.warning(
            "keyring_unused",
            "the keyring returned a different key than was stored",
        ),
        Err(why) => ctx.observer.warning("keyring_unused", &why),
    }
    Ok(())
}

async fn lookup(ctx: &Context, name: &str) -> Result<Key, String> {
    let text = call(ctx, &["lookup"], name, "").await?;
    let text = text.trim();
    let digit = |at: usize| {
        let pair = text.get(at * 2..at * 2 + 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
    let bytes = bytes.map(Zeroizing::new).filter(|_| text.len() == 64);
    let key = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes.as_slice()).ok());
    key.map(Zeroizing::new)
        .ok_or_else(|| "the entry is not a valid key".to_owned())
}

/// Calls the program. The secret is passed only on stdin.
async fn call(
    ctx: &Context,
    verb: &[&str],
    name: &str,
    input: &str,
) -> Result<Zeroizing<String>, String> {
    let words = verb.iter().copied();
    let words = [PROGRAM].into_iter().chain(words);
    let argv: Vec<OsString> = words
        .chain(["service", "agentproto", "account", name])
        .map(OsString::from)
        .collect();
    let passed = PASSED_VARIABLES.iter().filter_map(|name| {
        let value = ctx.variable(name)?;
        Some(((*name).into(), value.to_owned()))
    });
    let env: Vec<(OsString, OsString)> = passed.collect();
    let options = SpawnOptions {
        timeout: Some(CALL_TIMEOUT),
        ..SpawnOptions::default()
    };
    let started = ctx.start_host(&argv, &env, &ctx.cwd, options).await;
    let mut started = started.map_err(|error| error.message)?;
    if let Some(mut stdin) = started.child().stdin.take() {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let finished = finish(&mut started, &mut |_| {}).await;
    let out = Zeroizing::new(finished.stdout);
    match finished.exit.status.success() && !finished.exit.timed_out {
        true => Ok(Zeroizing::new(String::from_utf8_lossy(&out).into_owned())),
        false => {
            let reason: String = finished.stderr.trim().chars().take(200).collect();
            Err(format!(
                "`{PROGRAM} {}` failed: {reason}",
                verb.first().unwrap_or(&"")
            ))
        }
    }
}
