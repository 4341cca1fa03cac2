//! Checks the TOOL.md of a CLI bundle against its CLI.md.

use super::{ARGS, ORPHAN_TOOL, SUBCOMMANDS, TOOL, argv, is_plain_word, widen};
use crate::context::{FindingDraft, RuleContext};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::rule::{FixKind, Level, Rule, Scope, Severity};
use agentproto_manifest::{
    Doctype, Document, Node, RefRole, Span, Style, Value, normalize, same_path,
};
use std::path::Path;
use std::sync::Arc;

pub static BACKREF: Rule = Rule {
    slug: "tool-backref",
    title: "`runner.cli` names a CLI.md that does not list the tool",
    severity: Severity::Warning,
    level: Level::May,
    source: ARGS,
    decides: &["A29-CMD-05"],
    doctypes: TOOL,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    docs: include_str!("tool-backref.md"),
    ..Rule::BASE
};

pub static ARGV_PREFIX: Rule = Rule {
    slug: "tool-argv-prefix",
    title: "`runner.argv` does not start with the subcommand",
    level: Level::Derived,
    source: SUBCOMMANDS,
    decides: &["A29-CMD-02", "A29-CMD-04"],
    doctypes: TOOL,
    scope: Scope::CrossFile,
    fix: FixKind::Safe,
    docs: include_str!("tool-argv-prefix.md"),
    ..Rule::BASE
};

/// Maximum number of levels from the directory of a TOOL.md up to that of its CLI.md.
/// `tools/<name>/TOOL.md` is two levels down, and a category adds one.
const LEVELS: usize = 3;

pub fn check(ctx: &RuleContext<'_>) {
    if let Some(inputs) = ctx.root.get("inputs") {
        argv::check_required(ctx, inputs);
    }
    let runner = ctx.root.get("runner");
    let sandbox = ctx.root.get("sandbox");
    // A tool without these two fields is a plain AIP-14 contract, so these checks do not apply.
    if runner.is_none() && sandbox.is_none() {
        return;
    }
    let argv = runner
        .and_then(|r| r.get("argv"))
        .filter(|argv| argv.is_seq());
    if let Some(argv) = argv {
        argv::check(ctx, argv);
    }
    let path = normalize(&ctx.doc.path);
    let bound = ctx.bound(RefRole::Cli);
    if let Some((_, cli)) = bound
        && let Some(paths) = paths_to(cli, &path)
    {
        check_in_bundle(ctx, cli, argv, &paths);
        return;
    }
    let above = bundle_above(ctx, &path);
    if let Some((reference, cli)) = bound
        && !(above.is_none() && is_orphan_of(ctx, cli, &path))
    {
        let mut report = FindingDraft::new(
            &BACKREF,
            reference.site.node,
            "the CLI.md named here does not list this tool",
        );
        report = match &above {
            Some((other, _)) => report
                .help("set `runner.cli` to the CLI.md that lists it")
                .related(
                    other,
                    key_span(other, "commands"),
                    "this CLI.md lists the tool",
                ),
            None => report
                .help("add the tool to the `commands` of that CLI.md")
                .related(
                    cli,
                    key_span(cli, "commands"),
                    "not among these subcommands",
                ),
        };
        ctx.report(report);
    }
    match (above, bound) {
        (Some((cli, paths)), _) => check_in_bundle(ctx, &cli, argv, &paths),
        (None, Some((_, cli))) => widen::check(ctx, cli),
        // `fm-unknown-field` reports these fields in a tool that belongs to no bundle.
        (None, None) => {}
    }
}

/// Whether `cmd-orphan-tool` reports the same mistake at the CLI.md, where it must be fixed.
fn is_orphan_of(ctx: &RuleContext<'_>, cli: &Document, tool: &Path) -> bool {
    let two_up = tool.parent().map(|dir| dir.join(".."));
    ctx.on(&ORPHAN_TOOL)
        && two_up.is_some_and(|dir| same_path(&dir, &cli.dir().join("tools")))
        && ctx.is_linted(&cli.path)
}

fn check_in_bundle<'d>(
    ctx: &RuleContext<'d>,
    cli: &Arc<Document>,
    argv: Option<&'d Node>,
    paths: &[CommandPath],
) {
    widen::check(ctx, cli);
    if let Some(argv) = argv {
        check_prefix(ctx, cli, argv, paths);
    }
}

/// One occurrence of a tool in a command tree.
pub struct CommandPath {
    words: Vec<String>,
    span: Span,
}

/// The CLI.md in a parent directory that lists the tool.
fn bundle_above(ctx: &RuleContext<'_>, tool: &Path) -> Option<(Arc<Document>, Vec<CommandPath>)> {
    let mut dir = tool.parent()?.to_owned();
    for _ in 0..=LEVELS {
        let path = normalize(&dir.join("CLI.md"));
        if !ctx.workspace.contains(&path) {
            return None;
        }
        if let Ok(cli) = ctx.workspace.load(&path)
            && let Some(paths) = paths_to(&cli, tool)
        {
            return Some((cli, paths));
        }
        dir.push("..");
    }
    None
}

