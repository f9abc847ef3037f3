//! The names of commands in requests.

/// The name of a variant as serde has it.
pub(super) fn kebab(variant: &str) -> String {
    let mut name = String::with_capacity(variant.len() + 4);
    for (at, c) in variant.char_indices() {
        if c.is_uppercase() && at > 0 {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}
