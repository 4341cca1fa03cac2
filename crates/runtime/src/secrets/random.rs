//! Random bytes for keys and tokens.

use crate::error::{Code, Error};

/// Random bytes from the operating system.
pub fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut out = [0; N];
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // SAFETY: pointer and length belong to the same live slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => filled += got,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    let what = format!("cannot get random bytes from the system: {error}");
                    return Err(Error::new(Code::SecretUnavailable, what));
                }
            }
        }
    }
    Ok(out)
}

/// 256 random bits as hex digits, usable in paths and queries.
pub fn token() -> Result<String, Error> {
    let bytes: [u8; 32] = bytes()?;
    Ok(agentproto_text::hex(&bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_have_256_bits_and_differ() {
        let [a, b] = [(); 2].map(|()| super::token().expect("random"));
        assert!(a.len() == 64 && a != b, "{a} {b}");
    }
}