/// The places where the `commands` of a CLI.md list a tool. `None` if there are none.
fn paths_to(cli: &Document, tool: &Path) -> Option<Vec<CommandPath>> {
    if cli.doctype != Some(Doctype::Cli) {
        return None;
    }
    let commands = cli.root.as_ref()?.get("commands")?;
    let mut found = Vec::new();
    collect(commands, cli.dir(), tool, &mut Vec::new(), &mut found);
    (!found.is_empty()).then_some(found)
}

fn collect<'a>(
    tree: &'a Node,
    dir: &Path,
    tool: &Path,
    words: &mut Vec<&'a str>,
    found: &mut Vec<CommandPath>,
) {
    for entry in tree.entries() {
        words.push(&entry.key);
        match &entry.value.value {
            Value::Map(_) => collect(&entry.value, dir, tool, words, found),
            Value::Str(text) if refers_to(text, dir, tool) => found.push(CommandPath {
                words: words.iter().map(|w| (*w).to_owned()).collect(),
                span: entry.value.span,
            }),
            _ => {}
        }
        words.pop();
    }
}

fn refers_to(reference: &str, dir: &Path, tool: &Path) -> bool {
    // For most leaves the last two components decide, without building a path.
    let is_name = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    let (folder, file) = last_two(reference.as_bytes());
    let (own_folder, own_file) = last_two(tool.as_os_str().as_encoded_bytes());
    let other_folder = is_name(folder) && is_name(own_folder) && folder != own_folder;
    if is_name(file) && (file != own_file || other_folder) {
        return false;
    }
    same_path(&dir.join(reference), tool)
}

fn last_two(path: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = path.rsplit(|b| *b == b'/');
    let file = parts.next().unwrap_or(b"");
    (parts.next().unwrap_or(b""), file)
}

pub fn key_span(doc: &Document, key: &str) -> Span {
    let entry = doc.root.as_ref().and_then(|root| root.entry(key));
    entry.map_or_else(
        || doc.frontmatter.map_or(Span::default(), |f| f.open),
        |e| e.key_span,
    )
}

fn check_prefix<'d>(
    ctx: &RuleContext<'d>,
    cli: &Arc<Document>,
    argv: &'d Node,
    paths: &[CommandPath],
) {
    let items = argv.items();
    let fits = |found: &CommandPath| {
        found.words.len() <= items.len()
            && found
                .words
                .iter()
                .zip(items)
                .all(|(word, item)| item.as_str() == Some(word))
    };
    if paths.iter().any(fits) || starts_with_options(items, paths) {
        return;
    }
    let Some(found) = paths.first() else {
        return;
    };
    let shown = found.words.join(" ");
    let report = FindingDraft::new(
        &ARGV_PREFIX,
        argv,
        format!("`runner.argv` does not start with `{shown}`, the subcommand of this tool"),
    )
    .related(cli, found.span, "the subcommand is defined here")
    .help(format!("start the list with {}", quoted(&found.words)))
    .fix_if(
        Safety::Safe,
        format!("Insert the subcommand `{shown}`"),
        prefix_edits(ctx.doc, argv, &found.words),
    );
    ctx.report(report);
}

/// Whether options precede the subcommand (`git --no-pager log`), or the program has no subcommands
/// and the one word in `commands` only names the tool (`rg --files`).
fn starts_with_options(items: &[Node], paths: &[CommandPath]) -> bool {
    let texts: Vec<&str> = items.iter().map_while(Node::as_str).collect();
    let has_words = |found: &CommandPath| {
        let mut windows = texts.windows(found.words.len().max(1));
        found.words.len() == 1 || windows.any(|w| w.iter().eq(&found.words))
    };
    texts.first().is_some_and(|text| text.starts_with('-')) && paths.iter().any(has_words)
}

fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
    words.join(", ")
}

/// Inserts the missing words of the subcommand, if it is clear which ones are missing: the list
/// starts with a later part of the subcommand, with an earlier part of it, or with no plain word.
fn prefix_edits(doc: &Document, argv: &Node, words: &[String]) -> Option<Vec<Edit>> {
    let items = argv.items();
    let Some(first) = items.first() else {
        let list: Vec<String> = words.iter().map(|w| edits::string(w)).collect();
        return edits::set_raw(doc, argv, &format!("[{}]", list.join(", ")));
    };
    let leading: Vec<&str> = items
        .iter()
        .map_while(|item| item.as_str().filter(|word| is_plain_word(word)))
        .collect();
    if leading.is_empty() {
        return insert_before(doc, argv, first, words);
    }
    let begins_with = |part: &[String]| {
        part.len() <= leading.len() && part.iter().zip(&leading).all(|(a, b)| a == b)
    };
    if let Some(cut) = (1..words.len()).find(|cut| words.get(*cut..).is_some_and(begins_with)) {
        return insert_before(doc, argv, first, words.get(..cut)?);
    }
    let cut = leading.len();
    if cut < words.len() && words.get(..cut).is_some_and(begins_with) {
        return match items.get(cut) {
            Some(next) => insert_before(doc, argv, next, words.get(cut..)?),
            None => insert_after(doc, argv, items.last()?, words.get(cut..)?),
        };
    }
    None
}

