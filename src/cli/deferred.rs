//! Arguments of subcommands that clap defines only when the subcommand is used. Defining all
//! commands would take a quarter of the time of linting one file.

use std::ops::Deref;

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

use super::machine::catalogue::hide_global_options;

/// The arguments `T` of a subcommand.
#[derive(Debug)]
pub struct Deferred<T>(Box<T>);

impl<T> Deref for Deferred<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|args| Deferred(Box::new(args)))
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(define::<T>)
    }
    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

fn define<T: Args>(command: Command) -> Command {
    // The description of the subcommand takes precedence over the one of its arguments.
    let about = command.get_about().cloned();
    let long_about = command.get_long_about().cloned();
    let command = T::augment_args(command)
        .about(Resettable::from(about))
        .long_about(Resettable::from(long_about));
    hide_global_options(command)
}

/// The arguments of a command that consists of subcommands.
#[derive(Args, Debug)]
pub struct Action<T: Subcommand> {
    #[command(subcommand)]
    pub action: T,
}
