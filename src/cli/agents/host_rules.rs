//! Rules that depend on this machine: they compare what a manifest requires with what this host
//! offers.

use agentproto_lint::rules::host;
use agentproto_lint::{Level, Rule, Severity, Source};
use agentproto_manifest::Node;
use agentproto_manifest::views::Cli;
use agentproto_runtime::context::Context;
use agentproto_runtime::error::{Code, Error};
use agentproto_runtime::install::{self, InstallAction, InstallOptions, UnmetRequirement};
use agentproto_runtime::{validate, version};
use agentproto_sandbox::policy::{self, ManifestPosition, SandboxManifest};
use agentproto_sandbox::{Enforcement, backend, confined};

/// The result of one rule.
#[derive(Clone, Debug)]
pub struct RuleResult {
    pub slug: &'static str,
    /// What was checked, in plain words. The slug names the problem, which would be misleading in
    /// front of a passed check.
    pub label: &'static str,
    pub source: Source,
    pub level: Level,
    pub severity: Severity,
    /// Whether the rule is satisfied. Also true for a check that was not made.
    pub ok: bool,
    /// Whether the check was made.
    pub checked: bool,
    pub message: String,
    pub position: ManifestPosition,
    /// JSON pointer into the frontmatter.
    pub pointer: String,
}

struct RuleResults<'c> {
    ctx: &'c Context,
    verdicts: Vec<RuleResult>,
}

impl RuleResults<'_> {
    fn add(&mut self, rule: &Rule, node: &Node, ok: bool, message: impl Into<String>) {
        let doc = &self.ctx.bundle.manifest;
        let message = message.into();
        self.verdicts.push(RuleResult {
            slug: rule.slug,
            label: label(rule.slug),
            source: rule.source,
            level: rule.level,
            severity: rule.severity,
            ok,
            checked: true,
            message: self.ctx.masks.mask(&message).into_owned(),
            position: ManifestPosition::new(doc, node.span),
            pointer: doc.pointer_of(node).unwrap_or_default(),
        });
    }

    /// Reports the errors for which `run` refuses the manifest.
    fn manifest(&mut self) {
        let bundle = &self.ctx.bundle;
        let errors = validate::errors(&bundle.manifest, &[]);
        if errors.is_empty() {
            self.add(&host::MANIFEST_INVALID, bundle.root(), true, "no errors");
        }
        for finding in errors {
            self.verdicts.push(RuleResult {
                slug: finding.rule.slug,
                label: label(host::MANIFEST_INVALID.slug),
                source: finding.source,
                level: finding.rule.level,
                severity: finding.severity,
                ok: false,
                checked: true,
                message: finding.message,
                position: ManifestPosition {
                    file: finding.file,
                    line: finding.start.line,
                    column: finding.start.column,
                },
                pointer: finding.pointer,
            });
        }
    }

    fn mark_last_unchecked(&mut self) {
        if let Some(last) = self.verdicts.last_mut() {
            last.checked = false;
        }
    }
}

/// What a rule checks, in plain words.
fn label(slug: &str) -> &'static str {
    match slug {
        "manifest-invalid" => "manifest",
        "host-os-mismatch" => "requirements",
        "host-unsupported-method" | "install-vendored-missing" => "install method",
        "vc-probe-out-of-range" => "version",
        "out-mixed-undeclared" => "output",
        "setup-oauth-unsupported-host" => "OAuth",
        "mcp-arm-unimplemented" => "protocol",
        "auth-env-isolation" => "environment",
        "host-sandbox-unsupported" => "sandbox",
        _ => "check",
    }
}

/// Checks a bundle with every host rule that applies to it. Installs nothing. If the program is
/// installed, it is run to get its version. `isolated` says why a child's environment cannot be
/// isolated here, if so.
pub async fn check(ctx: &Context, isolated: Result<(), String>) -> Result<Vec<RuleResult>, Error> {
    let common = ctx.bundle.common();
    let plan = install::plan(ctx, InstallOptions::default())?;
    let mut results = RuleResults {
        ctx,
        verdicts: Vec::new(),
    };
    results.manifest();
    requirements(&mut results, plan.blocked.as_ref());
    sandbox(&mut results);
    let vendored_missing = host::install_vendored_missing();
    for (entry, step) in common.install().zip(&plan.steps) {
        let rule = match entry.method() {
            Some("vendored") => &vendored_missing,
            _ => &host::HOST_UNSUPPORTED_METHOD,
        };
        match &step.action {
            InstallAction::Skip { why, .. } => {
                let text = format!("`{}` cannot be used here: {why}", step.method);
                results.add(rule, entry.0, false, text);
            }
            _ => results.add(
                rule,
                entry.0,
                true,
                format!("`{}` can be used here", step.method),
            ),
        }
    }
    version_and_streams(&mut results, common, &plan).await?;
    for step in common.setup().filter(|s| s.kind() == Some("oauth")) {
        let text = "the login in the browser is supported, with a callback on this machine";
        results.add(&host::SETUP_OAUTH_UNSUPPORTED_HOST, step.0, true, text);
    }
    if let Some(agent) = ctx.bundle.agent()
        && agent.protocol() == Some("mcp")
        && let Some(node) = agent.0.get("protocol")
    {
        results.add(
            &host::MCP_ARM_UNIMPLEMENTED,
            node,
            true,
            "`mcp` is supported",
        );
    }
    if let Some(auth) = common.auth() {
        let text = match &isolated {
            Ok(()) => "the agent gets only the variables that the manifest declares, and its terminal commands do not get its secrets"
                .to_owned(),
            Err(why) => format!("its environment, which contains secrets, cannot be isolated: {why}"),
        };
        results.add(&host::auth_env_isolation(), auth.0, isolated.is_ok(), text);
    }
    Ok(results.verdicts)
}