fn insert_before(doc: &Document, list: &Node, item: &Node, words: &[String]) -> Option<Vec<Edit>> {
    let separator = separator(doc, list, item)?;
    let text: String = words
        .iter()
        .map(|w| format!("{}{separator}", edits::string(w)))
        .collect();
    Some(vec![Edit {
        span: Span::empty(item.span.start as usize),
        text,
    }])
}

fn insert_after(doc: &Document, list: &Node, item: &Node, words: &[String]) -> Option<Vec<Edit>> {
    let separator = separator(doc, list, item)?;
    let text: String = words
        .iter()
        .map(|w| format!("{separator}{}", edits::string(w)))
        .collect();
    Some(vec![Edit {
        span: Span::empty(item.span.end as usize),
        text,
    }])
}

/// The separator between two items: a comma, or a new line with the same indent and dash.
fn separator(doc: &Document, list: &Node, item: &Node) -> Option<String> {
    if list.style == Style::Flow {
        return Some(", ".to_owned());
    }
    let before = doc.text.get(..item.span.start as usize)?;
    let line = before.rsplit('\n').next().unwrap_or(before);
    let is_dash = line.trim() == "-";
    is_dash.then(|| format!("\n{line}"))
}

#[cfg(test)]
mod tests {
    use crate::{Finding, LintOptions, Profile, RuleSet, lint_files};
    use agentproto_manifest::{Disk, Overlay};

    fn tool(runner: &str) -> String {
        format!("---\nname: T\nid: tt\ninputs:\n  type: object\noutputs: {{}}\n{runner}---\n")
    }

    fn cli(commands: &str, egress: &str) -> String {
        format!(
            "---\nbin: b\nsandbox:\n  network:\n    egress: [{egress}]\ncommands:\n{commands}---\n"
        )
    }

    fn findings(files: &[(&str, String)], rule: &str) -> Vec<Finding> {
        let mut texts = Overlay::new(&Disk);
        for (path, text) in files {
            let path = std::path::Path::new("no-such-place").join(path);
            texts.texts.insert(path, Some(text.clone()));
        }
        let mut rules = RuleSet::profile_defaults(Profile::Default);
        rules.select(&[rule.to_owned()]).expect("a rule");
        let options = LintOptions::new(&rules, &texts, "no-such-place");
        let paths: Vec<_> = texts.texts.keys().cloned().collect();
        lint_files(&paths, &options).findings
    }

    #[test]
    fn the_bundle_that_lists_a_tool_is_its_parent() {
        let files = [
            ("CLI.md", cli("  x: ./tools/x/TOOL.md\n", "a.example")),
            ("other/CLI.md", cli("  y: ./y/TOOL.md\n", "b.example")),
            (
                "tools/x/TOOL.md",
                tool(
                    "runner:\n  cli: ../../other/CLI.md\nsandbox:\n  network:\n    egress: [b.example]\n",
                ),
            ),
        ];
        let found = findings(&files, "tool-backref");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pointer, "/runner/cli");
        assert!(found[0].related[0].file.ends_with("no-such-place/CLI.md"));
        // The sandbox is compared with the bundle that lists the tool, not the one that it names.
        let found = findings(&files, "tool-sandbox-widens");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pointer, "/sandbox/network/egress/0");
        assert!(found[0].related[0].file.ends_with("no-such-place/CLI.md"));
    }

    #[test]
    fn a_tool_may_be_listed_twice() {
        let files = [
            (
                "CLI.md",
                cli("  x: ./tools/x/TOOL.md\n  z:\n    x: tools/x/TOOL.md\n", ""),
            ),
            (
                "tools/x/TOOL.md",
                tool("runner:\n  cli: ../../CLI.md\n  argv: [z, x]\n"),
            ),
        ];
        assert!(findings(&files, "tool-argv-prefix").is_empty());
    }

    #[test]
    fn missing_subcommand_words_are_inserted_in_order() {
        let lists = [
            ("argv: [down, --a]", "argv: [up, down, --a]"),
            ("argv: [up]", "argv: [up, down]"),
            (
                "argv: [up, \"${input.a}\"]",
                "argv: [up, down, \"${input.a}\"]",
            ),
            ("argv:\n  - --a", "argv:\n  - up\n  - down\n  - --a"),
            ("argv:\n  - up # first", "argv:\n  - up\n  - down # first"),
            ("argv: []", "argv: [up, down]"),
        ];
        for (before, after) in lists {
            let text = tool(&format!("runner:\n  {}\n", before.replace('\n', "\n  ")));
            let files = [
                ("CLI.md", cli("  up:\n    down: ./TOOL.md\n", "")),
                ("TOOL.md", text.clone()),
            ];
            let found = findings(&files, "tool-argv-prefix");
            let fix = found.first().and_then(|f| f.fix.as_ref()).expect(before);
            let fixed = crate::edits::apply_edits(&text, &fix.edits).expect(before);
            assert_eq!(
                fixed,
                text.replace(&before.replace('\n', "\n  "), &after.replace('\n', "\n  "))
            );
        }
    }
}
