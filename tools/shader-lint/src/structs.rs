//! Writes the push-constant blocks of a crate's shaders as Rust structs: one file, a module per family.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use hlx_spirv::{PushConstant, PushScalar};

/// The modules of a family: their names, each with the members of its block.
type Family = Vec<(String, Vec<String>)>;

/// The file in a crate's folder of modules.
const FILE: &str = "push.rs";

/// Writes the structs of modules (names and files) to `push.rs` in `folder`; returns what is wrong.
pub fn write(folder: &str, modules: &[(String, String)]) -> Vec<String> {
    let path = Path::new(folder).join(FILE);
    let written = text_of(modules).and_then(|text| {
        let written = std::fs::write(&path, text);
        written.map_err(|error| format!("{}: {error}", path.display()))
    });
    written.err().into_iter().collect()
}

/// Compares `push.rs` in `folder` with what [`write()`] would write.
pub fn compare(folder: &str, modules: &[(String, String)]) -> Vec<String> {
    let path = Path::new(folder).join(FILE);
    match text_of(modules) {
        Err(error) => vec![error],
        Ok(text) if std::fs::read_to_string(&path).is_ok_and(|found| found == text) => Vec::new(),
        Ok(_) => vec![format!(
            "{} is not what `cargo xtask shaders` writes",
            path.display()
        )],
    }
}

/// What stands before the families.
const HEAD: &str = "\
//! The push constants of kernels, a module per family, by `cargo xtask shaders` from the modules.
#![allow(missing_docs, dead_code, unused_imports, non_camel_case_types)]

/// Makes a struct of each block, under the names of all modules that have it.
macro_rules! blocks {
    ($(mod $family:ident { $($first:ident $(, $other:ident)* { $($member:ident: $kind:ty),* $(,)? })* })*) => {$(
        pub mod $family {$(
            #[repr(C)]
            #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
            pub struct $first {
                $(pub $member: $kind),*
            }
            $(pub use self::$first as $other;)*
        )*}
    )*};
}

blocks! {
";

/// The text of the file.
fn text_of(modules: &[(String, String)]) -> Result<String, String> {
    let mut families: BTreeMap<&str, Family> = BTreeMap::new();
    for (name, file) in modules {
        let read = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let members = members_of(&read).map_err(|error| format!("{name}: {error}"))?;
        let (family, module) = name
            .split_once('/')
            .ok_or_else(|| format!("{name}: of no family"))?;
        let family = families.entry(family).or_default();
        family.push((module.to_owned(), members));
    }
    let mut text = HEAD.to_owned();
    for (name, mut family) in families {
        family.sort();
        text += &source(name, &family);
    }
    Ok(text + "}\n")
}

/// The members of a module's block; none for a shader without push constants.
fn members_of(bytes: &[u8]) -> Result<Vec<String>, String> {
    let words = hlx_spirv::words(bytes).map_err(|error| error.to_string())?;
    let block: Vec<PushConstant> =
        hlx_spirv::push_constants(&words).map_err(|error| error.to_string())?;
    let (mut members, mut end) = (Vec::new(), 0);
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
        members.push(match member.elements {
            Some(count) => format!("{}: [{scalar}; {count}]", member.name),
            None => format!("{}: {scalar}", member.name),
        });
        end += 4 * member.elements.unwrap_or(1);
    }
    Ok(members)
}

/// A family's module: each distinct block once, after the names of the modules that have it.
fn source(family: &str, modules: &Family) -> String {
    let mut blocks: BTreeMap<&[String], Vec<String>> = BTreeMap::new();
    for (module, members) in modules {
        blocks.entry(members).or_default().push(module.clone());
    }
    let mut blocks: Vec<_> = blocks.into_iter().collect();
    blocks.sort_by(|a, b| a.1.cmp(&b.1));
    let mut text = format!("mod {family} {{\n");
    for (members, modules) in blocks {
        let (names, list) = (lines("    ", &modules), lines("        ", members));
        let line = format!("{names} {{ {} }}\n", list.trim_start());
        text += &match line.lines().count() == 1 && line.len() <= WIDTH {
            true => line,
            false => format!("{names} {{\n{list}\n    }}\n"),
        };
    }
    text + "}\n"
}

/// Columns of a line.
const WIDTH: usize = 110;

/// A list in lines.
fn lines(indent: &str, parts: &[String]) -> String {
    let (mut text, mut length) = (indent.to_owned(), indent.len());
    for (i, part) in parts.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        length += comma.len() + part.len();
        if i > 0 && length > WIDTH {
            let _ = write!(text, ",\n{indent}{part}");
            length = indent.len() + part.len();
        } else {
            let _ = write!(text, "{comma}{part}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_there_once() {
        let of = |module: &str, members: &[&str]| {
            let members = members.iter().map(|&member| member.to_owned());
            (module.to_owned(), members.collect())
        };
        let family = vec![
            of("few_8", &["m: u32"]),
            of("few_8_normed", &["m: u32", "eps: f32"]),
            of("tile_64", &["k: u32"]),
            of("tile_128", &["k: u32"]),
        ];
        let text = source("matmul", &family);
        let expected = "mod matmul {\n    few_8 { m: u32 }\n    few_8_normed { m: u32, eps: f32 }\n    \
                        tile_64, tile_128 { k: u32 }\n}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn long_lists_are_several_lines() {
        let parts = vec!["member: [u32; 8]".to_owned(); 8];
        let text = lines("    ", &parts);
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.len() <= WIDTH + 1));
        assert_eq!(text.matches("member").count(), 8);
    }
}
