//! Checks that the linter agrees with the published schemas on the manifests in the specs.
//!
//! `cargo run --example spec_agreement -- PATH_TO_SPECS [KEEP_DIR]`
//!
//! PATH_TO_SPECS is the `specs` directory of a checkout of the AIPs. Each manifest in the specs,
//! and each part of one, is checked twice: by the published JSON Schema, and by
//! `lint --profile spec` together with the files that it names. Differences must be listed in
//! `explained`, with the contradiction in the specs. Then every value of each manifest is changed
//! in ten ways, and the linter must reject what the schema rejects. The exit code is 1 on any
//! other difference. The files are kept in KEEP_DIR.

mod explained;
mod extract;
mod mutants;
mod published;
mod stubs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agentproto_lint::{Finding, LintOptions, Profile, RuleSet, Severity, lint_files};
use agentproto_manifest::Disk;
use explained::{EXPLAINED, Explained, Side};
use extract::{Extracted, Printed, extract};
use published::{Complaint, Published};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(specs) = args.next().map(PathBuf::from) else {
        eprintln!("usage: spec_agreement PATH_TO_SPECS [KEEP_DIR]");
        return ExitCode::from(64);
    };
    match run(&specs, args.next().map(PathBuf::from)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(66)
        }
    }
}

fn run(specs: &Path, keep: Option<PathBuf>) -> Result<bool, String> {
    let published = Published::load(specs)?;
    let extracted = extract(specs, &published);
    if extracted.printed.is_empty() {
        return Err(format!("no manifests found in {}", specs.display()));
    }
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = keep.unwrap_or_else(|| scratch.path().to_owned());
    let mut rows = Vec::new();
    for (i, printed) in extracted.printed.iter().enumerate() {
        let dir = dir.join(format!("{i:02}"));
        rows.push(judge(&dir, printed, &extracted, &published)?);
    }
    let agreed = report(&extracted, &rows);
    let (tried, survivors) = mutants::survivors(&dir, &extracted, &published)?;
    for survivor in &survivors {
        println!("accepted, but the schema rejects it: {survivor}");
    }
    println!("{tried} changes tried, {} unexplained", survivors.len());
    Ok(agreed && survivors.is_empty())
}

/// Both results for one manifest in the specs.
struct Row {
    schema: Vec<Complaint>,
    ours: Vec<Finding>,
    differences: Vec<Difference>,
}

struct Difference {
    text: String,
    explained: Option<usize>,
}

fn judge(
    dir: &Path,
    printed: &Printed,
    extracted: &Extracted,
    published: &Published,
) -> Result<Row, String> {
    let lay = stubs::lay_out(dir, printed, &extracted.printed);
    let mut files = lay.map_err(|e| format!("{}: {e}", dir.display()))?;
    let subject = files.first().cloned().unwrap_or_default();
    files.sort();
    let rules = RuleSet::profile_defaults(Profile::Spec);
    let mut ours = lint_files(&files, &LintOptions::new(&rules, &Disk, dir)).findings;
    ours.retain(|f| f.severity == Severity::Error && f.file == subject);
    let schema = match published::frontmatter(&printed.text) {
        Ok(json) => published.judge(printed.doctype, &json),
        Err(text) => vec![Complaint {
            pointer: String::new(),
            missing: false,
            text,
        }],
    };
    let mut differences = Vec::new();
    for complaint in &schema {
        if !ours.iter().any(|f| covers(f, complaint)) {
            let reason = |e: &Explained| {
                e.side == Side::SchemaOnly
                    && e.doctype == printed.doctype
                    && e.what == complaint.pointer
            };
            differences.push(Difference {
                text: format!("only the schema: {} {}", complaint.pointer, complaint.text),
                explained: EXPLAINED.iter().position(reason),
            });
        }
    }
    for finding in &ours {
        if !schema.iter().any(|c| covers(finding, c)) {
            let reason = |e: &Explained| {
                e.side == Side::OursOnly
                    && e.doctype == printed.doctype
                    && e.what == finding.rule.slug
            };
            let slug = finding.rule.slug;
            differences.push(Difference {
                text: format!(
                    "only ours: {slug} at {} {}",
                    finding.pointer, finding.message
                ),
                explained: EXPLAINED.iter().position(reason),
            });
        }
    }
    Ok(Row {
        schema,
        ours,
        differences,
    })
}

/// Whether a finding and a schema error are about the same place. A schema reports a whole
/// `oneOf`, but the linter points inside it. Both may point at the parent of a missing field.
fn covers(finding: &Finding, complaint: &Complaint) -> bool {
    let ours = finding.pointer.as_str();
    let parent = complaint.pointer.rsplit_once('/').map_or("", |(p, _)| p);
    ours == complaint.pointer
        || ours.starts_with(&format!("{}/", complaint.pointer))
        || (complaint.missing && ours == parent)
}

fn report(extracted: &Extracted, rows: &[Row]) -> bool {
    println!(
        "{:<24} {:<13} {:>6} {:>5}  verdict",
        "printed in", "as", "schema", "ours"
    );
    let mut used = BTreeSet::new();
    let mut unexplained = 0;
    for (printed, row) in extracted.printed.iter().zip(rows) {
        let reasons: BTreeSet<usize> = row.differences.iter().filter_map(|d| d.explained).collect();
        let open: Vec<&Difference> = row
            .differences
            .iter()
            .filter(|d| d.explained.is_none())
            .collect();
        let verdict = match (open.is_empty(), reasons.is_empty()) {
            (false, _) => "DIFFERS".to_owned(),
            (true, true) => "agree".to_owned(),
            (true, false) => {
                let names: BTreeSet<&str> = reasons.iter().map(|i| EXPLAINED[*i].why.0).collect();
                let names: Vec<&str> = names.into_iter().collect();
                format!("explained by {}", names.join(", "))
            }
        };
        println!(
            "{:<24} {:<13} {:>6} {:>5}  {verdict}",
            printed.origin,
            format!(
                "{}{}",
                printed.doctype.file_name(),
                if printed.part { "*" } else { "" }
            ),
            row.schema.len(),
            row.ours.len(),
        );
        for difference in &open {
            println!("    {}", difference.text);
        }
        unexplained += open.len();
        used.extend(reasons);
    }
    println!("\n* a part, completed with other fields. Numbers are errors.\n");
    for (i, reason) in EXPLAINED.iter().enumerate() {
        let state = if used.contains(&i) {
            ""
        } else {
            " (no example)"
        };
        let (name, text) = reason.why;
        println!(
            "{name}: {} in {}: {text}{state}",
            reason.what,
            reason.doctype.file_name()
        );
    }
    println!();
    for skipped in &extracted.skipped {
        println!("skipped: {}: {}", skipped.origin, skipped.why);
    }
    let (valid, invalid): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|r| r.schema.is_empty());
    println!(
        "\n{} printed, {} valid and {} invalid by the published schemas, {unexplained} unexplained \
         differences",
        rows.len(),
        valid.len(),
        invalid.len()
    );
    unexplained == 0
}
