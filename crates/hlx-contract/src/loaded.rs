//! Shaders by handle: found, validated and reflected once a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hlx_store::{Handle, Objects};

use super::own::{self, Own};
use super::spirv::{self, Reflection};
use super::{ContractError, Encoded, Shader};

/// Shaders that a process holds at most; one that uses more of them validates some again.
const MAX_LOADED: usize = 64;

/// A validated shader.
pub(crate) struct Loaded {
    pub handle: Handle,
    pub entry_point: String,
    pub words: Vec<u32>,
    pub reflection: Reflection,
}

/// Validates a shader and returns its interface: bindings, constants, workgroup size.
///
/// # Errors
/// [`ContractError::Spirv`] with the first fault.
pub fn inspect(shader: &Shader) -> Result<Reflection, ContractError> {
    Ok(validate(shader.handle()?, shader)?.reflection)
}

/// Finds a shader by its handle, among HLX's own or in a store, validates it and returns its interface. `contract` names
/// what needs it, in errors.
///
/// # Errors
/// As [`inspect`]; [`ContractError::Store`] if it is not there, [`ContractError::Invalid`] if it is no shader.
pub fn interface(
    store: &dyn Objects,
    contract: &str,
    shader: &Handle,
) -> Result<Reflection, ContractError> {
    Ok(load(store, contract, shader)?.reflection.clone())
}

pub(crate) fn validate(handle: Handle, shader: &Shader) -> Result<Loaded, ContractError> {
    let refused = |reason: String| ContractError::Spirv {
        shader: handle,
        reason,
    };
    let uneven = || format!("{} bytes are no whole number of words", shader.spirv.len());
    let words = shader.words().ok_or_else(|| refused(uneven()))?;
    let reflection = spirv::validate(&words, &shader.entry_point).map_err(refused)?;
    Ok(Loaded {
        handle,
        entry_point: shader.entry_point.clone(),
        words,
        reflection,
    })
}

/// Finds a shader, among HLX's own or in the store, and validates it.
pub(crate) fn load(
    store: &dyn Objects,
    contract: &str,
    handle: &Handle,
) -> Result<Arc<Loaded>, ContractError> {
    static LOADED: Mutex<Option<HashMap<Handle, Arc<Loaded>>>> = Mutex::new(None);
    let lock = || LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loaded) = lock().as_ref().and_then(|all| all.get(handle)) {
        return Ok(Arc::clone(loaded));
    }
    let shader = match own::by_handle(handle).map(Own::contract) {
        Some(shader) => shader,
        None => {
            let bytes = store
                .get_bytes(handle)
                .map_err(ContractError::store(contract))?;
            Shader::from_bytes(&bytes).map_err(|error| {
                ContractError::invalid(contract, format!("shader {handle}: {error}"))
            })?
        }
    };
    let loaded = Arc::new(validate(*handle, &shader)?);
    let mut all = lock();
    let all = all.get_or_insert_default();
    if all.len() >= MAX_LOADED {
        all.clear();
    }
    all.insert(*handle, Arc::clone(&loaded));
    Ok(loaded)
}
