//! Options of commands that change something. A command flattens one of these. The caller of the
//! command handles the idempotency key.

use clap::Args;

use crate::cli::Failure;
use crate::exit;

/// A repeated call with the same key does nothing and returns the first result.
#[derive(Args, Clone, Debug, Default)]
pub struct IdempotencyArgs {
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
    pub idempotency: IdempotencyArgs,
}

/// Options of commands that cannot be undone.
#[derive(Args, Clone, Debug, Default)]
pub struct Destructive {
    #[command(flatten)]
    pub effects: Effects,
    /// Delete without asking; required without a terminal
    #[arg(long)]
    pub confirm: bool,
    /// Delete only if exactly N items are affected
    #[arg(long, value_name = "N")]
    pub confirm_count: Option<usize>,
}

impl Destructive {
    /// Checks whether the change is confirmed. Commands that can ask the user at the terminal do so
    /// themselves. `what` describes the change.
    pub fn check(&self, what: &str, count: usize) -> Result<(), Failure> {
        if let Some(expected) = self.confirm_count
            && expected != count
        {
            let items = agentproto_text::count(count, "item", "items");
            let message = format!("nothing was changed: {items} would be deleted, not {expected}");
            return Err(Failure::new(exit::DATA, message)
                .typed("count_differs")
                .hint("`--dry-run` lists what would be deleted"));
        }
        match self.confirm {
            true => Ok(()),
            false => {
                let message = format!("{what}; nothing was changed");
                Err(Failure::new(exit::USAGE, message)
                    .typed("confirmation_required")
                    .hint(
                        "add `--confirm` to delete it, or `--dry-run` to see what would be deleted",
                    ))
            }
        }
    }
}

fn key(text: &str) -> Result<String, String> {
    let is_valid = (1..=255).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 255 visible ASCII characters".to_owned()),
    }
}
