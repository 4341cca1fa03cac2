//! Package managers: the package names that each accepts, and the argv that installs a package.
//! Commands run without a shell, and a name is never parsed as an option.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The package managers of AIP-29.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Manager {
    Brew,
    Apt,
    Dnf,
    Pacman,
    Choco,
    Scoop,
    Npm,
    Pip,
    Cargo,
    Go,
}

/// One command of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerCommand {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
}

impl Manager {
    pub fn named(name: &str) -> Option<Manager> {
        name.parse().ok()
    }

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The program that has to be on PATH.
    pub fn program(self) -> &'static str {
        match self {
            Manager::Apt => "apt-get",
            Manager::Pip => "python3",
            other => other.name(),
        }
    }

    /// Whether it changes the whole system, which only root may do.
    pub fn needs_root(self) -> bool {
        matches!(self, Manager::Apt | Manager::Dnf | Manager::Pacman)
    }

    /// Checks that a text is a package name in the manager's own grammar, and not an option, a URL,
    /// a path or a group.
    pub fn check(self, package: &str) -> Result<(), String> {
        let fits = match self {
            Manager::Brew => is_brew(package),
            Manager::Apt => is_apt(package),
            Manager::Dnf => starts_alphanumeric(package) && all(package, "._+-:~"),
            Manager::Pacman => starts_alphanumeric(package) && all(package, "@._+-"),
            Manager::Choco | Manager::Scoop => starts_alphanumeric(package) && all(package, "._-"),
            Manager::Npm => is_npm(package),
            Manager::Pip => is_pip(package),
            Manager::Cargo => is_cargo(package),
            Manager::Go => is_go(package),
        };
        match fits && package.len() <= 256 {
            true => Ok(()),
            false => Err(format!("invalid {} package name `{package}`", self.name())),
        }
    }

    /// The commands that install a package. `prefix` is a private directory of this installation.
    pub fn steps(self, package: &str, shared: bool, prefix: &Path) -> Vec<ManagerCommand> {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let one = |argv: Vec<OsString>, env: &[(&str, OsString)]| {
            let env = env.iter().map(|(n, v)| (OsString::from(n), v.clone()));
            vec![ManagerCommand {
                argv,
                env: env.collect(),
            }]
        };
        let yes = || OsString::from("1");
        match self {
            Manager::Brew => one(
                words(&["brew", "install", "--", package]),
                &[
                    ("HOMEBREW_NO_AUTO_UPDATE", yes()),
                    ("NONINTERACTIVE", yes()),
                ],
            ),
            Manager::Apt => one(
                words(&["apt-get", "install", "--yes", "--", package]),
                &[("DEBIAN_FRONTEND", "noninteractive".into())],
            ),
            Manager::Dnf => one(words(&["dnf", "install", "--assumeyes", package]), &[]),
            Manager::Pacman => one(
                words(&["pacman", "-S", "--noconfirm", "--needed", "--", package]),
                &[],
            ),
            Manager::Choco => one(words(&["choco", "install", "--yes", package]), &[]),
            Manager::Scoop => one(words(&["scoop", "install", package]), &[]),
            Manager::Npm => {
                let mut argv = words(&["npm", "install", "--global", "--no-fund", "--no-audit"]);
                if !shared {
                    argv.extend([OsString::from("--prefix"), prefix.into()]);
                }
                argv.extend(words(&["--", package]));
                one(argv, &[])
            }
            Manager::Pip => pip(package, shared, prefix),
            Manager::Cargo => {
                let mut argv = words(&["cargo", "install", "--root"]);
                argv.push(prefix.into());
                argv.extend(words(&["--", package]));
                one(argv, &[])
            }
            Manager::Go => {
                let package = match package.contains('@') {
                    true => package.to_owned(),
                    // Outside a module, Go requires a version.
                    false => format!("{package}@latest"),
                };
                let argv = words(&["go", "install", &package]);
                one(argv, &[("GOBIN", prefix.join("bin").into())])
            }
        }
    }

    /// The command line that a user with the necessary rights would type.
    pub fn manual_command(self, package: &str) -> String {
        let step = self.steps(package, true, Path::new("")).into_iter().last();
        let words = step.map(|s| s.argv).unwrap_or_default();
        let words = words.iter().map(|w| w.to_string_lossy());
        let line = words.filter(|w| w != "--").collect::<Vec<_>>().join(" ");
        match self.needs_root() {
            true => format!("sudo {line}"),
            false => line,
        }
    }
}

