//! npm packages that implement AgentCliClient (A45-CONF-05, A45-SEC-07). A package runs in a Node
//! process in the bundle's sandbox. A bridge script speaks the same protocol as executable
//! adapters.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

use super::adapter::Executable;
use super::permissions::PermissionBroker;
use super::{Arm, ArmFuture, EventSink, LaunchSpec, Negotiated, OpenRequest};
use crate::bundle::Bundle;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::StopReason;
use crate::interact::{Question, QuestionKind};
use crate::observe::Stage;
use agentproto_manifest::{Disk, Node, RefRole, Workspace};
use agentproto_sandbox::spawn::{Exit, SpawnOptions};

const BRIDGE: &str = include_str!("bridge.mjs");
/// Time limit for installing a package, sufficient for a slow network.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);

/// Source of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Package {
    /// A directory in the bundle: `metadata.agentproto.adapter_path`.
    Bundled(PathBuf),
    /// One exact version, installed once below the home.
    Pinned {
        /// Name of the package.
        name: String,
        /// Exact version.
        version: String,
    },
}

impl Package {
    /// Reads the package of a bundle. Returns an error if its version is not pinned.
    pub fn from_manifest(bundle: &Bundle) -> Result<Package, Error> {
        let own = |key: &str| bundle.root().at(&["metadata", "agentproto", key]);
        if let Some(node) = own("adapter_path") {
            return bundled(bundle, node);
        }
        let text = bundle.text("adapter")?;
        let node = bundle.root().get("adapter").unwrap_or(bundle.root());
        let (name, mut version) = split(text);
        if !is_name(name) {
            let what = format!("`{name}` is not the name of an npm package");
            return Err(bundle.invalid(node, &what));
        }
        if let Some(declared) = own("adapter_version") {
            let Some(text) = declared.as_str() else {
                return Err(bundle.invalid(declared, "`adapter_version` must be a string"));
            };
            version = Some(text.to_owned());
        }
        let version = version.or_else(|| pinned_by_runner(bundle, name));
        match version {
            Some(version) if semver::Version::parse(&version).is_ok() => Ok(Package::Pinned {
                name: name.to_owned(),
                version,
            }),
            Some(version) => {
                let what = format!(
                    "`{version}` is not an exact version of `{name}`: ranges and tags change over time (AIP-45, Security)"
                );
                Err(bundle.invalid(node, &what).hint(pin_hint(name)))
            }
            None => {
                let what =
                    format!("the version of the adapter `{name}` is not pinned (AIP-45, Security)");
                Err(bundle.invalid(node, &what).hint(pin_hint(name)))
            }
        }
    }
}

fn pin_hint(name: &str) -> String {
    format!(
        "set `metadata.agentproto.adapter_version: 1.2.3`, or add `{name}@1.2.3` to `runner.needs.npm`"
    )
}

fn bundled(bundle: &Bundle, node: &Node) -> Result<Package, Error> {
    let Some(text) = node.as_str() else {
        return Err(bundle.invalid(node, "`adapter_path` must be a string"));
    };
    let within = Path::new(text)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let dir = bundle.dir.join(text);
    if !within || !dir.join("package.json").is_file() {
        let what = format!("`adapter_path` `{text}` is not a package in this bundle");
        return Err(bundle
            .invalid(node, &what)
            .hint("use a directory below the manifest that contains a `package.json`"));
    }
    let dir = dir
        .components()
        .filter(|c| *c != Component::CurDir)
        .collect();
    Ok(Package::Bundled(dir))
}

/// Splits `@scope/name@1.2.3` into name and version.
fn split(text: &str) -> (&str, Option<String>) {
    let at = text.rfind('@').filter(|at| *at > 0);
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((name, version)) => (name, Some(version.trim_start_matches('@').to_owned())),
        None => (text, None),
    }
}

/// Whether it is a valid npm name that cannot point outside our directory or to another source.
fn is_name(name: &str) -> bool {
    let part = |text: &str| {
        let fits = |b: u8| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'_' | b'~')
        };
        !text.is_empty() && !text.starts_with(['.', '_', '-']) && text.bytes().all(fits)
    };
    let whole = match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name) && name != "node_modules",
    };
    whole && name.len() <= 214
}

/// The version in `runner.needs.npm`, inline or in the RUNNER.md.
fn pinned_by_runner(bundle: &Bundle, name: &str) -> Option<String> {
    let named = |runner: &Node| {
        let mut listed = runner.at(&["needs", "npm"])?.strings();
        listed.find_map(|(text, _)| match split(text) {
            (known, Some(version)) if known == name => Some(version),
            _ => None,
        })
    };
    let runner = bundle.root().get("runner")?;
    match runner.as_str() {
        None => named(runner),
        Some(reference) => {
            let workspace = Workspace::new(&Disk, "/");
            let found = workspace.resolve(&bundle.manifest, RefRole::Runner, reference);
            named(found.document()?.root.as_ref()?)
        }
    }
}

