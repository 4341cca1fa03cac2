//! Reads one entry of `install` from an untrusted manifest.

use serde_json::{Value, json};

use super::managers::Manager;
use agentproto_manifest::views::InstallMethod;

/// One checked install method (A29-INSTALL-02 to A29-INSTALL-15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    Package {
        manager: Manager,
        package: String,
        /// `global` of npm or `user` of pip: not installed into a private directory.
        shared: bool,
    },
    /// A shell installer.
    Curl { url: String, sha256: Option<String> },
    /// An archive or a plain binary.
    Download {
        url: String,
        extract_bin: String,
        sha256: Option<String>,
    },
    /// A file of the bundle.
    Vendored { path: String },
}

/// Why an entry is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipReason {
    pub why: String,
    /// A stable warning code if the author should fix the entry. `None` if the machine merely has
    /// no such package manager.
    pub warning: Option<&'static str>,
    /// What the user can do about it.
    pub hint: Option<String>,
}

impl SkipReason {
    pub fn new(why: impl Into<String>) -> Self {
        SkipReason {
            why: why.into(),
            warning: None,
            hint: None,
        }
    }

    fn with_warning(code: &'static str, why: impl Into<String>) -> Self {
        SkipReason {
            warning: Some(code),
            ..SkipReason::new(why)
        }
    }
}

impl Method {
    pub fn read(entry: InstallMethod<'_>) -> Result<Method, SkipReason> {
        let Some(name) = entry.method() else {
            return Err(invalid("`method` is missing or not a string"));
        };
        let experimental = entry.experimental() == Some(true);
        if let Some(manager) = Manager::named(name) {
            if experimental {
                return Err(experimental_entry(name));
            }
            let package = required(entry.package(), "package", name)?;
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
                url: required(entry.url(), "url", name)?.to_owned(),
                sha256: digest(entry)?,
            }),
            "download" => Ok(Method::Download {
                url: required(entry.url(), "url", name)?.to_owned(),
                extract_bin: required(entry.extract_bin(), "extract_bin", name)?.to_owned(),
                sha256: digest(entry)?,
            }),
            "vendored" => Ok(Method::Vendored {
                path: required(entry.path(), "path", name)?.to_owned(),
            }),
            _ if experimental => Err(experimental_entry(name)),
            _ => Err(SkipReason::with_warning(
                "install_method_unknown",
                format!("`{name}` is not an install method of AIP-29"),
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

    /// What is installed, as text for the user.
    pub fn subject(&self) -> &str {
        match self {
            Method::Package { package, .. } => package,
            Method::Curl { url, .. } | Method::Download { url, .. } => url,
            Method::Vendored { path } => path,
        }
    }

    /// Whether the download has a SHA-256 to check, or `None` if nothing is downloaded.
    pub fn is_verified(&self) -> Option<bool> {
        match self {
            Method::Curl { sha256, .. } | Method::Download { sha256, .. } => Some(sha256.is_some()),
            Method::Package { .. } | Method::Vendored { .. } => None,
        }
    }

    /// Identifies the method. An installation records the method that it came from.
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

fn invalid(why: &str) -> SkipReason {
    SkipReason::with_warning("install_entry_invalid", why)
}

/// The entry is marked experimental (A29-INSTALL-21).
fn experimental_entry(name: &str) -> SkipReason {
    SkipReason::with_warning(
        "install_method_experimental",
        format!("`{name}` is marked experimental"),
    )
}

fn required<'d>(value: Option<&'d str>, field: &str, method: &str) -> Result<&'d str, SkipReason> {
    match value {
        Some(text) if text.chars().any(char::is_control) => Err(invalid(&format!(
            "`{field}` of `{method}` contains control characters"
        ))),
        Some(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(invalid(&format!("`{method}` requires `{field}`"))),
    }
}

/// An invalid digest is an error. It must not be treated like a missing one.
fn digest(entry: InstallMethod<'_>) -> Result<Option<String>, SkipReason> {
    match entry.0.get("verify_sha256") {
        None => Ok(None),
        Some(node) => match node.as_str().map(str::to_ascii_lowercase) {
            Some(hex) if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Ok(Some(hex))
            }
            _ => Err(invalid("`verify_sha256` must be 64 hex digits")),
        },
    }
}
