//! No guides: the crate was built without `schemas`.

use hlx_train::engine::Guides;
use hlx_train::generate::TextModel;

use super::{Form, Grammar};
use crate::error::ApiError;

/// What makes guides for a model: nothing does.
#[derive(Debug)]
pub(crate) struct Formats;

impl Formats {
    /// Reads nothing.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unnecessary_wraps, reason = "as with schemas")]
    pub fn new(_text: &TextModel) -> Result<Self, String> {
        Ok(Self)
    }

    /// Refuses every form.
    ///
    /// # Errors
    /// Always, with the parameter that wants the form.
    pub fn guides(&self, form: Form) -> Result<Guides, ApiError> {
        let kind = match form.grammar {
            Grammar::Schema(_) => "JSON",
            Grammar::Lark(_) => "calls that must be",
        };
        let reason = format!("{kind}: the server is built without --features schemas");
        Err(ApiError::unsupported(&form.path, reason))
    }
}
