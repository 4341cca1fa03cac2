//! The report for people: each finding with a source excerpt, message and help.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters,
    ThemeStyles,
};

use crate::render::secrets::Masks;
use crate::render::snippet::{CONTEXT, Frame, Mark, Snippet};
use crate::render::{Meta, Tally, by_file, citation, concise, counted, message};
use crate::{Finding, Related, Report, Safety, Severity};
use agentproto_text::{count, plain, plain_lines};

/// Minimum width. Narrower terminals wrap the lines.
const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 140;
/// Maximum number of findings per file that are shown with an excerpt. Further ones get one line.
const MAX_DRAWN: usize = 100;
/// Number of columns for line numbers, bars and arrows.
const GUTTER: usize = 14;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let findings = counted(report);
    let pen = Pen::new(report, meta);
    for (file, findings) in by_file(&findings) {
        let tally = Tally::of(findings.iter().copied());
        let path = plain(&meta.path(file)).into_owned();
        writeln!(out, "{} ({})\n", pen.bold(&path), tally.words())?;
        let (drawn, listed) = findings.split_at(findings.len().min(MAX_DRAWN));
        for finding in drawn {
            writeln!(
                out,
                "{}",
                pen.finding(finding, report, meta)
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
    if let Some(first) = findings.first() {
        writeln!(
            out,
            "For more about a rule, run: agentproto explain {}",
            first.rule.slug
        )?;
    }
    writeln!(out, "{}", summary(report, &pen))
}

fn summary(report: &Report, pen: &Pen<'_>) -> String {
    let tally = Tally::of(&report.findings);
    let files = count(report.files.len(), "file", "files");
    let mut line = match (report.files.len(), tally.total()) {
        (0, 0) => "No manifests to check.".to_owned(),
        (_, 0) => format!("All good: {files} checked, no findings."),
        _ => {
            let words = tally.words();
            let words = match (tally.errors, tally.warnings) {
                (0, 0) => words,
                (0, _) => pen.paint(33, &words),
                _ => pen.paint(31, &words),
            };
            format!("{files} checked: {words}")
        }
    };
    let mut extra = Vec::new();
    match (tally.safe_fixes, tally.unsafe_fixes) {
        (0, 0) => {}
        (safe, 0) => extra.push(format!("{safe} fixable with --fix")),
        (0, n) => extra.push(format!("{n} fixable with --unsafe-fixes")),
        (safe, n) => extra.push(format!(
            "{safe} fixable with --fix, {n} more with --unsafe-fixes"
        )),
    }
    if tally.suppressed > 0 {
        extra.push(format!("{} suppressed", tally.suppressed));
    }
    if !extra.is_empty() {
        line.push_str(&format!(" ({})", extra.join("; ")));
    }
    line
}

/// Draws findings in the style of the terminal.
struct Pen<'r> {
    handler: GraphicalReportHandler,
    color: bool,
    width: usize,
    cut: &'static str,
    masks: Masks<'r>,
}

impl<'r> Pen<'r> {
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
        Pen {
            handler,
            color: meta.color,
            width: width - GUTTER,
            cut: if meta.unicode { "…" } else { "..." },
            masks: Masks::of(report),
        }
    }

    fn frame(&self, file: &Path) -> Frame<'_> {
        Frame {
            width: self.width,
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
        let (here, elsewhere): (Vec<&Related>, Vec<&Related>) =
            finding.related.iter().partition(|r| r.file == finding.file);
        let path = plain(&meta.path(&finding.file)).into_owned();
        let snippet = report.source(&finding.file).map(|doc| {
            let mut marks = vec![Mark {
                span: finding.span,
                // If there is a second mark in the excerpt, the first one needs a label.
                label: (!here.is_empty()).then(|| "here".to_owned()),
                primary: true,
            }];
            marks.extend(here.iter().map(|place| Mark {
                span: place.span,
                label: Some(label(place)),
                primary: false,
            }));
            Snippet::new(doc, path, marks, self.frame(&finding.file))
        });
        let diagnostic = Drawing {
            code: Some(format!(
                "{}[{}]: {}",
                finding.severity.as_str(),
                finding.rule.slug,
                citation(finding.source, finding.rule.level)
            )),
            severity: match finding.severity {
                Severity::Error => miette::Severity::Error,
                Severity::Warning => miette::Severity::Warning,
                Severity::Info => miette::Severity::Advice,
            },
            message: plain(message(finding)).into_owned(),
            help: help(finding),
            snippet,
        };
        let mut text = String::new();
        self.handler.render_report(&mut text, &diagnostic)?;
        for place in elsewhere {
            self.handler
                .render_report(&mut text, &self.elsewhere(place, report, meta))?;
        }
        Ok(text
            .lines()
            .flat_map(|line| [line.trim_end(), "\n"])
            .collect())
    }

    /// A related place in another file, with its own excerpt.
    fn elsewhere(&self, place: &Related, report: &Report, meta: &Meta) -> Drawing {
        let path = plain(&meta.path(&place.file)).into_owned();
        let source = report.source(&place.file);
        let message = match source {
            Some(_) => label(place),
            None => format!("{} ({path}:{})", label(place), place.start.line),
        };
        let snippet = source.map(|doc| {
            let mark = Mark {
                span: place.span,
                label: None,
                primary: true,
            };
            Snippet::new(doc, path, vec![mark], self.frame(&place.file))
        });
        Drawing {
            code: None,
            severity: miette::Severity::Advice,
            message,
            help: None,
            snippet,
        }
    }
}

fn label(place: &Related) -> String {
    match place.message.trim() {
        "" => "see here".to_owned(),
        message => plain(message).into_owned(),
    }
}

fn help(finding: &Finding) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(help) = finding
        .help
        .as_deref()
        .filter(|help| !help.trim().is_empty())
    {
        parts.push(plain_lines(help.trim()).into_owned());
    }
    if let Some(fix) = &finding.fix {
        let flag = match fix.safety {
            Safety::Safe => "--fix",
            Safety::Unsafe => "--unsafe-fixes",
        };
        parts.push(format!("{flag}: {}", plain(&fix.title)));
    }
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The diagnostic that is passed to miette.
struct Drawing {
    code: Option<String>,
    severity: miette::Severity,
    message: String,
    help: Option<String>,
    snippet: Option<Snippet>,
}

impl fmt::Debug for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl Error for Drawing {}

impl Diagnostic for Drawing {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.code.as_ref().map(|code| Box::new(code) as _)
    }
    fn severity(&self) -> Option<miette::Severity> {
        Some(self.severity)
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as _)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.snippet.as_ref().map(|snippet| snippet as _)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let snippet = self.snippet.as_ref()?;
        Some(Box::new(snippet.labels().into_iter()))
    }
}
