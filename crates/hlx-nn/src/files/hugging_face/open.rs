//! Finds the configuration and the tensors of a path, whatever the format of the weights.

use std::path::Path;

use hlx_core::files::{place, read_json};

use super::files::TensorFiles;
use super::gguf::{GgufTensors, gguf_of};
use super::quantised::{QuantisedFiles, take_scheme};
use super::source::TensorSource;
use crate::error::NnError;
use crate::{CONFIG_FILE, Result};

/// The tensors of a path, or why there are none.
pub(super) type Tensors = Result<Box<dyn TensorSource>>;

fn boxed<T: TensorSource + 'static>(tensors: Result<T>) -> Tensors {
    tensors.map(|tensors| Box::new(tensors) as Box<dyn TensorSource>)
}

/// Reads the bytes of the configuration of a folder or of a GGUF file, and finds the tensors.
///
/// # Errors
/// A configuration that cannot be read, or a statement of quantised weights that is not supported.
pub(super) fn config_and_tensors(path: &Path) -> Result<(Vec<u8>, Tensors)> {
    if let Some(file) = gguf_of(path).filter(|_| path.is_file()) {
        let tensors = GgufTensors::open(&file)?;
        return Ok((tensors.0.config_json(), boxed(Ok(tensors))));
    }
    let named = place(path, CONFIG_FILE);
    let config = read_json(&named).map_err(|error| NnError::file(&named, error))?;
    if let Some(file) = gguf_of(path) {
        return Ok((config, boxed(GgufTensors::open(&file))));
    }
    let files = TensorFiles::open(path);
    let scheme = take_scheme(&config).map_err(|reason| NnError::file(&named, reason))?;
    Ok(match scheme {
        Some((scheme, config)) => {
            let tensors = files.and_then(|files| QuantisedFiles::new(files, &scheme));
            (config, boxed(tensors))
        }
        None => (config, boxed(files)),
    })
}
