//! A shader: SPIR-V that is part of the program, with its name.

/// SPIR-V of one compute shader, usually from a crate's `spv` folder.
#[derive(Debug)]
pub struct Shader {
    name: &'static str,
    bytes: &'static [u8],
}

impl Shader {
    /// Makes a shader of a path below `shaders/` without extension (`layer_norm/forward`) and a
    /// module, whose words are little-endian.
    ///
    /// # Safety
    /// Drivers trust a module: an invalid one is undefined behaviour. The caller guarantees that the
    /// bytes are valid SPIR-V for Vulkan 1.2 with the entry point `main`, for every value of the
    /// specialization constants that launches give, and that the shader reads and writes its
    /// buffers within the bounds that its launches give it. `cargo xtask shaders` and the tests
    /// establish this for HLX's own shaders; `hlx-contract` checks modules from outside.
    pub const unsafe fn new(name: &'static str, bytes: &'static [u8]) -> Self {
        Self { name, bytes }
    }

    /// Its path below `shaders/`, without extension.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the module's words.
    pub fn words(&self) -> Vec<u32> {
        self.bytes
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect()
    }

    /// The module's bytes.
    pub fn bytes(&self) -> &'static [u8] {
        self.bytes
    }
}
