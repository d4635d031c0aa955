//! Writes the push-constant blocks of a crate's shaders as Rust structs, one file per family.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use hlx_spirv::{PushConstant, PushScalar};

/// The modules of a family: their names, each with the members of its struct.
type Family = Vec<(String, String)>;

/// Writes the structs of modules (names and files) to the folder `push` in `folder`, and removes what
/// else is there; returns what is wrong.
pub fn write(folder: &str, modules: &[(String, String)]) -> Vec<String> {
    let push = Path::new(folder).join("push");
    let written = files_of(modules).and_then(|files| {
        let _ = std::fs::remove_dir_all(&push);
        let made = std::fs::create_dir_all(&push);
        made.map_err(|error| format!("{}: {error}", push.display()))?;
        for (name, text) in files {
            let written = std::fs::write(push.join(&name), text);
            written.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    });
    written.err().into_iter().collect()
}

/// Compares the files in the folder `push` with what [`write()`] would write.
pub fn compare(folder: &str, modules: &[(String, String)]) -> Vec<String> {
    let push = Path::new(folder).join("push");
    let files = match files_of(modules) {
        Ok(files) => files,
        Err(error) => return vec![error],
    };
    let mut wrong = Vec::new();
    for (name, text) in &files {
        let path = push.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            wrong.push(format!(
                "{} is not what `cargo xtask shaders` writes",
                path.display()
            ));
        }
    }
    for entry in std::fs::read_dir(&push).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !files.contains_key(&name) {
            wrong.push(format!("{}: no such family", entry.path().display()));
        }
    }
    wrong
}

/// The files by name: one for each family, and `mod.rs`.
fn files_of(modules: &[(String, String)]) -> Result<BTreeMap<String, String>, String> {
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
    let mut text = String::from(
        "//! The push constants of kernels, one file per family, by `cargo xtask shaders` from the modules.\n\
         #![cfg_attr(rustfmt, rustfmt_skip)]\n\
         #![allow(missing_docs, dead_code, unused_imports)]\n\n",
    );
    for family in families.keys() {
        let _ = writeln!(text, "pub mod {family};");
    }
    let mut files = BTreeMap::from([("mod.rs".to_owned(), text)]);
    for (name, mut family) in families {
        family.sort();
        files.insert(format!("{name}.rs"), source(name, &family));
    }
    Ok(files)
}

/// The members of a module's block, one per line; none for a shader without push constants.
fn members_of(bytes: &[u8]) -> Result<String, String> {
    let words = hlx_spirv::words(bytes).map_err(|error| error.to_string())?;
    let block: Vec<PushConstant> =
        hlx_spirv::push_constants(&words).map_err(|error| error.to_string())?;
    let (mut text, mut end) = (String::new(), 0);
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
    Ok(text)
}

/// A family's file: each distinct struct once, and under the name of every module that has it.
fn source(family: &str, modules: &Family) -> String {
    let mut text = format!(
        "//! Push constants of the modules of {family}.\n#![cfg_attr(rustfmt, rustfmt_skip)]\n"
    );
    let mut structs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, members) in modules {
        structs.entry(members).or_default().push(module);
    }
    let mut structs: Vec<_> = structs.into_iter().collect();
    structs.sort_by_key(|(_, modules)| modules[0]);
    let names = names(
        &structs
            .iter()
            .map(|(_, modules)| modules[0])
            .collect::<Vec<_>>(),
    );
    for ((members, modules), name) in structs.iter().zip(names) {
        text += "\n#[repr(C)]\n#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]\n";
        let _ = write!(text, "pub struct {name} {{\n{members}}}\n");
        text += &uses(&name, modules);
    }
    text
}

/// The names of structs by the first module of each: `Push` for the only one, otherwise the module's
/// name up to its sizes (`Tile` for `tile_128x128`), or all of it where that is no name of its own.
fn names(first: &[&str]) -> Vec<String> {
    if first.len() == 1 {
        return vec!["Push".to_owned()];
    }
    let camel = |module: &str, with_sizes: bool| {
        let parts = module.split('_');
        let parts =
            parts.take_while(|part| with_sizes || !part.starts_with(|c: char| c.is_ascii_digit()));
        let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
        parts.map(capital).collect::<String>()
    };
    let short: Vec<String> = first.iter().map(|module| camel(module, false)).collect();
    let is_alone = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    let names = short.iter().zip(first);
    names
        .map(|(name, module)| match is_alone(name) {
            true => name.clone(),
            false => camel(module, true),
        })
        .collect()
}

/// A struct under the names of modules, in lines of about 100 columns.
fn uses(name: &str, modules: &[&str]) -> String {
    let mut text = format!("pub use {name} as {};\n", modules[0]);
    if modules.len() > 1 {
        text = String::from("pub use {");
        let mut line = 0;
        for module in modules {
            let part = format!("{name} as {module}, ");
            line += part.len();
            if line > 100 {
                text = text.trim_end().to_owned() + "\n    ";
                line = part.len();
            }
            text += &part;
        }
        text = text.trim_end_matches(", ").to_owned() + "};\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_there_once() {
        let of = |module: &str, members: &str| (module.to_owned(), members.to_owned());
        let family = vec![
            of("few_8", "    pub m: u32,\n"),
            of("few_8_normed", "    pub m: u32,\n    pub eps: f32,\n"),
            of("tile_64", "    pub k: u32,\n"),
            of("tile_128", "    pub k: u32,\n"),
        ];
        let text = source("matmul", &family);
        for part in [
            "pub struct Few8 {",
            "pub struct Few8Normed {",
            "pub struct Tile {",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{text}");
        }
        for part in ["Tile as tile_64,", "Tile as tile_128};", "Few8 as few_8;"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
