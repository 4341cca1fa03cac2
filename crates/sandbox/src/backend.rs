//! The sandbox backends: our own namespaces, or bubblewrap.

use serde::Serialize;

/// What confines a child.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Backend {
    /// Namespaces that the helper creates itself.
    Native,
    /// Namespaces and mounts that bubblewrap creates.
    Bubblewrap,
}

impl Backend {
    /// All backends, in order of preference.
    pub const ALL: &[Backend] = <Backend as strum::VariantArray>::VARIANTS;

    /// The name that the command line and reports use.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The backend to use: the requested one, or the first one that works on this machine.
#[cfg(target_os = "linux")]
pub fn choose(asked: Option<Backend>) -> Result<Backend, String> {
    use super::bwrap::Power;
    use super::probe;
    let lacking = |line: &probe::Line| match &line.help {
        Some(help) => format!("{}: {} ({help})", line.item, line.text),
        None => format!("{}: {}", line.item, line.text),
    };
    let native = || probe::probe().native().map_err(|line| lacking(&line));
    let bubblewrap = || match probe::bubblewrap() {
        // Root in the sandbox could change the modes of the host's devices.
        Ok(found) if found.power == Power::LandlockOnly && probe::probe().root => {
            Err("bubblewrap would let root change the host's devices here".to_owned())
        }
        found => found.map(drop).map_err(lacking),
    };
    match asked {
        Some(Backend::Native) => native().map(|()| Backend::Native),
        Some(Backend::Bubblewrap) => bubblewrap().map(|()| Backend::Bubblewrap),
        None => match native() {
            Ok(()) => Ok(Backend::Native),
            Err(why) => bubblewrap().map(|()| Backend::Bubblewrap).map_err(|_| why),
        },
    }
}
