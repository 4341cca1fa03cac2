//! Runs one setup step.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use zeroize::Zeroizing;

use super::step::{Asked, Check, Persist, Step, What};
use super::template::{self, Given};
use super::tool::{self, Tool};
use super::{Choices, Outcome};
use crate::auth;
use crate::context::Context;
use crate::fault::{Code, Fault};
use crate::interact::{Kind, Question};
use crate::observe::Stage;
use crate::secrets::{self, Kept};
use agentproto_sandbox::spawn::Stdio;

/// Maximum size of a value in bytes.
const LONGEST_VALUE: usize = 64 << 10;

/// One run of the setup steps. Later steps may use the values of earlier ones.
pub struct Run<'a> {
    pub ctx: &'a Context,
    choices: &'a Choices,
    tool: Tool,
    pub(super) given: Vec<Given>,
    /// Whether the tool's environment is up to date.
    settled: bool,
}

/// The value of a step.
pub struct Captured {
    pub value: Zeroizing<String>,
    pub secret: bool,
}

impl<'a> Run<'a> {
    pub fn new(ctx: &'a Context, bin: &Path, choices: &'a Choices) -> Self {
        Run {
            ctx,
            choices,
            tool: Tool::new(ctx, bin),
            given: Vec::new(),
            settled: false,
        }
    }

    /// Whether `skip_if` says that the step is done (A29-SETUP-14).
    pub async fn is_skipped(&mut self, step: &Step<'_>) -> Result<bool, Fault> {
        match &step.skip_if {
            Some(check) => self.holds(step, check).await,
            None => Ok(false),
        }
    }

    async fn holds(&mut self, step: &Step<'_>, check: &Check<'_>) -> Result<bool, Fault> {
        let finished = self.execute(step, check.line, Some(check.timeout)).await?;
        let code = finished.exit.status.code().map(i64::from);
        Ok(!finished.exit.timed_out && code == Some(check.exit_code))
    }

    pub async fn step(&mut self, step: &Step<'_>, again: bool) -> Result<Outcome, Fault> {
        if !again && self.is_skipped(step).await? {
            self.ctx
                .observer
                .progress(Stage::Setup, &format!("{}: skipped", step.id));
            return Ok(Outcome::Skipped);
        }
        let about = match step.description {
            Some(description) => format!("{}: {description}", step.id),
            None => step.id.to_owned(),
        };
        self.ctx.observer.progress(Stage::Setup, &about);
        let captured = match &step.what {
            What::Cmd {
                line,
                interactive,
                timeout,
            } => {
                let stdio = match interactive {
                    true => Stdio::Inherit,
                    false => Stdio::Pipes,
                };
                self.command(step, line, *timeout, stdio).await?
            }
            What::Prompt {
                message,
                kind,
                default,
            } => Some(self.prompt(step, message, kind, default.as_deref()).await?),
            What::Oauth { slug } => {
                self.oauth(step, slug).await?;
                None
            }
            What::External { url, callback } => self.external(step, url, callback.as_ref()).await?,
        };
        if let Some(captured) = captured {
            self.keep(step, captured).await?;
        }
        Ok(Outcome::Done)
    }

    async fn command(
        &mut self,
        step: &Step<'_>,
        line: &str,
        timeout: Option<Duration>,
        stdio: Stdio,
    ) -> Result<Option<Captured>, Fault> {
        let ready = self.ready(step, line)?;
        self.settle().await?;
        let finished = self.tool.run(ready, timeout, stdio).await;
        let finished = finished.map_err(|fault| self.not_run(step, fault))?;
        if !tool::is_success(&finished) {
            return Err(self.failed(step, &tool::ending(self.ctx, &finished)));
        }
        if step.persist.is_none() {
            return Ok(None);
        }
        let Ok(text) = String::from_utf8(finished.stdout) else {
            return Err(self.failed(step, "its output is not valid UTF-8"));
        };
        let value = Zeroizing::new(text);
        Ok(Some(Captured {
            value: Zeroizing::new(value.trim_end_matches(['\n', '\r']).to_owned()),
            secret: matches!(step.persist, Some(Persist::Slug(_))),
        }))
    }

