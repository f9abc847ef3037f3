//! A recovery sheet as PDF 1.4 (ISO 32000-1): one page that fits A4 and Letter, with the fonts that each reader has.
//!
//! Libraries for PDF build the page in ordinary memory, which may be written to swap. This one is small enough to build in
//! locked memory.

use console::outcome::Result;
use secret::Secret;

use super::page::{SheetLine, SheetPage};

/// The page: as wide as A4, as high as Letter. All sizes are points of 1/72 inch.
const WIDTH: i32 = 595;
const HEIGHT: i32 = 792;
/// The space at the left and at the top.
const MARGIN: i32 = 64;
/// A module of the QR code.
const MODULE: i32 = 4;
/// The fonts of the page, `/F1` to `/F4`.
const FONTS: [&str; 4] = ["Helvetica", "Helvetica-Bold", "Courier", "Courier-Bold"];
/// The objects of the file: catalog, pages, page, contents, fonts.
const OBJECTS: usize = 4 + FONTS.len();

/// # Errors
/// There is no locked memory.
pub(super) fn draw(page: &SheetPage<'_>) -> Result<Secret> {
    let contents = contents(page)?;
    let mut file = PdfFile {
        bytes: Secret::from_slice(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")?,
        starts: Vec::new(),
    };
    file.object(b"<< /Type /Catalog /Pages 2 0 R >>")?;
    file.object(b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>")?;
    let fonts: Vec<String> = (1..=FONTS.len())
        .map(|n| format!("/F{n} {} 0 R", n + 4))
        .collect();
    file.object(
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Contents 4 0 R \
             /Resources << /Font << {} >> >> >>",
            fonts.join(" ")
        )
        .as_bytes(),
    )?;
    file.stream(&contents)?;
    for font in FONTS {
        file.object(
            format!(
                "<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>"
            )
            .as_bytes(),
        )?;
    }
    file.end()
}

/// A file that is being written.
struct PdfFile {
    bytes: Secret,
    /// The first byte of each object.
    starts: Vec<usize>,
}

impl PdfFile {
    fn begin(&mut self) -> Result<()> {
        self.starts.push(self.bytes.len());
        let head = format!("{} 0 obj\n", self.starts.len());
        Ok(self.bytes.push_slice(head.as_bytes())?)
    }

    fn object(&mut self, body: &[u8]) -> Result<()> {
        self.begin()?;
        self.bytes.push_slice(body)?;
        Ok(self.bytes.push_slice(b"\nendobj\n")?)
    }

    fn stream(&mut self, contents: &Secret) -> Result<()> {
        self.begin()?;
        let head = format!("<< /Length {} >>\nstream\n", contents.len());
        self.bytes.push_slice(head.as_bytes())?;
        self.bytes.push_slice(contents.expose())?;
        Ok(self.bytes.push_slice(b"\nendstream\nendobj\n")?)
    }

    /// The table of the objects. Its lines have 20 bytes each.
    fn end(mut self) -> Result<Secret> {
        debug_assert_eq!(self.starts.len(), OBJECTS);
        let table = self.bytes.len();
        let count = OBJECTS + 1;
        let mut end = format!("xref\n0 {count}\n0000000000 65535 f \n");
        for start in &self.starts {
            end += &format!("{start:010} 00000 n \n");
        }
        end += &format!("trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n");
        self.bytes.push_slice(end.as_bytes())?;
        Ok(self.bytes)
    }
}

/// The drawing of the page. `at` is the base line of the next line of text.
fn contents(page: &SheetPage<'_>) -> Result<Secret> {
    let mut drawn = Secret::zeroed(0)?;
    let mut at = HEIGHT - MARGIN;
    for line in &page.lines {
        match line {
            SheetLine::Title(title) => {
                write(&mut drawn, (2, 18), (MARGIN, at), title.as_bytes())?;
                at -= 26;
            }
            SheetLine::Head(head) => {
                at -= 12;
                write(&mut drawn, (2, 11), (MARGIN, at), head.as_bytes())?;
                at -= 17;
            }
            SheetLine::Text(sentence) => {
                write(&mut drawn, (1, 10), (MARGIN, at), sentence.as_bytes())?;
                at -= 15;
            }
            SheetLine::Command(command) => {
                write(&mut drawn, (3, 10), (MARGIN + 16, at), command.as_bytes())?;
                at -= 15;
            }
            SheetLine::Key => {
                at -= 6;
                for digits in page.key_lines() {
                    write(&mut drawn, (4, 15), (MARGIN + 16, at), digits)?;
                    at -= 22;
                }
                draw_code(&mut drawn, page, (MARGIN + 16, at + 6))?;
                at -= page.side * MODULE + 6;
            }
        }
    }
    Ok(drawn)
}

/// Writes a line in a font of some size. Characters that the fonts do not have become question marks.
fn write(drawn: &mut Secret, font: (u8, u8), at: (i32, i32), text: &[u8]) -> Result<()> {
    let (name, size) = font;
    drawn.push_slice(format!("BT /F{name} {size} Tf {} {} Td (", at.0, at.1).as_bytes())?;
    for byte in text {
        match byte {
            b'(' | b')' | b'\\' => drawn.push_slice(&[b'\\', *byte])?,
            b' '..=b'~' => drawn.push(*byte)?,
            _ => drawn.push(b'?')?,
        }
    }
    Ok(drawn.push_slice(b") Tj ET\n")?)
}

/// Draws the QR code below a point: a rectangle for dark modules side by side.
fn draw_code(drawn: &mut Secret, page: &SheetPage<'_>, at: (i32, i32)) -> Result<()> {
    for y in 0..page.side {
        let mut x = 0;
        while x < page.side {
            let start = x;
            while page.is_dark(x, y) {
                x += 1;
            }
            if x > start {
                let (left, bottom) = (at.0 + start * MODULE, at.1 - (y + 1) * MODULE);
                let width = (x - start) * MODULE;
                let rectangle = format!("{left} {bottom} {width} {MODULE} re\n");
                drawn.push_slice(rectangle.as_bytes())?;
            }
            x += 1;
        }
    }
    Ok(drawn.push_slice(b"f\n")?)
}
