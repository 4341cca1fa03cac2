//! A JSON value for schemas. It is read in one pass and borrows its strings from the embedded
//! text. `serde_json::Value` hashes every key and copies every string, which took half the time of
//! a run over one file.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

#[derive(Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is not an `i64`. No supported keyword uses such numbers.
    Fraction,
    Str(Text),
    List(Vec<Json>),
    Map(Vec<(Text, Json)>),
}

type Text = Cow<'static, str>;

impl Json {
    pub fn read(text: &'static str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|(known, _)| known == key)?;
        Some(&entry.1)
    }

    /// The value at a JSON pointer. Pointers into lists are not supported: schemas only refer to
    /// `$defs`.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut steps = pointer.split('/').skip(1);
        steps.try_fold(self, |at, step| {
            at.get(&step.replace("~1", "/").replace("~0", "~"))
        })
    }

    pub fn entries(&self) -> &[(Text, Self)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }
}

impl Deserialize<'static> for Json {
    fn deserialize<D: Deserializer<'static>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'static> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Fraction, Json::Int))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Fraction)
    }
    fn visit_borrowed_str<E>(self, text: &'static str) -> Result<Json, E> {
        Ok(Json::Str(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Str(Cow::Owned(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'static>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }
    fn visit_map<A: MapAccess<'static>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Json::Map(entries))
    }
}

struct Key(Text);

impl Deserialize<'static> for Key {
    fn deserialize<D: Deserializer<'static>>(from: D) -> Result<Self, D::Error> {
        match from.deserialize_str(Reader)? {
            Json::Str(key) => Ok(Self(key)),
            // Not reached: `deserialize_str` only calls the string visitors.
            _ => Ok(Self(Cow::Borrowed(""))),
        }
    }
}
