//! Options of commands that change something. A command flattens one of these. The caller of the
//! command handles the idempotency key.

use clap::Args;

use crate::cli::Failure;
use crate::exit;

/// A repeated call with the same key does nothing and returns the first result.
#[derive(Args, Clone, Debug, Default)]
pub struct Keyed {
    /// Run only once for this key: a repeated call returns the first result and does nothing
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub idempotency_key: Option<String>,
}

#[derive(Args, Clone, Debug, Default)]
pub struct Effects {
    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub keyed: Keyed,
}

/// Options of commands that cannot be undone.
#[derive(Args, Clone, Debug, Default)]
pub struct Destructive {
    #[command(flatten)]
    pub effects: Effects,
    /// Confirm the change: nothing is removed without this
    #[arg(long)]
    pub confirm: bool,
    /// Do it only if exactly N items are affected
    #[arg(long, value_name = "N")]
    pub confirm_count: Option<usize>,
}

impl Destructive {
    /// Checks whether the change is confirmed. Commands that can ask the user at the terminal do so
    /// themselves. `what` names the change.
    pub fn check(&self, what: &str, count: usize) -> Result<(), Failure> {
        if let Some(wanted) = self.confirm_count
            && wanted != count
        {
            let message = format!("{count} would be affected, not {wanted}: nothing was changed");
            return Err(Failure::new(exit::DATA, message).typed("count_differs"));
        }
        match self.confirm {
            true => Ok(()),
            false => {
                let message = format!("{what} cannot be undone: nothing was changed");
                Err(Failure::new(exit::USAGE, message)
                    .typed("confirmation_required")
                    .hint("add `--confirm` to do it, or `--dry-run` to see what would be done"))
            }
        }
    }
}

fn key(text: &str) -> Result<String, String> {
    let is_fit = (1..=255).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    match is_fit {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 255 visible ASCII characters".to_owned()),
    }
}
