//! Validates a node against a shape.

use super::compile::{Additional, Const, FRACTION, INTEGER, Shape, ShapeId, Shapes, type_bit};
use super::equality::duplicates;
use crate::context::Location;
use crate::rule::Rule;
use crate::rules::document as general;
use agentproto_manifest::{Entry, Node, Value};

/// A JSON Schema keyword that a value can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    /// `type`.
    Type,
    /// `enum`.
    Enum,
    /// `const`.
    Const,
    /// `pattern`.
    Pattern,
    /// `format`.
    Format,
    /// `minLength`.
    MinLength,
    /// `maxLength`.
    MaxLength,
    /// `minimum`.
    Minimum,
    /// `maximum`.
    Maximum,
    /// `minItems`.
    MinItems,
    /// `maxItems`.
    MaxItems,
    /// `uniqueItems`.
    UniqueItems,
    /// `required`.
    Required,
    /// `additionalProperties`.
    AdditionalProperties,
    /// `propertyNames`.
    PropertyNames,
    /// `oneOf`.
    OneOf,
    /// `anyOf`.
    AnyOf,
    /// `not`.
    Not,
}

impl Keyword {
    /// Name of the keyword in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Keyword::Type => "type",
            Keyword::Enum => "enum",
            Keyword::Const => "const",
            Keyword::Pattern => "pattern",
            Keyword::Format => "format",
            Keyword::MinLength => "minLength",
            Keyword::MaxLength => "maxLength",
            Keyword::Minimum => "minimum",
            Keyword::Maximum => "maximum",
            Keyword::MinItems => "minItems",
            Keyword::MaxItems => "maxItems",
            Keyword::UniqueItems => "uniqueItems",
            Keyword::Required => "required",
            Keyword::AdditionalProperties => "additionalProperties",
            Keyword::PropertyNames => "propertyNames",
            Keyword::OneOf => "oneOf",
            Keyword::AnyOf => "anyOf",
            Keyword::Not => "not",
        }
    }

    /// The rule to report if the schema does not name one for this keyword.
    pub fn general_rule(self) -> &'static Rule {
        match self {
            Keyword::Type | Keyword::OneOf | Keyword::AnyOf => &general::FM_TYPE,
            Keyword::Enum | Keyword::Const => &general::FM_ENUM,
            Keyword::Required => &general::FM_REQUIRED_MISSING,
            Keyword::AdditionalProperties | Keyword::PropertyNames | Keyword::Not => {
                &general::FM_UNKNOWN_FIELD
            }
            _ => &general::FM_RANGE,
        }
    }
}

/// A violated constraint, without a message.
#[derive(Clone, Debug)]
pub struct SchemaViolation<'d> {
    /// The rule to report.
    pub rule: &'static Rule,
    /// The violated keyword.
    pub keyword: Keyword,
    /// Location that the finding points at.
    pub location: Location<'d>,
    /// The node that violates the constraint. For a missing or unknown key, the mapping.
    pub node: &'d Node,
    /// The entry with the unknown key or the invalid key name.
    pub entry: Option<&'d Entry>,
    /// The missing key.
    pub missing: Option<String>,
    /// The accepted values, known keys or discriminator values; or the violated bound, followed by
    /// the opposite bound of a number.
    pub expected: Vec<String>,
    /// The description of the field in the schema, or its type. For a missing key, of that field.
    pub description: Option<&'static str>,
    /// Number of further unknown keys of the mapping that are not reported. Set at the last one
    /// that is reported.
    pub unlisted: usize,
}

/// All violations of a tree. A mistake is reported once: nothing below a value of the wrong type
/// is validated, and of a union only the intended arm.
pub fn violations<'d>(
    shapes: &'d Shapes,
    root: &'d Node,
    root_place: Location<'d>,
) -> Vec<SchemaViolation<'d>> {
    let mut validator = Validator {
        shapes,
        found: Vec::new(),
        quiet: false,
        failed: false,
        description: None,
    };
    validator.node(shapes.root, root, root_place);
    validator.found
}

/// Whether a node conforms.
fn is_valid(shapes: &Shapes, id: ShapeId, node: &Node) -> bool {
    let mut validator = Validator {
        shapes,
        found: Vec::new(),
        quiet: true,
        failed: false,
        description: None,
    };
    validator.node(id, node, Location::Value(node));
    !validator.failed
}

