//! The report for people: each finding with a source excerpt, message and help.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters,
    ThemeStyles,
};

use crate::render::secrets::MaskedSpans;
use crate::render::snippet::{CONTEXT, LineLimits, Mark, Snippet};
use crate::render::{FindingCounts, Meta, active_findings, by_file, citation, concise, message};
use crate::{Finding, Level, Related, Report, Safety, Severity};
use agentproto_report::TOOL;
use agentproto_text::{count, escape_line, escape_lines, lower_first, wrap};

/// Minimum width. Narrower terminals wrap the lines.
const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 140;
/// Maximum number of findings per file that are shown with an excerpt. Further ones get one line.
const MAX_EXCERPTS: usize = 100;
/// Number of columns for line numbers, bars and arrows.
const GUTTER: usize = 14;
/// Indentation of the lines below a headline.
const INDENT: &str = "  ";
/// Maximum number of lines above a finding at which a related place is part of its excerpt.
const MAX_LINES_ABOVE: u32 = 3;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let findings = active_findings(report);
    let painter = Painter::new(report, meta);
    for (file, findings) in by_file(&findings) {
        let counts = FindingCounts::of(findings.iter().copied());
        let path = escape_line(&meta.path(file)).into_owned();
        writeln!(out, "{} ({})\n", painter.bold(&path), counts.describe())?;
        let (drawn, listed) = findings.split_at(findings.len().min(MAX_EXCERPTS));
        for finding in drawn {
            writeln!(
                out,
                "{}",
                painter
                    .finding(finding, report, meta)
                    .map_err(io::Error::other)?
            )?;
        }
        for finding in listed {
            concise::line(finding, meta, out)?;
        }
        if !listed.is_empty() {
            writeln!(out)?;
        }
    }
    if !findings.is_empty() && !meta.quiet {
        writeln!(out, "Run `agentproto explain RULE` for more about a rule.")?;
    }
    writeln!(out, "{}", summary(report, meta, &painter))
}

fn summary(report: &Report, meta: &Meta, painter: &Painter<'_>) -> String {
    let counts = meta.counts(report);
    let files = count(report.files.len(), "file", "files");
    let mut line = match (report.files.len(), counts.total()) {
        (0, 0) => "No manifests to check (AGENT-CLI.md, CLI.md, …).".to_owned(),
        (_, 0) => format!("{files} checked, no findings"),
        _ => {
            let words = counts.describe();
            let words = match (counts.errors, counts.warnings) {
                (0, 0) => words,
                (0, _) => painter.paint(33, &words),
                _ => painter.paint(31, &words),
            };
            format!("{files} checked: {words}")
        }
    };
    let mut extra = Vec::new();
    match (counts.safe_fixes, counts.unsafe_fixes) {
        (0, 0) => {}
        (safe, 0) => extra.push(format!("{safe} fixable with --fix")),
        (0, n) => extra.push(format!("{n} fixable with --unsafe-fixes")),
        (safe, n) => extra.push(format!(
            "{safe} fixable with --fix, {n} more with --unsafe-fixes"
        )),
    }
    if counts.suppressed > 0 {
        extra.push(format!("{} suppressed", counts.suppressed));
    }
    if !extra.is_empty() {
        line.push_str(&format!(" ({})", extra.join("; ")));
    }
    line
}

/// Draws findings in the style of the terminal.
struct Painter<'r> {
    handler: GraphicalReportHandler,
    color: bool,
    width: usize,
    cut: &'static str,
    masks: MaskedSpans<'r>,
}

impl<'r> Painter<'r> {
    fn new(report: &'r Report, meta: &Meta) -> Self {
        let width = meta.width.clamp(MIN_WIDTH, MAX_WIDTH);
        let theme = GraphicalTheme {
            characters: if meta.unicode {
                ThemeCharacters::unicode()
            } else {
                ThemeCharacters::ascii()
            },
            styles: if meta.color {
                ThemeStyles::ansi()
            } else {
                ThemeStyles::none()
            },
        };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(width)
            .with_links(false)
            .with_context_lines(CONTEXT)
            .without_syntax_highlighting();
        Painter {
            handler,
            color: meta.color,
            width,
            cut: if meta.unicode { "…" } else { "..." },
            masks: MaskedSpans::of(report),
        }
    }

