//! What restricts an answer: which tokens may come next.

use std::fmt;
use std::sync::Arc;

use hlx_receipt::Grammar;

/// Follows an answer, and says which tokens may come next: a function of the answer's tokens alone.
pub trait Guide: Send {
    /// Makes the logits of tokens that may not come next negative infinity.
    ///
    /// # Errors
    /// Why nothing can be said; the answer ends with it.
    fn restrict(&mut self, logits: &mut [f32]) -> Result<(), String>;

    /// Continues with a token.
    ///
    /// # Errors
    /// As [`Guide::restrict`].
    fn accept(&mut self, id: u32) -> Result<(), String>;

    /// Whether nothing may follow: the answer has ended.
    fn has_ended(&self) -> bool;
}

/// What makes the guide of an answer.
pub type MakeGuide = dyn Fn() -> Result<Box<dyn Guide>, String> + Send + Sync;

/// Makes a guide for each answer of a request.
#[derive(Clone)]
pub struct Guides {
    make: Arc<MakeGuide>,
    grammar: Grammar,
}

impl Guides {
    /// Makes guides to a grammar by a function, which is called once for each answer on the engine's thread.
    pub fn new(
        grammar: Grammar,
        make: impl Fn() -> Result<Box<dyn Guide>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: Arc::new(make),
            grammar,
        }
    }

    /// What answers follow, for their receipts.
    pub fn grammar(&self) -> &Grammar {
        &self.grammar
    }

    /// A guide.
    ///
    /// # Errors
    /// That of the function.
    pub fn make(&self) -> Result<Box<dyn Guide>, String> {
        (self.make)()
    }
}

impl fmt::Debug for Guides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guides")
    }
}

impl PartialEq for Guides {
    /// Whether both are one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}