    async fn prompt(
        &mut self,
        step: &Step<'_>,
        message: &str,
        asked: &Asked<'_>,
        default: Option<&str>,
    ) -> Result<Captured, Fault> {
        let secret =
            matches!(asked, Asked::Secret) || matches!(step.persist, Some(Persist::Slug(_)));
        let (choices, labels) = match asked {
            Asked::Select(list) => (list.iter().map(|s| (*s).to_owned()).collect(), Vec::new()),
            Asked::SelectFrom(line, timeout) => self.printed(step, line, *timeout).await?,
            Asked::Text | Asked::Secret | Asked::Boolean => Default::default(),
        };
        let kind = match asked {
            Asked::Text if secret => Kind::Secret,
            Asked::Text => Kind::Text,
            Asked::Secret => Kind::Secret,
            Asked::Boolean => Kind::Boolean,
            Asked::Select(_) | Asked::SelectFrom(..) => Kind::Select(choices.clone()),
        };
        let mut shown = message.to_owned();
        for line in step
            .description
            .into_iter()
            .chain(labels.iter().map(String::as_str))
        {
            shown = format!("{line}\n{shown}");
        }
        // The declared default (A29-SETUP-20). A secret has none.
        let default = default.filter(|_| !secret).map(str::to_owned);
        let question = Question {
            message: shown,
            kind: kind.clone(),
            default: default.clone(),
        };
        let value = match self.choices.answers.get(self.ctx, step.id, secret)? {
            Some(value) => value,
            None if self.ctx.interact.is_headless() => {
                Zeroizing::new(default.clone().unwrap_or_default())
            }
            None => Zeroizing::new(self.ctx.interact.ask(&question).await?),
        };
        let value = match (value.is_empty(), default) {
            (true, Some(default)) => Zeroizing::new(default),
            _ => value,
        };
        if secret {
            self.ctx.masks.add(&value);
        }
        match &kind {
            _ if value.is_empty() => Err(self.failed(step, "no value was given")),
            Kind::Boolean if !matches!(value.as_str(), "true" | "false") => {
                Err(self.failed(step, "the answer must be `true` or `false`"))
            }
            Kind::Select(list) if !list.contains(&value) => Err(self.failed(
                step,
                &format!("the answer must be one of {}", list.join(", ")),
            )),
            _ => Ok(Captured { value, secret }),
        }
    }

    /// Runs a command that prints the choices: one per line, with an optional label after a tab.
    async fn printed(
        &mut self,
        step: &Step<'_>,
        line: &str,
        timeout: Duration,
    ) -> Result<(Vec<String>, Vec<String>), Fault> {
        let finished = self.execute(step, line, Some(timeout)).await?;
        if !tool::is_success(&finished) {
            let why = tool::ending(self.ctx, &finished);
            return Err(self.failed(step, &format!("cannot list its choices: {why}")));
        }
        let text = String::from_utf8_lossy(&finished.stdout);
        let (mut choices, mut labels) = (Vec::new(), Vec::new());
        for line in text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .take(1000)
        {
            let (value, label) = line.split_once('\t').unwrap_or((line, ""));
            choices.push(value.trim().to_owned());
            if !label.is_empty() {
                labels.push(format!("{}: {}", value.trim(), label.trim()));
            }
        }
        match choices.is_empty() {
            true => Err(self.failed(step, "its command printed no choices")),
            false => Ok((choices, labels)),
        }
    }

