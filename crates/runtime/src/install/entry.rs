//! What an entry of `install` asks for, read from a manifest that nobody has to believe.

use serde_json::{Value, json};

use super::managers::Manager;
use agentproto_manifest::views::InstallMethod;

/// One way to install, checked (A29-INSTALL-02 to A29-INSTALL-15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    Package {
        manager: Manager,
        package: String,
        /// `global` of npm, `user` of pip: not into a directory of ours.
        shared: bool,
    },
    /// A shell installer.
    Curl { url: String, sha256: Option<String> },
    /// An archive, or the binary itself.
    Download {
        url: String,
        extract_bin: String,
        sha256: Option<String>,
    },
    /// A file of the bundle.
    Vendored { path: String },
}

/// Why an entry is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub why: String,
    /// A stable code where the author should hear of it; a machine that merely lacks a
    /// package manager is nobody's mistake.
    pub warning: Option<&'static str>,
    /// What would help.
    pub hint: Option<String>,
}

impl Skip {
    pub fn new(why: impl Into<String>) -> Self {
        Skip {
            why: why.into(),
            warning: None,
            hint: None,
        }
    }

    fn warned(code: &'static str, why: impl Into<String>) -> Self {
        Skip {
            warning: Some(code),
            ..Skip::new(why)
        }
    }
}

impl Method {
    pub fn read(entry: InstallMethod<'_>) -> Result<Method, Skip> {
        let Some(name) = entry.method() else {
            return Err(invalid("`method` is missing or no text"));
        };
        let experimental = entry.experimental() == Some(true);
        if let Some(manager) = Manager::named(name) {
            if experimental {
                return Err(experimental_entry(name));
            }
            let package = needed(entry.package(), "package", name)?;
            manager.check(package).map_err(|e| invalid(&e))?;
            return Ok(Method::Package {
                manager,
                package: package.to_owned(),
                shared: match manager {
                    Manager::Npm => entry.global() == Some(true),
                    Manager::Pip => entry.user() == Some(true),
                    _ => false,
                },
            });
        }
        match name {
            "curl" | "download" | "vendored" if experimental => Err(experimental_entry(name)),
            "curl" => Ok(Method::Curl {
                url: needed(entry.url(), "url", name)?.to_owned(),
                sha256: digest(entry)?,
            }),
            "download" => Ok(Method::Download {
                url: needed(entry.url(), "url", name)?.to_owned(),
                extract_bin: needed(entry.extract_bin(), "extract_bin", name)?.to_owned(),
                sha256: digest(entry)?,
            }),
            "vendored" => Ok(Method::Vendored {
                path: needed(entry.path(), "path", name)?.to_owned(),
            }),
            _ if experimental => Err(experimental_entry(name)),
            _ => Err(Skip::warned(
                "install_method_unknown",
                format!("`{name}` is no install method of AIP-29"),
            )),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Method::Package { manager, .. } => manager.name(),
            Method::Curl { .. } => "curl",
            Method::Download { .. } => "download",
            Method::Vendored { .. } => "vendored",
        }
    }

    /// What is asked for, for people.
    pub fn subject(&self) -> &str {
        match self {
            Method::Package { package, .. } => package,
            Method::Curl { url, .. } | Method::Download { url, .. } => url,
            Method::Vendored { path } => path,
        }
    }

    /// Whether what is fetched has to have a digest; `None` where nothing is fetched.
    pub fn is_verified(&self) -> Option<bool> {
        match self {
            Method::Curl { sha256, .. } | Method::Download { sha256, .. } => Some(sha256.is_some()),
            Method::Package { .. } | Method::Vendored { .. } => None,
        }
    }

    /// All that makes two entries the same; an installation remembers where it came from.
    pub fn identity(&self) -> Value {
        match self {
            Method::Package {
                package, shared, ..
            } => json!({ "method": self.name(), "package": package, "shared": shared }),
            Method::Curl { url, sha256 } => {
                json!({ "method": "curl", "url": url, "sha256": sha256 })
            }
            Method::Download {
                url,
                extract_bin,
                sha256,
            } => json!({
                "method": "download", "url": url, "extract_bin": extract_bin, "sha256": sha256,
            }),
            Method::Vendored { path } => json!({ "method": "vendored", "path": path }),
        }
    }
}

fn invalid(why: &str) -> Skip {
    Skip::warned("install_entry_invalid", why)
}

/// A29-INSTALL-21.
fn experimental_entry(name: &str) -> Skip {
    Skip::warned(
        "install_method_experimental",
        format!("`{name}` is marked experimental"),
    )
}

fn needed<'d>(value: Option<&'d str>, field: &str, method: &str) -> Result<&'d str, Skip> {
    match value {
        Some(text) if text.chars().any(char::is_control) => Err(invalid(&format!(
            "`{field}` of `{method}` holds control characters"
        ))),
        Some(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(invalid(&format!("`{method}` needs `{field}`"))),
    }
}

/// A digest that is there but no digest must not pass for none.
fn digest(entry: InstallMethod<'_>) -> Result<Option<String>, Skip> {
    match entry.0.get("verify_sha256") {
        None => Ok(None),
        Some(node) => match node.as_str().map(str::to_ascii_lowercase) {
            Some(hex) if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Ok(Some(hex))
            }
            _ => Err(invalid("`verify_sha256` is no SHA-256: 64 hex digits")),
        },
    }
}