    fn line_limits(&self, file: &Path) -> LineLimits<'_> {
        LineLimits {
            width: self.width - GUTTER,
            cut: self.cut,
            masks: self.masks.in_file(file),
        }
    }

    fn paint(&self, code: u8, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(&self, text: &str) -> String {
        self.paint(1, text)
    }

    fn finding(
        &self,
        finding: &Finding,
        report: &Report,
        meta: &Meta,
    ) -> Result<String, fmt::Error> {
        // A place far above the finding gets its own excerpt below: readers look at the first one.
        let is_marked = |place: &&Related| {
            place.file == finding.file && place.start.line + MAX_LINES_ABOVE >= finding.start.line
        };
        let (marked, apart): (Vec<&Related>, Vec<&Related>) =
            finding.related.iter().partition(is_marked);
        let mut text = self.headline(finding);
        if let Some(doc) = report.source(&finding.file) {
            let mut marks = vec![Mark {
                span: finding.span,
                label: None,
                primary: true,
            }];
            marks.extend(marked.iter().map(|place| Mark {
                span: place.span,
                label: Some(label(place)),
                primary: false,
            }));
            let path = escape_line(&meta.path(&finding.file)).into_owned();
            let limits = self.line_limits(&finding.file);
            text.push_str(&self.excerpt(Snippet::new(doc, path, marks, limits))?);
        }
        if let Some(help) = finding.help.as_deref().map(str::trim)
            && !help.is_empty()
        {
            text.push_str(&self.labeled("help", &escape_lines(help)));
        }
        if let Some(fix) = &finding.fix {
            let flag = match fix.safety {
                Safety::Safe => "--fix",
                Safety::Unsafe => "--unsafe-fixes",
            };
            let title = lower_first(&escape_line(&fix.title));
            text.push_str(&self.labeled("fix", &format!("{title} ({flag})")));
        }
        for place in apart {
            text.push_str(&self.related_place(place, report, meta)?);
        }
        text.push_str(&self.labeled("source", &source(finding)));
        Ok(text
            .lines()
            .flat_map(|line| [line.trim_end(), "\n"])
            .collect())
    }

    /// The first line of a finding: severity, rule and message.
    fn headline(&self, finding: &Finding) -> String {
        let color = match finding.severity {
            Severity::Error => 31,
            Severity::Warning => 33,
            Severity::Info => 36,
        };
        let head = format!("{}[{}]", finding.severity.as_str(), finding.rule.slug);
        let message = escape_line(message(finding));
        let lines = wrap(&message, self.width - INDENT.len(), head.len());
        let lines: Vec<String> = lines.iter().map(|line| self.bold(line)).collect();
        let message = lines.join(&format!("\n{INDENT}"));
        format!("{}: {message}\n", self.paint(color, &head))
    }

    /// A line below the excerpt, such as `help: …`.
    fn labeled(&self, label: &str, text: &str) -> String {
        let indent = " ".repeat(INDENT.len() + label.len() + 2);
        let lines = wrap(text, self.width - indent.len(), 0);
        let text = lines.join(&format!("\n{indent}"));
        format!("{INDENT}{}: {text}\n", self.paint(36, label))
    }

    /// Draws an excerpt with its marks.
    fn excerpt(&self, snippet: Snippet) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.handler
            .render_report(&mut text, &ExcerptDiagnostic { snippet })?;
        // The first line is that of the empty message.
        let drawn = text.split_once('\n').map_or("", |(_, drawn)| drawn);
        Ok(drawn.to_owned())
    }

    /// A related place with its own excerpt.
    fn related_place(
        &self,
        place: &Related,
        report: &Report,
        meta: &Meta,
    ) -> Result<String, fmt::Error> {
        let path = escape_line(&meta.path(&place.file)).into_owned();
        let Some(doc) = report.source(&place.file) else {
            let note = format!("{} ({path}:{})", label(place), place.start.line);
            return Ok(self.labeled("note", &note));
        };
        let mark = Mark {
            span: place.span,
            label: None,
            primary: true,
        };
        let limits = self.line_limits(&place.file);
        let excerpt = self.excerpt(Snippet::new(doc, path, vec![mark], limits))?;
        Ok(self.labeled("note", &label(place)) + &excerpt)
    }
}

/// Where the rule comes from, in words.
fn source(finding: &Finding) -> String {
    let (spec, section) = (finding.source.spec, finding.source.section);
    match (finding.rule.level, finding.severity) {
        _ if spec.is_empty() || spec == TOOL => format!("agentproto's own rule ({section})"),
        (Level::Derived, _) if section.is_empty() => {
            format!("agentproto's own rule, based on {spec}")
        }
        (Level::Derived, _) => format!("agentproto's own rule, based on {spec} §{section}"),
        (Level::Must, Severity::Warning | Severity::Info) => {
            let cited = citation(finding.source, Level::Must);
            cited.replacen(
                "(MUST)",
                &format!("(MUST, reported as {})", article(finding)),
                1,
            )
        }
        (level, _) => citation(finding.source, level),
    }
}

fn article(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Info => "an info",
        _ => "a warning",
    }
}

fn label(place: &Related) -> String {
    match place.message.trim() {
        "" => "see here".to_owned(),
        message => escape_line(message).into_owned(),
    }
}

/// An excerpt without a message, as miette needs it.
struct ExcerptDiagnostic {
    snippet: Snippet,
}

impl fmt::Debug for ExcerptDiagnostic {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
impl fmt::Display for ExcerptDiagnostic {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
impl Error for ExcerptDiagnostic {}

impl Diagnostic for ExcerptDiagnostic {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.snippet)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.snippet.labels().into_iter()))
    }
}
