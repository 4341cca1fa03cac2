//! Probes for modes and options. What they add, according to the manifest, must be in the command
//! line and the environment of the agent's process. The expected values are computed independently
//! of the runtime, so that the runtime is also checked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::context::ProbeContext;
use super::process_info::ProcessInfo;
use crate::run::case::NoVerdict;
use agentproto_manifest::views::AgentOption;
use agentproto_manifest::{Node, to_json};
use agentproto_runtime::arm::LaunchSpec;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::choices::{Choices, OptionValue};

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
struct Launch {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    line: u64,
}

impl Launch {
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
struct Violations(BTreeMap<&'static str, (Option<String>, Vec<u64>)>);

impl Violations {
    fn check(&mut self, id: &'static str, against: Option<String>, line: u64) {
        let known = self.0.entry(id).or_default();
        match (&known.0, against) {
            (None, Some(against)) => *known = (Some(against), vec![line]),
            (None, None) => known.1.push(line),
            (Some(_), _) => {}
        }
    }

    fn report(self, probe: &mut ProbeContext<'_>, all: &[&str], nothing: &str) {
        for id in all {
            match self.0.get(id) {
                Some((against, lines)) => probe.verdict(id, against.clone(), lines),
                None => probe.undecided(id, NoVerdict::NotApplicable(nothing.to_owned())),
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

async fn launched(probe: &mut ProbeContext<'_>, choices: Choices) -> Result<Launch, NoVerdict> {
    let agent = probe
        .load(choices)
        .map_err(|error| probe.no_verdict_for(&error))?;
    let (session, seen) = probe.start_inspected(&agent).await?;
    probe.close(&session).await;
    let Some(ProcessInfo { argv, env, pid, .. }) = seen else {
        let why = "the agent's process was not found while it ran";
        return Err(NoVerdict::NotVerified(why.to_owned()));
    };
    let masks = &agent.context.masks;
    let words: Vec<String> = argv.iter().map(|w| masks.mask(w).into_owned()).collect();
    let names: Vec<&String> = env.iter().map(|(name, _)| name).collect();
    let line = probe.note(&json!({"process": pid, "argv": words, "variables": names}));
    Ok(Launch { argv, env, line })
}

/// What the runtime would start.
async fn planned(probe: &mut ProbeContext<'_>, choices: Choices) -> Result<Launch, NoVerdict> {
    let agent = probe
        .load(choices)
        .map_err(|error| probe.no_verdict_for(&error))?;
    let LaunchSpec { argv, env } = agent
        .spec()
        .await
        .map_err(|error| probe.no_verdict_for(&error))?;
    let text = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
    let argv: Vec<String> = argv.iter().map(text).collect();
    let words: Vec<String> = argv
        .iter()
        .map(|w| agent.context.masks.mask(w).into_owned())
        .collect();
    let line = probe.note(&json!({"prepared": words}));
    let env = env
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    Ok(Launch { argv, env, line })
}

pub async fn modes(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let bundle = probe.subject.target.bundle.clone();
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
        return Err(NoVerdict::NotApplicable(why.to_owned()));
    }
    let base = base(&bundle);
    let mut findings = Violations::default();
    let mut plain = probe.choices();
    plain.mode = None;
    let bare = launched(probe, plain).await?;
    unpatched(&mut findings, &bare, base.as_deref(), &modes);
    for (id, patch) in &modes {
        let mut choices = probe.choices();
        choices.mode = Some(id.clone());
        let launch = launched(probe, choices).await?;
        mode(probe, &mut findings, &launch, base.as_deref(), (id, patch));
    }
    let nothing = "no mode adds an argument or a variable";
    findings.report(
        probe,
        &["A45-MODE-03", "A45-MODE-04", "A45-MODE-05"],
        nothing,
    );
    Ok(())
}

/// Without a mode, the command line must contain `bin_args` and no arguments of any mode.
fn unpatched(
    findings: &mut Violations,
    bare: &Launch,
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
    findings.check("A45-MODE-05", against, bare.line);
}

fn mode(
    probe: &mut ProbeContext<'_>,
    findings: &mut Violations,
    launch: &Launch,
    base: Option<&[String]>,
    (id, patch): (&str, &Patch),
) {
    if patch.is_empty() {
        // `default` names the normal behavior. Another empty mode should be a mode of the agent.
        let idle = probe.warnings(&["choice_without_effect"]);
        if let Some((message, line)) = idle.last().filter(|_| id != "default") {
            probe.suspicion("A45-MODE-03", message.clone(), &[*line]);
        }
        return;
    }
    if let Some(lacks) = launch.lacks_variable(&patch.env) {
        findings.check(
            "A45-MODE-03",
            Some(format!("in mode `{id}`, {lacks}")),
            launch.line,
        );
        return;
    }
    let Some(base) = base.filter(|_| !launch.is_retitled()) else {
        if !patch.env.is_empty() {
            findings.check("A45-MODE-03", None, launch.line);
        }
        return;
    };
    let words = patch.args.join(" ");
    let missing = !launch.has_words(&patch.args);
    let against =
        missing.then(|| format!("in mode `{id}`, the command line does not contain `{words}`"));
    findings.check("A45-MODE-03", against, launch.line);
    if missing || patch.args.is_empty() {
        return;
    }
    let whole: Vec<String> = base.iter().chain(&patch.args).cloned().collect();
    let against = (!launch.has_words(&whole))
        .then(|| format!("in mode `{id}`, `{words}` does not follow `bin_args`"));
    findings.check("A45-MODE-04", against, launch.line);
}

/// An option with a value that is not its default.
struct OptionTrial {
    id: String,
    value: Value,
    template: Vec<String>,
    when_true: Vec<String>,
    env: Vec<(String, String)>,
    /// Whether it takes any text, so that a value the agent accepts is not known.
    is_free: bool,
}

impl OptionTrial {
    fn new(option: AgentOption<'_>, choices: &Choices) -> Option<OptionTrial> {
        let id = option.id()?.to_owned();
        let asked = choices.options.iter().rev().find(|(known, _)| *known == id);
        let (value, is_free) = match (asked, other_value(option)) {
            (_, Some(value)) => (value, false),
            (Some((_, OptionValue::Text(text))), None) => (json!(text), false),
            (Some((_, OptionValue::Typed(value))), None) => (value.clone(), false),
            (None, None) if option.kind().unwrap_or("string") == "string" => {
                (json!(ANY_TEXT), true)
            }
            (None, None) => return None,
        };
        let value_text = text(&value);
        let fill = |word: &str| word.replace("{value}", &value_text);
        let template = option.bin_args_template().map(fill).collect();
        let when_true = match value == json!(true) {
            true => option
                .bin_args_append_when_true()
                .map(str::to_owned)
                .collect(),
            false => Vec::new(),
        };
        let env = variables(option.env(), Some(&value_text));
        Some(OptionTrial {
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

pub async fn options(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let bundle = probe.subject.target.bundle.clone();
    let choices = probe.choices();
    let of_manifest = || bundle.agent().into_iter().flat_map(|agent| agent.options());
    let tried: Vec<OptionTrial> = of_manifest()
        .filter_map(|o| OptionTrial::new(o, &choices))
        .collect();
    if tried.is_empty() {
        let why = "the manifest declares no options";
        return Err(NoVerdict::NotApplicable(why.to_owned()));
    }
    let has_argv = base(&bundle).is_some();
    let mut findings = Violations::default();
    let mut plain = probe.choices();
    plain.options.clear();
    // If the agent does not start without options, nothing can be said about them.
    launched(probe, plain.clone()).await?;
    let bare = planned(probe, plain.clone()).await?;
    // Options that are set to their default must add nothing.
    let defaults: Vec<(String, OptionValue)> = of_manifest()
        .filter_map(|o| {
            Some((
                o.id()?.to_owned(),
                OptionValue::Typed(to_json(o.default()?)),
            ))
        })
        .collect();
    if !defaults.is_empty() {
        let mut at_default = plain.clone();
        at_default.options = defaults;
        let launch = planned(probe, at_default).await?;
        let same = launch.argv == bare.argv;
        let against =
            (!same).then(|| "options at their default change the command line".to_owned());
        findings.check("A45-OPT-04", against, launch.line);
    }
    for option in &tried {
        let mut with = plain.clone();
        with.options = vec![(option.id.clone(), OptionValue::Typed(option.value.clone()))];
        let launch = match option.is_free {
            true => planned(probe, with).await?,
            false => match launched(probe, with).await {
                Ok(launch) => launch,
                // The agent starts without the option, so the option causes the failure.
                Err(NoVerdict::NotVerified(why)) => {
                    let what = format!(
                        "with `{}` set to {}, the agent does not start: {why}",
                        option.id, option.value
                    );
                    findings.check(main_of(option), Some(what), bare.line);
                    continue;
                }
                Err(no_verdict) => return Err(no_verdict),
            },
        };
        one_option(&mut findings, option, &launch, has_argv);
    }
    let all = ["A45-OPT-04", "A45-OPT-05", "A45-OPT-07", "A45-OPT-08"];
    findings.report(probe, &all, "no option of the manifest does this");
    Ok(())
}

/// The main requirement for an option.
fn main_of(option: &OptionTrial) -> &'static str {
    match (option.template.is_empty(), option.when_true.is_empty()) {
        (false, _) => "A45-OPT-04",
        (true, false) => "A45-OPT-07",
        (true, true) => "A45-OPT-08",
    }
}

fn one_option(findings: &mut Violations, option: &OptionTrial, launch: &Launch, has_argv: bool) {
    let of = |what: String| format!("with `{}` set to {}, {what}", option.id, option.value);
    let argv_shows = has_argv && !launch.is_retitled();
    let literal = |text: &String| text.contains("{value}");
    if argv_shows && !option.template.is_empty() {
        let left = launch.argv.iter().any(literal);
        let missing = !launch.has_words(&option.template);
        let words = option.template.join(" ");
        let against =
            (missing && !left).then(|| of(format!("the command line does not contain `{words}`")));
        findings.check("A45-OPT-04", against, launch.line);
        let against = left.then(|| of("the command line still contains `{value}`".to_owned()));
        findings.check("A45-OPT-05", against, launch.line);
    }
    if argv_shows && !option.when_true.is_empty() {
        let words = option.words().join(" ");
        let missing = !launch.has_words(&option.when_true);
        let against = missing.then(|| of(format!("the command line does not contain `{words}`")));
        findings.check("A45-OPT-07", against, launch.line);
    }
    if !option.env.is_empty() {
        let against = launch.lacks_variable(&option.env).map(of);
        findings.check("A45-OPT-08", against, launch.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(argv: &[&str]) -> Launch {
        Launch {
            argv: argv.iter().map(|w| (*w).to_owned()).collect(),
            env: vec![("A".to_owned(), "1".to_owned())],
            line: 1,
        }
    }

    #[test]
    fn arguments_must_be_consecutive() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let launch = launch(&["/x", "acp", "--model", "large"]);
        assert!(launch.has_words(&words("--model large")) && launch.has_words(&[]));
        assert!(!launch.has_words(&words("acp large")));
        assert_eq!(launch.lacks_variable(&[("A".into(), "1".into())]), None);
        assert!(launch.lacks_variable(&[("A".into(), "2".into())]).is_some());
        assert!(launch.lacks_variable(&[("B".into(), "1".into())]).is_some());
    }

    #[test]
    fn a_process_title_is_recognized() {
        assert!(launch(&["agent", ""]).is_retitled() && launch(&[]).is_retitled());
        assert!(!launch(&["/bin/agent"]).is_retitled());
        assert!(!launch(&["agent", "acp"]).is_retitled());
    }
}
