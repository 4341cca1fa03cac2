//! Rules that depend on this machine: they compare what a manifest requires with what this host
//! offers.

use agentproto_lint::rules::host;
use agentproto_lint::{Level, Rule, Severity, Source};
use agentproto_manifest::Node;
use agentproto_manifest::views::Cli;
use agentproto_runtime::context::Context;
use agentproto_runtime::fault::{Code, Fault};
use agentproto_runtime::install::{self, Action, Missed, Options};
use agentproto_runtime::version;
use agentproto_sandbox::policy::Place;

/// The result of one rule.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub slug: &'static str,
    pub source: Source,
    pub level: Level,
    pub severity: Severity,
    /// Whether the rule is satisfied.
    pub ok: bool,
    pub message: String,
    pub place: Place,
    /// JSON pointer into the frontmatter.
    pub pointer: String,
}

struct Bench<'c> {
    ctx: &'c Context,
    verdicts: Vec<Verdict>,
}

impl Bench<'_> {
    fn say(&mut self, rule: &Rule, node: &Node, ok: bool, message: impl Into<String>) {
        let doc = &self.ctx.bundle.manifest;
        let message = message.into();
        self.verdicts.push(Verdict {
            slug: rule.slug,
            source: rule.source,
            level: rule.level,
            severity: rule.severity,
            ok,
            message: self.ctx.masks.mask(&message).into_owned(),
            place: Place::new(doc, node.span),
            pointer: doc.pointer_of(node).unwrap_or_default(),
        });
    }
}

/// Checks a bundle with every host rule that applies to it. Installs nothing. If the program is
/// installed, it is run to get its version. `isolated` says why a child's environment cannot be
/// isolated here, if so.
pub async fn judge(ctx: &Context, isolated: Result<(), String>) -> Result<Vec<Verdict>, Fault> {
    let common = ctx.bundle.common();
    let plan = install::plan(ctx, Options::default())?;
    let mut bench = Bench {
        ctx,
        verdicts: Vec::new(),
    };
    requirements(&mut bench, plan.blocked.as_ref());
    let vendored_missing = host::install_vendored_missing();
    for (entry, step) in common.install().zip(&plan.steps) {
        let rule = match entry.method() {
            Some("vendored") => &vendored_missing,
            _ => &host::HOST_UNSUPPORTED_METHOD,
        };
        match &step.action {
            Action::Skip { why, .. } => {
                bench.say(rule, entry.0, false, format!("{}: {why}", step.method));
            }
            _ => bench.say(
                rule,
                entry.0,
                true,
                format!("{}: can be used here", step.method),
            ),
        }
    }
    version_and_streams(&mut bench, common, &plan).await?;
    for step in common.setup().filter(|s| s.kind() == Some("oauth")) {
        let text = "the OAuth flow is supported, with a callback on this machine";
        bench.say(&host::SETUP_OAUTH_UNSUPPORTED_HOST, step.0, true, text);
    }
    if let Some(agent) = ctx.bundle.agent()
        && agent.protocol() == Some("mcp")
        && let Some(node) = agent.0.get("protocol")
    {
        bench.say(
            &host::MCP_ARM_UNIMPLEMENTED,
            node,
            true,
            "the MCP arm is supported",
        );
    }
    if let Some(auth) = common.auth() {
        let text = match &isolated {
            Ok(()) => "the agent gets its own environment".to_owned(),
            Err(why) => format!("the agent's environment cannot be isolated here: {why}"),
        };
        bench.say(&host::auth_env_isolation(), auth.0, isolated.is_ok(), text);
    }
    Ok(bench.verdicts)
}

/// A29-INSTALL-16.
fn requirements(bench: &mut Bench<'_>, blocked: Option<&Missed>) {
    let root = bench.ctx.bundle.root();
    let Some(requires) = root.get("requires") else {
        return;
    };
    let rule = &host::HOST_OS_MISMATCH;
    match blocked {
        Some(missed) => {
            let node = requires.get(missed.key).unwrap_or(requires);
            bench.say(rule, node, false, missed.to_string());
        }
        None => bench.say(rule, requires, true, "this machine meets the requirements"),
    }
}

/// A29-VER-06 and A29-OUT-13, which both need the program.
async fn version_and_streams(
    bench: &mut Bench<'_>,
    common: Cli<'_>,
    plan: &install::Plan,
) -> Result<(), Fault> {
    let Some(check) = common.version_check() else {
        return Ok(());
    };
    let Some(found) = &plan.found else {
        let text = format!("not checked: `{}` is not installed", plan.bin);
        bench.say(&host::VC_PROBE_OUT_OF_RANGE, check.0, true, text);
        return Ok(());
    };
    let range = check.0.get("range").unwrap_or(check.0);
    let probe = match version::probe(bench.ctx, found).await {
        Ok(probe) => probe,
        // The version is unknown, but the reason is still a finding.
        Err(fault) if fault.code == Code::StateUnwritable => return Err(fault),
        Err(fault) => {
            bench.say(
                &host::VC_PROBE_OUT_OF_RANGE,
                check.0,
                false,
                format!("the version check cannot be run: {fault}"),
            );
            return Ok(());
        }
    };
    match probe.fault(bench.ctx, found) {
        None => bench.say(
            &host::VC_PROBE_OUT_OF_RANGE,
            range,
            true,
            format!("{} is in range", probe.told()),
        ),
        Some(fault) => bench.say(&host::VC_PROBE_OUT_OF_RANGE, range, false, fault.message),
    }
    if bench.ctx.bundle.agent().is_none() && probe.on_stderr {
        let stream = common.output().and_then(|o| o.0.get("stream"));
        let declared = stream.and_then(Node::as_str);
        let ok = matches!(declared, Some("stderr" | "mixed"));
        let node = stream
            .or(common.output().map(|o| o.0))
            .unwrap_or(bench.ctx.bundle.root());
        let text = match ok {
            true => "output on stderr is declared",
            false => {
                "the version was printed to stderr: set `output.stream` to `stderr` or `mixed`"
            }
        };
        bench.say(&host::OUT_MIXED_UNDECLARED, node, ok, text);
    }
    Ok(())
}
