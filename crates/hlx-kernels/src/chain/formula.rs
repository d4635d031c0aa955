//! The function of an operation in its compiled module.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hlx_core::Shader;
use hlx_spirv::join::{Id, Library};

use super::address;

/// What an operation computes of one element: the function `apply` of its shader.
#[derive(Clone)]
pub(crate) struct Formula {
    pub shader: &'static Shader,
    /// The values of the constants that the function depends on.
    pub constants: Vec<(u32, u32)>,
}

/// The function in its module.
pub(super) struct Source {
    pub library: Library,
    pub apply: Id,
    /// The words of parameters that it reads.
    pub parameters: u32,
}

impl Formula {
    /// Reads the shader the first time; `None` if the function cannot be taken out of it.
    pub(super) fn source(&self) -> Option<&'static Source> {
        static SOURCES: Mutex<Option<HashMap<usize, Option<&'static Source>>>> = Mutex::new(None);
        let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = sources.get_or_insert_default();
        let read = || {
            let library = Library::read(&self.shader.words()).ok()?;
            let apply = library.function("apply")?;
            let parameters = library.parameters(apply).ok()?;
            // As long as the program, like the shader that it is read from.
            Some(&*Box::leak(Box::new(Source {
                library,
                apply,
                parameters,
            })))
        };
        *sources.entry(address(self.shader)).or_insert_with(read)
    }

    /// The words of parameters that the function reads.
    pub fn parameters(&self) -> u32 {
        self.source().map_or(0, |source| source.parameters)
    }
}
