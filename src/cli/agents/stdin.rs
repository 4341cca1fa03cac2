//! Stdin that is read before the command itself reads it.

use std::io::{self, Read};
use std::sync::OnceLock;

use zeroize::Zeroizing;

static STDIN: OnceLock<Zeroizing<Vec<u8>>> = OnceLock::new();

/// All of stdin, up to a limit. It is read once, and every caller gets the same bytes.
pub fn read_all(limit: u64) -> io::Result<&'static [u8]> {
    if let Some(read) = STDIN.get() {
        return Ok(read);
    }
    let mut bytes = Zeroizing::new(Vec::new());
    io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    Ok(STDIN.get_or_init(|| bytes))
}
