//! Compiles the JSON Schema of a doctype to a compact graph, once per process at first use.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::evaluate::{Keyword, rotated_indices};
use super::json::Json;
use crate::registry;
use crate::rule::Rule;
use agentproto_manifest::Doctype;

/// `$id` and text of every manifest schema.
pub use agentproto_schemas::MANIFESTS as SCHEMAS;

fn schema_id(doctype: Doctype) -> &'static str {
    let file = match doctype {
        Doctype::Cli => "/CLI.schema.json",
        Doctype::AgentCli => "/AGENT-CLI.schema.json",
        Doctype::Acp => "/ACP.schema.json",
        Doctype::Sandbox => "/SANDBOX.schema.json",
        Doctype::Secrets => "/SECRETS.schema.json",
        Doctype::Runner => "/RUNNER.schema.json",
        Doctype::Tool => "/TOOL.schema.json",
        Doctype::Operator => "/OPERATOR.schema.json",
    };
    SCHEMAS
        .iter()
        .map(|(id, _)| *id)
        .find(|id| id.ends_with(file))
        .unwrap_or("")
}

/// Index of the schema file with this id. The specs publish schemas under `/docs/` and refer to
/// them under `/schemas/`, or the other way round (C21), so both forms are accepted.
fn file_of(id: &str) -> Option<usize> {
    fn bare(id: &str) -> &str {
        let tail = id.split_once("agentproto.sh/").map_or(id, |(_, tail)| tail);
        tail.strip_prefix("docs/")
            .or_else(|| tail.strip_prefix("schemas/"))
            .unwrap_or(tail)
    }
    SCHEMAS
        .iter()
        .position(|(known, _)| bare(known) == bare(id))
}

pub type ShapeId = usize;

#[derive(Clone, Debug, PartialEq)]
pub enum Const {
    Null,
    Bool(bool),
    Int(i64),
    Str(Box<str>),
}

#[derive(Debug, Default)]
pub enum Additional {
    #[default]
    Allowed,
    Denied,
    Each(ShapeId),
}

/// A compiled subschema.
#[derive(Debug, Default)]
pub struct Shape {
    /// Allowed types as bits of `type_bit`. 0 allows every type.
    pub types: u8,
    pub allowed: Vec<Const>,
    pub is_const: bool,
    pub pattern: Option<CompiledPattern>,
    pub uri: bool,
    pub min_length: Option<usize>,
    pub max_length: Option<usize>,
    pub minimum: Option<i64>,
    pub maximum: Option<i64>,
    pub min_items: Option<usize>,
    pub max_items: Option<usize>,
    pub unique: bool,
    pub items: Option<ShapeId>,
    pub properties: Vec<(Box<str>, ShapeId)>,
    pub additional: Additional,
    pub names: Option<ShapeId>,
    pub required: Vec<Box<str>>,
    pub one_of: Vec<ShapeId>,
    pub discriminator: Option<Box<str>>,
    pub any_of: Vec<ShapeId>,
    pub all_of: Vec<ShapeId>,
    pub condition: Option<(ShapeId, ShapeId)>,
    pub not: Option<ShapeId>,
    /// What the value means, in a sentence or two.
    pub description: Option<&'static str>,
    /// Descriptions next to the `$ref` of a property, in the order of `properties`. They replace
    /// the description of the shape.
    property_descriptions: Vec<Option<&'static str>>,
    rules: Vec<(Box<str>, &'static Rule)>,
}

/// A regular expression. It is compiled at the first use.
#[derive(Debug)]
pub struct CompiledPattern {
    pub source: Box<str>,
    compiled: OnceLock<Option<regress::Regex>>,
}

/// Maximum number of bytes of a text that is matched. Valid values of fields with a pattern are
/// much shorter, and a backtracking engine could be slow on longer texts.
const MAX_PATTERN_INPUT: usize = 8192;

impl CompiledPattern {
    pub fn matches(&self, text: &str) -> bool {
        // JSON Schema patterns have ECMAScript syntax, and `regress` compiles them in microseconds.
        // Building an automaton would not pay off in a run over one file.
        let compiled = self
            .compiled
            .get_or_init(|| regress::Regex::new(&self.source).ok());
        text.len() <= MAX_PATTERN_INPUT
            && compiled
                .as_ref()
                .is_none_or(|regex| regex.find(text).is_some())
    }
}

impl Shape {
    /// The rule to report when a keyword fails. `name` is the missing key of `required`.
    pub fn rule(&self, keyword: Keyword, name: Option<&str>) -> &'static Rule {
        if let Some(name) = name
            && let Some((_, rule)) = self.rules.iter().find(|(key, _)| {
                key.strip_prefix(keyword.as_str())
                    .and_then(|rest| rest.strip_prefix(':'))
                    == Some(name)
            })
        {
            return rule;
        }
        self.rules
            .iter()
            .find(|(key, _)| **key == *keyword.as_str())
            .map_or_else(|| keyword.general_rule(), |(_, rule)| rule)
    }

