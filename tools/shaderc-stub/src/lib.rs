//! A replacement for `shaderc` in HLX builds.
//!
//! `vulkano-shaders` links shaderc even where a module comes as SPIR-V (`bytes:`) and the
//! compiler is never called. This crate has the names it uses; every attempt to compile GLSL
//! answers that there is no compiler in this build.

use std::fmt;

/// What a compilation would return; never made here.
pub struct CompilationArtifact {
    words: Vec<u32>,
}

impl CompilationArtifact {
    /// The SPIR-V words.
    pub fn as_binary(&self) -> &[u32] {
        &self.words
    }
}

/// The compiler's error.
#[derive(Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no GLSL compiler in this build: HLX replaces shaderc by a stub; \
             compile the shader with `cargo xtask shaders` and give its SPIR-V with `bytes:`",
        )
    }
}

impl std::error::Error for Error {}

/// The compiler: can be made, cannot compile.
pub struct Compiler;

impl Compiler {
    /// Makes the stub.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> Option<Self> {
        Some(Self)
    }

    /// Always fails with [`Error`].
    pub fn compile_into_spirv(
        &self,
        _source_text: &str,
        _shader_kind: ShaderKind,
        _input_file_name: &str,
        _entry_point_name: &str,
        _additional_options: Option<&CompileOptions<'_>>,
    ) -> Result<CompilationArtifact, Error> {
        Err(Error)
    }
}

/// A resolved `#include`.
pub struct ResolvedInclude {
    /// The file's name.
    pub resolved_name: String,
    /// The file's text.
    pub content: String,
}

/// How a file was included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeType {
    /// `#include "..."`
    Relative,
    /// `#include <...>`
    Standard,
}

/// Options, all ignored.
pub struct CompileOptions<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> CompileOptions<'a> {
    /// Makes empty options.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> Option<Self> {
        Some(Self(std::marker::PhantomData))
    }

    /// Ignored.
    pub fn set_target_env(&mut self, _env: TargetEnv, _version: u32) {}

    /// Ignored.
    pub fn set_target_spirv(&mut self, _version: SpirvVersion) {}

    /// Ignored.
    pub fn set_include_callback<F>(&mut self, _callback: F)
    where
        F: Fn(&str, IncludeType, &str, usize) -> Result<ResolvedInclude, String> + 'a,
    {
    }

    /// Ignored.
    pub fn add_macro_definition(&mut self, _name: &str, _value: Option<&str>) {}

    /// Ignored.
    pub fn set_generate_debug_info(&mut self) {}
}

/// The target environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetEnv {
    /// Vulkan.
    Vulkan,
}

/// The Vulkan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EnvVersion {
    Vulkan1_0 = 1 << 22,
    Vulkan1_1 = (1 << 22) | (1 << 12),
    Vulkan1_2 = (1 << 22) | (2 << 12),
    Vulkan1_3 = (1 << 22) | (3 << 12),
}

/// The SPIR-V version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SpirvVersion {
    V1_0,
    V1_1,
    V1_2,
    V1_3,
    V1_4,
    V1_5,
    V1_6,
}

/// The shader stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ShaderKind {
    Vertex,
    TessControl,
    TessEvaluation,
    Geometry,
    Task,
    Mesh,
    Fragment,
    Compute,
    RayGeneration,
    AnyHit,
    ClosestHit,
    Miss,
    Intersection,
    Callable,
}
