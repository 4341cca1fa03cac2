//! Tokens, cost and context size, as agents report them. Every protocol and program has its own
//! names, which become those of ACP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum size of usage data, in bytes of JSON.
const MAX_USAGE: usize = 4096;
/// Maximum length of a currency, in bytes.
const MAX_CURRENCY: usize = 32;

/// The names of ACP, and other names for the same count.
const NAMES: [(&str, &[&str]); 6] = [
    (
        "inputTokens",
        &["input_tokens", "promptTokens", "prompt_tokens"],
    ),
    (
        "outputTokens",
        &["output_tokens", "completionTokens", "completion_tokens"],
    ),
    ("totalTokens", &["total_tokens"]),
    (
        "thoughtTokens",
        &[
            "thought_tokens",
            "thoughts",
            "reasoningTokens",
            "reasoning_tokens",
            "reasoning_output_tokens",
        ],
    ),
    (
        "cachedReadTokens",
        &[
            "cached_read_tokens",
            "cache_read_input_tokens",
            "cached_input_tokens",
            "cached",
        ],
    ),
    (
        "cachedWriteTokens",
        &["cached_write_tokens", "cache_creation_input_tokens"],
    ),
];

/// An amount of money, or of another unit such as credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Cost {
    /// How much the session has cost so far.
    pub amount: f64,
    /// ISO 4217 code of the currency, or another unit.
    pub currency: String,
}

/// How full the model's context window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ContextSize {
    /// Number of tokens in the context.
    pub used: u64,
    /// Maximum number of tokens in the context.
    pub size: u64,
}

/// What an agent reports about a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageReport {
    /// Tokens of the turn. The known counts have the names of ACP, and other members are kept.
    pub usage: Option<Value>,
    /// Cost of the session so far.
    pub cost: Option<Cost>,
    /// Size of the context.
    pub context: Option<ContextSize>,
}

impl UsageReport {
    /// Adds a later report. Data of another shape or size is ignored.
    pub fn merge(&mut self, later: UsageReport) {
        let is_small = |usage: &Value| usage.to_string().len() <= MAX_USAGE;
        let usage = later.usage.and_then(normalized).filter(is_small);
        self.usage = usage.or(self.usage.take());
        let is_valid = |cost: &Cost| {
            cost.amount.is_finite()
                && cost.amount >= 0.0
                && (1..=MAX_CURRENCY).contains(&cost.currency.len())
        };
        self.cost = later.cost.filter(is_valid).or(self.cost.take());
        self.context = later.context.or(self.context);
    }

    /// Reads `usage`, `cost` and `context` of an object. Members of another shape are ignored.
    pub fn from_members(object: &Value) -> UsageReport {
        UsageReport {
            usage: object.get("usage").cloned(),
            cost: member(object, "cost"),
            context: member(object, "context"),
        }
    }
}

fn member<T: for<'d> Deserialize<'d>>(object: &Value, name: &str) -> Option<T> {
    T::deserialize(object.get(name)?).ok()
}

/// Usage data with the names of ACP, or `None` if it is not an object with members. Members with a
/// name of ACP that are not counts are left out.
fn normalized(usage: Value) -> Option<Value> {
    let Value::Object(given) = usage else {
        return None;
    };
    let mut usage = Map::new();
    for (name, value) in given {
        let known = NAMES
            .iter()
            .find(|(_, others)| value.is_u64() && others.contains(&name.as_str()));
        let is_acp = NAMES.iter().any(|(known, _)| *known == name);
        match known {
            Some((known, _)) => _ = usage.entry(*known).or_insert(value),
            None if is_acp && !value.is_u64() => {}
            None => _ = usage.insert(name, value),
        }
    }
    (!usage.is_empty()).then_some(Value::Object(usage))
}

/// Sums of tokens over the turns of a session. Counts that no turn reported are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct TokenTotals {
    /// Tokens that the models read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens that the models wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// All tokens, as the agent counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Tokens of the models' reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_tokens: Option<u64>,
    /// Tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_read_tokens: Option<u64>,
    /// Tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_write_tokens: Option<u64>,
}

impl TokenTotals {
    /// Adds the usage data of a turn.
    pub fn add(&mut self, usage: &Value) {
        let counts = [
            &mut self.input_tokens,
            &mut self.output_tokens,
            &mut self.total_tokens,
            &mut self.thought_tokens,
            &mut self.cached_read_tokens,
            &mut self.cached_write_tokens,
        ];
        for (sum, (name, _)) in counts.into_iter().zip(NAMES) {
            if let Some(count) = usage.get(name).and_then(Value::as_u64) {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
    }

    /// Whether no turn has reported a known count.
    pub fn is_empty(&self) -> bool {
        *self == TokenTotals::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(reports: &[Value]) -> UsageReport {
        let mut all = UsageReport::default();
        for report in reports {
            all.merge(UsageReport::from_members(report));
        }
        all
    }

    #[test]
    fn the_known_counts_get_the_names_of_acp() {
        let usage = |given: Value| merged(&[json!({ "usage": given })]).usage;
        assert_eq!(
            usage(json!({
                "input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7,
                "cache_creation_input_tokens": 9, "service_tier": "standard",
            })),
            Some(json!({
                "inputTokens": 3, "outputTokens": 5, "cachedReadTokens": 7,
                "cachedWriteTokens": 9, "service_tier": "standard",
            }))
        );
        let acp =
            json!({ "totalTokens": 9, "inputTokens": 4, "outputTokens": 5, "thoughtTokens": 1 });
        assert_eq!(usage(acp.clone()), Some(acp));
        let null = json!({ "totalTokens": 9, "thoughtTokens": null, "inputTokens": "4" });
        assert_eq!(usage(null), Some(json!({ "totalTokens": 9 })));
        // Only counts are renamed.
        let other = json!({ "cached": true, "input_tokens": { "text": 1 } });
        assert_eq!(usage(other.clone()), Some(other));
    }

    #[test]
    fn invalid_data_is_ignored() {
        for invalid in [
            json!({ "usage": [1] }),
            json!({ "usage": {} }),
            json!({ "usage": { "x": "y".repeat(MAX_USAGE) } }),
            json!({ "cost": { "amount": -1.0, "currency": "EUR" } }),
            json!({ "cost": { "amount": 1.0, "currency": "" } }),
            json!({ "cost": { "amount": 1.0, "currency": "x".repeat(MAX_CURRENCY + 1) } }),
            json!({ "cost": 3 }),
            json!({ "context": { "used": -1, "size": 2 } }),
            json!({ "context": { "used": 1 } }),
            json!(null),
        ] {
            let valid = json!({
                "usage": { "totalTokens": 1 },
                "cost": { "amount": 2.5, "currency": "USD" },
                "context": { "used": 3, "size": 4 },
            });
            let expected = merged(std::slice::from_ref(&valid));
            assert!(
                expected.usage.is_some() && expected.cost.is_some(),
                "{invalid}"
            );
            assert_eq!(merged(&[valid, invalid.clone()]), expected, "{invalid}");
            assert_eq!(
                merged(std::slice::from_ref(&invalid)),
                UsageReport::default()
            );
        }
    }

    #[test]
    fn sums_do_not_overflow() {
        let mut totals = TokenTotals::default();
        assert!(totals.is_empty());
        for count in [json!(u64::MAX), json!(1), json!(-1), json!("many")] {
            totals.add(&json!({ "inputTokens": count }));
        }
        assert_eq!(totals.input_tokens, Some(u64::MAX));
        assert_eq!(totals.output_tokens, None);
        assert_eq!(json!(totals), json!({ "inputTokens": u64::MAX }));
    }
}