    pub fn property(&self, name: &str) -> Option<ShapeId> {
        self.properties
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, id)| *id)
    }

    /// Same as `property`, but starts the search at `next`, and sets it to the index after the hit.
    pub fn property_from(&self, name: &str, next: &mut usize) -> Option<ShapeId> {
        let (at, id) = rotated_indices(self.properties.len(), *next).find_map(|at| {
            let (known, id) = self.properties.get(at)?;
            (**known == *name).then_some((at, *id))
        })?;
        *next = at + 1;
        Some(id)
    }

    /// The description next to the `$ref` of the property at this index.
    pub fn property_description(&self, at: usize) -> Option<&'static str> {
        self.property_descriptions.get(at).copied().flatten()
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Shapes {
    nodes: Vec<Shape>,
    /// Index of the shape of the whole document.
    pub root: ShapeId,
}

impl Shapes {
    /// The shape with an index.
    pub fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.nodes.get(id)
    }
}

const NODE_CAPACITY: usize = 256;

/// The compiled schema of a doctype.
pub fn shapes_for(doctype: Doctype) -> &'static Shapes {
    static COMPILED: [OnceLock<Shapes>; 8] = [const { OnceLock::new() }; 8];
    COMPILED[doctype as usize].get_or_init(|| {
        let mut compiler = Compiler {
            // Enough for the largest schema. Shapes are large, and growing the vector moves them.
            nodes: Vec::with_capacity(NODE_CAPACITY),
            ..Compiler::default()
        };
        let root = compiler.reference(schema_id(doctype), 0);
        Shapes {
            nodes: compiler.nodes,
            root,
        }
    })
}

/// A schema file as JSON. It is parsed once.
fn parsed(file: usize) -> &'static Json {
    static PARSED: [OnceLock<Json>; SCHEMAS.len()] = [const { OnceLock::new() }; SCHEMAS.len()];
    static NOTHING: Json = Json::Bool(true);
    match (PARSED.get(file), SCHEMAS.get(file)) {
        (Some(cell), Some((_, text))) => {
            cell.get_or_init(|| Json::read(text).unwrap_or(Json::Bool(true)))
        }
        _ => &NOTHING,
    }
}

#[derive(Default)]
struct Compiler {
    known: HashMap<(usize, String), ShapeId>,
    nodes: Vec<Shape>,
}

impl Compiler {
    /// The shape that a `$ref` refers to. It is compiled once. Its id is registered before it is
    /// compiled, so recursive schemas terminate.
    fn reference(&mut self, reference: &str, current: usize) -> ShapeId {
        let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let file = if file.is_empty() {
            Some(current)
        } else {
            file_of(file)
        };
        let Some(file) = file else {
            return self.any();
        };
        let key = (file, pointer.to_owned());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let Some(schema) = parsed(file).pointer(pointer) else {
            return self.any();
        };
        let shape = self.any();
        self.known.insert(key, shape);
        let compiled = self.compile(schema, file);
        if let Some(place) = self.nodes.get_mut(shape) {
            *place = compiled;
        }
        shape
    }

    fn any(&mut self) -> ShapeId {
        self.nodes.push(Shape::default());
        self.nodes.len() - 1
    }

