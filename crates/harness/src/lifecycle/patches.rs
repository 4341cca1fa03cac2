//! Probes for modes and options. What they add, according to the manifest, must be in the command
//! line and the environment of the agent's process. The expected values are computed independently
//! of the runtime, so that the runtime is also checked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::look::Seen;
use super::stand::Stand;
use crate::run::case::Blocked;
use agentproto_manifest::views::AgentOption;
use agentproto_manifest::{Node, to_json};
use agentproto_runtime::arm::Spec;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{Given, Wanted};

/// A value for options that take any text. Nothing is started with it.
const ANY_TEXT: &str = "some-text";

/// The arguments and variables that a choice adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patch {
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Patch {
    fn is_empty(&self) -> bool {
        self.args.is_empty() && self.env.is_empty()
    }
}

/// Command line and environment of a process, or of a prepared launch.
struct Shown {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    line: u64,
}

impl Shown {
    fn has_words(&self, words: &[String]) -> bool {
        words.is_empty() || self.argv.windows(words.len()).any(|w| w == words)
    }

    /// The first variable that does not have the expected value.
    fn lacks_variable(&self, env: &[(String, String)]) -> Option<String> {
        env.iter().find_map(|(name, value)| {
            let found = self.env.iter().rev().find(|(n, _)| n == name);
            match found {
                Some((_, found)) if found == value => None,
                Some(_) => Some(format!("`{name}` does not have the value `{value}`")),
                None => Some(format!("the environment variable `{name}` is not set")),
            }
        })
    }

    /// Whether the process has overwritten its command line with a title.
    fn is_retitled(&self) -> bool {
        let words: Vec<&String> = self.argv.iter().filter(|w| !w.is_empty()).collect();
        matches!(words.as_slice(), [] | [_]) && !words.first().is_some_and(|w| w.contains('/'))
    }
}

