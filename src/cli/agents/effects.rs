//! The options of commands that change something. A command flattens one of these; the key is
//! looked after at the edge.

use clap::Args;

use crate::cli::Failure;
use crate::exit;

/// A repeated call with the same key does nothing and tells the first result again.
#[derive(Args, Clone, Debug, Default)]
pub struct Keyed {
    /// Do it once for this key: the same call again gives the first result and does nothing
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub idempotency_key: Option<String>,
}

#[derive(Args, Clone, Debug, Default)]
pub struct Effects {
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub keyed: Keyed,
}

/// Of what cannot be taken back.
#[derive(Args, Clone, Debug, Default)]
pub struct Destructive {
    #[command(flatten)]
    pub effects: Effects,
    /// Do it: without this nothing is removed
    #[arg(long)]
    pub confirm: bool,
    /// Do it only where so many are affected
    #[arg(long, value_name = "N")]
    pub confirm_count: Option<usize>,
}

impl Destructive {
    /// Whether it may be done. People at a terminal are asked by the command itself, where it
    /// can ask; `what` is what would be gone.
    pub fn check(&self, what: &str, count: usize) -> Result<(), Failure> {
        if let Some(wanted) = self.confirm_count
            && wanted != count
        {
            let message = format!("{count} would be affected, not {wanted}: nothing was done");
            return Err(Failure::new(exit::DATA, message).typed("count_differs"));
        }
        match self.confirm {
            true => Ok(()),
            false => {
                let message = format!("{what} cannot be taken back: nothing was done");
                Err(Failure::new(exit::USAGE, message)
                    .typed("confirmation_required")
                    .hint("`--confirm` does it, `--dry-run` says what would be done"))
            }
        }
    }
}

fn key(text: &str) -> Result<String, String> {
    let is_fit = (1..=255).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    match is_fit {
        true => Ok(text.to_owned()),
        false => Err("1 to 255 visible ASCII characters".to_owned()),
    }
}
