//! A recovery sheet as text (UTF-8), 80 columns wide. The QR code is made of half blocks: two modules to a letter.

use console::outcome::Result;
use secret::Secret;

use super::page::{QUIET, SheetLine, SheetPage};

/// # Errors
/// There is no locked memory.
pub(super) fn draw(page: &SheetPage<'_>) -> Result<Secret> {
    let mut text = Secret::zeroed(0)?;
    for line in &page.lines {
        match line {
            SheetLine::Title(title) => {
                text.push_slice(
                    format!("{title}\n{}\n\n", "=".repeat(title.chars().count())).as_bytes(),
                )?;
            }
            SheetLine::Head(head) => text.push_slice(format!("\n{head}\n\n").as_bytes())?,
            SheetLine::Text(sentence) => text.push_slice(format!("{sentence}\n").as_bytes())?,
            SheetLine::Command(command) => {
                text.push_slice(format!("    {command}\n").as_bytes())?
            }
            SheetLine::Key => draw_key(page, &mut text)?,
        }
    }
    Ok(text)
}

fn draw_key(page: &SheetPage<'_>, text: &mut Secret) -> Result<()> {
    for digits in page.key_lines() {
        text.push_slice(b"    ")?;
        text.push_slice(digits)?;
        text.push(b'\n')?;
    }
    text.push(b'\n')?;
    for y in (-QUIET..page.side + QUIET).step_by(2) {
        for x in -QUIET..page.side + QUIET {
            let halves = (page.is_dark(x, y), page.is_dark(x, y + 1));
            let letter = match halves {
                (true, true) => "\u{2588}",
                (true, false) => "\u{2580}",
                (false, true) => "\u{2584}",
                (false, false) => " ",
            };
            text.push_slice(letter.as_bytes())?;
        }
        text.push(b'\n')?;
    }
    Ok(())
}
