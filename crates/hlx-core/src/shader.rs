//! A shader: SPIR-V that is part of the program, with its name.

/// SPIR-V of one compute shader, usually from `shaders/spv`.
#[derive(Debug)]
pub struct Shader {
    /// Its path below `shaders/`, without extension: `layer_norm/forward`.
    pub name: &'static str,
    /// The module, little-endian words.
    pub bytes: &'static [u8],
}

impl Shader {
    /// Returns the module's words.
    pub fn words(&self) -> Vec<u32> {
        self.bytes
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect()
    }
}
