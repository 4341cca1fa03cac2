//! Runs one setup step.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use zeroize::Zeroizing;

use super::step::{ExitCheck, PersistTarget, PromptKind, StepAction, StepDefinition};
use super::template::{self, PlaceholderValue};
use super::tool::{self, BundleTool};
use super::{SetupOptions, StepOutcome};
use crate::auth;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::interact::{Question, QuestionKind};
use crate::observe::Stage;
use crate::secrets::{self, StoredValue};
use agentproto_sandbox::spawn::Stdio;

/// Maximum size of a value in bytes.
const MAX_VALUE: usize = 64 << 10;

/// One run of the setup steps. Later steps may use the values of earlier ones.
pub struct SetupRun<'a> {
    pub ctx: &'a Context,
    options: &'a SetupOptions,
    tool: BundleTool,
    pub(super) values: Vec<PlaceholderValue>,
    /// Whether the tool's environment is up to date.
    environment_is_current: bool,
}

/// The value of a step.
pub struct Captured {
    pub value: Zeroizing<String>,
    pub secret: bool,
}

impl<'a> SetupRun<'a> {
    pub fn new(ctx: &'a Context, bin: &Path, options: &'a SetupOptions) -> Self {
        SetupRun {
            ctx,
            options,
            tool: BundleTool::new(ctx, bin),
            values: Vec::new(),
            environment_is_current: false,
        }
    }

    /// Whether `skip_if` says that the step is done (A29-SETUP-14).
    pub async fn is_skipped(&mut self, step: &StepDefinition<'_>) -> Result<bool, Error> {
        match &step.skip_if {
            Some(check) => self.check_passes(step, check).await,
            None => Ok(false),
        }
    }

    async fn check_passes(
        &mut self,
        step: &StepDefinition<'_>,
        check: &ExitCheck<'_>,
    ) -> Result<bool, Error> {
        let finished = self.execute(step, check.line, Some(check.timeout)).await?;
        let code = finished.exit.status.code().map(i64::from);
        Ok(!finished.exit.timed_out && code == Some(check.exit_code))
    }

