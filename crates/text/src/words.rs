//! Wording helpers: closest match, lists in a sentence, shortened text.

/// Maximum length in bytes of words that are compared, because the time of a comparison is the
/// product of both lengths.
const LONGEST_WORD: usize = 100;
/// Maximum number of candidates that are compared.
const MOST_CANDIDATES: usize = 500;

/// The candidate that a mistyped word most probably means.
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
            // A third of the letters may differ, and at least one.
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

/// Joins words to "`a`", "`a` or `b`", "`a`, `b` or `c`".
pub fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{}`", w.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// File name of a program, without quotes and directories.
pub fn base_name(program: &str) -> &str {
    let program = program.trim_matches(['"', '\'']);
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shortens text to at most `most` characters, with `…` at the end if something was cut off.
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
    fn typos_are_matched_to_the_closest_word() {
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
