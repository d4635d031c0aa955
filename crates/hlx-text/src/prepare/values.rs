//! JSON that is not one object a line: a list of records, or objects over several lines, as lines of one value each.

use std::io::{self, Cursor, Error, ErrorKind, Read};

/// Bytes within which the first line must end, to tell whether it is a whole value.
const FIRST_LINE: usize = 1 << 20;

/// Returns a text of JSON lines as it is. A list of values, and values over several lines, become lines of one value
/// each, which the flag says.
///
/// # Errors
/// What the system reports.
pub(super) fn lines_of(mut text: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut head = Vec::new();
    let mut part = vec![0; 1 << 12];
    let kind = loop {
        if let Some(kind) = Kind::of(&head, head.len() >= FIRST_LINE) {
            break kind;
        }
        match text.read(&mut part) {
            Ok(0) => break Kind::Lines,
            Ok(n) => head.extend_from_slice(&part[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    let whole = Cursor::new(head).chain(text);
    Ok(match kind {
        Kind::Lines => (Box::new(whole), false),
        kind => {
            let values = Values::new(whole, kind == Kind::List);
            (Box::new(values), true)
        }
    })
}

/// How JSON lies in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One value per line.
    Lines,
    /// One list of all values.
    List,
    /// Values over several lines.
    Several,
}

impl Kind {
    /// Tells it by the beginning of a text, once there is enough of it.
    fn of(head: &[u8], is_enough: bool) -> Option<Self> {
        let start = head.iter().position(|byte| !byte.is_ascii_whitespace());
        let first = start.map(|start| &head[start..]);
        let line = first.and_then(|first| first.split(|&byte| byte == b'\n').next());
        match (first, line) {
            (Some([b'[', ..]), _) => Some(Self::List),
            (Some([b'{', ..]), Some(line))
                if first.is_some_and(|first| line.len() < first.len()) =>
            {
                let mut nesting = Nesting::default();
                line.iter().for_each(|&byte| nesting.take(byte));
                match nesting.depth > 0 && !nesting.in_text {
                    true => Some(Self::Several),
                    false => Some(Self::Lines),
                }
            }
            (Some([b'{', ..]), _) | (None, _) if !is_enough => None,
            _ => Some(Self::Lines),
        }
    }
}

/// Where a byte of JSON lies.
#[derive(Clone, Copy, Debug, Default)]
struct Nesting {
    /// Objects and lists around it.
    depth: u64,
    in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    fn take(&mut self, byte: u8) {
        if self.in_text {
            let ends = byte == b'"' && !self.is_escaped;
            self.in_text = !ends;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Values of JSON, as lines.
struct Values<R> {
    from: R,
    is_list: bool,
    nesting: Nesting,
    /// Whether the list has begun, and whether it has ended.
    has_begun: bool,
    has_ended: bool,
    /// Whether there is something of the current value.
    is_filled: bool,
    /// Values that are whole.
    n_values: u64,
    /// Lines that are ready, and how much of them was taken.
    ready: Vec<u8>,
    taken: usize,
}

impl<R: Read> Values<R> {
    fn new(from: R, is_list: bool) -> Self {
        Self {
            from,
            is_list,
            nesting: Nesting::default(),
            has_begun: !is_list,
            has_ended: false,
            is_filled: false,
            n_values: 0,
            ready: Vec::new(),
            taken: 0,
        }
    }

    fn take(&mut self, byte: u8) -> io::Result<()> {
        let is_blank = byte.is_ascii_whitespace();
        if self.nesting.in_text {
            self.nesting.take(byte);
            // A line within a text is no JSON; what stands for it is none either.
            self.ready.push(if byte == b'\n' { 0x0b } else { byte });
            return Ok(());
        }
        match byte {
            _ if is_blank && self.is_filled => self.ready.push(b' '),
            _ if is_blank => {}
            _ if self.has_ended => return Err(wrong("goes on behind its list".to_owned())),
            b'[' if !self.has_begun => self.has_begun = true,
            b',' | b']' if self.is_list && self.nesting.depth == 0 => {
                if self.is_filled {
                    self.end_value();
                } else if byte == b',' || self.n_values > 0 {
                    return Err(wrong(format!("element {}: is missing", self.n_values + 1)));
                }
                self.has_ended = byte == b']';
            }
            _ => {
                self.nesting.take(byte);
                self.ready.push(byte);
                self.is_filled = true;
                let is_closed = matches!(byte, b'}' | b']') && self.nesting.depth == 0;
                if is_closed && !self.is_list {
                    self.end_value();
                }
            }
        }
        Ok(())
    }

    fn end_value(&mut self) {
        self.ready.push(b'\n');
        self.n_values += 1;
        self.is_filled = false;
    }

    /// Checks that the text ends where a value does.
    fn end(&self) -> io::Result<()> {
        match () {
            () if self.is_filled && (self.nesting.depth > 0 || !self.is_list) => {
                Err(wrong(format!("ends within element {}", self.n_values + 1)))
            }
            () if self.is_list && !self.has_ended => Err(wrong("ends within its list".to_owned())),
            () if self.n_values == 0 => Err(wrong("is a list of no record".to_owned())),
            () => Ok(()),
        }
    }
}

fn wrong(reason: String) -> Error {
    Error::new(ErrorKind::InvalidData, reason)
}

impl<R: Read> Read for Values<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() && !into.is_empty() {
            self.ready.clear();
            self.taken = 0;
            let mut part = [0; 1 << 14];
            let n = self.from.read(&mut part)?;
            if n == 0 {
                self.end()?;
                return Ok(0);
            }
            part[..n].iter().try_for_each(|&byte| self.take(byte))?;
        }
        let rest = &self.ready[self.taken..];
        let n = rest.len().min(into.len());
        into[..n].copy_from_slice(&rest[..n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<(String, bool), String> {
        let text = Box::new(Cursor::new(text.as_bytes().to_vec()));
        let (mut lines, is_listed) = lines_of(text).map_err(|error| error.to_string())?;
        let mut read = String::new();
        let done = lines.read_to_string(&mut read);
        done.map_err(|error| error.to_string())?;
        Ok((read, is_listed))
    }

    #[test]
    fn lists_and_objects_over_several_lines_become_lines() {
        // Blanks between values and around them change nothing.
        let values = |text: &str| {
            let (lines, is_listed) = of(text)?;
            let lines = lines.lines().map(|line| line.trim().replace("\": ", "\":"));
            Ok::<_, String>((lines.collect::<Vec<_>>(), is_listed))
        };
        let both = ["{\"a\":\"x, [\\\"]\"}", "{\"b\":[1,{}]}"].map(str::to_owned);
        let expected = Ok((both.to_vec(), true));
        for text in [
            "[{\"a\": \"x, [\\\"]\"},\n{\"b\":[1,{}]}]\n",
            " [\n{\"a\":\n\"x, [\\\"]\"} ,{\"b\":[1,{}]} ] ",
            "[{\"a\":\"x, [\\\"]\"},{\"b\":[1,{}]}]",
            "{\"a\":\n\"x, [\\\"]\"\n}\n{\"b\":\n[1,{}]}",
        ] {
            let found = values(text);
            let found = found.map(|(lines, is)| {
                (
                    lines.iter().map(|line| line.replace(" }", "}")).collect(),
                    is,
                )
            });
            assert_eq!(found, expected, "{text}");
        }
        let lines = "{\"a\": 1}\n\n{\"b\"\n";
        assert_eq!(of(lines), Ok((lines.to_owned(), false)));
        for other in ["", "\n", "{", "3\n", "{\"a\": \"x\ny\"}\n{}"] {
            assert_eq!(of(other), Ok((other.to_owned(), false)), "{other}");
        }
    }

    #[test]
    fn a_list_that_is_damaged_says_where() {
        for (text, reason) in [
            ("[]", "is a list of no record"),
            ("[{", "ends within element 1"),
            ("[{}", "ends within its list"),
            ("[{},", "ends within its list"),
            ("[{},]", "element 2: is missing"),
            ("[,{}]", "element 1: is missing"),
            ("[{}] {}", "goes on behind its list"),
            ("{\n\"a\": [", "ends within element 1"),
        ] {
            assert_eq!(of(text), Err(reason.to_owned()), "{text}");
        }
    }
}