/// An adapter that is an npm package.
pub struct NodeAdapter {
    context: Arc<Context>,
    package: Package,
    spec: LaunchSpec,
    broker: PermissionBroker,
    adapter: OnceLock<Executable>,
}

impl NodeAdapter {
    /// Creates the arm. The package is installed by `prepare`.
    pub fn new(
        context: Arc<Context>,
        package: Package,
        spec: LaunchSpec,
        broker: PermissionBroker,
    ) -> NodeAdapter {
        NodeAdapter {
            context,
            package,
            spec,
            broker,
            adapter: OnceLock::new(),
        }
    }

    /// Installs the package and writes the bridge. Nothing runs yet.
    async fn prepare_adapter(&self) -> Result<&Executable, Error> {
        if let Some(adapter) = self.adapter.get() {
            return Ok(adapter);
        }
        let host = self.context.host_context(&self.spec.env);
        let node = host.find("node".as_ref()).map_err(|_| missing("node"))?;
        let (package, prefix) = match &self.package {
            Package::Bundled(dir) => (dir.clone(), self.context.home.dir("npm/bridge")?),
            Package::Pinned { name, version } => {
                let prefix = self.installed(name, version).await?;
                (prefix.join("node_modules").join(name), prefix)
            }
        };
        let bridge = self.bridge(&prefix, &node)?;
        let argv = vec![bridge.into_os_string(), package.into_os_string()];
        let adapter = Executable::new(
            Arc::clone(&self.context),
            argv,
            self.spec.clone(),
            self.broker.clone(),
        );
        Ok(self.adapter.get_or_init(|| adapter))
    }

    /// Writes the bridge as an executable next to the package, because a sandbox makes a script
    /// visible together with its interpreter and the package around it.
    fn bridge(&self, prefix: &Path, node: &Path) -> Result<PathBuf, Error> {
        let home = &self.context.home;
        let _lock = home.lock("npm")?;
        let below = |path: &Path| path.strip_prefix(home.root()).map(Path::to_owned).ok();
        let path = prefix.join("bridge.mjs");
        let text = format!("#!{}\n{BRIDGE}", node.display());
        let manifest = prefix.join("package.json");
        if !manifest.is_file()
            && let Some(below) = below(&manifest)
        {
            home.write(below, b"{ \"private\": true }\n")?;
        }
        let is_current = std::fs::read(&path).is_ok_and(|known| known == text.as_bytes());
        if !is_current && let Some(below) = below(&path) {
            home.write(below, text.as_bytes())?;
        }
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&path, mode).map_err(|e| {
            let what = format!("cannot make `{}` executable: {e}", path.display());
            Error::new(Code::StateUnwritable, what)
        })?;
        Ok(path)
    }

    /// The directory of the package, which is installed if it is missing.
    async fn installed(&self, name: &str, version: &str) -> Result<PathBuf, Error> {
        let context = &self.context;
        let below = PathBuf::from("npm").join(format!("{name}@{version}"));
        let prefix = context.home.path(&below);
        if version_in(&prefix, name).as_deref() == Some(version) {
            return Ok(prefix);
        }
        let host = context.host_context(&[]);
        host.find("npm".as_ref()).map_err(|_| missing("npm"))?;
        self.confirm(name, version).await?;
        let staging = format!("npm/.new-{}-{}", std::process::id(), crate::home::unique());
        let staging = context.home.dir(staging)?;
        let done = self.install(name, version, &staging).await.and_then(|()| {
            let _lock = context.home.lock("npm")?;
            if version_in(&prefix, name).as_deref() == Some(version) {
                return Ok(());
            }
            let _ = std::fs::remove_dir_all(&prefix);
            if let Some(parent) = below.parent() {
                context.home.dir(parent)?;
            }
            std::fs::rename(&staging, &prefix).map_err(|e| {
                let what = format!("cannot create `{}`: {e}", prefix.display());
                Error::new(Code::StateUnwritable, what)
            })
        });
        let _ = std::fs::remove_dir_all(&staging);
        done.map(|()| prefix)
    }

    async fn install(&self, name: &str, version: &str, into: &Path) -> Result<(), Error> {
        let context = &self.context;
        let package = format!("{name}@{version}");
        context.observer.progress(Stage::Install, &package);
        context
            .audit
            .record("adapter.install", json!({ "package": package }))?;
        let flags = [
            "npm",
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ];
        let argv: Vec<OsString> = flags
            .into_iter()
            .map(OsString::from)
            .chain([
                "--prefix".into(),
                into.into(),
                "--".into(),
                package.clone().into(),
            ])
            .collect();
        let options = SpawnOptions {
            timeout: Some(INSTALL_TIMEOUT),
            ..SpawnOptions::default()
        };
        let env = crate::install::manager_environment(context);
        let finished = context.run_host(&argv, &env, into, options).await?;
        let failed = |why: String| {
            let why = context.masks.mask(&why).into_owned();
            let what = format!("cannot install the adapter `{package}`: {why}");
            Error::new(Code::AdapterUnavailable, what).hint(
                "check the name, the version and the network, or run npm yourself to see more",
            )
        };
        if finished.exit.timed_out {
            return Err(failed("npm did not exit within ten minutes".to_owned()));
        }
        if !finished.exit.status.success() {
            let lines: Vec<&str> = finished.stderr.trim().lines().collect();
            let tail = lines
                .get(lines.len().saturating_sub(4)..)
                .unwrap_or_default();
            return Err(failed(format!(
                "npm {}: {}",
                finished.exit.status,
                tail.join(" / ")
            )));
        }
        match version_in(into, name) {
            Some(found) if found == version => Ok(()),
            Some(found) => Err(failed(format!("npm installed version {found}"))),
            None => Err(failed("npm did not install the package".to_owned())),
        }
    }

    /// Asks before code of others is downloaded.
    async fn confirm(&self, name: &str, version: &str) -> Result<(), Error> {
        let context = &self.context;
        if context.yes {
            return Ok(());
        }
        let package = format!("{name}@{version}");
        if context.interact.is_headless() {
            let what = format!(
                "the adapter `{package}` is not installed; agentproto cannot ask without a terminal, so it installed nothing"
            );
            return Err(Error::new(Code::AdapterUnavailable, what)
                .needs_confirmation()
                .hint("add `--yes` to install it"));
        }
        let question = Question {
            message: format!("The adapter `{package}` is not installed. Install it from npm?"),
            kind: QuestionKind::Boolean,
            default: Some("true".to_owned()),
        };
        match context.interact.ask(&question).await?.as_str() {
            "true" => Ok(()),
            _ => Err(Error::new(
                Code::Declined,
                format!("the installation of `{package}` was declined"),
            )),
        }
    }

    fn adapter(&self) -> Result<&Executable, Error> {
        let missing = || Error::new(Code::SessionClosed, "the adapter was not started");
        self.adapter.get().ok_or_else(missing)
    }
}

