//! Recovery sheets: the digits and the QR code open the data, and nothing is left half done.

use std::fs;

use crate::common::*;

const PASSPHRASE: &str = "correct horse battery staple\n";

/// A pool `tank` with two datasets that have keys of their own, and one that inherits.
fn with_roots() -> Place {
    let place = Place::new();
    place.pool("tank");
    place.ok_with("create -u -o encryption=on tank/home", PASSPHRASE);
    place.ok("create -u tank/home/ann");
    place.ok("keygen {DIR}/mail");
    place.ok("create -u -o encryption=on -o keysource=raw,file://{DIR}/mail tank/mail");
    place
}

fn slots(place: &Place, name: &str) -> usize {
    place.ok(&format!("key slots -H {name}")).lines().count()
}

/// The digits of a page of text.
fn digits(page: &str) -> String {
    let is_key = |line: &&str| {
        let line = line.trim();
        line.len() == 27 && line.bytes().all(|it| it.is_ascii_digit() || it == b'-')
    };
    let lines: Vec<&str> = page.lines().filter(is_key).map(str::trim).collect();
    assert_eq!(lines.len(), 2, "{page}");
    lines.join("-")
}

/// The text of the QR code on a page of text, read by another program's code.
fn scanned(page: &str) -> String {
    let is_code = |line: &&str| {
        line.chars()
            .any(|it| "\u{2580}\u{2584}\u{2588}".contains(it))
    };
    let rows: Vec<Vec<char>> = page
        .lines()
        .filter(is_code)
        .map(|line| line.chars().collect())
        .collect();
    // A module has four pixels a side, with light ones around the code.
    let dark = |x: usize, y: usize| {
        let (Some(x), Some(y)) = ((x / 4).checked_sub(8), (y / 4).checked_sub(8)) else {
            return false;
        };
        match rows.get(y / 2).and_then(|row| row.get(x)) {
            Some('\u{2588}') => true,
            Some('\u{2580}') => y % 2 == 0,
            Some('\u{2584}') => y % 2 == 1,
            _ => false,
        }
    };
    let side = (rows.iter().map(Vec::len).max().unwrap() + 16) * 4;
    let mut image =
        rqrr::PreparedImage::prepare_from_greyscale(
            side,
            side,
            |x, y| {
                if dark(x, y) { 0 } else { 255 }
            },
        );
    let codes = image.detect_grids();
    assert_eq!(codes.len(), 1, "{page}");
    codes[0].decode().unwrap().1
}

#[test]
fn one_page_opens_all_datasets_however_it_is_typed() {
    let mut place = with_roots();
    let said = place.ok("key sheet -r tank {DIR}/page.txt");
    has(&said, "tank/home: slot 1");
    has(&said, "tank/mail: slot 1");
    let page = fs::read_to_string(place.path("page.txt")).unwrap();
    let digits = digits(&page);
    assert_eq!(scanned(&page), digits);
    has(&page, "strongroom key load -L prompt tank/home");
    has(&page, "tank/mail");
    assert!(!page.contains("tank/home/ann"), "it inherits its key");

    // Another daemon, without the key file.
    place.ok("pool export tank");
    assert!(place.terminate());
    fs::remove_file(place.path("mail")).unwrap();
    fs::remove_dir_all(place.path("state")).unwrap();
    place.start();
    place.ok("pool import -d {DIR} tank");
    place.ok_with("key load -L prompt tank/home", &digits);
    place.ok_with("key load -L prompt tank/mail", &digits.replace('-', ""));
    place.ok("key unload -a");
    place.ok_with(
        "key load -r -L prompt tank",
        &format!("{0}\n{0}\n", digits.replace('-', " ")),
    );
    let said = place.ok_with("key recover tank/mail", &digits);
    has(&said, "strongroom key load");
    let last = digits.as_bytes()[digits.len() - 1];
    let wrong = format!("{}{}", &digits[..digits.len() - 1], (last - b'0' + 1) % 10);
    place.fails_with("key recover tank/mail", &wrong, WRONG_KEY);

    // The page is void after this.
    place.ok("key remove tank/home 1");
    place.fails_with("key recover tank/home", &digits, WRONG_KEY);
    place.ok_with("key recover tank/home", PASSPHRASE);
}

#[test]
fn a_page_that_is_not_made_leaves_no_slot_and_no_file() {
    let place = with_roots();
    fs::write(place.path("there"), "precious").unwrap();
    place.fails("key sheet tank/home {DIR}/there", EXISTS);
    place.fails("key sheet tank/home {DIR}/no/page.txt", NOT_FOUND);
    assert_eq!(fs::read(place.path("there")).unwrap(), b"precious");
    place.fails("key sheet tank/home/ann {DIR}/page.txt", OTHER);
    place.fails("key sheet tank/none {DIR}/page.txt", NOT_FOUND);
    place.fails("key sheet -r tank/home/ann {DIR}/page.txt", NOT_FOUND);
    place.fails("--json key sheet tank/home -", USAGE);

    // All 32 slots of the second dataset are in use: the first one keeps no slot.
    for n in 1..32 {
        place.ok(&format!("keygen {{DIR}}/mail{n}"));
        place.ok(&format!(
            "key add -o keysource=raw,file://{{DIR}}/mail{n} tank/mail"
        ));
    }
    place.fails("key sheet -r tank {DIR}/page.txt", OTHER);
    place.ok("key unload tank/mail");
    place.fails("key sheet -r tank {DIR}/page.txt", NO_KEY);
    assert!(!place.path("page.txt").exists());
    assert_eq!(
        (slots(&place, "tank/home"), slots(&place, "tank/mail")),
        (1, 32)
    );
    // Nobody reads the page.
    let full = std::process::Command::new(PROGRAM)
        .args(["key", "sheet", "tank/home", "-"])
        .env("STRONGROOM_SOCKET", place.socket())
        .stdout(fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(OTHER));
    assert_eq!(slots(&place, "tank/home"), 1);
}

#[test]
fn a_page_of_pdf_is_for_its_owner_and_its_table_is_right() {
    use std::os::unix::fs::PermissionsExt;
    let place = with_roots();
    place.ok("key sheet tank/home {DIR}/page.pdf");
    let file = place.path("page.pdf");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let page = fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&page);
    assert!(page.starts_with(b"%PDF-1.4\n") && page.ends_with(b"%%EOF\n"));
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let (_, start) = text.rsplit_once("startxref\n").unwrap();
    let table = number(start.trim_end_matches("%%EOF\n"));
    let table = std::str::from_utf8(&page[table..]).unwrap();
    let mut lines = table.lines().skip(3);
    for object in 1..=8 {
        let at = number(&lines.next().unwrap()[..10]);
        assert!(
            page[at..].starts_with(format!("{object} 0 obj\n").as_bytes()),
            "{object}"
        );
    }
    // The strings of the page; the digits among them open the dataset.
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.ends_with(") Tj ET"))
        .collect();
    let strings = lines
        .iter()
        .map(|line| line.split_once('(').unwrap().1.trim_end_matches(") Tj ET"));
    let digits = digits(&strings.collect::<Vec<_>>().join("\n"));
    place.ok_with("key recover tank/home", &digits);
}
