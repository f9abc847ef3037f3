//! The contents of a recovery sheet, for every form of page.

use console::outcome::Result;
use console::session::other;
use console::show::time;
use qrcodegen_no_heap::{QrCode, QrCodeEcc, Version};
use secret::Secret;

/// The most datasets that the page names.
const NAMED: usize = 12;
/// The largest version of the QR code: 37 modules a side.
const VERSION: Version = Version::new(5);
/// The light modules that a QR code needs around it (ISO/IEC 18004).
pub(super) const QUIET: i32 = 4;

/// The facts that a sheet states.
pub(super) struct SheetFacts {
    name: String,
    roots: Vec<String>,
    host: String,
    made: String,
}

impl SheetFacts {
    pub(super) fn of(name: &str, roots: &[String]) -> SheetFacts {
        let host = rustix::system::uname();
        SheetFacts {
            name: name.to_owned(),
            roots: roots.to_vec(),
            host: host.nodename().to_string_lossy().into_owned(),
            made: time::second(time::now()),
        }
    }

    fn lines(&self) -> Vec<SheetLine> {
        let pool = self.name.split('/').next().unwrap_or(&self.name);
        let first = &self.roots[0];
        let mut lines = vec![
            SheetLine::Title(format!("Recovery sheet of {}", self.name)),
            SheetLine::Text("Anyone with this page and the disks can read the data.".into()),
            SheetLine::Text(format!("Made {} on {}.", self.made, self.host)),
            SheetLine::Head("The key opens"),
        ];
        let named = self.roots.iter().take(NAMED);
        lines.extend(named.map(|root| SheetLine::Command(root.clone())));
        if self.roots.len() > NAMED {
            let more = self.roots.len() - NAMED;
            lines.push(SheetLine::Text(format!("and {more} more datasets")));
        }
        lines.extend([
            SheetLine::Head("Recovery key"),
            SheetLine::Key,
            SheetLine::Head("With nothing but the disks and this page"),
            SheetLine::Text(
                "Install strongroom on any Linux machine, and connect the disks. Then:".into(),
            ),
            SheetLine::Command(format!("strongroom pool import {pool}")),
            SheetLine::Text(
                "Type the digits where this command asks; spaces and hyphens do not matter:".into(),
            ),
            SheetLine::Command(format!("strongroom key load -L prompt {first}")),
            SheetLine::Command(format!("strongroom mount {first}")),
            SheetLine::Text(
                "If an older machine says that the hash takes too much memory, add --hash-memory."
                    .into(),
            ),
            SheetLine::Text("Afterwards set a new passphrase, and print a new page:".into()),
            SheetLine::Command(format!(
                "strongroom key change --only -o keysource=passphrase,prompt {first}"
            )),
            SheetLine::Head("From time to time"),
            SheetLine::Text(
                "Test the page: the command tries the digits, and changes nothing.".into(),
            ),
            SheetLine::Command(format!("strongroom key recover {first}")),
            SheetLine::Text(
                "If the page is lost, make its key void: 'key recover' names its slot.".into(),
            ),
            SheetLine::Command(format!("strongroom key remove {first} SLOT")),
        ]);
        lines
    }
}

/// A line of a page.
pub(super) enum SheetLine {
    /// The title.
    Title(String),
    /// The head of a part.
    Head(&'static str),
    /// A sentence.
    Text(String),
    /// A command or a name, in letters of one width.
    Command(String),
    /// The digits of the key, and their QR code.
    Key,
}

/// A page before it is drawn.
pub(super) struct SheetPage<'a> {
    pub(super) lines: Vec<SheetLine>,
    /// The digits.
    pub(super) key: &'a Secret,
    /// The modules of the QR code, row by row: 1 is dark.
    modules: Secret,
    /// The modules of a side.
    pub(super) side: i32,
}

impl<'a> SheetPage<'a> {
    /// # Errors
    /// There is no locked memory.
    pub(super) fn new(facts: &SheetFacts, key: &'a Secret) -> Result<SheetPage<'a>> {
        let (modules, side) = modules(key)?;
        Ok(SheetPage {
            lines: facts.lines(),
            key,
            modules,
            side,
        })
    }

    /// Returns whether a module of the QR code is dark. Those around it are not.
    pub(super) fn is_dark(&self, x: i32, y: i32) -> bool {
        let side = 0..self.side;
        let is_inside = side.contains(&x) && side.contains(&y);
        is_inside && self.modules.expose()[(y * self.side + x) as usize] == 1
    }

    /// The two lines of the key, of four groups each.
    pub(super) fn key_lines(&self) -> [&[u8]; 2] {
        let key = self.key.expose();
        let (first, second) = key.split_at(key.len() / 2);
        [first, &second[1..]]
    }
}

/// The QR code of a key. The encoder works in locked memory.
fn modules(key: &Secret) -> Result<(Secret, i32)> {
    let len = VERSION.buffer_len();
    let mut temporary = Secret::zeroed(len)?;
    let mut code = Secret::zeroed(len)?;
    let digits = std::str::from_utf8(key.expose()).map_err(|error| other(error.to_string()))?;
    let code = QrCode::encode_text(
        digits,
        temporary.expose_mut(),
        code.expose_mut(),
        QrCodeEcc::Medium,
        Version::MIN,
        VERSION,
        None,
        true,
    )
    .map_err(|_| other("the recovery key is too long for a QR code"))?;
    let side = code.size();
    let mut modules = Secret::zeroed((side * side) as usize)?;
    let places = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
    for (module, (x, y)) in modules.expose_mut().iter_mut().zip(places) {
        *module = u8::from(code.get_module(x, y));
    }
    Ok((modules, side))
}