/// Installs into a virtual environment, whose scripts find their packages without any variable.
fn pip(package: &str, shared: bool, prefix: &Path) -> Vec<ManagerCommand> {
    let pip = |python: PathBuf, user: bool| {
        let mut argv: Vec<OsString> = vec![python.into()];
        argv.extend(["-m", "pip", "install", "--no-input"].map(OsString::from));
        if user {
            argv.push("--user".into());
        }
        argv.extend(["--", package].map(OsString::from));
        ManagerCommand {
            argv,
            env: vec![("PIP_DISABLE_PIP_VERSION_CHECK".into(), "1".into())],
        }
    };
    if shared {
        return vec![pip("python3".into(), true)];
    }
    let mut venv: Vec<OsString> = ["python3", "-m", "venv"].map(OsString::from).into();
    venv.push(prefix.into());
    vec![
        ManagerCommand {
            argv: venv,
            env: Vec::new(),
        },
        pip(prefix.join("bin/python3"), false),
    ]
}

fn starts_alphanumeric(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether the text consists of letters, digits and the given characters.
fn all(text: &str, others: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// `formula`, `formula@1`, or `user/tap/formula`.
fn is_brew(text: &str) -> bool {
    let mut parts = text.split('/');
    let count = parts.clone().count();
    (count == 1 || count == 3) && parts.all(|p| starts_alphanumeric(p) && all(p, "@._+-"))
}

/// `name[:arch][=version]`. A trailing `-` would mean removal.
fn is_apt(text: &str) -> bool {
    let (name, version) = match text.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    let (name, arch) = match name.split_once(':') {
        Some((name, arch)) => (name, Some(arch)),
        None => (name, None),
    };
    starts_alphanumeric(name)
        && all(name, "+.-")
        && !name.ends_with('-')
        && arch.is_none_or(|a| starts_alphanumeric(a) && all(a, "-") && !a.ends_with('-'))
        && version.is_none_or(|v| starts_alphanumeric(v) && all(v, ".+~:-") && !v.ends_with('-'))
}

/// `name` or `@scope/name`, each optionally with `@version` or `@tag`. Anything that npm would
/// fetch from outside its registry is rejected.
fn is_npm(text: &str) -> bool {
    let part = |p: &str| starts_alphanumeric(p) && all(p, "._~-");
    let (scope, rest) = match text.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, text),
    };
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (rest, None),
    };
    scope.is_none_or(part)
        && part(name)
        && version.is_none_or(|v| !v.is_empty() && all(v, "._+^~<>=*|- "))
}

/// `name`, `name[extra]` or `name==1.2`: PEP 508 without URLs and markers.
fn is_pip(text: &str) -> bool {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = match rest.strip_prefix('[') {
        Some(extras) => match extras.split_once(']') {
            Some((extras, rest)) if !extras.is_empty() && all(extras, "._-,") => rest,
            _ => return false,
        },
        None => rest,
    };
    let specifier = |s: &str| {
        let version = s.trim().trim_start_matches(['=', '<', '>', '!', '~']);
        version.len() < s.trim().len()
            && starts_alphanumeric(version.trim_start())
            && all(version.trim_start(), "._+*-!")
    };
    starts_alphanumeric(name)
        && !name.ends_with(['-', '.', '_'])
        && (rest.is_empty() || rest.split(',').all(specifier))
}