/// A29-INSTALL-16.
fn requirements(results: &mut RuleResults<'_>, blocked: Option<&UnmetRequirement>) {
    let root = results.ctx.bundle.root();
    let Some(requires) = root.get("requires") else {
        return;
    };
    let rule = &host::HOST_OS_MISMATCH;
    match blocked {
        Some(missed) => {
            let node = requires.get(missed.key).unwrap_or(requires);
            results.add(rule, node, false, missed.to_string());
        }
        None => results.add(rule, requires, true, "this machine meets `requires`"),
    }
}

/// Reports a provider that is not supported, and clauses that cannot be enforced. `run` would
/// refuse to start the agent.
fn sandbox(results: &mut RuleResults<'_>) {
    let ctx = results.ctx;
    let rule = &host::HOST_SANDBOX_UNSUPPORTED;
    let root = ctx.bundle.root();
    let node = root.get("sandbox").unwrap_or(root);
    let policy = SandboxManifest::load(ctx.bundle.path())
        .and_then(|manifest| policy::resolve(&manifest, &ctx.host_context(&[]), &[]));
    let policy = match policy {
        Ok(policy) => policy,
        Err(error) => {
            let text = error.to_string();
            let position = error.position();
            // The position has its own line.
            let prefix = position.map(|at| format!("{at}: ")).unwrap_or_default();
            let message = text.strip_prefix(prefix.as_str()).unwrap_or(&text);
            results.add(rule, node, false, message);
            if let (Some(at), Some(last)) = (position, results.verdicts.last_mut())
                && at.file != last.position.file
            {
                last.position = at.clone();
                last.pointer = String::new();
            }
            return;
        }
    };
    let assessments = confined::assess_all(&policy, &backend::choose(None));
    let mut enforceable = true;
    for assessment in &assessments {
        if let Enforcement::Unenforceable { why } = &assessment.enforcement {
            enforceable = false;
            let text = format!("`{}` cannot be enforced: {why}", assessment.clause.text);
            results.add(rule, node, false, text);
        }
    }
    if enforceable {
        results.add(rule, node, true, "every clause can be enforced");
    }
}

/// A29-VER-06 and A29-OUT-13, which both need the program.
async fn version_and_streams(
    results: &mut RuleResults<'_>,
    common: Cli<'_>,
    plan: &install::InstallPlan,
) -> Result<(), Error> {
    let Some(check) = common.version_check() else {
        return Ok(());
    };
    let Some(found) = &plan.found else {
        let text = format!("not checked, because `{}` is not installed", plan.bin);
        results.add(&host::VC_PROBE_OUT_OF_RANGE, check.0, true, text);
        results.mark_last_unchecked();
        return Ok(());
    };
    let range = check.0.get("range").unwrap_or(check.0);
    let probe = match version::probe(results.ctx, found).await {
        Ok(probe) => probe,
        // The version is unknown, but the reason is still a finding.
        Err(error) if error.code == Code::StateUnwritable => return Err(error),
        Err(error) => {
            results.add(
                &host::VC_PROBE_OUT_OF_RANGE,
                check.0,
                false,
                format!("the version check cannot be run: {error}"),
            );
            return Ok(());
        }
    };
    match probe.error(results.ctx, found) {
        None => results.add(
            &host::VC_PROBE_OUT_OF_RANGE,
            range,
            true,
            format!("{} is in range", probe.text()),
        ),
        Some(error) => results.add(&host::VC_PROBE_OUT_OF_RANGE, range, false, error.message),
    }
    if results.ctx.bundle.agent().is_none() && probe.on_stderr {
        let stream = common.output().and_then(|o| o.0.get("stream"));
        let declared = stream.and_then(Node::as_str);
        let ok = matches!(declared, Some("stderr" | "mixed"));
        let node = stream
            .or(common.output().map(|o| o.0))
            .unwrap_or(results.ctx.bundle.root());
        let text = match ok {
            true => "output on stderr is declared",
            false => {
                "the version was printed to stderr: set `output.stream` to `stderr` or `mixed`"
            }
        };
        results.add(&host::OUT_MIXED_UNDECLARED, node, ok, text);
    }
    Ok(())
}