/// Violations by requirement. A requirement that was checked without a violation is met.
#[derive(Default)]
struct Findings(BTreeMap<&'static str, (Option<String>, Vec<u64>)>);

impl Findings {
    fn look(&mut self, id: &'static str, against: Option<String>, line: u64) {
        let known = self.0.entry(id).or_default();
        match (&known.0, against) {
            (None, Some(against)) => *known = (Some(against), vec![line]),
            (None, None) => known.1.push(line),
            (Some(_), _) => {}
        }
    }

    fn tell(self, stand: &mut Stand<'_>, all: &[&str], nothing: &str) {
        for id in all {
            match self.0.get(id) {
                Some((against, lines)) => stand.verdict(id, against.clone(), lines),
                None => stand.open(id, Blocked::NotApplicable(nothing.to_owned())),
            }
        }
    }
}

/// The arguments before those that choices add. `None` for an agent with an adapter, which has its
/// own command line.
fn base(bundle: &Bundle) -> Option<Vec<String>> {
    let agent = bundle.agent()?;
    let own = |key: &str| bundle.root().at(&["metadata", "agentproto", key]);
    let words: Vec<&str> = match bundle.text("protocol").ok()? {
        "mcp" => agent.mcp()?.args().collect(),
        "proprietary" if own("adapter_exec").is_some() || own("codec").is_none() => return None,
        _ => agent.bin_args().collect(),
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn variables(env: Option<&Node>, value: Option<&str>) -> Vec<(String, String)> {
    let entries = env.map_or(&[][..], Node::entries);
    let pairs = entries.iter().map(|entry| {
        let text = text(&to_json(&entry.value));
        let text = value.map_or(text.clone(), |value| text.replace("{value}", value));
        (entry.key.to_string(), text)
    });
    pairs.collect()
}

async fn show(stand: &mut Stand<'_>, wanted: Wanted) -> Result<Shown, Blocked> {
    let agent = stand.load(wanted).map_err(|fault| stand.refused(&fault))?;
    let (session, seen) = stand.seen(&agent).await?;
    stand.close(&session).await;
    let Some(Seen { argv, env, pid, .. }) = seen else {
        let why = "the agent's process was not found while it ran";
        return Err(Blocked::NotVerified(why.to_owned()));
    };
    let masks = &agent.context.masks;
    let words: Vec<String> = argv.iter().map(|w| masks.mask(w).into_owned()).collect();
    let names: Vec<&String> = env.iter().map(|(name, _)| name).collect();
    let line = stand.note(&json!({"process": pid, "argv": words, "variables": names}));
    Ok(Shown { argv, env, line })
}

/// What the runtime would start.
async fn prepared(stand: &mut Stand<'_>, wanted: Wanted) -> Result<Shown, Blocked> {
    let agent = stand.load(wanted).map_err(|fault| stand.refused(&fault))?;
    let Spec { argv, env } = agent.spec().await.map_err(|fault| stand.refused(&fault))?;
    let text = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
    let argv: Vec<String> = argv.iter().map(text).collect();
    let words: Vec<String> = argv
        .iter()
        .map(|w| agent.context.masks.mask(w).into_owned())
        .collect();
    let line = stand.note(&json!({"prepared": words}));
    let env = env
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    Ok(Shown { argv, env, line })
}

pub async fn modes(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let bundle = stand.subject.target.bundle.clone();
    let modes: Vec<(String, Patch)> = bundle
        .agent()
        .into_iter()
        .flat_map(|agent| agent.modes())
        .filter_map(|mode| {
            let patch = Patch {
                args: mode.bin_args_append().map(str::to_owned).collect(),
                env: variables(mode.env(), None),
            };
            Some((mode.id()?.to_owned(), patch))
        })
        .collect();
    if modes.is_empty() {
        let why = "the manifest declares no modes";
        return Err(Blocked::NotApplicable(why.to_owned()));
    }
    let base = base(&bundle);
    let mut findings = Findings::default();
    let mut plain = stand.wanted();
    plain.mode = None;
    let bare = show(stand, plain).await?;
    unpatched(&mut findings, &bare, base.as_deref(), &modes);
    for (id, patch) in &modes {
        let mut wanted = stand.wanted();
        wanted.mode = Some(id.clone());
        let shown = show(stand, wanted).await?;
        mode(stand, &mut findings, &shown, base.as_deref(), (id, patch));
    }
    let nothing = "no mode adds an argument or a variable";
    findings.tell(
        stand,
        &["A45-MODE-03", "A45-MODE-04", "A45-MODE-05"],
        nothing,
    );
    Ok(())
}

/// Without a mode, the command line must contain `bin_args` and no arguments of any mode.
fn unpatched(
    findings: &mut Findings,
    bare: &Shown,
    base: Option<&[String]>,
    modes: &[(String, Patch)],
) {
    let Some(base) = base.filter(|_| !bare.is_retitled()) else {
        return;
    };
    let stray = modes.iter().find(|(_, patch)| {
        let whole: Vec<String> = base.iter().chain(&patch.args).cloned().collect();
        !patch.args.is_empty() && bare.has_words(&whole)
    });
    let against = if !bare.has_words(base) {
        let words = base.join(" ");
        Some(format!(
            "without a mode, the command line does not contain the `bin_args` {words}"
        ))
    } else {
        stray.map(|(id, _)| format!("without a mode, the command line is that of the mode `{id}`"))
    };
    findings.look("A45-MODE-05", against, bare.line);
}

fn mode(
    stand: &mut Stand<'_>,
    findings: &mut Findings,
    shown: &Shown,
    base: Option<&[String]>,
    (id, patch): (&str, &Patch),
) {
    if patch.is_empty() {
        // `default` names the normal behavior. Another empty mode should be a mode of the agent.
        let idle = stand.warnings(&["choice_without_effect"]);
        if let Some((message, line)) = idle.last().filter(|_| id != "default") {
            stand.doubtful("A45-MODE-03", message.clone(), &[*line]);
        }
        return;
    }
    if let Some(lacks) = shown.lacks_variable(&patch.env) {
        findings.look(
            "A45-MODE-03",
            Some(format!("in mode `{id}`, {lacks}")),
            shown.line,
        );
        return;
    }
    let Some(base) = base.filter(|_| !shown.is_retitled()) else {
        if !patch.env.is_empty() {
            findings.look("A45-MODE-03", None, shown.line);
        }
        return;
    };
    let words = patch.args.join(" ");
    let missing = !shown.has_words(&patch.args);
    let against =
        missing.then(|| format!("in mode `{id}`, the command line does not contain `{words}`"));
    findings.look("A45-MODE-03", against, shown.line);
    if missing || patch.args.is_empty() {
        return;
    }
    let whole: Vec<String> = base.iter().chain(&patch.args).cloned().collect();
    let against = (!shown.has_words(&whole))
        .then(|| format!("in mode `{id}`, `{words}` does not follow `bin_args`"));
    findings.look("A45-MODE-04", against, shown.line);
}

/// An option with a value that is not its default.
struct Tried {
    id: String,
    value: Value,
    template: Vec<String>,
    when_true: Vec<String>,
    env: Vec<(String, String)>,
    /// Whether it takes any text, so that a value the agent accepts is not known.
    is_free: bool,
}

impl Tried {
    fn new(option: AgentOption<'_>, wanted: &Wanted) -> Option<Tried> {
        let id = option.id()?.to_owned();
        let asked = wanted.options.iter().rev().find(|(known, _)| *known == id);
        let (value, is_free) = match (asked, other_value(option)) {
            (_, Some(value)) => (value, false),
            (Some((_, Given::Text(text))), None) => (json!(text), false),
            (Some((_, Given::Typed(value))), None) => (value.clone(), false),
            (None, None) if option.kind().unwrap_or("string") == "string" => {
                (json!(ANY_TEXT), true)
            }
            (None, None) => return None,
        };
        let said = text(&value);
        let fill = |word: &str| word.replace("{value}", &said);
        let template = option.bin_args_template().map(fill).collect();
        let when_true = match value == json!(true) {
            true => option
                .bin_args_append_when_true()
                .map(str::to_owned)
                .collect(),
            false => Vec::new(),
        };
        let env = variables(option.env(), Some(&said));
        Some(Tried {
            id,
            value,
            template,
            when_true,
            env,
            is_free,
        })
    }

    fn words(&self) -> Vec<String> {
        self.template
            .iter()
            .chain(&self.when_true)
            .cloned()
            .collect()
    }
}

/// A value other than the default, for options that restrict their values.
fn other_value(option: AgentOption<'_>) -> Option<Value> {
    let default = option.default().map(to_json);
    match option.kind()? {
        "boolean" => Some(json!(default != Some(json!(true)))),
        "enum" => {
            let mut values = option.values().map(|value| json!(value));
            values.find(|value| default.as_ref() != Some(value))
        }
        "integer" => {
            let low = option.min().or(option.max()).unwrap_or(1);
            let high = option.max().unwrap_or(low.saturating_add(1));
            [low, high]
                .into_iter()
                .map(|n| json!(n))
                .find(|n| default.as_ref() != Some(n))
        }
        _ => None,
    }
}

pub async fn options(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let bundle = stand.subject.target.bundle.clone();
    let wanted = stand.wanted();
    let of_manifest = || bundle.agent().into_iter().flat_map(|agent| agent.options());
    let tried: Vec<Tried> = of_manifest()
        .filter_map(|o| Tried::new(o, &wanted))
        .collect();
    if tried.is_empty() {
        let why = "the manifest declares no options";
        return Err(Blocked::NotApplicable(why.to_owned()));
    }
    let has_argv = base(&bundle).is_some();
    let mut findings = Findings::default();
    let mut plain = stand.wanted();
    plain.options.clear();
    // If the agent does not start without options, nothing can be said about them.
    show(stand, plain.clone()).await?;
    let bare = prepared(stand, plain.clone()).await?;
    // Options that are set to their default must add nothing.
    let defaults: Vec<(String, Given)> = of_manifest()
        .filter_map(|o| Some((o.id()?.to_owned(), Given::Typed(to_json(o.default()?)))))
        .collect();
    if !defaults.is_empty() {
        let mut at_default = plain.clone();
        at_default.options = defaults;
        let shown = prepared(stand, at_default).await?;
        let same = shown.argv == bare.argv;
        let against =
            (!same).then(|| "options at their default change the command line".to_owned());
        findings.look("A45-OPT-04", against, shown.line);
    }
    for option in &tried {
        let mut with = plain.clone();
        with.options = vec![(option.id.clone(), Given::Typed(option.value.clone()))];
        let shown = match option.is_free {
            true => prepared(stand, with).await?,
            false => match show(stand, with).await {
                Ok(shown) => shown,
                // The agent starts without the option, so the option causes the failure.
                Err(Blocked::NotVerified(why)) => {
                    let what = format!(
                        "with `{}` set to {}, the agent does not start: {why}",
                        option.id, option.value
                    );
                    findings.look(main_of(option), Some(what), bare.line);
                    continue;
                }
                Err(blocked) => return Err(blocked),
            },
        };
        one_option(&mut findings, option, &shown, has_argv);
    }
    let all = ["A45-OPT-04", "A45-OPT-05", "A45-OPT-07", "A45-OPT-08"];
    findings.tell(stand, &all, "no option of the manifest does this");
    Ok(())
}

/// The main requirement for an option.
fn main_of(option: &Tried) -> &'static str {
    match (option.template.is_empty(), option.when_true.is_empty()) {
        (false, _) => "A45-OPT-04",
        (true, false) => "A45-OPT-07",
        (true, true) => "A45-OPT-08",
    }
}

fn one_option(findings: &mut Findings, option: &Tried, shown: &Shown, has_argv: bool) {
    let of = |what: String| format!("with `{}` set to {}, {what}", option.id, option.value);
    let argv_shows = has_argv && !shown.is_retitled();
    let literal = |text: &String| text.contains("{value}");
    if argv_shows && !option.template.is_empty() {
        let left = shown.argv.iter().any(literal);
        let missing = !shown.has_words(&option.template);
        let words = option.template.join(" ");
        let against =
            (missing && !left).then(|| of(format!("the command line does not contain `{words}`")));
        findings.look("A45-OPT-04", against, shown.line);
        let against = left.then(|| of("the command line still contains `{value}`".to_owned()));
        findings.look("A45-OPT-05", against, shown.line);
    }
    if argv_shows && !option.when_true.is_empty() {
        let words = option.words().join(" ");
        let missing = !shown.has_words(&option.when_true);
        let against = missing.then(|| of(format!("the command line does not contain `{words}`")));
        findings.look("A45-OPT-07", against, shown.line);
    }
    if !option.env.is_empty() {
        let against = shown.lacks_variable(&option.env).map(of);
        findings.look("A45-OPT-08", against, shown.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(argv: &[&str]) -> Shown {
        Shown {
            argv: argv.iter().map(|w| (*w).to_owned()).collect(),
            env: vec![("A".to_owned(), "1".to_owned())],
            line: 1,
        }
    }

    #[test]
    fn arguments_must_be_consecutive() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let shown = shown(&["/x", "acp", "--model", "large"]);
        assert!(shown.has_words(&words("--model large")) && shown.has_words(&[]));
        assert!(!shown.has_words(&words("acp large")));
        assert_eq!(shown.lacks_variable(&[("A".into(), "1".into())]), None);
        assert!(shown.lacks_variable(&[("A".into(), "2".into())]).is_some());
        assert!(shown.lacks_variable(&[("B".into(), "1".into())]).is_some());
    }

    #[test]
    fn a_process_title_is_recognized() {
        assert!(shown(&["agent", ""]).is_retitled() && shown(&[]).is_retitled());
        assert!(!shown(&["/bin/agent"]).is_retitled());
        assert!(!shown(&["agent", "acp"]).is_retitled());
    }
}