/// Maximum number of unknown keys that are reported per mapping. More would not help the reader,
/// and reporting one takes time proportional to the size of the mapping.
const MAX_UNKNOWN_KEYS: usize = 1_000;

struct Validator<'d> {
    shapes: &'d Shapes,
    found: Vec<SchemaViolation<'d>>,
    /// Only record whether validation failed. Most conditions of a schema fail, and their
    /// violations are not needed.
    quiet: bool,
    failed: bool,
    /// The description of the field that is validated.
    description: Option<&'static str>,
}

impl<'d> Validator<'d> {
    /// Validates a node. Missing keys are reported at `missing_at`, the key of the mapping.
    fn node(&mut self, id: ShapeId, node: &'d Node, missing_at: Location<'d>) {
        if self.quiet && self.failed {
            return;
        }
        let Some(shape) = self.shapes.get(id) else {
            return;
        };
        let is = type_of(node);
        let fits = shape.types == 0 || shape.types & is != 0;
        if !fits {
            if self.quiet {
                self.failed = true;
                return;
            }
            let expected = type_names(shape.types);
            self.violate(shape, Keyword::Type, node, expected);
            return;
        }
        if !shape.allowed.is_empty() && !shape.allowed.iter().any(|c| equals(c, node)) {
            if self.quiet {
                self.failed = true;
                return;
            }
            let keyword = if shape.is_const {
                Keyword::Const
            } else {
                Keyword::Enum
            };
            self.violate(
                shape,
                keyword,
                node,
                shape.allowed.iter().map(constant_text).collect(),
            );
            return;
        }
        // Items and fields have their own descriptions.
        let description = self.description;
        match &node.value {
            Value::Str(text) => self.text(shape, text, node),
            Value::Int(number) => self.number(shape, *number as f64, node),
            Value::Float(number) => self.number(shape, *number, node),
            Value::Seq(items) => self.sequence(shape, items, node),
            Value::Map(entries) => self.mapping(shape, entries, node, &missing_at),
            _ => {}
        }
        self.description = description;
        for sub in &shape.all_of {
            self.node(*sub, node, missing_at.clone());
        }
        if let Some((condition, then)) = shape.condition
            && is_valid(self.shapes, condition, node)
        {
            self.node(then, node, missing_at.clone());
        }
        if !shape.one_of.is_empty() {
            self.one_of(shape, node, missing_at.clone());
        }
        if !shape.any_of.is_empty() {
            self.any_of(shape, node, missing_at);
        }
        if let Some(sub) = shape.not
            && is_valid(self.shapes, sub, node)
        {
            self.not(shape, sub, node);
        }
    }

    fn push(&mut self, violation: impl FnOnce() -> SchemaViolation<'d>) {
        self.failed = true;
        if !self.quiet {
            self.found.push(violation());
        }
    }

    fn violate(&mut self, shape: &Shape, keyword: Keyword, node: &'d Node, expected: Vec<String>) {
        let description = self.description;
        self.push(|| SchemaViolation {
            description,
            rule: shape.rule(keyword, None),
            keyword,
            location: Location::Value(node),
            node,
            entry: None,
            missing: None,
            unlisted: 0,
            expected,
        });
    }

    fn text(&mut self, shape: &Shape, text: &str, node: &'d Node) {
        let long = |most: usize| text.len() > most && text.chars().count() > most;
        let short = |least: usize| text.len() < least || text.chars().count() < least;
        if let Some(least) = shape.min_length.filter(|least| short(*least)) {
            self.violate(shape, Keyword::MinLength, node, vec![least.to_string()]);
        } else if let Some(most) = shape.max_length.filter(|most| long(*most)) {
            self.violate(shape, Keyword::MaxLength, node, vec![most.to_string()]);
        } else if let Some(pattern) = shape.pattern.as_ref().filter(|p| !p.matches(text)) {
            self.violate(
                shape,
                Keyword::Pattern,
                node,
                vec![pattern.source.to_string()],
            );
        } else if shape.uri && !is_uri(text) {
            self.violate(shape, Keyword::Format, node, vec!["uri".to_owned()]);
        }
    }

    fn number(&mut self, shape: &Shape, number: f64, node: &'d Node) {
        let bounds = |bound: i64, opposite: Option<i64>| {
            let bounds = [Some(bound), opposite].into_iter().flatten();
            bounds.map(|bound| bound.to_string()).collect()
        };
        if let Some(least) = shape.minimum.filter(|least| number < *least as f64) {
            self.violate(shape, Keyword::Minimum, node, bounds(least, shape.maximum));
        } else if let Some(most) = shape.maximum.filter(|most| number > *most as f64) {
            self.violate(shape, Keyword::Maximum, node, bounds(most, shape.minimum));
        }
    }

