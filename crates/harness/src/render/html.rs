//! The report as a single HTML page. Every row is in the markup, so the page also works without
//! scripts. The script only filters and expands rows.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::json;

use super::page::{Page, class, stamp};
use super::words::{self, RunState, Section, escape_html, safe_html};
use super::{RenderOptions, badge, prompting};
use crate::model::{CaseResult, Evidence, Level, Report, Verdict};
use agentproto_report::sarif::percent_encode;
use agentproto_text as text;

const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");

/// Writes the report as one HTML page without external files.
pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let sections = words::sections(report);
    let ids = Ids::of(&sections);
    let mut body = String::new();
    write_body(&mut body, report, options, &sections, &ids).map_err(io::Error::other)?;
    let state = badge::badge(report);
    let title = format!("{}: {} {}", name(report), state.label, state.message);
    let page = Page {
        title: &title,
        style: STYLE,
        script: SCRIPT,
        body: &body,
    };
    page.write(out)
}

fn write_body(
    body: &mut String,
    report: &Report,
    options: &RenderOptions,
    sections: &[Section<'_>],
    ids: &Ids,
) -> std::fmt::Result {
    body.push_str("<a class=\"skip\" href=\"#results\">Skip to the results</a>\n");
    header(body, report)?;
    body.push_str("<main>\n");
    to_fix(body, sections, ids)?;
    fixed(body, options)?;
    overview(body, report, sections)?;
    without_verdict(body, report, options)?;
    body.push_str("<h2 id=\"results\">All results</h2>\n");
    tools(body, report, sections)?;
    body.push_str(
        "<p class=\"muted\">One row per requirement and case: a requirement that several cases \
         check has several rows.</p>\n\
         <p id=\"empty\" class=\"muted\" hidden>No rows match this filter. Press <kbd>Esc</kbd> in \
         the search field, or Clear, to show all rows.</p>\n",
    );
    for (i, section) in sections.iter().enumerate() {
        rows(body, report, section, i, ids)?;
    }
    body.push_str("</main>\n");
    footer(body, report)
}

/// Escapes text and marks up what is between backticks as code.
fn prose(text: &str) -> String {
    if !text.matches('`').count().is_multiple_of(2) {
        return safe_html(text);
    }
    let mut out = String::new();
    for (at, part) in safe_html(text).split('`').enumerate() {
        let is_code = at % 2 == 1;
        if at > 0 {
            out.push_str(if is_code { "<code>" } else { "</code>" });
        }
        out.push_str(part);
    }
    out
}

/// A short name for the certified agent.
pub(super) fn name(report: &Report) -> String {
    let field = |key: &str| report.target.info.get(key).and_then(|v| v.as_str());
    let parts = [field("title").or(field("name")), field("version")];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    match (parts.is_empty(), report.target.name.trim()) {
        (false, _) => parts.join(" "),
        (true, "") => "Unnamed agent".to_owned(),
        (true, name) => name.to_owned(),
    }
}

fn header(body: &mut String, report: &Report) -> std::fmt::Result {
    let state = RunState::of(report);
    let good = matches!(state, RunState::Certified | RunState::Passed);
    let why = match words::state_details(report) {
        details if details.is_empty() => String::new(),
        details => format!("<span>{}</span>", prose(&details)),
    };
    write!(
        body,
        "<header class=\"top\">\n<h1>{}</h1>\n\
         <button id=\"theme\" class=\"theme\" type=\"button\" hidden></button>\n\
         <p class=\"stamp {}\">{}<b>{}</b>{why}</p>\n<dl class=\"facts\">",
        safe_html(&name(report)),
        if good { "pass" } else { "fail" },
        stamp(good),
        state.name(),
    )?;
    let suites: Vec<String> = report.suites.iter().map(|s| s.title.clone()).collect();
    let protocol = match &report.target.protocol_version {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let facts = [
        ("Target", report.target.name.clone()),
        ("Protocol", protocol),
        ("Suites", suites.join(", ")),
        ("Profile", words::profile(report).unwrap_or_default()),
        ("acp-tck", words::kit(report).unwrap_or_default()),
        ("Shard", report.shard.clone().unwrap_or_default()),
        ("Run", words::date(report.started)),
        ("Duration", words::format_duration(report.timing.wall_ms)),
    ];
    for (key, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        write!(
            body,
            "<div><dt>{key}</dt><dd>{}</dd></div>",
            safe_html(value)
        )?;
    }
    body.push_str("</dl>\n");
    let counts = words::counts(&report.summary);
    body.push_str("<div class=\"bar\" aria-hidden=\"true\">");
    for (verdict, n) in &counts {
        write!(
            body,
            "<i class=\"{}\" style=\"--n:{n}\"></i>",
            class(*verdict)
        )?;
    }
    body.push_str("</div>\n<ul class=\"legend\">");
    for (verdict, n) in &counts {
        write!(
            body,
            "<li class=\"{}\" title=\"{}\"><b>{n}</b> {}</li>",
            class(*verdict),
            words::meaning(*verdict),
            words::verdict_name(*verdict)
        )?;
    }
    body.push_str("</ul>\n");
    agent_info(body, report)?;
    body.push_str("</header>\n");
    Ok(())
}

/// Agent info: the command, and what the agent reported about itself. Collapsed by default.
fn agent_info(body: &mut String, report: &Report) -> std::fmt::Result {
    let target = &report.target;
    let info = json!({
        "command": target.command,
        "info": target.info,
        "capabilities": target.capabilities,
    });
    let info = text::pretty(&info).unwrap_or_default();
    writeln!(
        body,
        "<details class=\"agent-info\"><summary>Agent info</summary>\
         <pre>{}</pre></details>",
        escape_html(&info)
    )
}

/// Failures and warnings in short form, each with a link to its row.
fn to_fix(body: &mut String, sections: &[Section<'_>], ids: &Ids) -> std::fmt::Result {
    let all = || sections.iter().flat_map(|s| s.rows.iter().copied());
    let bad = all().filter(|r| words::needs_attention(r.verdict));
    let mut bad: Vec<&CaseResult> = bad.collect();
    bad.sort_by_key(|r| (words::severity_rank(r.verdict), r.known));
    if bad.is_empty() {
        return Ok(());
    }
    body.push_str("<h2>What to fix</h2>\n<ul class=\"to-fix\">\n");
    for row in bad {
        let known = if row.known { " (known)" } else { "" };
        let hint = match (&row.hint, row.verdict) {
            (Some(hint), _) => prose(hint),
            (None, Verdict::Error) => safe_html(words::ERROR_HINT),
            (None, _) => String::new(),
        };
        let hint = match hint.is_empty() {
            true => hint,
            false => format!("<p class=\"do\"><b>Fix</b> {hint}</p>"),
        };
        writeln!(
            body,
            "<li><span><span class=\"pill {}\">{}</span></span>\
             <a class=\"id\" href=\"#{}\">{}</a><span>{}{known}</span><p>{}</p>{hint}</li>",
            class(row.verdict),
            words::verdict_name(row.verdict),
            ids.get(row),
            safe_html(&row.requirement),
            prose(&row.statement),
            prose(&row.message),
        )?;
    }
    body.push_str("</ul>\n");
    Ok(())
}

fn fixed(body: &mut String, options: &RenderOptions) -> std::fmt::Result {
    if options.fixed.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = options.fixed.iter().map(|f| f.id.as_str()).collect();
    writeln!(
        body,
        "<p class=\"pass\"><span class=\"pill\">fixed since the baseline</span> {}</p>",
        safe_html(&ids.join(", "))
    )
}

fn overview(body: &mut String, report: &Report, sections: &[Section<'_>]) -> std::fmt::Result {
    let verdicts = words::counts(&report.summary).into_iter();
    let verdicts: Vec<Verdict> = verdicts.map(|(verdict, _)| verdict).collect();
    body.push_str(
        "<h2>Overview</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Verdicts by section\"><table>\n<thead><tr><th scope=\"col\">Section</th>",
    );
    for verdict in &verdicts {
        write!(
            body,
            "<th scope=\"col\">{}</th>",
            words::verdict_name(*verdict)
        )?;
    }
    body.push_str("</tr></thead>\n<tbody>\n");
    for (i, section) in sections.iter().enumerate() {
        write!(
            body,
            "<tr><th scope=\"row\"><a href=\"#section-{i}\">{}</a></th>",
            safe_html(&title(report, section))
        )?;
        for verdict in &verdicts {
            let rows = section.rows.iter();
            match rows.filter(|r| r.verdict == *verdict).count() {
                0 => body.push_str("<td class=\"none\">0</td>"),
                n => write!(body, "<td class=\"{}\">{n}</td>", class(*verdict))?,
            }
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody></table></div>\n");
    Ok(())
}

fn title(report: &Report, section: &Section<'_>) -> String {
    match report.suites.len() > 1 {
        true => format!("{}: {}", section.suite, section.title()),
        false => section.title().to_owned(),
    }
}

/// Why some rows were not checked, and what would change that.
fn without_verdict(
    body: &mut String,
    report: &Report,
    options: &RenderOptions,
) -> std::fmt::Result {
    for verdict in [Verdict::Skip, Verdict::NotVerified, Verdict::NotApplicable] {
        let reasons = words::reasons(report, verdict);
        let prompting = prompting::of(report).filter(|_| verdict == Verdict::Skip);
        if reasons.is_empty() && prompting.is_none() {
            continue;
        }
        let total = words::total(report, verdict);
        write!(
            body,
            "<details class=\"agent-info\"><summary>{total} {}: {}</summary><ul class=\"reasons\">",
            words::verdict_name(verdict),
            words::meaning(verdict)
        )?;
        for reason in &reasons {
            write!(
                body,
                "<li>{} <span class=\"muted\">{}</span></li>",
                prose(reason.message),
                safe_html(&words::ids(&reason.rows).join(", "))
            )?;
        }
        body.push_str("</ul>");
        if let Some(advice) = words::advice(report, verdict) {
            write!(body, "<p>{}</p>", safe_html(advice))?;
        }
        if let Some(prompting) = prompting {
            write!(
                body,
                "<p>{} {}</p><div class=\"paste\"><span class=\"act\"></span><pre>{}</pre></div><p>{}</p>",
                safe_html(&prompting.headline()),
                prose(&prompting.before(options.prompts.as_deref())),
                escape_html(&text::escape_lines(&prompting.yaml)),
                safe_html(prompting::ALTERNATIVE)
            )?;
        }
        body.push_str("</details>\n");
    }
    Ok(())
}

/// The filters. They are hidden until the script runs.
fn tools(body: &mut String, report: &Report, sections: &[Section<'_>]) -> std::fmt::Result {
    body.push_str(
        "<div class=\"tools\" id=\"tools\" role=\"search\" aria-label=\"Filter the results\" hidden>\n\
         <fieldset><legend>Verdicts</legend>",
    );
    for (verdict, n) in words::counts(&report.summary) {
        write!(
            body,
            "<label class=\"chip {}\"><input type=\"checkbox\" name=\"verdict\" \
             value=\"{}\" checked><span>{} {n}</span></label>",
            class(verdict),
            verdict.as_str(),
            words::verdict_name(verdict)
        )?;
    }
    body.push_str(
        "</fieldset>\n<select id=\"level\" aria-label=\"Level\"><option value=\"\">All \
         levels</option>",
    );
    for level in [Level::Must, Level::Should, Level::May, Level::Info] {
        if report.results.iter().any(|r| r.level == level) {
            write!(body, "<option>{}</option>", level.as_str())?;
        }
    }
    body.push_str(
        "</select>\n<select id=\"section\" aria-label=\"Section\"><option value=\"\">All \
         sections</option>",
    );
    for (i, section) in sections.iter().enumerate() {
        let title = safe_html(&title(report, section));
        write!(body, "<option value=\"{i}\">{title}</option>")?;
    }
    body.push_str(
        "</select>\n<input type=\"search\" id=\"search\" placeholder=\"Search (press /)\" \
         aria-label=\"Search in all rows\" autocomplete=\"off\" spellcheck=\"false\">\n\
         <button type=\"button\" id=\"clear\">Clear</button>\n\
         <button type=\"button\" id=\"fold\" aria-pressed=\"false\">Expand all</button>\n\
         <output id=\"shown\" aria-live=\"polite\"></output>\n</div>\n",
    );
    Ok(())
}

fn rows(
    body: &mut String,
    report: &Report,
    section: &Section<'_>,
    at: usize,
    ids: &Ids,
) -> std::fmt::Result {
    writeln!(
        body,
        "<section class=\"section\" id=\"section-{at}\"><h3>{} <small>{}</small></h3>\n\
         <div class=\"rows\">",
        safe_html(&title(report, section)),
        text::count(section.rows.len(), "row", "rows")
    )?;
    for row in &section.rows {
        self::row(body, row, at, ids)?;
    }
    body.push_str("</div></section>\n");
    Ok(())
}

fn row(body: &mut String, row: &CaseResult, section: usize, ids: &Ids) -> std::fmt::Result {
    let id = ids.get(row);
    let known = match row.known {
        true => " <span class=\"known\">known</span>",
        false => "",
    };
    write!(
        body,
        "<details class=\"row {}\" id=\"{id}\" data-verdict=\"{}\" data-level=\"{}\" \
         data-section=\"{section}\"><summary><span><span class=\"pill\">{}</span></span>\
         <span class=\"id\">{}</span><span class=\"level\">{}</span>\
         <span class=\"what\">{}{known}</span><span class=\"case\">{}</span></summary>\n\
         <div class=\"body\"><dl>",
        class(row.verdict),
        row.verdict.as_str(),
        row.level.as_str(),
        words::verdict_name(row.verdict),
        safe_html(&row.requirement),
        row.level.as_str(),
        prose(&row.statement),
        safe_html(&row.case),
    )?;
    // Monitors run in all cases and have no duration of their own.
    let took = match row.duration_ms > 0.0 {
        true => words::format_duration(row.duration_ms),
        false => String::new(),
    };
    let source = words::source(row);
    let profile = match row.strict_verdict {
        Some(_) => "It fails only in the profile `strict`.",
        None => "",
    };
    let facts = [
        ("Observed", " class=\"seen\"", row.message.as_str()),
        ("Fix", "", row.hint.as_deref().unwrap_or("")),
        ("Source", "", source.as_str()),
        ("Profile", "", profile),
        ("Duration", "", took.as_str()),
    ];
    for (key, class, value) in facts.iter().filter(|(.., value)| !value.is_empty()) {
        write!(body, "<dt>{key}</dt><dd{class}>{}</dd>", prose(value))?;
    }
    body.push_str("</dl>");
    if !row.evidence.is_empty() {
        body.push_str("<ol class=\"wire\">");
        for evidence in &row.evidence {
            wire(body, evidence)?;
        }
        body.push_str("</ol>");
    }
    write!(
        body,
        "<p class=\"links\"><a href=\"#{id}\">Link to this row</a>"
    )?;
    if let Some(file) = &row.transcript {
        // Always a path below the report: never a URL scheme, never an absolute path.
        let address = percent_encode(file.trim_start_matches('/'));
        write!(body, "<a href=\"./{address}\">Transcript</a>")?;
    }
    body.push_str("</p></div></details>\n");
    Ok(())
}

fn wire(body: &mut String, evidence: &Evidence) -> std::fmt::Result {
    let (class, arrow, direction) = match evidence.direction.as_str() {
        "to-agent" => ("to-agent", "→", "to the agent"),
        "from-agent" => ("from-agent", "←", "from the agent"),
        "stderr" => ("stderr", "!", "stderr"),
        _ => ("process", "·", "process"),
    };
    write!(
        body,
        "<li class=\"{class}\"><div class=\"head\"><b>{arrow} {direction}</b>\
         <span>line {}</span><span>{}</span>",
        evidence.line,
        words::format_duration(evidence.at_ms),
    )?;
    if let Some(pointer) = &evidence.pointer {
        write!(body, "<span class=\"at\">at {}</span>", safe_html(pointer))?;
    }
    body.push_str("<span class=\"act\"></span></div><pre>");
    // Escape as JSON, so that the script can still parse the line.
    let put = |body: &mut String, text: &str| body.push_str(&escape_html(&text::escape_json(text)));
    match marked(evidence) {
        Some([before, here, after]) => {
            put(body, before);
            body.push_str("<mark>");
            put(body, here);
            body.push_str("</mark>");
            put(body, after);
        }
        None => put(body, &evidence.text),
    }
    body.push_str("</pre></li>");
    Ok(())
}

/// The text before the mark, inside it, and after it. `None` if the mark is out of range, which a
/// saved report may contain.
fn marked(evidence: &Evidence) -> Option<[&str; 3]> {
    let (from, to) = evidence.mark.filter(|(from, to)| from < to)?;
    let text = evidence.text.as_str();
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let start = places.nth(from)?;
    let end = places.nth(to - from - 1)?;
    Some([text.get(..start)?, text.get(start..end)?, text.get(end..)?])
}

fn footer(body: &mut String, report: &Report) -> std::fmt::Result {
    write!(
        body,
        "<footer><p>{}</p><p>Written by {} {}. Only a violated MUST requirement is a failure. The \
         verdicts n/a, skip and not verified do not count as passes.</p></footer>",
        safe_html(&words::timing(report)),
        safe_html(&report.tool.name),
        safe_html(&report.tool.version)
    )
}

/// Anchors of rows: the requirement id for its worst row, and requirement and case for the others.
struct Ids {
    by_row: HashMap<*const CaseResult, String>,
}

impl Ids {
    fn of(sections: &[Section<'_>]) -> Self {
        let all = || sections.iter().flat_map(|s| s.rows.iter().copied());
        let mut rows: Vec<&CaseResult> = all().collect();
        rows.sort_by_key(|r| words::severity_rank(r.verdict));
        let mut taken: HashSet<String> = HashSet::new();
        let mut times: HashMap<String, usize> = HashMap::new();
        let mut by_row = HashMap::new();
        for row in rows {
            let mut id = anchor(&row.requirement);
            if taken.contains(&id) {
                id = format!("{id}.{}", anchor(&row.case));
            }
            let stem = id.clone();
            while taken.contains(&id) {
                let n = times.entry(stem.clone()).or_insert(1);
                *n += 1;
                id = format!("{stem}.{n}");
            }
            taken.insert(id.clone());
            by_row.insert(std::ptr::from_ref(row), id);
        }
        Ids { by_row }
    }

    fn get(&self, row: &CaseResult) -> &str {
        let id = self.by_row.get(&std::ptr::from_ref(row));
        id.map_or("", String::as_str)
    }
}

/// An HTML id for a row. The prefix `row-` avoids collisions with the ids of the page itself.
fn anchor(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let id: String = text
        .chars()
        .take(80)
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    let ours = [
        "results", "tools", "level", "section", "search", "clear", "fold", "shown", "empty",
        "theme",
    ];
    match id.as_str() {
        "" => "row".to_owned(),
        id if ours.contains(&id) || id.starts_with("section-") => format!("row-{id}"),
        _ => id,
    }
}
