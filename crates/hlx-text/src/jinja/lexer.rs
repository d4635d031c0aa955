//! Characters to tokens, by Jinja's rules of white space with `trim_blocks` and `lstrip_blocks`.

use super::bounds::{MAX_OPERATORS, MAX_TEMPLATE_BYTES, MAX_WIDTH};
use super::chars::is_space;
use super::error::{Error, Result, fault};
use super::literals;
use super::token::Token;

/// Operators; the longer of two that begin alike stands first.
const OPERATORS: &[&str] = &[
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];
/// Operators at which the parser does not recurse.
const FLAT: &[&str] = &[",", ":", "=", "]", ")", "}", ";"];
/// Words at which the parser may recurse.
const WORDS: &[&str] = &["not", "and", "or", "in", "is", "if", "else", "recursive"];

/// Tokens with their lines.
pub(crate) type Tokens = Vec<(Token, usize)>;

/// Reads the tokens of a template. Every end of a line is `\n` then, and one at the end is left out.
pub(crate) fn tokens(source: &str) -> Result<Tokens> {
    if source.len() > MAX_TEMPLATE_BYTES {
        return Err(fault!(
            "the template has {} bytes; at most {MAX_TEMPLATE_BYTES} are read",
            source.len()
        ));
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = Lexer {
        source,
        at: 0,
        line: 1,
        line_starts: true,
        tokens: Vec::new(),
    };
    lexer.run()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Whether the last token ended with the end of a line.
    line_starts: bool,
    tokens: Tokens,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Skips a number of bytes.
    fn skip(&mut self, n: usize) {
        let skipped = &self.source[self.at..self.at + n];
        self.line += skipped.matches('\n').count();
        if n > 0 {
            self.line_starts = skipped.ends_with('\n');
        }
        self.at += n;
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let Some(n) = tag_begin(rest) else {
                if !rest.is_empty() {
                    self.push(Token::Text(rest.to_owned()));
                }
                return Ok(());
            };
            let sign = sign_of(&rest[n + 2..]);
            let kind = &rest[n..n + 2];
            let raw = if kind == "{%" {
                raw_begin(&rest[n..])
            } else {
                None
            };
            // A tag that prints leaves the blanks before it.
            let strips = kind != "{{" || raw.is_some();
            self.text(&rest[..n], sign, strips);
            self.skip(n);
            match (raw, kind) {
                (Some(n), _) => self.raw(n)?,
                (None, "{#") => self.comment(2 + sign.map_or(0, char::len_utf8))?,
                (None, kind) => {
                    let is_block = kind == "{%";
                    self.push(if is_block {
                        Token::BlockBegin
                    } else {
                        Token::PrintBegin
                    });
                    self.skip(2 + sign.map_or(0, char::len_utf8));
                    self.tag(is_block)?;
                }
            }
        }
    }

    /// Text in front of a tag, without the white space that the tag takes.
    fn text(&mut self, text: &str, sign: Option<char>, strips: bool) {
        let mut trimmed = text;
        if sign == Some('-') {
            trimmed = text.trim_end_matches(is_space);
        } else if sign.is_none() && strips {
            let line = text.rfind('\n').map_or(0, |at| at + 1);
            let blanks = &text[line..];
            let begins = line > 0 || self.line_starts;
            if begins && !blanks.is_empty() && blanks.chars().all(is_space) {
                trimmed = &text[..line];
            }
        }
        if !trimmed.is_empty() {
            self.push(Token::Text(trimmed.to_owned()));
        }
    }

    /// `{% raw %}..{% endraw %}`, after a first tag of this length in bytes.
    fn raw(&mut self, n: usize) -> Result<()> {
        let line = self.line;
        self.skip(n);
        let rest = self.rest();
        let mut from = 0;
        while let Some(found) = rest[from..].find("{%") {
            let start = from + found;
            if let Some((sign, end)) = raw_end(&rest[start..]) {
                self.text(&rest[..start], sign, true);
                self.skip(start + end);
                return Ok(());
            }
            from = start + 2;
        }
        Err(Error::syntax(line, "missing end of raw directive"))
    }

    /// A comment, after an opening of this length in bytes.
    fn comment(&mut self, n: usize) -> Result<()> {
        let line = self.line;
        self.skip(n);
        let rest = self.rest();
        let Some(end) = rest.find("#}") else {
            return Err(Error::syntax(line, "missing end of comment tag"));
        };
        // A comment `{#-}` has no text; the sign belongs to its beginning.
        let sign = rest[..end].chars().next_back();
        self.skip(end + 2);
        self.behind_tag(sign.filter(|sign| ['-', '+'].contains(sign)), true);
        Ok(())
    }

    /// Takes the white space after a tag.
    fn behind_tag(&mut self, sign: Option<char>, trims: bool) {
        let rest = self.rest();
        let n = match sign {
            Some('-') => rest.len() - rest.trim_start_matches(is_space).len(),
            None if trims && rest.starts_with('\n') => 1,
            _ => 0,
        };
        self.skip(n);
    }

    /// The tokens of a tag up to its end.
    fn tag(&mut self, is_block: bool) -> Result<()> {
        let begun = self.line;
        let (mut open, mut operators) = (Vec::new(), 0);
        loop {
            let rest = self.rest();
            if open.is_empty() && self.tag_end(is_block) {
                return Ok(());
            }
            let Some(first) = rest.chars().next() else {
                let end = if is_block { "%}" } else { "}}" };
                return Err(Error::syntax(begun, format!("the tag has no end `{end}`")));
            };
            if is_space(first) {
                self.skip(first.len_utf8());
                continue;
            }
            let (token, n) = self.inner(first)?;
            let counts = match &token {
                Token::Operator(operator) => {
                    self.balance(operator, &mut open)?;
                    !FLAT.contains(operator)
                }
                Token::Name(word) => WORDS.contains(&word.as_str()),
                _ => false,
            };
            operators += usize::from(counts);
            if operators > MAX_OPERATORS {
                return Err(fault!(
                    "a tag has more than {MAX_OPERATORS} operators, brackets and dots; put parts of it in \
                     variables"
                )
                .at(self.line));
            }
            self.push(token);
            self.skip(n);
        }
    }

    /// Reads the end of a tag, if it is next.
    fn tag_end(&mut self, is_block: bool) -> bool {
        let rest = self.rest();
        let sign = sign_of(rest).filter(|&sign| sign == '-' || is_block);
        let skipped = sign.map_or(0, char::len_utf8);
        let end = if is_block { "%}" } else { "}}" };
        if !rest[skipped..].starts_with(end) {
            return false;
        }
        self.push(if is_block {
            Token::BlockEnd
        } else {
            Token::PrintEnd
        });
        self.skip(skipped + 2);
        self.behind_tag(sign, is_block);
        true
    }

    /// One token within a tag, and its length.
    fn inner(&self, first: char) -> Result<(Token, usize)> {
        let rest = self.rest();
        if first == '\'' || first == '"' {
            let (text, n) = literals::text(rest).map_err(|error| error.at(self.line))?;
            return Ok((Token::Literal(text), n));
        }
        if first.is_ascii_digit() {
            let after_dot = matches!(self.tokens.last(), Some((Token::Operator("."), _)))
                && self.source[..self.at].ends_with('.');
            return literals::number(rest, after_dot).map_err(|error| error.at(self.line));
        }
        if first == '_' || first.is_alphanumeric() {
            let end = rest.find(|char: char| char != '_' && !char.is_alphanumeric());
            let n = end.unwrap_or(rest.len());
            if n > MAX_WIDTH {
                return Err(Error::syntax(
                    self.line,
                    format!("a name of more than {MAX_WIDTH} bytes"),
                ));
            }
            return Ok((Token::Name(rest[..n].to_owned()), n));
        }
        let found = OPERATORS
            .iter()
            .find(|operator| rest.starts_with(**operator));
        match found {
            Some(operator) => Ok((Token::Operator(operator), operator.len())),
            None => Err(Error::syntax(
                self.line,
                format!("unexpected char {first:?}"),
            )),
        }
    }

    fn balance(&self, operator: &'static str, open: &mut Vec<&'static str>) -> Result<()> {
        let wanted = match operator {
            "(" => ")",
            "[" => "]",
            "{" => "}",
            ")" | "]" | "}" => {
                return match open.pop() {
                    Some(expected) if expected == operator => Ok(()),
                    _ => Err(Error::syntax(self.line, format!("unexpected `{operator}`"))),
                };
            }
            _ => return Ok(()),
        };
        open.push(wanted);
        Ok(())
    }
}

