//! The sandbox of AIP-36 with `provider: local`: a read-only system, a writable workspace, a
//! private home and /tmp, and network access only to the listed hosts.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::block::Block;
use super::draft::{Draft, Role};
use super::env::{self, Variables};
use super::paths::Scope;
use super::refusal::Refusal;
use super::surroundings::Surroundings;
use super::target::Target;
use super::{Access, Exec, Limit, LimitKind, Policy, Shape, base, hosts};
use crate::clause::Clause;
use crate::programs::{Inspector, find};

const SPEC: &str = "the sandbox of AIP-36";

/// Keys of the block and of a standalone file.
const KEYS: [&str; 17] = [
    "schema",
    "id",
    "version",
    "name",
    "description",
    "provider",
    "config",
    "limits",
    "env",
    "network",
    "mounts",
    "identity",
    "policy",
    "lifecycle",
    "read_only",
    "metadata",
    "tags",
];

/// Names of directories that contain programs of many installations.
const BIN: [&str; 4] = ["bin", "sbin", ".bin", "libexec"];

/// Files and directories that are found next to a program in its own installation.
const SIGNS: [&str; 6] = [
    "lib",
    "libexec",
    "share",
    "node_modules",
    "package.json",
    "pyvenv.cfg",
];

/// Resolves a target with an AIP-36 block.
pub fn resolve(
    target: &Target,
    around: &Surroundings,
    command: &[OsString],
) -> Result<Policy, Refusal> {
    let block = target.block()?;
    refuse(&block)?;
    let mut draft = Draft::new(Shape::Aip36);
    draft.impossible.extend(block.unknown(&KEYS, SPEC));
    if block.node.has("policy") {
        let why = "agentproto does not enforce access grants of AIP-38".to_owned();
        draft.impossible.push((block.clause("policy", ""), why));
    }
    for (key, note) in [
        (
            "lifecycle",
            "advisory: a local sandbox ends with its process (AIP-36)",
        ),
        ("identity", "the process runs as the user who starts it"),
    ] {
        if block.node.has(key) {
            draft.notes.push((block.clause(key, ""), note.to_owned()));
        }
    }
    base::system(&mut draft);
    base::common(&mut draft);
    let scope = Scope {
        cwd: &around.cwd,
        home: &around.home,
    };
    let workspace = mounts(&block, around, &mut draft)?;
    let cwd = working_directory(&block, &workspace, &mut draft)?;
    installation(target, around, command, &mut draft)?;
    if let Some(auth) = target.auth()?
        && let Some(state) = auth.block("state")?
    {
        for path in state.texts("paths")?.iter().flatten() {
            draft.grant(path, scope, Access::Write)?;
        }
    }
    let (env, env_clauses) = environment(&block, around, &mut draft)?;
    let egress = match block.block("network")? {
        Some(network) => {
            draft.impossible.extend(network.unknown(&["egress"], SPEC));
            hosts::egress(network.texts("egress")?.unwrap_or_default(), &mut draft)
        }
        None => Vec::new(),
    };
    let limits = limits(&block, &mut draft)?;
    let (grants, links) = draft.finish();
    Ok(Policy {
        shape: Shape::Aip36,
        egress,
        ingress: Vec::new(),
        grants,
        links,
        denials: draft.denials,
        absent: draft.absent,
        exec: Exec::Visible,
        env,
        env_clauses,
        tty: None,
        limits,
        cwd,
        home: super::real(&around.home),
        impossible: draft.impossible,
        notes: draft.notes,
    })
}

/// Refuses what AIP-36 requires to be refused before anything is done.
fn refuse(block: &Block) -> Result<(), Refusal> {
    let provider = block.text("provider")?;
    let Some(provider) = provider else {
        return Err(block.invalid(block.node, "the sandbox has no `provider` (AIP-36)"));
    };
    if provider.value != "local" {
        return Err(Refusal::UnsupportedProvider {
            at: provider.place,
            provider: provider.value,
        });
    }
    match block.flag("read_only")? {
        Some(said) if said.value => Err(Refusal::ReadOnly { at: said.place }),
        _ => Ok(()),
    }
}

