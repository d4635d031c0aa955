//! A report as sections of blocks: what HTML and Markdown are both written from.

use crate::chart::Chart;
pub use crate::table::{Cell, Table};

/// A document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// One line on what it is.
    pub subtitle: String,
    /// What could not be read.
    pub faults: Vec<String>,
    /// What a reader looks for first: names and values.
    pub key_figures: Vec<(String, String)>,
    /// The sections.
    pub sections: Vec<Section>,
    /// What wrote it, of what and when.
    pub footer: String,
}

/// A section.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Pictures beside each other.
    Charts(Vec<Chart>),
    /// A table.
    Table(Table),
    /// Keys and values, in as many columns as fit.
    Pairs(Vec<(String, String)>),
    /// What a model wrote for one prompt, over time.
    Samples(Samples),
    /// A command line, or several.
    Code(Vec<String>),
}

/// What one or several models wrote for one prompt.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The prompt.
    pub prompt: String,
    /// For each model its texts with their headings, in the order of their steps.
    pub rows: Vec<Vec<(String, String)>>,
}

impl Section {
    /// A section; none without blocks.
    pub fn of(title: &str, blocks: Vec<Block>) -> Option<Self> {
        (!blocks.is_empty()).then(|| Self {
            title: title.to_owned(),
            blocks,
        })
    }
}
