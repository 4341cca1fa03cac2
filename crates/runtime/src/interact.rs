//! Asking the user: on a terminal, on a web page, or not at all (headless).

use std::future::Future;
use std::pin::Pin;

use crate::fault::{Code, Fault};

pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<String, Fault>> + Send + 'a>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Never shown, not even while it is typed.
    Secret,
    /// The answer is `true` or `false`.
    Boolean,
    /// The answer is one of these values.
    Select(Vec<String>),
}

#[derive(Clone, Debug)]
pub struct Question {
    pub message: String,
    pub kind: Kind,
    pub default: Option<String>,
}

pub trait Interact: Send + Sync {
    /// Whether the user cannot be asked.
    fn is_headless(&self) -> bool;
    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a>;
    /// Shows something that the user has to act on elsewhere, such as a page to open.
    fn show(&self, text: &str);
}

/// Used when the user cannot be asked.
pub struct Headless;

impl Interact for Headless {
    fn is_headless(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        let what = format!("cannot ask `{}` without a terminal", question.message);
        Box::pin(std::future::ready(Err(
            Fault::new(Code::Declined, what).hint("run this command in a terminal")
        )))
    }

    fn show(&self, _: &str) {}
}
