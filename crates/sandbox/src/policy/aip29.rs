//! The sandbox of AIP-29: what may be reached, read, written, run and passed in the environment.

use std::ffi::OsString;

use super::block::{Block, ClauseValue, Pairs};
use super::draft::Draft;
use super::env::{self, Variables};
use super::error::PolicyError;
use super::host_context::{HostContext, ResourceDefaults};
use super::manifest::SandboxManifest;
use super::paths::Scope;
use super::{
    Access, Exec, LimitKind, Policy, PolicyLimit, SandboxSpec, base, deny, hosts, narrow, protect,
    state,
};
use crate::clause::Clause;
use crate::programs::{Inspector, find};
use agentproto_manifest::globs;

const SPEC: &str = "the sandbox of AIP-29";

type List = Option<Vec<ClauseValue<String>>>;

/// A block as it is written. `None` is a missing key.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    pub egress: List,
    pub ingress: List,
    pub read: List,
    pub write: List,
    pub deny: List,
    pub allow: Option<ClauseValue<bool>>,
    pub spawn: List,
    pub pass: List,
    pub set: Option<Pairs>,
    pub tty: Option<ClauseValue<bool>>,
    pub unknown: Vec<(Clause, String)>,
}

impl Declared {
    pub fn read(block: &Block) -> Result<Declared, PolicyError> {
        let mut out = Declared {
            unknown: block.unknown(&["network", "fs", "exec", "env", "tty"], SPEC),
            ..Declared::default()
        };
        if let Some(network) = block.block("network")? {
            out.unknown
                .extend(network.unknown(&["egress", "ingress"], SPEC));
            out.egress = network.texts("egress")?;
            out.ingress = network.texts("ingress")?;
        }
        if let Some(fs) = block.block("fs")? {
            out.unknown
                .extend(fs.unknown(&["read", "write", "deny"], SPEC));
            out.read = fs.texts("read")?;
            out.write = fs.texts("write")?;
            out.deny = fs.texts("deny")?;
        }
        if let Some(exec) = block.block("exec")? {
            out.unknown.extend(exec.unknown(&["allow", "spawn"], SPEC));
            out.allow = exec.flag("allow")?;
            out.spawn = exec.texts("spawn")?;
        }
        if let Some(env) = block.block("env")? {
            out.unknown.extend(env.unknown(&["pass", "set"], SPEC));
            out.pass = env.texts("pass")?;
            out.set = env.pairs("set")?;
            for (name, declared) in out.set.iter().flatten() {
                env::check_name(name, declared)?;
            }
        }
        if let Some(tty) = block.block("tty")? {
            out.unknown.extend(tty.unknown(&["required"], SPEC));
            out.tty = tty.flag("required")?;
        }
        Ok(out)
    }
}

/// Resolves a manifest with an AIP-29 block.
pub fn resolve(
    manifest: &SandboxManifest,
    context: &HostContext,
    command: &[OsString],
) -> Result<Policy, PolicyError> {
    let block = manifest.block()?;
    let mut declared = Declared::read(&block)?;
    if let Some(tool) = manifest.tool_block()? {
        declared = narrow::apply(declared, Declared::read(&tool)?)?;
    }
    let scope = Scope {
        cwd: &context.cwd,
        home: &context.home,
    };
    let mut draft = Draft::new(SandboxSpec::Aip29);
    draft
        .unenforceable
        .extend(std::mem::take(&mut declared.unknown));
    base::common(&mut draft);
    let exec = programs(&mut draft, &block, &declared, context, command)?;
    for glob in declared.read.iter().flatten() {
        draft.grant(glob, scope, Access::Read)?;
    }
    for glob in declared.write.iter().flatten() {
        draft.grant(glob, scope, Access::Write)?;
    }
    state::grant(&mut draft, manifest, context)?;
    deny::apply(
        &mut draft,
        declared.deny.as_deref().unwrap_or_default(),
        scope,
    )?;

    let mut env = Variables::basic(context);
    let passed = declared.pass.unwrap_or_default();
    let fixed = declared.set.unwrap_or_default();
    env.pass(context, &passed);
    env.set_all(&fixed);
    let names = passed.iter().map(|s| (s.value.as_str(), s));
    for (name, declared) in names.chain(fixed.iter().map(|(n, s)| (n.as_str(), s))) {
        if let Some(note) = env::note(name) {
            draft.notes.push((declared.clause.clone(), note.to_owned()));
        }
    }
    let env_clauses = passed.iter().chain(fixed.iter().map(|(_, s)| s));
    let env_clauses = env_clauses.map(|s| s.clause.clone()).collect();

    let egress = hosts::egress(declared.egress.unwrap_or_default(), &mut draft);
    let ingress = declared.ingress.unwrap_or_default();
    protect::apply(&mut draft, manifest, context);
    let (grants, links) = draft.finish();
    let exec = match exec {
        Exec::Listed { fork, clause, .. } => {
            let mut programs = std::mem::take(&mut draft.programs);
            programs.sort();
            programs.dedup();
            Exec::Listed {
                fork,
                programs,
                clause,
            }
        }
        visible => visible,
    };
    Ok(Policy {
        spec: SandboxSpec::Aip29,
        egress,
        ingress: ingress.into_iter().map(|s| (s.clause, s.value)).collect(),
        grants,
        links,
        create: draft.create.into_iter().collect(),
        denials: draft.denials,
        protected: draft.protected,
        ineffective: draft.ineffective,
        exec,
        env: env.finish(context),
        env_clauses,
        tty: declared.tty.filter(|t| t.value).map(|t| t.clause),
        limits: default_limits(&context.defaults),
        private_size: context.defaults.private_size,
        cwd: super::real_path(&context.cwd),
        home: super::real_path(&context.home),
        unenforceable: draft.unenforceable,
        notes: draft.notes,
    })
}

