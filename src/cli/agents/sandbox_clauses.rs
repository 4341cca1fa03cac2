//! Shows how each clause of a policy is enforced on this machine.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use agentproto_lint::render::Meta;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_sandbox::policy::{Access, Exec, Policy};
use agentproto_sandbox::{Assessment, Backend, Enforcement, GRANTS_ALL, NO_EFFECT};
use agentproto_text::{clip, count, escape_line, shell, upper_first};

pub struct View<'a> {
    pub target: &'a Path,
    pub policy: &'a Policy,
    pub backend: Option<Backend>,
    pub assessments: &'a [Assessment],
    /// Number of errors for which runs of the manifest are refused.
    pub errors: u64,
    /// Whether to print long lists of protected files.
    pub verbose: bool,
}

/// Maximum number of characters of a list of protected files.
const MAX_LIST: usize = 240;

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
        let (green, red, yellow, dim, off) = match meta.color {
            true => ("\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"),
            false => ("", "", "", "", ""),
        };
        let backend = self.backend.map_or("none", Backend::as_str);
        let target = self.target.to_string_lossy();
        writeln!(out, "{}: sandbox backend {backend}", escape_line(&target))?;
        let texts: Vec<String> = self
            .assessments
            .iter()
            .map(|a| {
                let text = escape_line(&a.clause.text);
                match is_built_in(a) {
                    true => format!("built in: {text}"),
                    false => text.into_owned(),
                }
            })
            .collect();
        let width = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
        let width = width.min(48);
        for (text, assessment) in texts.iter().zip(self.assessments) {
            let (mark, paint, word, how) = match &assessment.enforcement {
                Enforcement::Enforced { by } => {
                    match (by.strip_prefix(NO_EFFECT), by.strip_prefix(GRANTS_ALL)) {
                        (Some(why), _) => ("–", dim, "no effect", why),
                        (_, Some(what)) => ("!", yellow, "grants everything", what),
                        (None, None) => ("✓", green, "enforced", by.as_str()),
                    }
                }
                Enforcement::Unenforceable { why } => ("✗", red, "unenforceable", why.as_str()),
            };
            let short = clip(how, MAX_LIST);
            let (how, more) = match is_built_in(assessment) && !self.verbose && *short != *how {
                true => (short, " (`--verbose` shows all)"),
                false => (how.into(), ""),
            };
            writeln!(
                out,
                "  {paint}{mark}{off} {text:<width$}  {paint}{word}{off}: {}{more}",
                escape_line(&how)
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
        writeln!(out, "{}", self.result())
    }

    /// The last line for people.
    fn result(&self) -> String {
        let open = self.assessments.iter().filter(|a| match &a.enforcement {
            Enforcement::Enforced { by } => by.starts_with(GRANTS_ALL),
            Enforcement::Unenforceable { .. } => false,
        });
        let clauses = match (self.unenforceable_count(), open.count()) {
            (0, 0) => "every clause is enforced".to_owned(),
            (0, open) => {
                let grant = if open == 1 { "grants" } else { "grant" };
                let clauses = count(open, "clause", "clauses");
                format!("every clause is enforced, but {clauses} {grant} everything")
            }
            (n, _) => {
                let clauses = count(n, "clause", "clauses");
                format!("{clauses} cannot be enforced, so nothing would be started")
            }
        };
        if self.errors == 0 {
            return format!("{}.", upper_first(&clauses));
        }
        let errors = count(
            usize::try_from(self.errors).unwrap_or(usize::MAX),
            "error",
            "errors",
        );
        let target = shell(&[self.target.to_string_lossy()]);
        format!(
            "The manifest has {errors}, so it cannot run: see `agentproto lint {}`. Apart from \
             that, {clauses}.",
            escape_line(&target)
        )
    }
}

/// Whether agentproto adds the clause. Such a clause has no place in the manifest.
fn is_built_in(assessment: &Assessment) -> bool {
    assessment.clause.pointer.is_empty()
}