/// `crate` or `crate@version`.
fn is_cargo(text: &str) -> bool {
    let (name, version) = match text.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    starts_alphanumeric(name)
        && all(name, "_-")
        && version.is_none_or(|v| !v.is_empty() && all(v, "._+^~<>=*-"))
}

/// An import path, optionally with `@version`. Its first part is a host.
fn is_go(text: &str) -> bool {
    let (path, version) = match text.split_once('@') {
        Some((path, version)) => (path, Some(version)),
        None => (text, None),
    };
    let host = path.split('/').next().unwrap_or_default();
    host.contains('.')
        && path
            .split('/')
            .all(|p| starts_alphanumeric(p) && all(p, "._~+-") && !p.ends_with('.'))
        && version.is_none_or(|v| starts_alphanumeric(v) && all(v, "._+/-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_names(manager: Manager, good: &[&str], bad: &[&str]) {
        for package in good {
            assert_eq!(manager.check(package), Ok(()), "{manager:?}");
        }
        for package in bad {
            assert!(manager.check(package).is_err(), "{manager:?} {package}");
        }
    }

    /// A29-INSTALL-02 to A29-INSTALL-11, A29-SEC-01.
    #[test]
    fn each_manager_has_its_own_grammar() {
        check_names(
            Manager::Brew,
            &["gh", "python@3.12", "user/tap/tool"],
            &["user/tool", "a//b", "/etc", "./x.rb"],
        );
        check_names(
            Manager::Apt,
            &["gh", "g++", "libc6:amd64", "gh=2.40.0-1~deb12"],
            &["gh-", "gh=", "gh=1-", "./x.deb", "gh:amd64-", "*"],
        );
        check_names(
            Manager::Dnf,
            &["gh", "gcc-c++"],
            &["@group", "/x.rpm", "https://x"],
        );
        check_names(Manager::Pacman, &["gh", "lib32-x"], &["core/gh", "-Rns"]);
        check_names(Manager::Choco, &["gh", "dotnet-8.0"], &["a b", "all;x"]);
        check_names(
            Manager::Npm,
            &[
                "gh",
                "@demo/tool",
                "@demo/tool@1.2.3",
                "tool@^1 || 2",
                "a@next",
            ],
            &[
                "@demo",
                "a/b",
                "a@",
                "a@npm:b",
                "a@file:x",
                "github:a/b",
                ".",
                "./x",
            ],
        );
        check_names(
            Manager::Pip,
            &[
                "gh", "a.b_c", "a[x,y]", "a==1.0", "a>=1,<2", "a ~= 1.0", "a!=1.*",
            ],
            &[
                "a @ https://x",
                "a[",
                "a[]",
                "a==",
                "a;python_version>'3'",
                "./x",
                "a/b",
                "a-",
            ],
        );
        check_names(
            Manager::Cargo,
            &["gh", "a_b@1.2", "a@^1"],
            &["a@", "a/b", "https://x"],
        );
        check_names(
            Manager::Go,
            &["example.com/a/b", "example.com/a/v2/cmd/x@v1.2.3"],
            &[
                "a/b",
                "../x",
                "example.com/../x",
                "example.com//x",
                "./...",
                "example.com/...",
            ],
        );
        for &manager in <Manager as strum::VariantArray>::VARIANTS {
            let long = "a".repeat(300);
            check_names(
                manager,
                &[],
                &[
                    "", "-x", "--x=y", " a", "a\n", "a\0", "$(a)", "a;b", "a`b`", "é", &long,
                ],
            );
            assert_eq!(Manager::named(manager.name()), Some(manager));
        }
        assert_eq!(Manager::named("curl"), None);
    }

    #[test]
    fn by_hand_is_the_command_line_to_type() {
        assert_eq!(
            Manager::Apt.manual_command("gh"),
            "sudo apt-get install --yes gh"
        );
        assert_eq!(Manager::Brew.manual_command("gh"), "brew install gh");
    }
}
