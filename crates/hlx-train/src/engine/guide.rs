//! What restricts an answer: which tokens may come next.

use std::fmt;
use std::sync::Arc;

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
pub struct Guides(Arc<MakeGuide>);

impl Guides {
    /// Makes guides by a function, which is called once for each answer on the engine's thread.
    pub fn new(make: impl Fn() -> Result<Box<dyn Guide>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// A guide.
    ///
    /// # Errors
    /// That of the function.
    pub fn make(&self) -> Result<Box<dyn Guide>, String> {
        (self.0)()
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
        Arc::ptr_eq(&self.0, &other.0)
    }
}
