//! How large a template, its values and its text may be.

use super::error::{Error, Result, fault};

/// Bytes that a template may have.
pub(crate) const MAX_TEMPLATE_BYTES: usize = 512 << 10;
/// Operators, brackets and dots that one tag of a template may have.
pub(crate) const MAX_OPERATORS: usize = 400;
/// Blocks that may lie within each other, with one more for each `elif`.
pub(crate) const MAX_BLOCKS: usize = 100;
/// Elements that a value may have, those of its parts included.
pub(crate) const MAX_ELEMENTS: usize = 1 << 17;
/// Bytes of text that a value may have, and that a template may write.
pub(crate) const MAX_TEXT_BYTES: usize = 16 << 20;
/// Brackets, calls and choices of an expression that may lie within each other.
pub(crate) const MAX_BRACKETS: usize = 100;
/// Parameters that a macro may have.
pub(crate) const MAX_PARAMETERS: usize = 100;
/// Names that a namespace may have.
pub(crate) const MAX_NAMES: usize = 1000;
/// Lists and maps that may lie within each other.
pub(crate) const MAX_DEPTH: usize = 100;
/// Blanks of an indentation, and characters that a format may fill up to.
pub(crate) const MAX_WIDTH: usize = 1000;
/// Numbers of a `range`, as in Jinja's sandbox.
pub(crate) const MAX_RANGE: i128 = 100_000;
/// Steps that a template may take: more than thousands of messages take.
pub(crate) const FUEL: u64 = 5_000_000;
/// Expressions and statements that may be carried out within each other.
pub(crate) const MAX_RECURSION: usize = 650;
/// What a macro, or a loop that calls itself, counts of these.
pub(crate) const RECURSION_OF_A_MACRO: usize = 8;
/// Steps of making a macro, or the body of a `call` block.
pub(crate) const STEPS_OF_A_MACRO: usize = 16;
/// Bytes of text that are made, or elements that are copied, for one step.
const BYTES_A_STEP: usize = 64;
const ELEMENTS_A_STEP: usize = 2;
/// Bytes and elements that are compared or measured for one step.
const COMPARED_BYTES_A_STEP: usize = 4096;
const COMPARED_ELEMENTS_A_STEP: usize = 8;
/// Names that are looked through for one step.
const NAMES_A_STEP: usize = 64;
/// Characters of a name or a key that an error shows.
const SHOWN: usize = 60;

/// How large a value is where it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Size {
    pub elements: usize,
    pub bytes: usize,
    pub depth: usize,
}

impl Size {
    /// Adds a part.
    pub fn add(&mut self, part: Size) {
        self.elements = self.elements.saturating_add(part.elements);
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.depth = self.depth.max(part.depth);
    }

    /// Refuses what is beyond the bounds.
    pub fn check(self) -> Result<Self> {
        if self.elements > MAX_ELEMENTS {
            return Err(fault!("a value has more than {MAX_ELEMENTS} elements"));
        }
        if self.bytes > MAX_TEXT_BYTES {
            return Err(fault!(
                "a value has more than {MAX_TEXT_BYTES} bytes of text"
            ));
        }
        if self.depth > MAX_DEPTH {
            return Err(fault!(
                "a value has more than {MAX_DEPTH} lists or maps within each other"
            ));
        }
        Ok(self)
    }
}

/// The steps that are left.
#[derive(Debug)]
pub(crate) struct Fuel(u64);

impl Fuel {
    pub fn full() -> Self {
        Self(FUEL)
    }

    /// Takes steps.
    pub fn take(&mut self, steps: usize) -> Result<()> {
        match self.0.checked_sub(steps as u64) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(fault!("the template takes more than {FUEL} steps (fuel)"))
            }
        }
    }

    /// Takes the steps that a text of this length costs, before it is made.
    pub fn text(&mut self, what: &str, bytes: usize) -> Result<()> {
        self.fits(what, bytes)?;
        self.take(bytes / BYTES_A_STEP)
    }

    /// Refuses a text of more bytes than a value may have.
    pub fn fits(&self, what: &str, bytes: usize) -> Result<()> {
        match bytes > MAX_TEXT_BYTES {
            true => Err(fault!(
                "{what}: the text would have {bytes} bytes; at most {MAX_TEXT_BYTES} are made"
            )),
            false => Ok(()),
        }
    }

    /// Takes the steps that a list of this length costs, before it is made.
    pub fn elements(&mut self, n: usize) -> Result<()> {
        if n > MAX_ELEMENTS {
            return Err(fault!("a value has more than {MAX_ELEMENTS} elements"));
        }
        self.take(n / ELEMENTS_A_STEP)
    }

    /// Takes steps for looking through names.
    pub fn names(&mut self, n: usize) -> Result<()> {
        self.take(n / NAMES_A_STEP)
    }

    /// Takes the steps that a walk over this number of existing elements costs.
    pub fn pass(&mut self, n: usize) -> Result<()> {
        self.take(n / COMPARED_ELEMENTS_A_STEP)
    }

    /// Takes steps for walking over a value.
    pub fn walk(&mut self, size: Size) -> Result<()> {
        self.take(size.elements / COMPARED_ELEMENTS_A_STEP + size.bytes / COMPARED_BYTES_A_STEP)
    }
}

/// The beginning of a text, for an error.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("..");
    }
    shown
}

/// Refuses a width that is too large.
pub(crate) fn check_width(what: &str, width: usize) -> Result<(), Error> {
    match width > MAX_WIDTH {
        true => Err(fault!(
            "{what}: a width of {width}; at most {MAX_WIDTH} is allowed"
        )),
        false => Ok(()),
    }
}