    pub async fn step(
        &mut self,
        step: &StepDefinition<'_>,
        again: bool,
    ) -> Result<StepOutcome, Error> {
        if !again && self.is_skipped(step).await? {
            self.ctx
                .observer
                .progress(Stage::Setup, &format!("{}: skipped", step.id));
            return Ok(StepOutcome::Skipped);
        }
        let label = match step.description {
            Some(description) => format!("{}: {description}", step.id),
            None => step.id.to_owned(),
        };
        self.ctx.observer.progress(Stage::Setup, &label);
        let captured = match &step.action {
            StepAction::Cmd {
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
            StepAction::Prompt {
                message,
                kind,
                default,
            } => Some(self.prompt(step, message, kind, default.as_deref()).await?),
            StepAction::Oauth { slug } => {
                self.oauth(step, slug).await?;
                None
            }
            StepAction::External { url, callback } => {
                self.external(step, url, callback.as_ref()).await?
            }
        };
        if let Some(captured) = captured {
            self.store_value(step, captured).await?;
        }
        Ok(StepOutcome::Done)
    }

    async fn command(
        &mut self,
        step: &StepDefinition<'_>,
        line: &str,
        timeout: Option<Duration>,
        stdio: Stdio,
    ) -> Result<Option<Captured>, Error> {
        let ready = self.ready(step, line)?;
        self.update_environment().await?;
        let finished = self.tool.run(ready, timeout, stdio).await;
        let finished = finished.map_err(|error| self.start_error(step, error))?;
        if !tool::is_success(&finished) {
            return Err(self.failed(step, &tool::describe_exit(self.ctx, &finished)));
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
            secret: matches!(step.persist, Some(PersistTarget::Slug(_))),
        }))
    }

    async fn prompt(
        &mut self,
        step: &StepDefinition<'_>,
        message: &str,
        prompt_kind: &PromptKind<'_>,
        default: Option<&str>,
    ) -> Result<Captured, Error> {
        let secret = matches!(prompt_kind, PromptKind::Secret)
            || matches!(step.persist, Some(PersistTarget::Slug(_)));
        let (choices, labels) = match prompt_kind {
            PromptKind::Select(list) => {
                (list.iter().map(|s| (*s).to_owned()).collect(), Vec::new())
            }
            PromptKind::SelectFrom(line, timeout) => {
                self.printed_choices(step, line, *timeout).await?
            }
            PromptKind::Text | PromptKind::Secret | PromptKind::Boolean => Default::default(),
        };
        let kind = match prompt_kind {
            PromptKind::Text if secret => QuestionKind::Secret,
            PromptKind::Text => QuestionKind::Text,
            PromptKind::Secret => QuestionKind::Secret,
            PromptKind::Boolean => QuestionKind::Boolean,
            PromptKind::Select(_) | PromptKind::SelectFrom(..) => {
                QuestionKind::Select(choices.clone())
            }
        };
        let mut text = message.to_owned();
        for line in step
            .description
            .into_iter()
            .chain(labels.iter().map(String::as_str))
        {
            text = format!("{line}\n{text}");
        }
        // The declared default (A29-SETUP-20). A secret has none.
        let default = default.filter(|_| !secret).map(str::to_owned);
        let question = Question {
            message: text,
            kind: kind.clone(),
            default: default.clone(),
        };
        let value = match self.options.answers.get(self.ctx, step.id, secret)? {
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
            QuestionKind::Boolean if !matches!(value.as_str(), "true" | "false") => {
                Err(self.failed(step, "the answer must be `true` or `false`"))
            }
            QuestionKind::Select(list) if !list.contains(&value) => Err(self.failed(
                step,
                &format!("the answer must be one of {}", list.join(", ")),
            )),
            _ => Ok(Captured { value, secret }),
        }
    }

    /// Runs a command that prints the choices: one per line, with an optional label after a tab.
    async fn printed_choices(
        &mut self,
        step: &StepDefinition<'_>,
        line: &str,
        timeout: Duration,
    ) -> Result<(Vec<String>, Vec<String>), Error> {
        let finished = self.execute(step, line, Some(timeout)).await?;
        if !tool::is_success(&finished) {
            let why = tool::describe_exit(self.ctx, &finished);
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
    async fn store_value(
        &mut self,
        step: &StepDefinition<'_>,
        captured: Captured,
    ) -> Result<(), Error> {
        let Captured { value, secret } = captured;
        if value.contains('\0') || value.len() > MAX_VALUE {
            return Err(self.failed(step, "its value is too long or contains a NUL byte"));
        }
        if secret {
            self.ctx.masks.add(&value);
        }
        let stored = StoredValue {
            value: value.to_string(),
            secret,
        };
        self.invalidate_environment();
        match step.persist {
            Some(PersistTarget::Env(name)) => secrets::store_variable(self.ctx, name, stored)?,
            Some(PersistTarget::Slug(slug)) => secrets::store_slug(self.ctx, slug, stored, false)?,
            Some(PersistTarget::Cmd(line)) => {
                self.load_earlier_values(line)?;
                let mut values = self.values.clone();
                values.push(PlaceholderValue::new("value", &value, secret));
                let ready = template::line(line, &values).map_err(|why| self.failed(step, &why))?;
                self.update_environment().await?;
                let limit = Some(Duration::from_secs(60));
                let finished = self.tool.run(ready, limit, Stdio::Pipes).await;
                let finished = finished.map_err(|error| self.start_error(step, error))?;
                if !tool::is_success(&finished) {
                    let why = tool::describe_exit(self.ctx, &finished);
                    return Err(self.failed(step, &format!("its `persist` command failed: {why}")));
                }
            }
            None => {}
        }
        let name = format!("input.{}", step.id);
        self.values
            .push(PlaceholderValue::new(name, &value, secret));
        Ok(())
    }

    /// Updates the environment of commands: values that earlier steps stored, and available
    /// secrets, which a check of the finished setup needs.
    async fn update_environment(&mut self) -> Result<(), Error> {
        if !self.environment_is_current {
            self.tool.env = super::variables(self.ctx)?;
            let secrets = auth::environment(self.ctx, "setup").await?;
            self.tool.env.extend(secrets);
            self.environment_is_current = true;
        }
        Ok(())
    }

    async fn execute(
        &mut self,
        step: &StepDefinition<'_>,
        line: &str,
        timeout: Option<Duration>,
    ) -> Result<crate::command::Finished, Error> {
        let ready = self.ready(step, line)?;
        self.update_environment().await?;
        let finished = self.tool.run(ready, timeout, Stdio::Pipes).await;
        finished.map_err(|error| self.start_error(step, error))
    }

    /// Marks the environment of commands as outdated.
    pub fn invalidate_environment(&mut self) {
        self.environment_is_current = false;
    }

    /// The caller's prepared answer. For `external` it may be a literal only if the value is not
    /// stored.
    pub fn answer(&self, step: &StepDefinition<'_>) -> Result<Option<Zeroizing<String>>, Error> {
        let secret = step.persist.is_some();
        self.options.answers.get(self.ctx, step.id, secret)
    }

    /// Loads values of earlier steps that were done in another run.
    pub fn load_earlier_values(&mut self, text: &str) -> Result<(), Error> {
        for name in template::names(text) {
            if self.values.iter().any(|value| value.name == name) {
                continue;
            }
            let stored = match name.split_once('.') {
                Some(("input", id)) => super::stored_input(self.ctx, id)?,
                Some(("secrets", slug)) => secrets::slug(self.ctx, slug, "setup")?,
                _ => None,
            };
            if let Some(stored) = stored {
                self.values
                    .push(PlaceholderValue::new(name, &stored.value, stored.secret));
            }
        }
        Ok(())
    }

    fn ready(
        &mut self,
        step: &StepDefinition<'_>,
        line: &str,
    ) -> Result<template::FilledCommand, Error> {
        self.load_earlier_values(line)?;
        template::line(line, &self.values).map_err(|why| self.failed(step, &why))
    }

    /// The error of a failed step (A29-SETUP-23).
    pub fn failed(&self, step: &StepDefinition<'_>, why: &str) -> Error {
        let what = format!("setup step `{}` failed: {why}", step.id);
        let what = self.ctx.masks.mask(&what).into_owned();
        self.ctx
            .bundle
            .error_at(Code::SetupFailed, step.node, &what)
            .hint("earlier steps stay done; fix the cause and run `agentproto setup` again")
            .details(json!({ "step": step.id, "kind": step.action.kind() }))
    }

    /// A program that cannot be started is a failed step. Other errors, such as an unenforceable
    /// sandbox, keep their code.
    fn start_error(&self, step: &StepDefinition<'_>, error: Error) -> Error {
        match error.code {
            Code::ProgramNotFound | Code::SpawnFailed => self.failed(step, &error.message),
            _ => error,
        }
    }
}
