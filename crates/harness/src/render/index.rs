//! An index page of many reports: a matrix of agents and sections.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::page::{Page, class};
use super::words::{self, safe_html};
use super::{badge, html, load, order};
use crate::model::{Report, Verdict};
use agentproto_report::files::{LoadError, WriteError};
use agentproto_report::markdown::inline;
use agentproto_report::sarif::percent_encode;
use agentproto_text::replace_file;
use agentproto_text::{self as text, clip, escape_line};

const STYLE: &str = include_str!("assets/index.css");
/// Maximum number of characters in a column title, so that long titles do not hide the matrix.
const MAX_CHARACTERS: usize = 60;

/// Why an index page could not be written.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A directory cannot be read.
    #[error("cannot read `{}`: {error}", escape_line(&.dir.to_string_lossy()))]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A report cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The directory contains no report.
    #[error("no report in `{}`: expected NAME/report.json or NAME.json", escape_line(&.0.to_string_lossy()))]
    Empty(PathBuf),
    /// The page cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A report, and the page that shows it, relative to the index.
pub struct IndexEntry {
    /// Path of the page, relative to the index.
    pub link: String,
    /// The name of the report's directory or file.
    pub name: String,
    /// The report.
    pub report: Report,
}

/// Reads the reports in directories, sorted by the agents' names.
///
/// A directory is either a report itself (`report.json`), or it contains reports:
/// `NAME/report.json`, or `NAME.json` files with the schema of a report. Links are relative to
/// `to`.
pub fn read(dirs: &[PathBuf], to: &Path) -> Result<Vec<IndexEntry>, IndexError> {
    let mut entries = Vec::new();
    for dir in dirs {
        let found = read_one(dir, to)?;
        if found.is_empty() {
            return Err(IndexError::Empty(dir.clone()));
        }
        entries.extend(found);
    }
    entries.sort_by_cached_key(|e: &IndexEntry| {
        (html::name(&e.report).to_lowercase(), e.name.clone())
    });
    // The same report may be reached through two directories.
    entries.dedup_by(|a, b| a.link == b.link);
    Ok(entries)
}

