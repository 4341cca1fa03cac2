//! Recipes: how to start a known agent with the mock model. They are YAML files in
//! `suites/recipes`, or files of the user.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use agentproto_manifest::Node;
use agentproto_manifest::fields::{self, FieldError, FieldReader};
use agentproto_text::closest_of;

use super::prompts;

const FORMAT: &str = "agentproto.recipe/v1";
const KEYS: [&str; 11] = [
    "recipe", "title", "package", "command", "model", "env", "home", "auth", "prompts", "without",
    "note",
];

/// How to start an agent and what to ask it.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Name and version of the agent.
    pub title: String,
    /// Where it is installed from.
    pub package: Package,
    /// The program and its arguments. `{model_url}` and `{cwd}` are replaced.
    pub command: Vec<String>,
    /// Whether the agent uses the mock model. Other agents have no model, or need a login.
    pub uses_mock_model: bool,
    /// Environment variables. `{model_url}` and `{home}` are replaced.
    pub env: Vec<(String, String)>,
    /// Files of its home directory: path and text.
    pub home: Vec<(String, String)>,
    /// The auth method to log in with.
    pub auth_method: Option<String>,
    /// What to ask it, by the keys of a prompts file.
    pub prompts: BTreeMap<String, String>,
    /// What a reader of its report should know.
    pub note: Option<String>,
}

/// A package of a registry.
#[derive(Clone, Debug)]
pub struct Package {
    /// `npm` or `pypi`.
    pub registry: String,
    /// Name of the package.
    pub name: String,
    /// The version that the recipe was tried with.
    pub version: String,
    /// Other packages that it needs, with their versions.
    pub with: Vec<String>,
}

impl Package {
    /// The command that installs it.
    pub fn install(&self) -> String {
        let Package { name, version, .. } = self;
        let mut command = match self.registry.as_str() {
            "npm" => format!("npm install {name}@{version}"),
            _ => format!("pip install {name}=={version}"),
        };
        for package in &self.with {
            command += &format!(" {package}");
        }
        command
    }
}

/// The names of the built-in recipes, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    agentproto_suites::RECIPES.iter().map(|(name, _)| *name)
}

/// The text of a built-in recipe. The error is the closest known name, if there is one.
pub fn built_in(name: &str) -> Result<&'static str, Option<&'static str>> {
    let mut known = agentproto_suites::RECIPES.iter();
    match known.find(|(other, _)| *other == name) {
        Some((_, text)) => Ok(text),
        None => Err(closest_of(name, names())),
    }
}

/// Parses a recipe, or returns everything that is wrong with it.
pub fn parse(text: &str) -> Result<Recipe, Vec<FieldError>> {
    let what = "a recipe must be a mapping with `recipe`, `title`, `package` and `command`";
    fields::read(text, what, |root, reader| {
        reader.check_keys(root, "the recipe", &KEYS);
        let format = reader.required_string(root, "recipe", "the recipe");
        if let Some(node) = root.get("recipe").filter(|_| format != FORMAT) {
            reader.error(node.span, format!("`recipe` must be `{FORMAT}`"));
        }
        let command = reader.strings(root, "command");
        if command.is_empty() {
            reader.error(root.span, "the recipe needs `command`");
        }
        let uses_mock_model = reader.one_of(root, "model", "mock", &["mock", "none"]) == "mock";
        Recipe {
            title: reader.required_string(root, "title", "the recipe"),
            package: package(root, reader),
            command,
            uses_mock_model,
            env: reader.pairs(root, "env"),
            home: home(root, reader),
            auth_method: reader.string(root, "auth"),
            prompts: read_prompts(root, uses_mock_model, reader),
            note: reader.string(root, "note"),
        }
    })
}

fn package(root: &Node, reader: &mut FieldReader) -> Package {
    let Some(node) = root.get("package") else {
        reader.error(root.span, "the recipe needs `package`");
        return Package {
            registry: String::new(),
            name: String::new(),
            version: String::new(),
            with: Vec::new(),
        };
    };
    reader.check_keys(node, "`package`", &["npm", "pypi", "version", "with"]);
    let registry = if node.has("npm") { "npm" } else { "pypi" };
    Package {
        registry: registry.to_owned(),
        name: reader.required_string(node, registry, "`package`"),
        version: reader.required_string(node, "version", "`package`"),
        with: reader.strings(node, "with"),
    }
}

/// The files of the home directory. They must stay inside it.
fn home(root: &Node, reader: &mut FieldReader) -> Vec<(String, String)> {
    let files = reader.pairs(root, "home");
    for (path, _) in &files {
        let mut parts = Path::new(path).components();
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            let span = root.get("home").map_or(root.span, |node| node.span);
            let what = format!("`{path}` must be a path below the home directory");
            reader.error(span, what);
        }
    }
    files
}

/// With the mock model, all of its prompts that are not excluded. What the recipe sets comes last.
fn read_prompts(root: &Node, mock: bool, reader: &mut FieldReader) -> BTreeMap<String, String> {
    let mut all = match mock {
        true => prompts::mock_model_prompts(),
        false => BTreeMap::new(),
    };
    for key in reader.strings(root, "without") {
        if all.remove(&key).is_none() {
            let span = root.get("without").map_or(root.span, |node| node.span);
            reader.error(span, format!("the mock model has no prompt `{key}`"));
        }
    }
    if let Some(node) = root.get("prompts") {
        reader.check_keys(node, "`prompts`", &prompts::names());
        all.extend(reader.pairs(root, "prompts"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_recipe_is_valid() {
        let mut last = "";
        for (name, text) in agentproto_suites::RECIPES {
            assert!(last < *name, "{name} is not sorted");
            last = name;
            let recipe = parse(text).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
            assert!(recipe.title.contains(&recipe.package.version), "{name}");
            let texts = recipe.env.iter().chain(&recipe.home);
            let mut texts = texts.map(|(_, text)| text).chain(&recipe.command);
            let names_model = texts.any(|text| text.contains("{model_url}"));
            assert!(recipe.uses_mock_model || !names_model, "{name}");
        }
    }

    #[test]
    fn the_install_command_names_all_packages() {
        let text = "recipe: agentproto.recipe/v1\ntitle: x 1\ncommand: [x]\n\
                    package: {npm: x, version: '1', with: [y@2, z]}\n";
        let recipe = parse(text).expect("a recipe");
        assert_eq!(recipe.package.install(), "npm install x@1 y@2 z");
    }

    #[test]
    fn errors_are_reported_with_their_places() {
        let text = "recipe: agentproto.recipe/v2\ntitle: x 1\ncomand: [x]\npackage: {npm: x}\n\
                    home: {../x: y}\nwithout: [poem]\n";
        let errors = parse(text).expect_err("invalid");
        let errors: Vec<String> = errors
            .iter()
            .map(|error| format!("{}: {}", error.line, error.message))
            .collect();
        let expected = [
            "1: the recipe needs `command`",
            "1: `recipe` must be `agentproto.recipe/v1`",
            "3: unknown key `comand` in the recipe; did you mean `command`?",
            "4: `package` needs `version`",
            "5: `../x` must be a path below the home directory",
            "6: the mock model has no prompt `poem`",
        ];
        assert_eq!(errors, expected);
    }
}
