//! Who confines: our own namespaces, or bubblewrap.

use serde::Serialize;

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Backend {
    Native,
    Bubblewrap,
}

impl Backend {
    pub const ALL: &[Backend] = <Backend as strum::VariantArray>::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The backend to use: the one that was asked for, or the first that this machine can.
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
        // The host's devices would be its own to change.
        Ok(found) if found.power == Power::LandlockOnly && probe::probe().root => {
            Err("bubblewrap leaves root the power over the host's devices here".to_owned())
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
