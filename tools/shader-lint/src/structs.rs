//! Writes a shader's push-constant block as a Rust struct.

use std::fmt::Write;
use std::path::Path;

use hlx_spirv::{PushConstant, PushScalar};

/// Writes the struct beside the module; returns what is wrong.
pub fn write(name: &str, file: &str, bytes: &[u8]) -> Vec<String> {
    let path = Path::new(file).with_extension("rs");
    let written = of_module(name, bytes)
        .and_then(|source| std::fs::write(path, source).map_err(|error| error.to_string()));
    fault(name, written)
}

/// Compares the struct beside the module with what [`write()`] would write.
pub fn compare(name: &str, file: &str, bytes: &[u8]) -> Vec<String> {
    let path = Path::new(file).with_extension("rs");
    let compared = of_module(name, bytes).and_then(|source| {
        let kept = std::fs::read_to_string(&path);
        let same = kept.is_ok_and(|kept| kept == source);
        let stale = || {
            format!(
                "{} is not what `cargo xtask shaders` writes",
                path.display()
            )
        };
        if same { Ok(()) } else { Err(stale()) }
    });
    fault(name, compared)
}

fn fault(name: &str, result: Result<(), String>) -> Vec<String> {
    let fault = result.err().map(|error| format!("{name}: {error}"));
    fault.into_iter().collect()
}

fn of_module(name: &str, bytes: &[u8]) -> Result<String, String> {
    hlx_spirv::words(bytes)
        .and_then(|words| hlx_spirv::push_constants(&words))
        .map_err(|error| error.to_string())
        .and_then(|block| source(name, &block))
}

/// The text of the struct; a comment alone for a shader without push constants.
fn source(name: &str, block: &[PushConstant]) -> Result<String, String> {
    let mut text =
        format!("// Push constants of {name}, by `cargo xtask shaders` from its module.\n");
    if block.is_empty() {
        return Ok(text);
    }
    text += "\n#[repr(C)]\n#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]\n";
    text += "pub struct Push {\n";
    let mut end = 0;
    for member in block {
        if member.offset != end {
            return Err(format!(
                "{} is at byte {}, expected {end}",
                member.name, member.offset
            ));
        }
        let scalar = match member.scalar {
            PushScalar::U32 => "u32",
            PushScalar::I32 => "i32",
            PushScalar::F32 => "f32",
        };
        let _ = match member.elements {
            Some(count) => writeln!(text, "    pub {}: [{scalar}; {count}],", member.name),
            None => writeln!(text, "    pub {}: {scalar},", member.name),
        };
        end += 4 * member.elements.unwrap_or(1);
    }
    Ok(text + "}\n")
}
