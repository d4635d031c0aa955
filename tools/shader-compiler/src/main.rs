//! Compiles GLSL compute shaders to SPIR-V: `shader-compiler MADE IN.comp FOLDER OUT.spv [IN FOLDER OUT ...]`.
//! FOLDER is where a source's includes are, MADE where those are that tables were made into.
//!
//! Target: Vulkan 1.2, SPIR-V 1.5, no debug information, no optimiser: the module is a plain
//! translation of the source, the same for everybody who runs this pinned compiler.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use glslang::include::{IncludeHandler, IncludeResult, IncludeType};
use glslang::{
    Compiler, CompilerOptions, Program, ShaderInput, ShaderMessage, ShaderSource, ShaderStage,
    SourceLanguage, SpirvVersion, Target, VulkanVersion,
};

/// Resolves `#include "x"` beside the file that includes it, then in these folders. A source reads each file once: the
/// second time it is empty.
struct Includes {
    folders: [PathBuf; 2],
    seen: BTreeSet<PathBuf>,
}

impl IncludeHandler for Includes {
    fn include(
        &mut self,
        _kind: IncludeType,
        name: &str,
        includer: &str,
        _depth: usize,
    ) -> Option<IncludeResult> {
        let beside = Path::new(includer).parent().map(|dir| dir.join(name));
        let below = self.folders.iter().map(|folder| folder.join(name));
        let path = beside
            .into_iter()
            .chain(below)
            .find(|path| path.is_file())?;
        let data = match self.seen.insert(fs::canonicalize(&path).ok()?) {
            true => fs::read_to_string(&path).ok()?,
            false => String::new(),
        };
        Some(IncludeResult {
            name: path.to_string_lossy().into_owned(),
            data,
        })
    }
}

fn compile(compiler: &Compiler, input: &Path, folders: [&Path; 2]) -> Result<Vec<u32>> {
    let text =
        fs::read_to_string(input).with_context(|| format!("cannot read {}", input.display()))?;
    let source = ShaderSource::from(text);
    let options = CompilerOptions {
        source_language: SourceLanguage::GLSL,
        target: Target::Vulkan {
            version: VulkanVersion::Vulkan1_2,
            spirv_version: SpirvVersion::SPIRV1_5,
        },
        version_profile: None,
        messages: ShaderMessage::DEFAULT,
    };
    let mut includes = Includes {
        folders: folders.map(Path::to_path_buf),
        seen: BTreeSet::new(),
    };
    let no_defines: Option<&[(&str, Option<&str>)]> = None;
    let shader_input = ShaderInput::new(
        &source,
        ShaderStage::Compute,
        &options,
        no_defines,
        Some(&mut includes),
    )?;
    let shader = compiler.create_shader(shader_input)?;
    let mut program: Program = compiler.create_program();
    program.add_shader(&shader);
    Ok(program.compile(ShaderStage::Compute)?)
}

fn main() -> Result<()> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let Some((made, args)) = args
        .split_first()
        .filter(|(_, args)| !args.is_empty() && args.len() % 3 == 0)
    else {
        bail!("usage: shader-compiler MADE IN.comp FOLDER OUT.spv [IN.comp FOLDER OUT.spv ...]");
    };
    let Some(compiler) = Compiler::acquire() else {
        bail!("cannot start glslang")
    };
    for shader in args.chunks(3) {
        let [input, folder, output] = shader else {
            bail!("an incomplete shader")
        };
        let words = compile(compiler, input, [folder, made])
            .with_context(|| format!("{}", input.display()))?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Some(dir) = output.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(output, bytes).with_context(|| format!("cannot write {}", output.display()))?;
    }
    Ok(())
}
