//! Templates in argument lists: `${input.NAME}` with filters, such as
//! `${input.base | default('main')}` (AIP-29, args template).

use std::ops::Range;

/// A template in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template<'t> {
    /// The text between `${` and `}`.
    pub inner: &'t str,
    /// The byte range of the template, including `${` and `}`.
    pub range: Range<usize>,
}

/// Iterator over the `${…}` templates of a text. A brace inside quotes does not close a template.
pub struct Templates<'t> {
    text: &'t str,
    from: usize,
}

impl<'t> Templates<'t> {
    /// The templates of this text.
    pub fn of(text: &'t str) -> Self {
        Templates { text, from: 0 }
    }
}

impl<'t> Iterator for Templates<'t> {
    type Item = Template<'t>;

    fn next(&mut self) -> Option<Template<'t>> {
        let start = self.from + self.text.get(self.from..)?.find("${")?;
        let inside = self.text.get(start + 2..)?;
        let mut quote = None;
        let end = inside.char_indices().find(|(_, c)| {
            match quote {
                Some(open) if *c == open => quote = None,
                None if matches!(c, '\'' | '"') => quote = Some(*c),
                _ => {}
            }
            quote.is_none() && *c == '}'
        });
        let (end, _) = end?;
        self.from = start + 2 + end + 1;
        Some(Template {
            inner: inside.get(..end)?,
            range: start..self.from,
        })
    }
}

/// The text after a `${` that has no closing brace.
pub fn unclosed_template(text: &str) -> Option<&str> {
    let end = Templates::of(text).last().map_or(0, |t| t.range.end);
    text.get(end..)?.split_once("${").map(|(_, rest)| rest)
}

/// Splits a template at its pipes, except inside quotes or parentheses. The first part is the
/// reference, and the others are filters.
pub fn split_filters(inner: &str) -> impl Iterator<Item = &str> {
    split_outside(inner, '|', true)
}

/// Splits the arguments of a filter at its commas, except inside quotes.
pub fn split_arguments(inner: &str) -> impl Iterator<Item = &str> {
    split_outside(inner, ',', false)
}

fn split_outside(inner: &str, separator: char, nested: bool) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut depth = 0usize;
    inner.split(move |c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None => match c {
                '\'' | '"' => quote = Some(c),
                '(' if nested => depth += 1,
                ')' if nested => depth = depth.saturating_sub(1),
                _ => {}
            },
        }
        c == separator && quote.is_none() && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_and_filters_are_split_outside_quotes() {
        let inner =
            |text: &'static str| -> Vec<&str> { Templates::of(text).map(|t| t.inner).collect() };
        assert_eq!(
            inner("a${input.x}b${input.y | default('}')}"),
            ["input.x", "input.y | default('}')"]
        );
        assert_eq!(inner("${input.x"), Vec::<&str>::new());
        assert_eq!(inner("${'"), Vec::<&str>::new());
        assert_eq!(
            unclosed_template("${input.x | json"),
            Some("input.x | json")
        );
        assert_eq!(unclosed_template("${a}${'}"), Some("'}"));
        assert_eq!(unclosed_template("${a} $HOME {"), None);
        let parts: Vec<&str> = split_filters("input.a | default('x|y') | json")
            .map(str::trim)
            .collect();
        assert_eq!(parts, ["input.a", "default('x|y')", "json"]);
        let arguments: Vec<&str> = split_arguments("'--a,b', input.x").map(str::trim).collect();
        assert_eq!(arguments, ["'--a,b'", "input.x"]);
    }
}
