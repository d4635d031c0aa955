//! Makes `constants.glsl` and `constants.rs` of the one list of constants: GLSL and Rust must use the same bits.

use std::fs;
use std::path::Path;

use crate::table;

const LIST: &str = "shaders/include/constants.txt";
const RUST: &str = "crates/hlx-core/src/arith/constants.rs";

/// One line of the list.
struct Constant {
    is_float: bool,
    name: String,
    bits: u32,
    comment: String,
}

/// Writes the Rust file from the list under `root`; with `check`, only compares it with what would be written.
///
/// Errors name the file and line of a malformed constant, or the file that is out of date.
pub fn generate(root: &Path, check: bool) -> Result<(), String> {
    let rust = "//! Constants of HLX arithmetic, written by `cargo xtask shaders` from\n\
                //! `shaders/include/constants.txt`.\n";
    let lines = table::read(root, LIST, parse)?;
    let lines: String = lines.iter().map(rust_line).collect();
    write_or_compare(root, RUST, &(rust.to_owned() + &lines), check)
}

/// The text of the include.
///
/// Errors name the file and line of a malformed constant.
pub fn glsl(root: &Path) -> Result<String, String> {
    let lines = table::read(root, LIST, parse)?;
    Ok(lines.iter().map(glsl_line).collect())
}

/// Reads `TYPE NAME 0xBITS comment`.
fn parse(line: &str) -> Option<Constant> {
    let mut words = line.splitn(4, ' ');
    let is_float = match words.next()? {
        "f32" => true,
        "u32" => false,
        _ => return None,
    };
    let name = words.next()?.to_owned();
    let bits = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let comment = words.next().unwrap_or("").to_owned();
    if is_float && !f32::from_bits(bits).is_finite() {
        return None;
    }
    Some(Constant {
        is_float,
        name,
        bits,
        comment,
    })
}

/// A float as the shortest decimal of its f64 value: exact under any correct parser.
fn decimal(bits: u32) -> String {
    let value = f64::from(f32::from_bits(bits));
    if value == 0.0 || (1e-4..1e16).contains(&value.abs()) {
        format!("{value:?}")
    } else {
        let text = format!("{value:e}");
        if text.contains('.') {
            text
        } else {
            text.replace('e', ".0e")
        }
    }
}

fn glsl_line(constant: &Constant) -> String {
    let Constant { name, bits, .. } = constant;
    match constant.is_float {
        true => format!("const float HLX_{name} = {};\n", decimal(*bits)),
        false => format!("const uint HLX_{name} = 0x{bits:08x}u;\n"),
    }
}

fn rust_line(constant: &Constant) -> String {
    let Constant { name, bits, .. } = constant;
    let comment = if constant.comment.is_empty() {
        "/// See the constant above.\n".to_owned()
    } else {
        format!("/// {}\n", constant.comment)
    };
    if constant.is_float {
        format!(
            "\n{comment}pub const {name}: f32 = f32::from_bits(0x{bits:08x}); // {}\n",
            decimal(*bits)
        )
    } else {
        format!("\n{comment}pub const {name}: u32 = 0x{bits:08x};\n")
    }
}

/// Writes a generated file that changed; with `check`, says instead that it is out of date.
pub fn write_or_compare(root: &Path, file: &str, text: &str, check: bool) -> Result<(), String> {
    let path = root.join(file);
    let current = fs::read_to_string(&path).unwrap_or_default();
    if current == text {
        return Ok(());
    }
    if check {
        return Err(format!("{file} is out of date: run `cargo xtask shaders`"));
    }
    fs::write(&path, text).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_carry_the_exact_bits() {
        for bits in [
            0x3f317218_u32,
            0xb102e308,
            0xa6f72ced,
            0x5f800000,
            0x20000000,
            0x33800000,
            0,
        ] {
            let text = decimal(bits);
            assert_eq!(
                text.parse::<f64>().map(|value| (value as f32).to_bits()),
                Ok(bits),
                "{text}"
            );
            assert!(text.contains('.'), "{text} would be a GLSL integer");
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        assert!(parse("f32 NAME 0x3f800000 one").is_some());
        for line in [
            "f16 NAME 0x3f80",
            "f32 NAME 3f800000",
            "f32 NAME",
            "f32 NAME 0x7f800000",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