/// Where the next tag begins.
fn tag_begin(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = text[from..].find('{') {
        let at = from + found;
        if matches!(text.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#')) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn sign_of(text: &str) -> Option<char> {
    text.chars().next().filter(|sign| ['-', '+'].contains(sign))
}

fn skip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.trim_start_matches(is_space).strip_prefix(word)?;
    Some(rest.trim_start_matches(is_space))
}

/// The length of `{% raw %}`, with the white space that it takes.
fn raw_begin(text: &str) -> Option<usize> {
    let inner = &text[2..];
    let inner = &inner[sign_of(inner).map_or(0, char::len_utf8)..];
    let rest = skip_word(inner, "raw")?;
    let end = match rest.strip_prefix("-%}") {
        Some(rest) => rest.trim_start_matches(is_space),
        None => rest.strip_prefix("%}")?,
    };
    Some(text.len() - end.len())
}

/// The first sign of `{% endraw %}`, and its length with the white space that it takes.
fn raw_end(text: &str) -> Option<(Option<char>, usize)> {
    let inner = &text[2..];
    let sign = sign_of(inner);
    let inner = &inner[sign.map_or(0, char::len_utf8)..];
    let rest = skip_word(inner, "endraw")?;
    let end = if let Some(rest) = rest.strip_prefix("-%}") {
        rest.trim_start_matches(is_space)
    } else if let Some(rest) = rest.strip_prefix("+%}") {
        rest
    } else {
        let rest = rest.strip_prefix("%}")?;
        rest.strip_prefix('\n').unwrap_or(rest)
    };
    Some((sign, text.len() - end.len()))
}
