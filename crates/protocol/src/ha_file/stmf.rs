//! Reads `stmf-ha.conf`: assignments of words and arrays, as a shell spells them. Nothing else that a shell does is
//! understood, so no such file means something else to a shell.

use super::items::{self, Items, NounRefusal, NounValue};

pub(super) fn read(text: &str) -> Result<Items, NounRefusal> {
    let mut reader = StmfReader {
        rest: text,
        line: 1,
    };
    let mut items = Items::new();
    while let Some(next) = reader.skip_to_word() {
        let line = reader.line;
        let noun = reader.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if noun.is_empty() || noun.starts_with(|c: char| c.is_ascii_digit()) {
            let what = "only NAME=WORD, NAME=( WORD ... ) and comments are understood";
            return Err(NounRefusal::new(line, &format!("'{next}'"), what));
        }
        if !reader.take('=') {
            let what = "'=' has to follow, without a space; commands are not executed";
            return Err(NounRefusal::new(line, noun, what));
        }
        let value = match reader.take('(') {
            true => NounValue::List(reader.list(line, noun)?),
            false => NounValue::Word(reader.word(noun)?),
        };
        reader.end(noun)?;
        items::add(&mut items, noun, line, value)?;
    }
    Ok(items)
}

struct StmfReader<'a> {
    rest: &'a str,
    /// The line of the next word.
    line: usize,
}

impl<'a> StmfReader<'a> {
    /// Skips space, lines and comments. The character that begins the next word.
    fn skip_to_word(&mut self) -> Option<char> {
        loop {
            let next = self.rest.chars().next()?;
            match next {
                '\n' => self.line += 1,
                ' ' | '\t' | '\r' => {}
                '#' => {
                    self.take_while(|c| c != '\n');
                    continue;
                }
                _ => return Some(next),
            }
            self.rest = &self.rest[1..];
        }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A word, in quotes or not, in which a shell would replace nothing.
    fn word(&mut self, noun: &str) -> Result<String, NounRefusal> {
        let line = self.line;
        let refused = |what: &str| Err(NounRefusal::new(line, noun, what));
        for quote in ['"', '\''] {
            if !self.take(quote) {
                continue;
            }
            let is_plain = |c: char| c != quote && !c.is_control();
            let text = self.take_while(is_plain);
            let is_replaced = quote == '"' && text.contains(['$', '`', '\\', '!']);
            return match self.take(quote) {
                true if is_replaced => refused("variables and commands are not understood"),
                true => Ok(text.into()),
                false => refused("its quotes do not end in this line"),
            };
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,-[]".contains(c);
        let text = self.take_while(is_plain);
        // A shell takes `[ab]` for names of files.
        if text.is_empty() || text.contains('[') && !text.starts_with('[') {
            return refused("a word has to follow; put what is not letters and digits in quotes");
        }
        Ok(text.into())
    }

    fn list(&mut self, begin: usize, noun: &str) -> Result<Vec<(usize, String)>, NounRefusal> {
        let mut words = Vec::new();
        loop {
            if self.skip_to_word().is_none() {
                return Err(NounRefusal::new(
                    begin,
                    noun,
                    "its list does not end: ')' is missing",
                ));
            }
            if self.take(')') {
                return Ok(words);
            }
            let line = self.line;
            words.push((line, self.word(noun)?));
            if !self.rest.starts_with([' ', '\t', '\r', '\n', ')']) {
                return Err(NounRefusal::new(line, noun, "a space has to follow a word"));
            }
        }
    }

    /// Checks that only a comment follows in the line.
    fn end(&mut self, noun: &str) -> Result<(), NounRefusal> {
        let blank = self.take_while(|c| matches!(c, ' ' | '\t' | '\r'));
        let is_comment = self.rest.starts_with('#') && !blank.is_empty();
        match self.rest.is_empty() || self.rest.starts_with('\n') || is_comment {
            true => Ok(()),
            false => Err(NounRefusal::new(
                self.line,
                noun,
                "its line goes on; only a comment may follow",
            )),
        }
    }
}
