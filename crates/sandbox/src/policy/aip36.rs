//! The sandbox of AIP-36 with `provider: local`: a read-only system, a writable workspace, a
//! private home and /tmp, and network access only to the listed hosts.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::block::Block;
use super::draft::{Draft, Role};
use super::env::{self, Variables};
use super::error::PolicyError;
use super::host_context::HostContext;
use super::manifest::SandboxManifest;
use super::{
    Access, Exec, LimitKind, Policy, PolicyLimit, SandboxSpec, base, hosts, protect, state,
};
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
const INSTALLATION_MARKERS: [&str; 6] = [
    "lib",
    "libexec",
    "share",
    "node_modules",
    "package.json",
    "pyvenv.cfg",
];

/// Resolves a manifest with an AIP-36 block.
pub fn resolve(
    manifest: &SandboxManifest,
    context: &HostContext,
    command: &[OsString],
) -> Result<Policy, PolicyError> {
    let block = manifest.block()?;
    check_supported(&block)?;
    let mut draft = Draft::new(SandboxSpec::Aip36);
    draft.unenforceable.extend(block.unknown(&KEYS, SPEC));
    if block.node.has("policy") {
        let why = "agentproto does not enforce access grants of AIP-38".to_owned();
        draft.unenforceable.push((block.clause("policy", ""), why));
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
    let workspace = mounts(&block, context, &mut draft)?;
    let cwd = working_directory(&block, &workspace, &mut draft)?;
    installation(manifest, context, command, &mut draft)?;
    state::grant(&mut draft, manifest, context)?;
    let (env, env_clauses) = environment(&block, context, &mut draft)?;
    let egress = match block.block("network")? {
        Some(network) => {
            draft
                .unenforceable
                .extend(network.unknown(&["egress"], SPEC));
            hosts::egress(network.texts("egress")?.unwrap_or_default(), &mut draft)
        }
        None => Vec::new(),
    };
    let limits = limits(&block, &mut draft)?;
    protect::apply(&mut draft, manifest, context);
    let (grants, links) = draft.finish();
    Ok(Policy {
        spec: SandboxSpec::Aip36,
        egress,
        ingress: Vec::new(),
        grants,
        links,
        create: draft.create.into_iter().collect(),
        denials: draft.denials,
        protected: draft.protected,
        ineffective: draft.ineffective,
        exec: Exec::Visible,
        env,
        env_clauses,
        tty: None,
        limits,
        private_size: context.defaults.private_size,
        cwd,
        home: super::real_path(&context.home),
        unenforceable: draft.unenforceable,
        notes: draft.notes,
    })
}

/// Refuses what AIP-36 requires to be refused before anything is done.
fn check_supported(block: &Block) -> Result<(), PolicyError> {
    let provider = block.text("provider")?;
    let Some(provider) = provider else {
        return Err(block.invalid(block.node, "the sandbox has no `provider` (AIP-36)"));
    };
    if provider.value != "local" {
        return Err(PolicyError::UnsupportedProvider {
            at: provider.position,
            provider: provider.value,
        });
    }
    match block.flag("read_only")? {
        Some(declared) if declared.value => Err(PolicyError::ReadOnly {
            at: declared.position,
        }),
        _ => Ok(()),
    }
}

/// Where the workspace is visible: at its host path, or where the mounts put it.
fn mounts(block: &Block, context: &HostContext, draft: &mut Draft) -> Result<PathBuf, PolicyError> {
    let host = draft
        .followed
        .follow(&context.cwd)
        .map_err(|e| PolicyError::Unreadable {
            path: context.cwd.clone(),
            why: format!("the working directory cannot be used: {e}"),
        })?;
    if host != context.cwd {
        return Err(PolicyError::Unreadable {
            path: context.cwd.clone(),
            why: "the working directory leads through a symbolic link; use the path of its target"
                .to_owned(),
        });
    }
    if host == Path::new("/") {
        let why = "the working directory is `/`, so the whole machine would be writable; start in \
                   the directory of a project"
            .to_owned();
        let clause = Clause::new("", "workspace");
        draft.unenforceable.push((clause, why));
        return Ok(host);
    }
    let Some(list) = block.node.get("mounts") else {
        note_writable_home(&host, context, draft);
        // Programs that the agent builds may also run there.
        let clause = Clause::new("", "workspace");
        draft.declare(&clause, host.clone(), host.clone(), Access::Write, true);
        return Ok(host);
    };
    if !list.is_seq() {
        return Err(block.invalid(list, "`mounts` must be a list"));
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
            return Err(mount.invalid(item, format!("`mounts[{i}]` must be a mapping")));
        }
        draft
            .unenforceable
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
        if let Some(why) = mount_path_error(&place) {
            draft.unenforceable.push((clause, why.to_owned()));
            continue;
        }
        match item.get("source").and_then(|s| s.as_str()) {
            Some("workspace") => {
                let place: PathBuf = place.components().collect();
                draft.declare(&clause, host.clone(), place.clone(), access, true);
                workspace.get_or_insert(place);
            }
            Some(other) => draft.unenforceable.push((
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
                draft.unenforceable.push((clause, why));
            }
        }
    }
    // If no mount shows the workspace, the working directory is the private home.
    Ok(workspace.unwrap_or_else(|| super::real_path(&context.home)))
}

/// Why nothing can be mounted at this path.
fn mount_path_error(place: &Path) -> Option<&'static str> {
    let reserved = [
        "/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc",
    ];
    if !place.is_absolute() {
        Some("`at` is not an absolute path (AIP-36, Mounts)")
    } else if place.components().any(|c| c == Component::ParentDir) {
        Some("`at` contains `..` (AIP-36, Mounts)")
    } else if place.components().count() < 2 {
        Some("`at` is the root, which the sandbox creates itself")
    } else if reserved.iter().any(|dir| place.starts_with(dir)) {
        Some("`at` is in a system directory")
    } else {
        None
    }
}

