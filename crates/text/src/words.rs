//! Wording helpers: closest match, lists in a sentence, short forms.

/// Longer texts are no words that one mistypes, and comparing two takes the product of their
/// lengths.
const LONGEST_WORD: usize = 100;
/// More candidates than a reader could know.
const MOST_CANDIDATES: usize = 500;

/// The candidate that a mistyped word was probably meant to be.
pub fn closest_of<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let lower = word.to_lowercase();
    let length = word.chars().count();
    candidates
        .into_iter()
        .take(MOST_CANDIDATES)
        .filter(|candidate| candidate.len() <= LONGEST_WORD)
        .filter_map(|candidate| {
            let other = candidate.chars().count();
            // A third of the letters may be wrong, but never all of a short word.
            let most = length.max(other).max(3) / 3;
            if length.abs_diff(other) > most {
                return None;
            }
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance <= most).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "`a`", "`a` or `b`", "`a`, `b` or `c`".
pub fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{}`", w.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The name of a program, without the quotes and directories that it may be written with.
pub fn base_name(program: &str) -> &str {
    let program = program.trim_matches(['"', '\'']);
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shortens text for a message; never cuts inside a character.
pub fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_word() {
        let words = ["darwin", "linux", "windows"];
        assert_eq!(closest_of("linus", words), Some("linux"));
        assert_eq!(closest_of("Darwin", words), Some("darwin"));
        assert_eq!(closest_of("solaris", words), None);
        assert_eq!(closest_of("x", ["ab"]), None);
        assert_eq!(closest_of(&"x".repeat(101), ["x"]), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
