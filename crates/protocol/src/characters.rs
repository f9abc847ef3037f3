//! Characters that a reader does not see, or that change how the text around them looks.
//!
//! A terminal obeys control characters, and a bidirectional mark shows a text in another order than it has. So no name
//! or property that a user chooses may contain one, and a text from elsewhere is shown with them escaped.

use std::borrow::Cow;

/// The hidden characters, as first and last of each range, in order.
pub const HIDDEN: [(char, char); 18] = [
    // Control characters.
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    // The soft hyphen and joiners that are not shown.
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    // A bidirectional mark.
    ('\u{61c}', '\u{61c}'),
    // Fillers of Hangul and vowels of Khmer without a shape.
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180e}', '\u{180e}'),
    // Spaces without width, joiners, and bidirectional marks.
    ('\u{200b}', '\u{200f}'),
    // Separators of lines and paragraphs, and bidirectional embeddings.
    ('\u{2028}', '\u{202e}'),
    // Operators without a shape, and bidirectional isolates.
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    // Marks of annotations.
    ('\u{fff9}', '\u{fffb}'),
    // Shorthand and music formats.
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    // Tags.
    ('\u{e0000}', '\u{e007f}'),
];

/// True for a control character, a bidirectional mark and an invisible character.
pub fn is_hidden(c: char) -> bool {
    HIDDEN
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&c))
}

/// The text with its hidden characters escaped, as `\u{202e}`, except those that `is_shown` allows.
pub fn escaped(text: &str, is_shown: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_bad = |c: char| is_hidden(c) && !is_shown(c);
    if !text.contains(is_bad) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match is_bad(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_has_all_control_characters() {
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
        assert!(HIDDEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
        let controls = ('\0'..=char::MAX).filter(|c| c.is_control());
        assert!(controls.into_iter().all(is_hidden));
    }

    #[test]
    fn text_of_any_language_is_not_hidden() {
        let text = "größe Ελληνικά العربية 漢字 한국어 हिन्दी 🙂 ♥\u{fe0f} a b\u{a0}c";
        assert!(!text.chars().any(is_hidden));
        assert_eq!(escaped(text, |_| false), text);
    }

    #[test]
    fn hidden_characters_are_escaped() {
        let text = "a\tb\u{202e}c\u{feff}\x1b";
        assert_eq!(escaped(text, |_| false), r"a\tb\u{202e}c\u{feff}\u{1b}");
        assert_eq!(
            escaped(text, |c| c == '\t'),
            "a\tb\\u{202e}c\\u{feff}\\u{1b}"
        );
    }
}
