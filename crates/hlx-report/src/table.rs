//! Tables of a document.

/// What a table's cell holds, which decides how it is set.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, set to the right.
    Number(String),
    /// A digest, a key or a value of a configuration, as it is written.
    Code(String),
    /// Words that say that something is right (`true`) or wrong.
    Verdict(String, bool),
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number.
    pub fn number(text: impl Into<String>) -> Self {
        Self::Number(text.into())
    }

    /// Code.
    pub fn code(text: impl Into<String>) -> Self {
        Self::Code(text.into())
    }

    /// The words in it.
    pub fn words(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) | Self::Code(text) | Self::Verdict(text, _) => {
                text
            }
        }
    }
}

/// A table: the names of its columns, and rows of as many cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns' names.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            head: head.map(str::to_owned).to_vec(),
            rows: Vec::new(),
        }
    }
}