/// Where the workspace is visible: at its host path, or where the mounts put it.
fn mounts(block: &Block, around: &Surroundings, draft: &mut Draft) -> Result<PathBuf, Refusal> {
    let host = draft
        .trail
        .follow(&around.cwd)
        .map_err(|e| Refusal::Unread {
            path: around.cwd.clone(),
            why: format!("the working directory cannot be used: {e}"),
        })?;
    let Some(list) = block.node.get("mounts") else {
        whole_machine(&host, around, draft);
        // Programs that the agent builds may also run there.
        let clause = Clause::new("", "workspace");
        draft.declare(&clause, host.clone(), host.clone(), Access::Write, true);
        return Ok(host);
    };
    if !list.is_seq() {
        return Err(block.invalid(list, "`mounts` must be an array"));
    }
    let mut workspace = None;
    for (i, item) in list.items().iter().enumerate() {
        let mount = Block {
            doc: block.doc,
            node: item,
            pointer: format!("{}/mounts/{i}", block.pointer),
            name: format!("mounts[{i}]"),
        };
        if !item.is_map() {
            return Err(mount.invalid(item, format!("`mounts[{i}]` must be an object")));
        }
        draft
            .impossible
            .extend(mount.unknown(&["source", "at", "mode"], SPEC));
        let Some(at) = mount.text("at")? else {
            return Err(mount.invalid(item, format!("`mounts[{i}]` has no `at`")));
        };
        let access = match mount.text("mode")? {
            None => Access::Write,
            Some(mode) => match mode.value.as_str() {
                "read-write" => Access::Write,
                "read-only" => Access::Read,
                other => {
                    let what =
                        format!("`mode` must be `read-write` or `read-only`, found `{other}`");
                    return Err(mount.invalid(item.get("mode").unwrap_or(item), what));
                }
            },
        };
        let place = PathBuf::from(&at.value);
        let clause = Clause::new(&mount.pointer, format!("mount {}", at.value));
        if let Some(why) = misplaced(&place) {
            draft.impossible.push((clause, why.to_owned()));
            continue;
        }
        match item.get("source").and_then(|s| s.as_str()) {
            Some("workspace") => {
                let place: PathBuf = place.components().collect();
                draft.declare(&clause, host.clone(), place.clone(), access, true);
                workspace.get_or_insert(place);
            }
            Some(other) => draft.impossible.push((
                clause,
                format!("unknown source `{other}`; only `workspace` is supported"),
            )),
            None if item.get("source").is_none() => {
                return Err(mount.invalid(item, format!("`mounts[{i}]` has no `source`")));
            }
            None => {
                let source = item.get("source").unwrap_or(item);
                let named = source.str_at(&["ref"]).unwrap_or("inline storage");
                let why = format!(
                    "the source `{named}` is not on this machine; only `workspace` is supported"
                );
                draft.impossible.push((clause, why));
            }
        }
    }
    // If no mount shows the workspace, the working directory is the private home.
    Ok(workspace.unwrap_or_else(|| super::real(&around.home)))
}

/// Why nothing can be mounted at this path.
fn misplaced(place: &Path) -> Option<&'static str> {
    let taken = [
        "/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc",
    ];
    if !place.is_absolute() {
        Some("`at` is not an absolute path (AIP-36, Mounts)")
    } else if place.components().any(|c| c == Component::ParentDir) {
        Some("`at` contains `..` (AIP-36, Mounts)")
    } else if place.components().count() < 2 {
        Some("`at` is the root, which the sandbox creates itself")
    } else if taken.iter().any(|dir| place.starts_with(dir)) {
        Some("`at` is in a system directory")
    } else {
        None
    }
}

fn whole_machine(host: &Path, around: &Surroundings, draft: &mut Draft) {
    if super::real(&around.home).starts_with(host) {
        let note = format!(
            "the working directory `{}` contains the home directory, so all of it is writable",
            host.display()
        );
        draft.notes.push((Clause::new("", "workspace"), note));
    }
}

/// `config.cwd`, which must be inside the visible mounts.
fn working_directory(
    block: &Block,
    workspace: &Path,
    draft: &mut Draft,
) -> Result<PathBuf, Refusal> {
    let Some(config) = block.block("config")? else {
        return Ok(workspace.to_owned());
    };
    for (clause, _) in config.unknown(&["cwd", "shell"], SPEC) {
        let note = "not a setting of the local provider; it has no effect".to_owned();
        draft.notes.push((clause, note));
    }
    config.text("shell")?;
    let Some(cwd) = config.text("cwd")? else {
        return Ok(workspace.to_owned());
    };
    let wanted = agentproto_manifest::normalize(&workspace.join(&cwd.value));
    let mut around = draft.held.iter().filter_map(|h| {
        let rest = wanted.strip_prefix(&h.grant.at).ok()?;
        (h.role == Role::Declared).then(|| h.grant.source.join(rest))
    });
    let host = around.next_back();
    if host.as_ref().is_some_and(|host| !host.is_dir()) {
        let why = "the workspace has no such directory".to_owned();
        draft.impossible.push((cwd.clause, why));
        return Ok(workspace.to_owned());
    }
    if host.is_none() {
        let why = "it is outside the workspace, and only the workspace is visible".to_owned();
        draft.impossible.push((cwd.clause, why));
        return Ok(workspace.to_owned());
    }
    Ok(wanted)
}