/// Limits that AIP-29 has no clauses for. Without them, one command could stop the whole machine.
fn default_limits(defaults: &ResourceDefaults) -> Vec<PolicyLimit> {
    let bytes = defaults.memory;
    let limits = [
        (
            format!("default memory limit {} MiB", bytes >> 20),
            LimitKind::Memory { bytes },
            bytes,
        ),
        (
            format!("default process limit {}", defaults.processes),
            LimitKind::Processes(defaults.processes),
            defaults.processes,
        ),
    ];
    let set = limits.into_iter().filter(|(.., value)| *value > 0);
    set.map(|(text, kind, _)| PolicyLimit {
        default: true,
        clause: Clause::new("", text),
        kind,
    })
    .collect()
}

/// The command and what it may start, each with the files it needs.
fn programs(
    draft: &mut Draft,
    block: &Block,
    declared: &Declared,
    context: &HostContext,
    command: &[OsString],
) -> Result<Exec, PolicyError> {
    let lookup = context.lookup();
    let inspector = Inspector::new(&lookup);
    let fork = declared.allow.as_ref().is_some_and(|a| a.value);
    let clause = match &declared.allow {
        Some(allow) => allow.clause.clone(),
        None => Clause::new(
            format!("{}/exec", block.pointer),
            "exec.allow false (default)",
        ),
    };
    if let Some(name) = command.first() {
        let path = find::find(&lookup, name).ok_or_else(|| PolicyError::ProgramNotFound {
            name: name.to_string_lossy().into_owned(),
        })?;
        let program = inspector.inspect(&path)?;
        let notes = program.notes.iter().map(|n| (clause.clone(), n.clone()));
        draft.notes.extend(notes);
        draft.provide_program(&clause, &program);
    }
    for entry in declared.spawn.iter().flatten() {
        if !fork {
            let why = "`exec.allow` is false, so it cannot be started".to_owned();
            draft.ineffective.push((entry.clause.clone(), why));
            continue;
        }
        if globs::has_wildcard(&entry.value) {
            let why = "`exec.spawn` takes program names, not patterns (AIP-29)".to_owned();
            draft.unenforceable.push((entry.clause.clone(), why));
            continue;
        }
        let mut lookup = lookup.clone();
        // A path in a manifest is relative to the manifest.
        lookup.cwd.clone_from(&context.bundle);
        let Some(path) = find::find(&lookup, entry.value.as_ref()) else {
            let why = "the program is not installed on this machine".to_owned();
            draft.ineffective.push((entry.clause.clone(), why));
            continue;
        };
        match inspector.inspect(&path) {
            Ok(program) => {
                let notes = program
                    .notes
                    .iter()
                    .map(|n| (entry.clause.clone(), n.clone()));
                draft.notes.extend(notes);
                if is_interpreter(&program.real) {
                    let note = "an interpreter runs any code that it is given, so the list of \
                                programs restricts little";
                    draft.notes.push((entry.clause.clone(), note.to_owned()));
                }
                draft.provide_program(&entry.clause, &program);
            }
            Err(error) => draft
                .ineffective
                .push((entry.clause.clone(), error.to_string())),
        }
    }
    Ok(Exec::Listed {
        fork,
        programs: Vec::new(),
        clause,
    })
}

fn is_interpreter(program: &std::path::Path) -> bool {
    const NAMES: [&str; 14] = [
        "sh", "bash", "dash", "zsh", "fish", "busybox", "python", "node", "perl", "ruby", "php",
        "lua", "java", "deno",
    ];
    let name = program
        .file_name()
        .map(|n| n.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    NAMES.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}
