//! The tokens of templates.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// Text outside of tags.
    Text(String),
    BlockBegin,
    BlockEnd,
    PrintBegin,
    PrintEnd,
    Name(String),
    Literal(String),
    Int(i128),
    Float(f64),
    Operator(&'static str),
}