    fn add(&mut self, schema: &'static Json, file: usize) -> ShapeId {
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str)
            && schema
                .entries()
                .iter()
                .all(|(k, _)| matches!(&**k, "$ref" | "description" | "title" | "default"))
        {
            return self.reference(reference, file);
        }
        let shape = self.compile(schema, file);
        self.nodes.push(shape);
        self.nodes.len() - 1
    }

    fn compile(&mut self, schema: &'static Json, file: usize) -> Shape {
        let mut shape = Shape::default();
        if schema == &Json::Bool(false) {
            shape.not = Some(self.any());
        }
        let number = |v: &Json| v.as_int().and_then(|n| usize::try_from(n).ok());
        for (keyword, value) in schema.entries() {
            match &**keyword {
                "$ref" => {
                    if let Some(reference) = value.as_str() {
                        let id = self.reference(reference, file);
                        shape.all_of.push(id);
                    }
                }
                "description" => shape.description = value.as_str(),
                "type" => shape.types = types(value),
                "const" => {
                    shape.allowed = constant(value).into_iter().collect();
                    shape.is_const = true;
                }
                "enum" => {
                    shape.allowed = value.items().iter().filter_map(constant).collect();
                }
                "pattern" => {
                    shape.pattern = value.as_str().map(|source| CompiledPattern {
                        source: source.into(),
                        compiled: OnceLock::new(),
                    });
                }
                "format" => shape.uri = value.as_str() == Some("uri"),
                "minLength" => shape.min_length = number(value),
                "maxLength" => shape.max_length = number(value),
                "minimum" => shape.minimum = value.as_int(),
                "maximum" => shape.maximum = value.as_int(),
                "minItems" => shape.min_items = number(value),
                "maxItems" => shape.max_items = number(value),
                "uniqueItems" => shape.unique = value == &Json::Bool(true),
                "items" => shape.items = Some(self.add(value, file)),
                "properties" => {
                    for (name, sub) in value.entries() {
                        let id = self.add(sub, file);
                        shape.properties.push(((&**name).into(), id));
                        shape.property_descriptions.push(description(sub));
                    }
                }
                "additionalProperties" => {
                    shape.additional = match value {
                        Json::Bool(true) => Additional::Allowed,
                        Json::Bool(false) => Additional::Denied,
                        sub => Additional::Each(self.add(sub, file)),
                    };
                }
                "propertyNames" => shape.names = Some(self.add(value, file)),
                "required" => {
                    let names = value.items().iter().filter_map(Json::as_str);
                    shape.required = names.map(Into::into).collect();
                }
                "oneOf" => shape.one_of = self.list(value, file),
                "anyOf" => shape.any_of = self.list(value, file),
                "allOf" => {
                    let mut all = self.list(value, file);
                    shape.all_of.append(&mut all);
                }
                "if" => {
                    if let Some(then) = schema.get("then") {
                        let condition = (self.add(value, file), self.add(then, file));
                        shape.condition = Some(condition);
                    }
                }
                "not" => shape.not = Some(self.add(value, file)),
                "x-discriminator" => shape.discriminator = value.as_str().map(Into::into),
                "x-rules" => {
                    for (keyword, slug) in value.entries() {
                        if let Some(rule) = slug.as_str().and_then(registry::find) {
                            shape.rules.push(((&**keyword).into(), rule));
                        }
                    }
                }
                // `then` is read with `if`. All other keywords are annotations; a test rejects
                // schemas with unsupported keywords.
                _ => {}
            }
        }
        shape
    }

    fn list(&mut self, value: &'static Json, file: usize) -> Vec<ShapeId> {
        let subs = value.items().iter();
        subs.map(|sub| self.add(sub, file)).collect()
    }
}

pub const INTEGER: u8 = 4;
/// Numbers that are not integers. The type `number` is both bits.
pub const FRACTION: u8 = 8;

pub fn type_bit(name: &str) -> u8 {
    match name {
        "null" => 1,
        "boolean" => 2,
        "integer" => INTEGER,
        "number" => INTEGER | FRACTION,
        "string" => 16,
        "array" => 32,
        "object" => 64,
        _ => 0,
    }
}

fn description(schema: &'static Json) -> Option<&'static str> {
    schema.get("description").and_then(Json::as_str)
}

fn types(value: &Json) -> u8 {
    match value {
        Json::Str(name) => type_bit(name),
        Json::List(names) => names
            .iter()
            .filter_map(Json::as_str)
            .map(type_bit)
            .fold(0, |a, b| a | b),
        _ => 0,
    }
}

fn constant(value: &Json) -> Option<Const> {
    Some(match value {
        Json::Null => Const::Null,
        Json::Bool(b) => Const::Bool(*b),
        Json::Int(n) => Const::Int(*n),
        Json::Str(s) => Const::Str((&**s).into()),
        _ => return None,
    })
}