fn read_one(dir: &Path, to: &Path) -> Result<Vec<IndexEntry>, IndexError> {
    let unreadable = |error| IndexError::Unreadable {
        dir: dir.to_owned(),
        error,
    };
    if dir.join("report.json").is_file() {
        return Ok(vec![entry(dir, to)?]);
    }
    let mut names = Vec::new();
    for item in std::fs::read_dir(dir).map_err(unreadable)? {
        names.push(item.map_err(unreadable)?.file_name());
    }
    names.sort();
    let mut entries = Vec::new();
    for name in names {
        let path = dir.join(&name);
        let is_dir = path.join("report.json").is_file();
        if !is_dir && path.extension().is_none_or(|kind| kind != "json") {
            continue;
        }
        match entry(&path, to) {
            Ok(entry) => entries.push(entry),
            // Other JSON files may be next to reports, but `report.json` must be a report.
            Err(LoadError::NotAReport { .. }) if !is_dir => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(entries)
}

/// Loads a report from its directory or file.
fn entry(path: &Path, to: &Path) -> Result<IndexEntry, LoadError> {
    let (file, pages) = match path.is_dir() {
        true => {
            let pages = ["report.html", "report.md", "report.json"];
            (path.join("report.json"), pages.map(|page| path.join(page)))
        }
        false => {
            let pages = ["html", "md", "json"].map(|kind| path.with_extension(kind));
            (path.to_owned(), pages)
        }
    };
    let report = load(&file)?;
    let there = pages.iter().find(|page| page.is_file());
    let link = relative(to, there.unwrap_or(&file));
    let source = match path.is_dir() {
        // `.` has no name of its own.
        true => path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        false => path.with_extension(""),
    };
    let source = source.file_name().unwrap_or_default();
    Ok(IndexEntry {
        link,
        name: source.to_string_lossy().into_owned(),
        report,
    })
}

/// The relative path from a directory to a file, with `/` as the separator.
fn relative(from: &Path, to: &Path) -> String {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (from, to) = (whole(from), whole(to));
    let shared = from.components().zip(to.components());
    let shared = shared.take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| "..".to_owned());
    let down = to.components().skip(shared);
    let down = down.map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Writes `index.html` and `index.md` for the reports in directories. Returns the number of
/// reports.
pub fn write(dirs: &[PathBuf], to: &Path) -> Result<usize, IndexError> {
    let entries = read(dirs, to)?;
    let page = page(&entries).map_err(|error| WriteError {
        path: to.join("index.html"),
        error,
    })?;
    for (name, text) in [("index.html", page), ("index.md", table(&entries))] {
        let path = to.join(name);
        replace_file(&path, text.as_bytes()).map_err(|error| WriteError { path, error })?;
    }
    Ok(entries.len())
}

/// The display name of an agent. If several agents have the same name, the name of its directory or file is added.
fn display_name(entry: &IndexEntry, entries: &[IndexEntry]) -> String {
    let name = html::name(&entry.report);
    let same = entries.iter().filter(|e| html::name(&e.report) == name);
    match same.count() {
        0 | 1 => name,
        _ => format!("{name} ({})", entry.name),
    }
}

/// Columns: suite and section, in an order that is consistent with every report.
fn columns(entries: &[IndexEntry]) -> Vec<order::SectionKey> {
    let lists = entries.iter();
    let lists: Vec<_> = lists
        .map(|e| order::sections_of(&e.report.results))
        .collect();
    let mut all = order::interleave(&lists);
    // Keep the sections of a suite together.
    let suites: Vec<String> = {
        let names = all.iter().map(|(suite, _)| vec![suite.clone()]);
        order::interleave(&names.collect::<Vec<_>>())
    };
    let rank = |suite: &str| suites.iter().position(|s| s == suite);
    all.sort_by_key(|(suite, _)| rank(suite));
    all
}

/// The results of one section: how many of the checked rows hold, and the worst verdict.
struct Cell {
    text: String,
    worst: Verdict,
    counts: String,
}

fn cell(report: &Report, column: &order::SectionKey) -> Option<Cell> {
    let in_column = |r: &&crate::model::CaseResult| r.suite == column.0 && r.section == column.1;
    let rows: Vec<_> = report.results.iter().filter(in_column).collect();
    let worst = rows.iter().map(|r| r.verdict);
    let worst = worst.min_by_key(|v| words::severity_rank(*v))?;
    let of = |verdict| rows.iter().filter(|r| r.verdict == verdict).count();
    let (pass, decided) = (
        of(Verdict::Pass) + of(Verdict::Warn),
        of(Verdict::Pass) + of(Verdict::Warn) + of(Verdict::Fail) + of(Verdict::Error),
    );
    let counts: Vec<String> = words::tally(rows.iter().copied())
        .into_iter()
        .map(|(verdict, n)| format!("{n} {}", words::verdict_name(verdict)))
        .collect();
    Some(Cell {
        text: match decided {
            0 => words::verdict_name(worst).to_owned(),
            _ => format!("{pass}/{decided}"),
        },
        worst,
        counts: counts.join(", "),
    })
}

fn page(entries: &[IndexEntry]) -> io::Result<String> {
    let mut body = String::new();
    write_body(&mut body, entries).map_err(io::Error::other)?;
    let mut out = Vec::new();
    let page = Page {
        title: "Certification reports",
        style: STYLE,
        script: "",
        body: &body,
    };
    page.write(&mut out)?;
    String::from_utf8(out).map_err(io::Error::other)
}

fn write_body(body: &mut String, entries: &[IndexEntry]) -> std::fmt::Result {
    let columns = columns(entries);
    let certified = entries.iter().filter(|e| e.report.summary.certified);
    write!(
        body,
        "<header class=\"top\"><h1>Certification reports</h1>\n\
         <button id=\"theme\" class=\"theme\" type=\"button\" hidden></button>\n\
         <p>{}, {} certified. A cell shows how many of the checked requirements hold. \
         Its color is that of its worst verdict.</p></header>\n<main>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Agents by section\">\
         <table class=\"matrix\">\n<thead>",
        text::count(entries.len(), "agent", "agents"),
        certified.count()
    )?;
    if several_suites(&columns) {
        body.push_str("<tr><td></td><td></td>");
        for group in columns.chunk_by(|a, b| a.0 == b.0) {
            let suite = group.first().map_or("", |(suite, _)| suite);
            write!(
                body,
                "<th class=\"suite\" scope=\"colgroup\" colspan=\"{}\">{}</th>",
                group.len(),
                safe_html(&clip(suite, MAX_CHARACTERS))
            )?;
        }
        body.push_str("</tr>\n");
    }
    body.push_str("<tr><th scope=\"col\">Agent</th><th scope=\"col\">Verdict</th>");
    for (suite, section) in &columns {
        let title = title(suite, section, false);
        let title = clip(&title, MAX_CHARACTERS);
        write!(
            body,
            "<th scope=\"col\"><span>{}</span></th>",
            safe_html(&title)
        )?;
    }
    body.push_str("</tr></thead>\n<tbody>\n");
    for entry in entries {
        let report = &entry.report;
        let state = badge::badge(report);
        let tone = match (report.summary.certified, report.summary.fail) {
            (true, _) => "pass",
            (false, 0) => "warn",
            (false, _) => "fail",
        };
        write!(
            body,
            "<tr><th scope=\"row\"><a href=\"./{}\">{}</a><small>{}</small></th>\
             <td class=\"{tone}\"><span class=\"pill\">{}</span></td>",
            percent_encode(&entry.link),
            safe_html(&display_name(entry, entries)),
            safe_html(&report.target.name),
            safe_html(&state.message),
        )?;
        for column in &columns {
            match cell(report, column) {
                None => body.push_str("<td class=\"none\">–</td>"),
                Some(cell) => write!(
                    body,
                    "<td class=\"cell {}\" title=\"{}: {}\">{}</td>",
                    class(cell.worst),
                    safe_html(&column.1),
                    cell.counts,
                    cell.text
                )?,
            }
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n<ul class=\"legend key\">");
    for verdict in words::BY_SEVERITY {
        write!(
            body,
            "<li class=\"{}\"><span class=\"pill\">{}</span> {}</li>",
            class(verdict),
            words::verdict_name(verdict),
            words::meaning(verdict)
        )?;
    }
    let newest = entries.iter().map(|e| e.report.started).max().unwrap_or(0);
    write!(
        body,
        "</ul>\n</main>\n<footer><p>The newest run is from {}.</p></footer>",
        words::date(newest)
    )
}

fn several_suites(columns: &[order::SectionKey]) -> bool {
    columns.windows(2).any(|pair| match pair {
        [a, b] => a.0 != b.0,
        _ => false,
    })
}

fn title(suite: &str, section: &str, several: bool) -> String {
    match (several, section.trim()) {
        (_, "") => suite.to_owned(),
        (true, section) => format!("{suite}: {section}"),
        (false, section) => section.to_owned(),
    }
}

fn table(entries: &[IndexEntry]) -> String {
    let columns = columns(entries);
    let several = several_suites(&columns);
    let names: Vec<String> = columns
        .iter()
        .map(|(suite, section)| inline(&title(suite, section, several)))
        .collect();
    let mut lines = vec![
        "# Certification reports".to_owned(),
        String::new(),
        "Each cell: requirements that hold / requirements that were checked. ✗ at least one \
         failure, ? agentproto could not check something, ! at least one warning."
            .to_owned(),
        String::new(),
        format!("| agent | verdict | {} |", names.join(" | ")),
        format!("|---|---|{}", "---|".repeat(columns.len())),
    ];
    for entry in entries {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| match cell(&entry.report, column) {
                None => "–".to_owned(),
                Some(cell) => {
                    let mark = match cell.worst {
                        Verdict::Fail => " ✗",
                        Verdict::Error => " ?",
                        Verdict::Warn => " !",
                        _ => "",
                    };
                    format!("{}{mark}", cell.text)
                }
            })
            .collect();
        lines.push(format!(
            "| [{}](./{}) | {} | {} |",
            inline(&display_name(entry, entries)),
            percent_encode(&entry.link),
            inline(&badge::badge(&entry.report).message),
            cells.join(" | ")
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}
