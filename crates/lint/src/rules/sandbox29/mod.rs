//! The AIP-29 sandbox: network, files, child processes, environment.

mod exec;
mod sb29_deny_shadows;
mod sb29_egress_cidr_port_scheme;
mod sb29_egress_wildcard;
mod sb29_env;
mod sb29_exec_allow_required;
mod sb29_fs;
mod sb29_ingress_url;
mod sb29_required_blocks;
mod sb29_ssh_not_denied;
mod values;

use crate::context::RuleContext;
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use agentproto_manifest::Doctype;

use exec::{ALLOW_NO_SPAWN_LIST, SPAWN_PRIVILEGED, SPAWN_WITHOUT_ALLOW, check_exec};
use sb29_deny_shadows::{DENY_SHADOWS, check_shadow};
use sb29_egress_cidr_port_scheme::EGRESS_CIDR_PORT_SCHEME;
pub(super) use sb29_egress_cidr_port_scheme::egress_report;
use sb29_egress_wildcard::{EGRESS_WILDCARD, check_egress};
use sb29_env::{ENV_PASS_AND_SET, ENV_SET_SECRET, check_env};
use sb29_exec_allow_required::EXEC_ALLOW_REQUIRED;
use sb29_fs::{FS_BROAD_WRITE, FS_GLOB_INVALID, check_fs};
use sb29_ingress_url::{INGRESS_URL, check_ingress};
use sb29_required_blocks::REQUIRED_BLOCKS;
use sb29_ssh_not_denied::{SSH_NOT_DENIED, check_ssh};
pub(super) use values::{egress_error, has_secret_name, wildcard_covers};

pub static FAMILY: Family = Family {
    name: "sandbox29",
    rules: &[
        &REQUIRED_BLOCKS,
        &EXEC_ALLOW_REQUIRED,
        &SPAWN_WITHOUT_ALLOW,
        &ALLOW_NO_SPAWN_LIST,
        &SPAWN_PRIVILEGED,
        &EGRESS_WILDCARD,
        &EGRESS_CIDR_PORT_SCHEME,
        &INGRESS_URL,
        &FS_GLOB_INVALID,
        &FS_BROAD_WRITE,
        &DENY_SHADOWS,
        &ENV_SET_SECRET,
        &ENV_PASS_AND_SET,
        &SSH_NOT_DENIED,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Cli, Doctype::Tool],
        run: check,
    }],
};

const SANDBOX: Source = Source {
    spec: "AIP-29",
    section: "Sandbox",
};

/// Doctypes with an AIP-29 sandbox: the bundle, and a subcommand tool that narrows it.
const BOTH: &[Doctype] = &[Doctype::Cli, Doctype::Tool];

fn check(ctx: &RuleContext<'_>) {
    let Some(sandbox) = ctx.root.get("sandbox") else {
        return;
    };
    if let Some(egress) = sandbox.at(&["network", "egress"]) {
        check_egress(ctx, egress);
    }
    if let Some(ingress) = sandbox.at(&["network", "ingress"]) {
        check_ingress(ctx, ingress);
    }
    if let Some(fs) = sandbox.get("fs") {
        check_fs(ctx, fs);
    }
    if let Some(exec) = sandbox.get("exec") {
        check_exec(ctx, exec);
    }
    if let Some(env) = sandbox.get("env") {
        check_env(ctx, env);
    }
}
