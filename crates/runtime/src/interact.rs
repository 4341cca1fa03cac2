//! Asking the user: on a terminal, on a web page, or not at all (headless).

use std::future::Future;
use std::pin::Pin;

use crate::error::{Code, Error};

/// The future of an answer.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<String, Error>> + Send + 'a>>;

/// The kind of answer that a question expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// Any text.
    Text,
    /// Never shown, not even while it is typed.
    Secret,
    /// The answer is `true` or `false`.
    Boolean,
    /// The answer is one of these values.
    Select(Vec<String>),
}

/// A question to the user.
#[derive(Clone, Debug)]
pub struct Question {
    /// The question as text.
    pub message: String,
    /// The kind of answer.
    pub kind: QuestionKind,
    /// The answer if the user enters nothing.
    pub default: Option<String>,
}

/// Asks the user and shows information.
pub trait Interact: Send + Sync {
    /// Whether the user cannot be asked.
    fn is_headless(&self) -> bool;
    /// Asks a question and returns the answer.
    fn ask<'a>(&'a self, question: &'a Question) -> AnswerFuture<'a>;
    /// Shows something that the user has to act on elsewhere, such as a page to open.
    fn show(&self, text: &str);
}

/// Used when the user cannot be asked.
pub struct Headless;

impl Interact for Headless {
    fn is_headless(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, question: &'a Question) -> AnswerFuture<'a> {
        let what = format!("cannot ask `{}` without a terminal", question.message);
        Box::pin(std::future::ready(Err(
            Error::new(Code::Declined, what).hint("run this command in a terminal")
        )))
    }

    fn show(&self, _: &str) {}
}
