//! Whoever can be asked: a terminal, a web page, or nobody.

use std::future::Future;
use std::pin::Pin;

use crate::fault::{Code, Fault};

pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<String, Fault>> + Send + 'a>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// Not shown while it is typed, nor anywhere else.
    Secret,
    /// The answer is `true` or `false`.
    Boolean,
    /// The answer is one of these.
    Select(Vec<String>),
}

#[derive(Clone, Debug)]
pub struct Question {
    pub message: String,
    pub kind: Kind,
    pub default: Option<String>,
}

pub trait Interact: Send + Sync {
    /// Nobody is there to answer.
    fn is_headless(&self) -> bool;
    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a>;
    /// Shows something that has to be acted on elsewhere, such as a page to open.
    fn show(&self, text: &str);
}

/// Nobody can be asked.
pub struct Headless;

impl Interact for Headless {
    fn is_headless(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        let what = format!("nobody is there to answer `{}`", question.message);
        Box::pin(std::future::ready(Err(
            Fault::new(Code::Declined, what).hint("run it in a terminal")
        )))
    }

    fn show(&self, _: &str) {}
}
