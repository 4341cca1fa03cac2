//! Walks a value along a schema. Unions are decided by their tag, so that errors refer to the
//! intended variant, and unknown keys are found.

use serde_json::{Map, Value};

use super::error::{ShapeError, ShapeErrorKind, display};
use super::methods::{DRAFT_PLACES, DRAFT_VARIANTS, FORMER_PLACES};
use agentproto_wire::envelope::type_name;

/// Maximum number of errors per value.
const MAX_ERRORS: usize = 32;

pub fn walk(schema: &Value, value: &Value) -> Vec<ShapeError> {
    let mut walk = Walk {
        root: schema,
        errors: Vec::new(),
    };
    walk.check(&[schema], value, "");
    walk.errors
}

struct Walk<'s> {
    root: &'s Value,
    errors: Vec<ShapeError>,
}

/// All schemas that apply to a value, with the unions decided.
#[derive(Default)]
struct Applied<'s> {
    schemas: Vec<&'s Value>,
    /// Tags that are allowed although the selected variant does not declare them.
    tags: Vec<&'s str>,
    /// Whether a union could not be decided, so that the allowed keys are unknown.
    is_undecided: bool,
}

impl<'s> Walk<'s> {
    fn report(&mut self, at: &str, kind: ShapeErrorKind) {
        let error = ShapeError {
            at: at.to_owned(),
            kind,
        };
        if self.errors.len() < MAX_ERRORS && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn check(&mut self, schemas: &[&'s Value], value: &Value, at: &str) {
        let mut applied = Applied::default();
        for schema in schemas {
            self.apply(schema, value, at, &mut applied);
        }
        for schema in &applied.schemas {
            if !self.is_right_type(schema, value, at) {
                return;
            }
        }
        for schema in &applied.schemas {
            self.limits(schema, value, at);
        }
        match value {
            Value::Object(object) => self.object(&applied, object, at),
            Value::Array(list) => {
                let items = applied.schemas.iter().filter_map(|s| s.get("items"));
                let items: Vec<&Value> = items.collect();
                for (index, item) in list.iter().enumerate() {
                    self.check(&items, item, &format!("{at}/{index}"));
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, schema: &'s Value, value: &Value, at: &str, applied: &mut Applied<'s>) {
        applied.schemas.push(schema);
        if let Some(target) = self.referred(schema) {
            self.apply(target, value, at, applied);
        }
        for part in list(schema, "allOf") {
            self.apply(part, value, at, applied);
        }
        for union in ["oneOf", "anyOf"] {
            let branches = list(schema, union);
            if !branches.is_empty() {
                self.choose(branches, value, at, applied);
            }
        }
    }

    fn referred(&self, schema: &'s Value) -> Option<&'s Value> {
        let name = schema.get("$ref")?.as_str()?;
        self.root.pointer(name.strip_prefix('#')?)
    }

    /// Decides which variant of a union is meant.
    fn choose(
        &mut self,
        branches: &'s [Value],
        value: &Value,
        at: &str,
        applied: &mut Applied<'s>,
    ) {
        let is_null = |branch: &&Value| branch.get("type") == Some(&Value::from("null"));
        if value.is_null() && branches.iter().any(|branch| is_null(&branch)) {
            return;
        }
        let rest: Vec<&Value> = branches.iter().filter(|b| !is_null(b)).collect();
        if let [only] = rest.as_slice() {
            return self.apply(only, value, at, applied);
        }
        let words: Vec<&Value> = rest.iter().filter_map(|b| b.get("const")).collect();
        if !words.is_empty() {
            let is_open = words.len() < rest.len();
            applied.is_undecided |= !self.is_word(&words, is_open, value, at);
            return;
        }
        if let Some(tag) = rest.iter().find_map(|branch| tag(branch)) {
            return self.choose_by_tag(tag.0, &rest, value, at, applied);
        }
        let faults = |branch: &&&'s Value| {
            let mut trial = Walk {
                root: self.root,
                errors: Vec::new(),
            };
            trial.check(&[branch], value, at);
            let names = trial.errors.iter().filter(|d| d.is_about_a_name()).count();
            (trial.errors.len() - names, names)
        };
        if let Some(best) = rest.iter().min_by_key(faults) {
            self.apply(best, value, at, applied);
        }
    }

    /// Whether a value is in a list of constants. An open list accepts every string.
    fn is_word(&mut self, words: &[&Value], is_open: bool, value: &Value, at: &str) -> bool {
        if words.contains(&value) || (is_open && value.is_string()) {
            return true;
        }
        let expected = match is_open {
            true => "a string".to_owned(),
            false => one_of(words.iter().copied()),
        };
        let found = display(value);
        let kind = match value.is_string() {
            true => ShapeErrorKind::Value { expected, found },
            false => ShapeErrorKind::Type { expected, found },
        };
        self.report(at, kind);
        false
    }

    fn choose_by_tag(
        &mut self,
        name: &'s str,
        branches: &[&'s Value],
        value: &Value,
        at: &str,
        applied: &mut Applied<'s>,
    ) {
        let Value::Object(object) = value else {
            applied.is_undecided = true;
            return self.wrong_type(at, "an object", value);
        };
        let meant = object.get(name);
        let fits = |branch: &&&Value| tag(branch).is_some_and(|(_, word)| Some(word) == meant);
        if let Some(branch) = branches.iter().find(fits) {
            return self.apply(branch, value, at, applied);
        }
        if let Some(untagged) = branches.iter().find(|branch| tag(branch).is_none()) {
            applied.tags.push(name);
            return self.apply(untagged, value, at, applied);
        }
        applied.is_undecided = true;
        let words: Vec<&Value> = branches.iter().filter_map(|b| Some(tag(b)?.1)).collect();
        let at = format!("{at}/{name}");
        match meant {
            None => {
                let twin = object.keys().find(|key| same_letters(key, name));
                let kind = match twin {
                    Some(_) => ShapeErrorKind::Case {
                        right: name.to_owned(),
                    },
                    None => ShapeErrorKind::Missing {
                        expected: one_of(words.iter().copied()),
                    },
                };
                self.report(&at, kind);
            }
            Some(Value::String(word)) => {
                let mut known = words.iter().filter_map(|w| w.as_str());
                let twin = known.find(|known| same_letters(word, known));
                let kind = match twin {
                    _ if DRAFT_VARIANTS.contains(&word.as_str()) => ShapeErrorKind::DraftVariant,
                    Some(right) => ShapeErrorKind::Case {
                        right: right.to_owned(),
                    },
                    None => ShapeErrorKind::Value {
                        expected: one_of(words.iter().copied()),
                        found: display(&Value::String(word.clone())),
                    },
                };
                self.report(&at, kind);
            }
            Some(other) => self.wrong_type(&at, "a string", other),
        }
    }

    fn wrong_type(&mut self, at: &str, expected: &str, value: &Value) {
        self.report(
            at,
            ShapeErrorKind::Type {
                expected: expected.to_owned(),
                found: found(value),
            },
        );
    }

    fn is_right_type(&mut self, schema: &Value, value: &Value, at: &str) -> bool {
        let Some(types) = schema.get("type") else {
            return true;
        };
        let names = names(types);
        if names.is_empty() || names.iter().any(|name| is_a(value, name)) {
            return true;
        }
        self.wrong_type(at, &join_names(&names), value);
        false
    }

    fn limits(&mut self, schema: &Value, value: &Value, at: &str) {
        let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
        let (number, length) = (value.as_f64(), value.as_str().map(|s| s.chars().count()));
        let low = limit("minimum").filter(|low| number.is_some_and(|n| n < *low));
        let high = limit("maximum").filter(|high| number.is_some_and(|n| n > *high));
        let short = limit("minLength").filter(|low| length.is_some_and(|n| (n as f64) < *low));
        let expected = match (low, high, short) {
            (Some(low), ..) => format!("at least {low}"),
            (_, Some(high), _) => format!("at most {high}"),
            (.., Some(_)) => "a non-empty string".to_owned(),
            _ => return,
        };
        let found = display(value);
        self.report(at, ShapeErrorKind::Value { expected, found });
    }

    fn object(&mut self, applied: &Applied<'s>, object: &Map<String, Value>, at: &str) {
        let schemas = &applied.schemas;
        let typed = schemas
            .iter()
            .filter_map(|s| s.get("properties")?.as_object());
        let typed: Vec<&'s Map<String, Value>> = typed.collect();
        let free = |name: &str| schemas.iter().find_map(|s| s.get(name));
        let other = free("additionalProperties").or(free("unevaluatedProperties"));
        for (key, value) in object {
            let at = format!("{at}/{}", escaped(key));
            let own: Vec<&'s Value> = typed.iter().filter_map(|t| t.get(key)).collect();
            if !own.is_empty() {
                self.check(&own, value, &at);
            } else if let Some(schema) = other {
                if schema.is_object() {
                    self.check(&[schema], value, &at);
                }
            } else if !typed.is_empty()
                && !applied.is_undecided
                && !applied.tags.contains(&key.as_str())
            {
                let known = typed.iter().flat_map(|t| t.keys());
                self.unknown(key, known, object, &at);
            }
        }
        for key in schemas.iter().flat_map(|s| list(s, "required")) {
            let Some(key) = key.as_str() else { continue };
            let is_there = object.keys().any(|k| k == key || same_letters(k, key));
            if is_there {
                continue;
            }
            let schema = typed.iter().find_map(|t| t.get(key));
            let expected = schema.map_or_else(String::new, |s| self.described(s));
            let at = format!("{at}/{}", escaped(key));
            // A missing tag is already reported where its union is decided.
            if !self.errors.iter().any(|d| d.at == at) {
                self.report(&at, ShapeErrorKind::Missing { expected });
            }
        }
    }

    fn unknown<'k>(
        &mut self,
        key: &str,
        mut known: impl Iterator<Item = &'k String>,
        object: &Map<String, Value>,
        at: &str,
    ) {
        let mut error = ShapeError {
            at: at.to_owned(),
            kind: ShapeErrorKind::Unknown,
        };
        let twin = known.find(|k| same_letters(k, key) && !object.contains_key(k.as_str()));
        if DRAFT_PLACES.contains(&error.place().as_str()) {
            error.kind = ShapeErrorKind::Draft;
        } else if FORMER_PLACES.contains(&error.place().as_str()) {
            error.kind = ShapeErrorKind::FormerDraft;
        } else if let Some(twin) = twin {
            error.kind = ShapeErrorKind::Case {
                right: twin.clone(),
            };
        }
        self.report(at, error.kind);
    }

    /// What a schema expects, in words.
    fn described(&self, schema: &'s Value) -> String {
        let target = self.referred(schema).unwrap_or(schema);
        let branches = list(target, "oneOf").iter().chain(list(target, "anyOf"));
        let words: Vec<&Value> = branches.filter_map(|b| b.get("const")).collect();
        if !words.is_empty() {
            return one_of(words.into_iter());
        }
        match target.get("type").map(names) {
            Some(names) if !names.is_empty() => join_names(&names),
            _ => "an object".to_owned(),
        }
    }
}

fn list<'v>(schema: &'v Value, key: &str) -> &'v [Value] {
    let list = schema.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The property that identifies a variant, and its value.
fn tag(branch: &Value) -> Option<(&str, &Value)> {
    let properties = branch.get("properties")?.as_object()?;
    let mut tags = properties.iter();
    tags.find_map(|(name, schema)| Some((name.as_str(), schema.get("const")?)))
}

fn names(types: &Value) -> Vec<&str> {
    match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => true,
    }
}

fn join_names(names: &[&str]) -> String {
    let words = names.iter().map(|name| match *name {
        "boolean" => "true or false",
        "object" => "an object",
        "array" => "a list",
        "string" => "a string",
        "number" => "a number",
        "integer" => "an integer",
        other => other,
    });
    words.collect::<Vec<_>>().join(" or ")
}

fn one_of<'v>(words: impl Iterator<Item = &'v Value>) -> String {
    let words: Vec<String> = words.map(Value::to_string).collect();
    match words.as_slice() {
        [only] => only.clone(),
        _ => format!("one of {}", words.join(", ")),
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Object(_) | Value::Array(_) => display(value),
        _ => format!("{} ({})", type_name(value), display(value)),
    }
}

/// Whether two names have the same letters in a different case: `raw_input` and `rawInput`.
fn same_letters(one: &str, other: &str) -> bool {
    let letters = |word: &str| {
        let kept = word.chars().filter(|c| *c != '_' && *c != '-');
        kept.flat_map(char::to_lowercase).collect::<String>()
    };
    one != other && !one.starts_with('_') && letters(one) == letters(other)
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
