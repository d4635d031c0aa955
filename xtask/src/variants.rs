//! Shaders that are one source with other defines: the rows of `shaders/variants.txt`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::table;

pub const LIST: &str = "shaders/variants.txt";

enum Line {
    /// Defines under a name.
    Set(String, Vec<String>),
    /// A module: its name, the file that it includes, its defines and sets.
    Module(String, String, Vec<String>),
}

/// A row.
pub struct Variant {
    /// The module's name.
    pub name: String,
    /// The text of the source.
    pub text: String,
    /// Whether the text includes its base from `shaders/`, and not from the folder of the module's family.
    pub from_root: bool,
}

/// Every row.
///
/// Errors name a malformed line or a set that is not there.
pub fn sources(root: &Path) -> Result<Vec<Variant>, String> {
    let mut sets = BTreeMap::new();
    let mut sources = Vec::new();
    for line in table::read(root, LIST, parse)? {
        match line {
            Line::Set(name, defines) => _ = sets.insert(name, defines),
            Line::Module(name, base, words) => {
                let text = source(&base, &words, &sets);
                let text = text.map_err(|set| format!("{LIST}: {name}: no set {set}"))?;
                sources.push(Variant {
                    name,
                    text,
                    from_root: base.contains('/'),
                });
            }
        }
    }
    Ok(sources)
}

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ').map(str::to_owned);
    let first = words.next()?;
    if first.starts_with('@') {
        let defines: Vec<String> = words.collect();
        return (!defines.is_empty()).then_some(Line::Set(first, defines));
    }
    let base = words.next()?;
    let whole = first.contains('/') && base.ends_with(".glsl");
    whole.then(|| Line::Module(first, base, words.collect()))
}

/// The text of a shader; an error is a set that is not there.
fn source(
    base: &str,
    words: &[String],
    sets: &BTreeMap<String, Vec<String>>,
) -> Result<String, String> {
    let mut text = String::new();
    for word in words {
        let defines = match word.starts_with('@') {
            true => sets.get(word).ok_or(word)?.as_slice(),
            false => std::slice::from_ref(word),
        };
        for define in defines {
            text += &format!("#define {}\n", define.replacen('=', " ", 1));
        }
    }
    Ok(text + &format!("#include \"{base}\"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_source() {
        let sets = BTreeMap::from([("@tile".to_owned(), vec!["M=8".to_owned(), "N=4".to_owned()])]);
        let words = ["@tile", "FOUR"].map(str::to_owned);
        let expected = "#define M 8\n#define N 4\n#define FOUR\n#include \"product.glsl\"\n";
        assert_eq!(
            source("product.glsl", &words, &sets).as_deref(),
            Ok(expected)
        );
        let missing = source("product.glsl", &["@none".to_owned()], &sets);
        assert_eq!(missing, Err("@none".to_owned()));
    }

    #[test]
    fn malformed_rows_are_refused() {
        for line in ["@set", "f/x", "x product.glsl", "f/x product.comp"] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