    fn sequence(&mut self, shape: &Shape, items: &'d [Node], node: &'d Node) {
        if let Some(least) = shape.min_items.filter(|least| items.len() < *least) {
            self.violate(shape, Keyword::MinItems, node, vec![least.to_string()]);
        }
        if let Some(most) = shape.max_items.filter(|most| items.len() > *most) {
            self.violate(shape, Keyword::MaxItems, node, vec![most.to_string()]);
        }
        if shape.unique {
            for (item, first) in duplicates(items) {
                self.violate(shape, Keyword::UniqueItems, item, Vec::new());
                if let Some(last) = self.found.last_mut() {
                    last.node = first;
                }
            }
        }
        if let Some(each) = shape.items {
            self.description = self.shapes.get(each).and_then(|shape| shape.description);
            for item in items {
                let first_key = item.entries().first().map(|e| e.key_span);
                let at = first_key.map_or(Location::Value(item), |span| Location::Part(item, span));
                self.node(each, item, at);
            }
        }
    }

    fn mapping(
        &mut self,
        shape: &'d Shape,
        entries: &'d [Entry],
        node: &'d Node,
        missing_at: &Location<'d>,
    ) {
        // Fields are usually written in the order of the schema, so start at the last hit.
        let mut next = 0;
        for name in &shape.required {
            let hit = rotated_indices(entries.len(), next).find(|i| *entries[*i].key == **name);
            next = hit.map_or(next, |i| i + 1);
            if hit.is_none() {
                let (expected, description) = self.missing_field(shape, name);
                self.push(|| SchemaViolation {
                    description,
                    rule: shape.rule(Keyword::Required, Some(name)),
                    keyword: Keyword::Required,
                    location: missing_at.clone(),
                    node,
                    entry: None,
                    missing: Some(name.to_string()),
                    unlisted: 0,
                    expected,
                });
            }
        }
        let open = matches!(shape.additional, Additional::Allowed);
        if shape.properties.is_empty() && open && shape.names.is_none() {
            return;
        }
        let mut next = 0;
        let mut unknown = 0;
        let mut last_reported = 0;
        for entry in entries {
            if let Some(names) = shape.names {
                self.name(shape, names, entry, node);
            }
            let mut description = None;
            let sub = match shape.property_from(&entry.key, &mut next) {
                Some(sub) => {
                    description = shape.property_description(next - 1);
                    sub
                }
                None => match shape.additional {
                    Additional::Allowed => continue,
                    Additional::Each(sub) => sub,
                    Additional::Denied if unknown >= MAX_UNKNOWN_KEYS => {
                        unknown += 1;
                        continue;
                    }
                    Additional::Denied => {
                        unknown += 1;
                        last_reported = self.found.len();
                        self.push(|| SchemaViolation {
                            description: None,
                            rule: shape.rule(Keyword::AdditionalProperties, None),
                            keyword: Keyword::AdditionalProperties,
                            location: Location::Key(entry),
                            node,
                            entry: Some(entry),
                            missing: None,
                            unlisted: 0,
                            expected: shape
                                .properties
                                .iter()
                                .map(|(n, _)| n.to_string())
                                .collect(),
                        });
                        continue;
                    }
                },
            };
            let own = || self.shapes.get(sub).and_then(|shape| shape.description);
            self.description = description.or_else(own);
            self.node(sub, &entry.value, Location::Key(entry));
        }
        if unknown > MAX_UNKNOWN_KEYS
            && let Some(last) = self.found.get_mut(last_reported)
        {
            last.unlisted = unknown - MAX_UNKNOWN_KEYS;
        }
    }

    /// The allowed values of a missing field, and its description or type.
    fn missing_field(&self, shape: &Shape, name: &str) -> (Vec<String>, Option<&'static str>) {
        let mut next = 0;
        let field = shape.property_from(name, &mut next);
        let Some(field) = field.and_then(|id| self.shapes.get(id)) else {
            return (Vec::new(), None);
        };
        let description = shape.property_description(next - 1).or(field.description);
        let one_type = match type_names(field.types).as_slice() {
            [only] => match only.as_str() {
                "string" => Some("a string"),
                "boolean" => Some("`true` or `false`"),
                "integer" => Some("an integer"),
                "array" => Some("a list"),
                "object" => Some("a mapping"),
                _ => None,
            },
            _ => None,
        };
        let allowed = field.allowed.iter().map(constant_text).collect();
        (allowed, description.or(one_type))
    }

