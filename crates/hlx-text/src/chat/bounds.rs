//! What a chat template may be: its length, and what its tags hold, counted before it is parsed.
//!
//! The parser of `minijinja` recurses once for each operator of a chain and each branch of a condition, and so do
//! the compiler and the destructor of the parsed tree. Tokens are read by a loop, so they are counted first.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// Bytes that a template may have.
pub const MAX_TEMPLATE_BYTES: usize = 512 << 10;
/// Operators, brackets and dots that one tag of a template may have.
pub const MAX_OPERATORS: usize = 400;
/// Blocks that may lie within each other, with one more for each `elif`.
pub const MAX_BLOCKS: usize = 100;

/// A token, and its place in the template.
pub(super) type Placed<'a> = (Token<'a>, Span);

/// An error with one of the bounds in it.
pub(super) fn beyond(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Reads the tokens of a template that is within the bounds.
pub(super) fn tokens(source: &str, syntax: SyntaxConfig) -> Result<Vec<Placed<'_>>, Error> {
    if source.len() > MAX_TEMPLATE_BYTES {
        return Err(beyond(format!(
            "the template has {} bytes; at most {MAX_TEMPLATE_BYTES} are read",
            source.len()
        )));
    }
    let mut all = Vec::new();
    let mut blocks = Blocks::default();
    let (mut start, mut operators) = (0, 0);
    for token in tokenize(source, false, syntax) {
        let (token, span) = token?;
        operators += usize::from(is_operator(&token));
        if operators > MAX_OPERATORS {
            return Err(beyond(format!(
                "line {}: a tag has more than {MAX_OPERATORS} operators, brackets and dots; put parts of \
                 it in variables",
                span.start_line
            )));
        }
        match token {
            Token::BlockStart | Token::VariableStart => (start, operators) = (all.len() + 1, 0),
            Token::BlockEnd => blocks.tag(&all[start.min(all.len())..], span)?,
            _ => {}
        }
        all.push((token, span));
    }
    Ok(all)
}

/// Whether the parser may recurse at a token.
fn is_operator(token: &Token<'_>) -> bool {
    match token {
        Token::Ident(word) => {
            matches!(
                *word,
                "not" | "and" | "or" | "in" | "is" | "if" | "else" | "recursive"
            )
        }
        Token::TemplateData(_)
        | Token::VariableStart
        | Token::VariableEnd
        | Token::BlockStart
        | Token::BlockEnd
        | Token::Str(_)
        | Token::String(_)
        | Token::Int(_)
        | Token::Int128(_)
        | Token::Float(_)
        | Token::Comma
        | Token::Colon
        | Token::Assign
        | Token::BracketClose
        | Token::ParenClose
        | Token::BraceClose => false,
        _ => true,
    }
}

/// The blocks that are open.
#[derive(Default)]
struct Blocks {
    /// For each block one, and one more for each of its `elif`.
    open: Vec<usize>,
    depth: usize,
}

impl Blocks {
    fn tag(&mut self, tokens: &[Placed<'_>], span: Span) -> Result<(), Error> {
        let Some((Token::Ident(word), _)) = tokens.first() else {
            return Ok(());
        };
        match *word {
            "for" | "if" | "with" | "autoescape" | "filter" | "macro" | "call" => self.push(),
            // `{% set x %}` opens a block, `{% set x = 1 %}` does not.
            "set" if assignment(tokens).is_none() => self.push(),
            "elif" => {
                if let Some(open) = self.open.last_mut() {
                    *open += 1;
                    self.depth += 1;
                }
            }
            word if word.starts_with("end") => {
                self.depth -= self.open.pop().unwrap_or_default();
            }
            _ => {}
        }
        if self.depth > MAX_BLOCKS {
            return Err(beyond(format!(
                "line {}: more than {MAX_BLOCKS} blocks and branches lie within each other",
                span.start_line
            )));
        }
        Ok(())
    }

    fn push(&mut self) {
        self.open.push(1);
        self.depth += 1;
    }
}

/// The place of the sign of assignment outside of all brackets.
pub(super) fn assignment(tokens: &[Placed<'_>]) -> Option<usize> {
    let mut depth = 0_i64;
    for (at, (token, _)) in tokens.iter().enumerate() {
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth -= 1,
            Token::BlockEnd => return None,
            Token::Assign if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}
