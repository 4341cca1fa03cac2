//! Shows how each clause of a policy is enforced on this machine.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use agentproto_lint::render::Meta;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_sandbox::policy::{Access, Exec, Policy};
use agentproto_sandbox::{Assessment, Backend, Enforcement, NO_EFFECT};
use agentproto_text::escape_line;

pub struct View<'a> {
    pub target: &'a Path,
    pub policy: &'a Policy,
    pub backend: Option<Backend>,
    pub assessments: &'a [Assessment],
}

impl View<'_> {
    pub fn json(&self) -> Value {
        json!({
            "schema": "agentproto.sandbox/v1",
            "target": self.target.to_string_lossy(),
            "backend": self.backend,
            "clauses": self.assessments,
            "sees": self.sees(),
            "enforceable": self.unenforceable_count() == 0,
        })
    }

    pub fn events(&self, emitter: &mut Emitter<'_>) -> io::Result<()> {
        emitter.meta("sandbox explain")?;
        for assessment in self.assessments {
            let fields = serde_json::to_value(assessment)?;
            emitter.event(EventType::Clause, &object(fields))?;
        }
        Ok(())
    }

    fn unenforceable_count(&self) -> usize {
        let is_unenforceable =
            |a: &&Assessment| matches!(a.enforcement, Enforcement::Unenforceable { .. });
        self.assessments.iter().filter(is_unenforceable).count()
    }

    /// What the child sees besides the clauses, because every child needs it.
    fn sees(&self) -> Value {
        let base = self.policy.grants.iter().filter(|g| g.clause.is_none());
        let paths: Vec<Value> = base
            .map(|g| {
                json!({
                    "path": g.at.to_string_lossy(),
                    "access": match g.access { Access::Read => "read", Access::Write => "write" },
                    "exec": g.exec,
                })
            })
            .collect();
        json!(paths)
    }

    pub fn human(&self, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
        let (green, red, dim, off) = match meta.color {
            true => ("\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"),
            false => ("", "", "", ""),
        };
        let backend = self.backend.map_or("none", Backend::as_str);
        let target = self.target.to_string_lossy();
        writeln!(out, "{}: sandbox backend {backend}", escape_line(&target))?;
        let texts: Vec<String> = self
            .assessments
            .iter()
            .map(|a| {
                let text = escape_line(&a.clause.text);
                // What agentproto adds has no place in the manifest.
                match a.clause.pointer.is_empty() {
                    true => format!("built in: {text}"),
                    false => text.into_owned(),
                }
            })
            .collect();
        let width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
        let width = width.min(48);
        for (text, assessment) in texts.iter().zip(self.assessments) {
            let (mark, paint, word, how) = match &assessment.enforcement {
                Enforcement::Enforced { by } => match by.strip_prefix(NO_EFFECT) {
                    Some(why) => ("–", dim, "no effect", why),
                    None => ("✓", green, "enforced", by.as_str()),
                },
                Enforcement::Unenforceable { why } => ("✗", red, "unenforceable", why.as_str()),
            };
            writeln!(
                out,
                "  {paint}{mark}{off} {text:<width$}  {paint}{word}{off}: {}",
                escape_line(how)
            )?;
            if let Some(note) = &assessment.note {
                writeln!(out, "    {dim}note: {}{off}", escape_line(note))?;
            }
        }
        if let Exec::Listed { programs, .. } = &self.policy.exec {
            let names: Vec<String> = programs
                .iter()
                .map(|p| escape_line(&p.to_string_lossy()).into_owned())
                .collect();
            let names = match names.is_empty() {
                true => "only the command itself".to_owned(),
                false => names.join(", "),
            };
            writeln!(out, "  {dim}programs that may run: {names}{off}")?;
        }
        match self.unenforceable_count() {
            0 => writeln!(out, "Every clause is enforced."),
            1 => writeln!(
                out,
                "1 clause cannot be enforced, so nothing would be started."
            ),
            n => writeln!(
                out,
                "{n} clauses cannot be enforced, so nothing would be started."
            ),
        }
    }
}