    fn name(&mut self, shape: &Shape, names: ShapeId, entry: &'d Entry, node: &'d Node) {
        let Some(expected_value) = self.shapes.get(names) else {
            return;
        };
        let fits = expected_value
            .pattern
            .as_ref()
            .is_none_or(|p| p.matches(&entry.key));
        if !fits {
            let pattern = expected_value
                .pattern
                .as_ref()
                .map(|p| p.source.to_string());
            self.push(|| SchemaViolation {
                description: None,
                rule: shape.rule(Keyword::PropertyNames, None),
                keyword: Keyword::PropertyNames,
                location: Location::Key(entry),
                node,
                entry: Some(entry),
                missing: None,
                unlisted: 0,
                expected: pattern.into_iter().collect(),
            });
        }
    }

    fn one_of(&mut self, shape: &'d Shape, node: &'d Node, missing_at: Location<'d>) {
        if let Some(discriminator) = &shape.discriminator {
            return self.by_discriminator(shape, discriminator, node, missing_at);
        }
        if let Some(arm) = self.arm_by_type(&shape.one_of, node) {
            return self.node(arm, node, missing_at);
        }
        let fitting = shape
            .one_of
            .iter()
            .filter(|arm| is_valid(self.shapes, **arm, node))
            .count();
        if fitting != 1 {
            let expected = self.arm_names(&shape.one_of);
            self.violate(shape, Keyword::OneOf, node, expected);
        }
    }

    fn any_of(&mut self, shape: &'d Shape, node: &'d Node, missing_at: Location<'d>) {
        if shape
            .any_of
            .iter()
            .any(|arm| is_valid(self.shapes, *arm, node))
        {
            return;
        }
        match self.arm_by_type(&shape.any_of, node) {
            Some(arm) => self.node(arm, node, missing_at),
            None => {
                let expected = self.arm_names(&shape.any_of);
                self.violate(shape, Keyword::AnyOf, node, expected);
            }
        }
    }

    /// Validates against the arm whose discriminator has the node's value.
    fn by_discriminator(
        &mut self,
        shape: &'d Shape,
        key: &str,
        node: &'d Node,
        missing_at: Location<'d>,
    ) {
        let Some(entry) = node.entry(key) else {
            if node.is_map() {
                let words = self.discriminator_values(shape, key);
                self.push(|| SchemaViolation {
                    description: None,
                    rule: shape.rule(Keyword::Required, Some(key)),
                    keyword: Keyword::Required,
                    location: missing_at,
                    node,
                    entry: None,
                    missing: Some(key.to_owned()),
                    unlisted: 0,
                    expected: words,
                });
            } else {
                self.violate(shape, Keyword::Type, node, vec!["object".to_owned()]);
            }
            return;
        };
        let meant = shape.one_of.iter().copied().find(|arm| {
            self.discriminator_of(*arm, key)
                .is_some_and(|values| values.iter().any(|c| equals(c, &entry.value)))
        });
        match meant {
            Some(arm) => self.node(arm, node, missing_at),
            None => {
                let words = self.discriminator_values(shape, key);
                self.push(|| SchemaViolation {
                    description: None,
                    rule: shape.rule(Keyword::OneOf, None),
                    keyword: Keyword::Enum,
                    location: Location::Value(&entry.value),
                    node: &entry.value,
                    entry: Some(entry),
                    missing: None,
                    unlisted: 0,
                    expected: words,
                });
            }
        }
    }

