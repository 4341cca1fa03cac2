//! Who confines: our own namespaces, or bubblewrap.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    Native,
    Bubblewrap,
}

impl Backend {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Bubblewrap => "bubblewrap",
        }
    }
}

/// The backend to use: the one that was asked for, or the first that this machine can.
#[cfg(target_os = "linux")]
pub fn choose(asked: Option<Backend>) -> Result<Backend, String> {
    let native = || {
        let lacking = |line: super::probe::Line| format!("{}: {}", line.item, line.text);
        super::probe::probe().native().map_err(lacking)
    };
    match asked {
        Some(Backend::Bubblewrap) => Err("bubblewrap cannot be used here".to_owned()),
        Some(Backend::Native) | None => native().map(|()| Backend::Native),
    }
}