/// The installed version of a package below a prefix.
fn version_in(prefix: &Path, name: &str) -> Option<String> {
    let manifest = prefix.join("node_modules").join(name).join("package.json");
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).ok()?).ok()?;
    Some(manifest.get("version")?.as_str()?.to_owned())
}

fn missing(program: &str) -> Error {
    let what = format!("this agent needs an npm adapter, but `{program}` is not installed");
    Error::new(Code::AdapterUnavailable, what)
        .hint("install Node.js 18 or newer with npm, and make sure that both are on PATH")
}

impl Arm for NodeAdapter {
    fn prepare(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move { self.prepare_adapter().await.map(|_| ()) })
    }

    fn handshake(&self) -> ArmFuture<'_, Negotiated> {
        Box::pin(async move { self.prepare_adapter().await?.handshake().await })
    }

    fn open<'a>(&'a self, open: &'a OpenRequest) -> ArmFuture<'a, String> {
        Box::pin(async move { self.adapter()?.open(open).await })
    }

    fn turn<'a>(&'a self, message: &'a str, events: EventSink) -> ArmFuture<'a, StopReason> {
        Box::pin(async move { self.adapter()?.turn(message, events).await })
    }

    fn cancel(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move { self.adapter()?.cancel().await })
    }

    fn close(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move { self.adapter()?.close().await })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(async move { self.adapter.get()?.stop().await })
    }

    fn output_excerpt(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async move { self.adapter.get()?.output_excerpt().await })
    }

    fn session_id(&self) -> Option<String> {
        self.adapter.get()?.session_id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions() {
        assert_eq!(split("@a/b@1.2.3"), ("@a/b", Some("1.2.3".into())));
        assert_eq!(split("@a/b"), ("@a/b", None));
        assert_eq!(split("b@^1"), ("b", Some("^1".into())));
        for good in ["a", "@a/b", "@a/adapter-x.y_z"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            "@a",
            "@a/",
            "../x",
            "@../x",
            "@a/../b",
            "@a/b/c",
            "-g",
            "file:x",
            "A",
            "@a/-b",
            "node_modules",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