    fn discriminator_of(&self, arm: ShapeId, key: &str) -> Option<&'d [Const]> {
        let arm = self.shapes.get(arm)?;
        let field = self.shapes.get(arm.property(key)?)?;
        Some(&field.allowed)
    }

    fn discriminator_values(&self, shape: &Shape, key: &str) -> Vec<String> {
        let arms = shape
            .one_of
            .iter()
            .filter_map(|arm| self.discriminator_of(*arm, key));
        arms.flatten().map(constant_text).collect()
    }

    /// The arm that accepts the node's type, if exactly one does.
    fn arm_by_type(&self, arms: &[ShapeId], node: &Node) -> Option<ShapeId> {
        let bit = type_of(node);
        let mut fitting = arms.iter().copied().filter(|arm| {
            self.effective_types(*arm)
                .is_some_and(|types| types & bit != 0)
        });
        let first = fitting.next()?;
        fitting.next().is_none().then_some(first)
    }

    /// The types that an arm accepts. Resolves a single `$ref`, and infers the type of text enums.
    fn effective_types(&self, id: ShapeId) -> Option<u8> {
        let shape = self.shapes.get(id)?;
        if shape.types != 0 {
            return Some(shape.types);
        }
        let text_only =
            !shape.allowed.is_empty() && shape.allowed.iter().all(|c| matches!(c, Const::Str(_)));
        if text_only {
            return Some(16);
        }
        match shape.all_of.as_slice() {
            [only] => self.effective_types(*only),
            _ => None,
        }
    }

    fn arm_names(&self, arms: &[ShapeId]) -> Vec<String> {
        let mut words = Vec::new();
        for arm in arms.iter().filter_map(|id| self.shapes.get(*id)) {
            if !arm.required.is_empty() {
                words.push(arm.required.join(" and "));
            } else if arm.types != 0 {
                words.extend(type_names(arm.types));
            }
            words.extend(arm.allowed.iter().map(constant_text));
        }
        words
    }

    /// Reports a `not`. Points at the forbidden key if the schema forbids the presence of a key.
    fn not(&mut self, shape: &Shape, sub: ShapeId, node: &'d Node) {
        let mut forbidden = Vec::new();
        self.required_below(sub, &mut forbidden);
        let hit = node
            .entries()
            .iter()
            .find(|e| forbidden.iter().any(|f| **f == *e.key));
        self.push(|| SchemaViolation {
            description: None,
            rule: shape.rule(Keyword::Not, None),
            keyword: Keyword::Not,
            location: hit.map_or(Location::Value(node), Location::Key),
            node,
            entry: hit,
            missing: None,
            unlisted: 0,
            expected: Vec::new(),
        });
    }

    fn required_below(&self, id: ShapeId, out: &mut Vec<Box<str>>) {
        if let Some(shape) = self.shapes.get(id) {
            out.extend(shape.required.iter().cloned());
            for arm in shape.any_of.iter().chain(&shape.one_of) {
                self.required_below(*arm, out);
            }
        }
    }
}

/// The types of a value, as bits. An integer is also a number, and `4.0` is also an integer.
fn type_of(node: &Node) -> u8 {
    match &node.value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Int(_) => INTEGER,
        Value::Float(f) if f.fract() == 0.0 && f.is_finite() => INTEGER | FRACTION,
        Value::Float(_) => FRACTION,
        Value::Str(_) => 16,
        Value::Seq(_) => 32,
        Value::Map(_) => 64,
    }
}

/// All indices below `len`: first from `start` to the end, then from 0 to `start`.
pub(super) fn rotated_indices(len: usize, start: usize) -> impl Iterator<Item = usize> {
    (start.min(len)..len).chain(0..start.min(len))
}

fn type_names(bits: u8) -> Vec<String> {
    [
        "string", "boolean", "integer", "number", "array", "object", "null",
    ]
    .into_iter()
    .filter(|name| {
        let bit = type_bit(name);
        bits & bit == bit && !(*name == "integer" && bits & 8 != 0)
    })
    .map(str::to_owned)
    .collect()
}

/// A constant of a schema as text.
pub fn constant_text(constant: &Const) -> String {
    match constant {
        Const::Null => "null".to_owned(),
        Const::Bool(b) => b.to_string(),
        Const::Int(i) => i.to_string(),
        Const::Str(s) => s.to_string(),
    }
}

fn equals(constant: &Const, node: &Node) -> bool {
    match (constant, &node.value) {
        (Const::Null, Value::Null) => true,
        (Const::Bool(a), Value::Bool(b)) => a == b,
        (Const::Int(a), Value::Int(b)) => a == b,
        (Const::Str(a), Value::Str(b)) => **a == **b,
        _ => false,
    }
}

/// Whether a text is an absolute URI. It may contain `${input.x}`, which is filled in later (C9).
fn is_uri(text: &str) -> bool {
    if text.contains("${") {
        return fluent_uri::Uri::parse(fill(text).as_str()).is_ok();
    }
    fluent_uri::Uri::parse(text).is_ok()
}

fn fill(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${input.") {
        let Some((_, tail)) = after.split_once('}') else {
            break;
        };
        out.push_str(before);
        out.push('x');
        rest = tail;
    }
    out.push_str(rest);
    out
}