/// Grants read access to the agent, its interpreter and its bundle.
fn installation(
    target: &Target,
    around: &Surroundings,
    command: &[OsString],
    draft: &mut Draft,
) -> Result<(), Refusal> {
    let lookup = around.lookup();
    let cwd = super::real(&around.cwd);
    let home = super::real(&around.home);
    if let Some(name) = command.first() {
        let path = find::find(&lookup, name).ok_or_else(|| Refusal::ProgramNotFound {
            name: name.to_string_lossy().into_owned(),
        })?;
        let program = Inspector::new(&lookup).inspect(&path)?;
        let notes = program.notes.iter().cloned();
        let clause = Clause::new("", "the agent's program");
        draft.notes.extend(notes.map(|n| (clause.clone(), n)));
        for file in &program.execute {
            if let Some(dir) = installation_of(file, &home, &cwd) {
                draft.provide(Role::Companion, &dir, true);
            }
        }
        draft.provide_program(&program);
        draft.programs.clear();
    }
    let bundle = super::real(&around.bundle);
    if !cwd.starts_with(&bundle) && !home.starts_with(&bundle) && bundle != Path::new("/") {
        draft.provide(Role::Companion, &bundle, true);
    }
    // The agent must not change the files that define its sandbox.
    for file in target.files() {
        draft.provide(Role::Companion, file, false);
    }
    Ok(())
}

/// The directory of a program's installation, if there is a sign that it is one. Everything in it
/// becomes visible.
fn installation_of(program: &Path, home: &Path, cwd: &Path) -> Option<PathBuf> {
    let dir = program.parent()?;
    let shared = dir
        .file_name()
        .is_some_and(|n| BIN.iter().any(|b| OsStr::new(b) == n));
    let root = if shared { dir.parent()? } else { dir };
    let depth = |path: &Path| path.components().count();
    let own = match root.strip_prefix(home) {
        // `~/.cargo` and `~/.local` contain more than one program.
        Ok(inner) => depth(inner) >= 2,
        Err(_) => depth(root) >= 3,
    };
    let system = [
        "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/var/lib",
    ];
    let around = home.starts_with(root)
        || cwd.starts_with(root)
        || system.iter().any(|dir| root.starts_with(dir));
    let sign = root.starts_with("/opt") || SIGNS.iter().any(|name| root.join(name).exists());
    (own && sign && !around).then(|| root.to_owned())
}

type Environment = (Vec<(OsString, OsString)>, Vec<Clause>);

fn environment(
    block: &Block,
    around: &Surroundings,
    draft: &mut Draft,
) -> Result<Environment, Refusal> {
    let mut env = Variables::basic(around);
    let mut clauses = Vec::new();
    if let Some(declared) = block.block("env")? {
        for (clause, why) in declared.unknown(&["auth", "passthrough"], SPEC) {
            match clause.text.as_str() {
                // A key that some manifests use. It would only have passed more variables.
                "env.autoPassthrough" => {
                    draft.notes.push((
                        clause,
                        "not in AIP-36, so no more variables are passed".into(),
                    ));
                }
                _ => draft.impossible.push((clause, why)),
            }
        }
        let passed = declared.texts("passthrough")?.unwrap_or_default();
        env.pass(around, &passed);
        for said in &passed {
            if let Some(note) = env::note(&said.value) {
                draft.notes.push((said.clause.clone(), note.to_owned()));
            }
        }
        clauses.extend(passed.into_iter().map(|s| s.clause));
        if let Some(auth) = declared.block("auth")?
            && let Some(state) = auth.block("state")?
        {
            auth.text("ref")?;
            let secrets = state.texts("env")?.unwrap_or_default();
            env.pass(around, &secrets);
            clauses.extend(secrets.into_iter().map(|s| s.clause));
        }
    }
    Ok((env.finish(around), clauses))
}

fn limits(block: &Block, draft: &mut Draft) -> Result<Vec<Limit>, Refusal> {
    let mut out = Vec::new();
    let Some(limits) = block.block("limits")? else {
        return Ok(out);
    };
    draft
        .impossible
        .extend(limits.unknown(&["timeout_ms", "memory_mb", "cpu_ms"], SPEC));
    for key in ["timeout_ms", "memory_mb", "cpu_ms"] {
        let Some(said) = limits.amount(key)? else {
            continue;
        };
        let kind = match key {
            "timeout_ms" => LimitKind::Timeout(Duration::from_millis(said.value)),
            "memory_mb" => LimitKind::Memory {
                bytes: said.value.saturating_mul(1 << 20),
            },
            _ => LimitKind::Cpu(Duration::from_millis(said.value)),
        };
        out.push(Limit {
            clause: said.clause,
            kind,
        });
    }
    Ok(out)
}