    /// Stores a value where the step declares it (A29-SETUP-17 to A29-SETUP-19).
    async fn keep(&mut self, step: &Step<'_>, captured: Captured) -> Result<(), Fault> {
        let Captured { value, secret } = captured;
        if value.contains('\0') || value.len() > LONGEST_VALUE {
            return Err(self.failed(step, "its value is too long or contains a NUL byte"));
        }
        if secret {
            self.ctx.masks.add(&value);
        }
        let kept = Kept {
            value: value.to_string(),
            secret,
        };
        self.changed();
        match step.persist {
            Some(Persist::Env(name)) => secrets::keep_variable(self.ctx, name, kept)?,
            Some(Persist::Slug(slug)) => secrets::keep_slug(self.ctx, slug, kept, false)?,
            Some(Persist::Cmd(line)) => {
                self.recall(line)?;
                let mut given = self.given.clone();
                given.push(Given::new("value", &value, secret));
                let ready = template::line(line, &given).map_err(|why| self.failed(step, &why))?;
                self.settle().await?;
                let limit = Some(Duration::from_secs(60));
                let finished = self.tool.run(ready, limit, Stdio::Pipes).await;
                let finished = finished.map_err(|fault| self.not_run(step, fault))?;
                if !tool::is_success(&finished) {
                    let why = tool::ending(self.ctx, &finished);
                    return Err(self.failed(step, &format!("its `persist` command failed: {why}")));
                }
            }
            None => {}
        }
        let name = format!("input.{}", step.id);
        self.given.push(Given::new(name, &value, secret));
        Ok(())
    }

    /// Updates the environment of commands: values that earlier steps stored, and available
    /// secrets, which a check of the finished setup needs.
    async fn settle(&mut self) -> Result<(), Fault> {
        if !self.settled {
            self.tool.env = super::variables(self.ctx)?;
            let secrets = auth::environment(self.ctx, "setup").await?;
            self.tool.env.extend(secrets);
            self.settled = true;
        }
        Ok(())
    }

    async fn execute(
        &mut self,
        step: &Step<'_>,
        line: &str,
        timeout: Option<Duration>,
    ) -> Result<crate::command::Finished, Fault> {
        let ready = self.ready(step, line)?;
        self.settle().await?;
        let finished = self.tool.run(ready, timeout, Stdio::Pipes).await;
        finished.map_err(|fault| self.not_run(step, fault))
    }

    /// Marks the environment of commands as outdated.
    pub fn changed(&mut self) {
        self.settled = false;
    }

    /// The caller's prepared answer. For `external` it may be a literal only if the value is not
    /// stored.
    pub fn answer(&self, step: &Step<'_>) -> Result<Option<Zeroizing<String>>, Fault> {
        let secret = step.persist.is_some();
        self.choices.answers.get(self.ctx, step.id, secret)
    }

    /// Loads values of earlier steps that were done in another run.
    pub fn recall(&mut self, text: &str) -> Result<(), Fault> {
        for name in template::names(text) {
            if self.given.iter().any(|given| given.name == name) {
                continue;
            }
            let kept = match name.split_once('.') {
                Some(("input", id)) => super::kept_input(self.ctx, id)?,
                Some(("secrets", slug)) => secrets::slug(self.ctx, slug, "setup")?,
                _ => None,
            };
            if let Some(kept) = kept {
                self.given.push(Given::new(name, &kept.value, kept.secret));
            }
        }
        Ok(())
    }

    fn ready(&mut self, step: &Step<'_>, line: &str) -> Result<template::Ready, Fault> {
        self.recall(line)?;
        template::line(line, &self.given).map_err(|why| self.failed(step, &why))
    }

    /// The error of a failed step (A29-SETUP-23).
    pub fn failed(&self, step: &Step<'_>, why: &str) -> Fault {
        let what = format!("setup step `{}` failed: {why}", step.id);
        let what = self.ctx.masks.mask(&what).into_owned();
        self.ctx
            .bundle
            .fault(Code::SetupFailed, step.node, &what)
            .hint("earlier steps stay done; fix the cause and run `agentproto setup` again")
            .details(json!({ "step": step.id, "kind": step.what.kind() }))
    }

    /// A program that cannot be started is a failed step. Other errors, such as an unenforceable
    /// sandbox, keep their code.
    fn not_run(&self, step: &Step<'_>, fault: Fault) -> Fault {
        match fault.code {
            Code::ProgramNotFound | Code::SpawnFailed => self.failed(step, &fault.message),
            _ => fault,
        }
    }
}
