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
pub fn choose(requested: Option<Backend>) -> Result<Backend, String> {
    use super::bwrap::HelperCapability;
    use super::probe;
    let describe = |feature: &probe::Feature| match &feature.help {
        Some(help) => format!("{}: {} ({help})", feature.item, feature.text),
        None => format!("{}: {}", feature.item, feature.text),
    };
    let native = || {
        probe::probe()
            .check_native()
            .map_err(|feature| describe(&feature))
    };
    let bubblewrap = || match probe::bubblewrap() {
        // Root in the sandbox could change the modes of the host's devices.
        Ok(found) if found.capability == HelperCapability::LandlockOnly && probe::probe().root => {
            Err("bubblewrap would let root change the host's devices here".to_owned())
        }
        found => found.map(drop).map_err(describe),
    };
    match requested {
        Some(Backend::Native) => native().map(|()| Backend::Native),
        Some(Backend::Bubblewrap) => bubblewrap().map(|()| Backend::Bubblewrap),
        None => match native() {
            Ok(()) => Ok(Backend::Native),
            Err(why) => bubblewrap().map(|()| Backend::Bubblewrap).map_err(|_| why),
        },
    }
}