fn note_writable_home(host: &Path, context: &HostContext, draft: &mut Draft) {
    if super::real_path(&context.home).starts_with(host) {
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
) -> Result<PathBuf, PolicyError> {
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
    let path = agentproto_manifest::normalize(&workspace.join(&cwd.value));
    let mut sources = draft.grants.iter().filter_map(|h| {
        let rest = path.strip_prefix(&h.grant.at).ok()?;
        (h.role == Role::Declared).then(|| h.grant.source.join(rest))
    });
    let host = sources.next_back();
    if host.as_ref().is_some_and(|host| !host.is_dir()) {
        let why = "the workspace has no such directory".to_owned();
        draft.unenforceable.push((cwd.clause, why));
        return Ok(workspace.to_owned());
    }
    if host.is_none() {
        let why = "it is outside the workspace, and only the workspace is visible".to_owned();
        draft.unenforceable.push((cwd.clause, why));
        return Ok(workspace.to_owned());
    }
    Ok(path)
}

/// Grants read access to the agent, its interpreter and its bundle.
fn installation(
    manifest: &SandboxManifest,
    context: &HostContext,
    command: &[OsString],
    draft: &mut Draft,
) -> Result<(), PolicyError> {
    let lookup = context.lookup();
    let cwd = super::real_path(&context.cwd);
    let home = super::real_path(&context.home);
    if let Some(name) = command.first() {
        let path = find::find(&lookup, name).ok_or_else(|| PolicyError::ProgramNotFound {
            name: name.to_string_lossy().into_owned(),
        })?;
        let program = Inspector::new(&lookup).inspect(&path)?;
        let notes = program.notes.iter().cloned();
        let clause = Clause::new("", "the agent's program");
        draft.notes.extend(notes.map(|n| (clause.clone(), n)));
        for file in &program.execute {
            if let Some(dir) = installation_of(file, &home, &cwd) {
                draft.provide(Role::ExtraFile, &dir, true);
            }
        }
        draft.provide_program(&clause, &program);
        draft.programs.clear();
    }
    let bundle = super::real_path(&context.bundle);
    if !cwd.starts_with(&bundle) && !home.starts_with(&bundle) && bundle != Path::new("/") {
        draft.provide(Role::ExtraFile, &bundle, true);
    }
    for file in manifest.files() {
        draft.provide(Role::ExtraFile, file, false);
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
    let is_shared = home.starts_with(root)
        || cwd.starts_with(root)
        || system.iter().any(|dir| root.starts_with(dir));
    let has_marker = root.starts_with("/opt")
        || INSTALLATION_MARKERS
            .iter()
            .any(|name| root.join(name).exists());
    (own && has_marker && !is_shared).then(|| root.to_owned())
}

type Environment = (Vec<(OsString, OsString)>, Vec<Clause>);

fn environment(
    block: &Block,
    context: &HostContext,
    draft: &mut Draft,
) -> Result<Environment, PolicyError> {
    let mut env = Variables::basic(context);
    let mut clauses = Vec::new();
    if let Some(env_block) = block.block("env")? {
        for (clause, why) in env_block.unknown(&["auth", "passthrough"], SPEC) {
            match clause.text.as_str() {
                // A key that some manifests use. It would only have passed more variables.
                "env.autoPassthrough" => {
                    draft.notes.push((
                        clause,
                        "not in AIP-36, so no more variables are passed".into(),
                    ));
                }
                _ => draft.unenforceable.push((clause, why)),
            }
        }
        let passed = env_block.texts("passthrough")?.unwrap_or_default();
        env.pass(context, &passed);
        for declared in &passed {
            if let Some(note) = env::note(&declared.value) {
                draft.notes.push((declared.clause.clone(), note.to_owned()));
            }
        }
        clauses.extend(passed.into_iter().map(|s| s.clause));
        if let Some(auth) = env_block.block("auth")?
            && let Some(state) = auth.block("state")?
        {
            auth.text("ref")?;
            let secrets = state.texts("env")?.unwrap_or_default();
            env.pass(context, &secrets);
            clauses.extend(secrets.into_iter().map(|s| s.clause));
        }
    }
    Ok((env.finish(context), clauses))
}

fn limits(block: &Block, draft: &mut Draft) -> Result<Vec<PolicyLimit>, PolicyError> {
    let mut out = Vec::new();
    let Some(limits) = block.block("limits")? else {
        return Ok(out);
    };
    draft
        .unenforceable
        .extend(limits.unknown(&["timeout_ms", "memory_mb", "cpu_ms"], SPEC));
    for key in ["timeout_ms", "memory_mb", "cpu_ms"] {
        let Some(declared) = limits.amount(key)? else {
            continue;
        };
        out.push(PolicyLimit {
            default: false,
            clause: declared.clause,
            kind: LimitKind::from_key(key, declared.value),
        });
    }
    Ok(out)
}
