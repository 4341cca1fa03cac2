//! Finds the scenario, the mutant and the variant of a mock agent by their names.

use std::fmt;
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use crate::mutants::{self, AgentMutant};
use crate::scenario::{self, Scenario};
use crate::variants::{self, AgentVariant};
use crate::{AgentConfig, AgentKind};
use agentproto_manifest::fields::FieldError;
use agentproto_text::closest_of;

/// Why a mock agent cannot be configured.
#[derive(Debug)]
pub enum LookupError {
    /// No scenario, mutant or variant has this name.
    Unknown {
        /// What was searched for, for example `scenario`.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// Protocol of the mock agent.
        kind: AgentKind,
        /// A known name that is similar.
        closest: Option<&'static str>,
    },
    /// The scenario file cannot be read.
    Unreadable {
        /// Path of the file.
        path: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The scenario file is invalid.
    Invalid {
        /// Path of the file.
        path: String,
        /// Its errors.
        errors: Vec<FieldError>,
    },
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupError::Unknown {
                what: "scenario",
                name,
                ..
            } => write!(f, "unknown scenario `{name}`"),
            LookupError::Unknown {
                what, name, kind, ..
            } => write!(f, "the {} mock has no {what} `{name}`", kind.as_str()),
            LookupError::Unreadable { path, error } => {
                write!(f, "the scenario `{path}` cannot be read: {error}")
            }
            LookupError::Invalid { path, errors } => match errors.first() {
                Some(first) => write!(
                    f,
                    "invalid scenario: {path}:{}:{}: {}",
                    first.line, first.column, first.message
                ),
                None => write!(f, "invalid scenario `{path}`"),
            },
        }
    }
}

impl std::error::Error for LookupError {}

/// Names of the parts of a mock agent.
#[derive(Clone, Debug, Default)]
pub struct AgentNames {
    /// A built-in scenario, or a YAML file. By default, that of the variant.
    pub scenario: Option<String>,
    /// Id of a mutant.
    pub mutant: Option<String>,
    /// Name of a variant.
    pub variant: Option<String>,
}

impl AgentNames {
    /// Takes names that are missing from `MOCK_SCENARIO`, `MOCK_MUTANT` and `MOCK_VARIANT`, because
    /// a bundle can choose only through the environment variables that its options set. An empty
    /// name means none, even if the variable is set.
    pub fn or_variables(self) -> Self {
        AgentNames {
            scenario: or_variable(self.scenario, "MOCK_SCENARIO"),
            mutant: or_variable(self.mutant, "MOCK_MUTANT"),
            variant: or_variable(self.variant, "MOCK_VARIANT"),
        }
    }
}

/// A name, or else the value of an environment variable. An empty name means none.
pub fn or_variable(name: Option<String>, variable: &str) -> Option<String> {
    let name = name.or_else(|| std::env::var(variable).ok());
    name.filter(|name| !name.is_empty())
}

impl AgentConfig {
    /// Looks up the parts of a mock agent.
    ///
    /// # Errors
    /// A name is unknown, or the scenario file cannot be read or is invalid.
    pub fn find(
        kind: AgentKind,
        names: &AgentNames,
        args: Vec<String>,
        state: Option<PathBuf>,
    ) -> Result<AgentConfig, LookupError> {
        let variant = names.variant.as_deref();
        let variant = variant.map(|name| variant_named(kind, name)).transpose()?;
        let own = variant.map_or("default", |variant| variant.scenario);
        let scenario = names.scenario.as_deref().unwrap_or(own);
        let mutant = names.mutant.as_deref();
        Ok(AgentConfig {
            kind,
            scenario: scenario_named(kind, scenario)?,
            mutant: mutant.map(|id| mutant_named(kind, id)).transpose()?,
            variant,
            args,
            state,
        })
    }
}

/// Finds a built-in scenario, or reads a file.
fn scenario_named(kind: AgentKind, name: &str) -> Result<Scenario, LookupError> {
    let built_in = || scenario::embedded().iter().copied();
    let known = || std::iter::once(scenario::default_of(kind)).chain(built_in());
    let parse = |text: &str| {
        scenario::parse(text).map_err(|errors| LookupError::Invalid {
            path: name.to_owned(),
            errors,
        })
    };
    if let Some(found) = known().find(|scenario| scenario.name == name) {
        return parse(found.text);
    }
    let path = Path::new(name);
    let is_path = name.contains(MAIN_SEPARATOR) || path.extension().is_some();
    if !is_path && !path.exists() {
        return Err(LookupError::Unknown {
            what: "scenario",
            name: name.to_owned(),
            kind,
            closest: closest_of(name, known().map(|scenario| scenario.name)),
        });
    }
    let text = std::fs::read_to_string(path).map_err(|error| LookupError::Unreadable {
        path: name.to_owned(),
        error,
    })?;
    parse(&text)
}

fn variant_named(kind: AgentKind, name: &str) -> Result<&'static AgentVariant, LookupError> {
    let found = variants::of(kind).find(|variant| variant.name == name);
    found.ok_or_else(|| LookupError::Unknown {
        what: "variant",
        name: name.to_owned(),
        kind,
        closest: closest_of(name, variants::of(kind).map(|variant| variant.name)),
    })
}

fn mutant_named(kind: AgentKind, id: &str) -> Result<&'static AgentMutant, LookupError> {
    let found = mutants::of(kind).find(|mutant| mutant.id == id);
    found.ok_or_else(|| LookupError::Unknown {
        what: "mutant",
        name: id.to_owned(),
        kind,
        closest: closest_of(id, mutants::of(kind).map(|mutant| mutant.id)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(names: AgentNames) -> Result<AgentConfig, LookupError> {
        AgentConfig::find(AgentKind::Acp, &names, Vec::new(), None)
    }

    #[test]
    fn a_misspelled_name_gets_the_closest_one() {
        let some = |name: &str| Some(name.to_owned());
        let scenario = AgentNames {
            scenario: some("permision"),
            ..AgentNames::default()
        };
        let mutant = AgentNames {
            mutant: some("acp-pt-02-od-reason"),
            ..AgentNames::default()
        };
        let variant = AgentNames {
            variant: some("no-such-variant"),
            ..AgentNames::default()
        };
        for (names, expected, meant) in [
            (scenario, "unknown scenario `permision`", Some("permission")),
            (
                mutant,
                "the acp mock has no mutant `acp-pt-02-od-reason`",
                Some("acp-pt-02-odd-reason"),
            ),
            (
                variant,
                "the acp mock has no variant `no-such-variant`",
                None,
            ),
        ] {
            let error = find(names).err().expect("an error");
            assert_eq!(error.to_string(), expected);
            let LookupError::Unknown { closest, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(closest, meant);
        }
    }

    #[test]
    fn a_file_is_a_scenario() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("mine.yaml");
        let names = AgentNames {
            scenario: Some(file.to_string_lossy().into_owned()),
            ..AgentNames::default()
        };
        let missing = find(names.clone()).err().expect("missing");
        assert!(matches!(missing, LookupError::Unreadable { .. }));
        std::fs::write(&file, "x: 1").expect("written");
        let invalid = find(names.clone()).err().expect("invalid");
        assert!(matches!(invalid, LookupError::Invalid { .. }), "{invalid}");
        let default = scenario::default_of(AgentKind::Acp);
        std::fs::write(&file, default.text).expect("written");
        assert!(find(names).is_ok());
    }
}
