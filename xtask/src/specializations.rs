//! The specialization constants that tests have given each shader: `shaders/specializations.txt`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{digests, files};

/// Shaders without constants, which the tests of Python launch.
const UNLISTED: &str = "examples/python/";

const HEADER: &str = "\
# Shaders with the specialization constants that launches have given them, ids and words.
# Written by `cargo xtask test --pipelines`; `cargo xtask ports` compiles them for AMD's chips.
";

/// The file of the list.
pub fn file(root: &Path) -> PathBuf {
    root.join("shaders/specializations.txt")
}

/// Adds the pipelines that tests have made, lines of a shader and its constants, to the list; returns how
/// many were not in it.
pub fn add(root: &Path, made: &BTreeSet<String>) -> Result<usize, String> {
    let shaders = digests::shaders(root)?;
    let names: BTreeSet<String> = shaders.into_iter().map(|shader| shader.name).collect();
    let old = files::text(&file(root)).unwrap_or_default();
    let old: BTreeSet<String> = old.lines().filter_map(|line| row(line, &names)).collect();
    let new: BTreeSet<String> = made.iter().filter_map(|line| row(line, &names)).collect();
    let all: String = old.union(&new).map(|line| format!("{line}\n")).collect();
    files::write(&file(root), (HEADER.to_owned() + &all).as_bytes())?;
    Ok(new.difference(&old).count())
}

/// Rows of shaders that the tree does not have, or that the list would not contain, and shaders without a row.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let shaders = digests::shaders(root)?;
    let names: BTreeSet<String> = shaders.into_iter().map(|shader| shader.name).collect();
    let text = files::text(&file(root))?;
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let stale = rows
        .iter()
        .copied()
        .filter(|line| row(line, &names).as_deref() != Some(line));
    let stale = stale.map(|line| format!("shaders/specializations.txt: no such shader: {line}"));
    Ok(stale.chain(without_rows(&rows, &names)).collect())
}

/// The shaders that no row names, of those whose rows are listed.
fn without_rows(rows: &[&str], names: &BTreeSet<String>) -> Vec<String> {
    let of_row = |line: &&str| line.split(' ').next().map(str::to_owned);
    let listed: BTreeSet<String> = rows.iter().filter_map(of_row).collect();
    let missing = names.difference(&listed);
    let missing = missing.filter(|name| row(name, names).is_some() && !name.starts_with(UNLISTED));
    let reason = "shaders/specializations.txt has no row; `cargo xtask test --pipelines` adds those of the tests";
    missing.map(|name| format!("{name}: {reason}")).collect()
}

/// A line of the list: of a shader of the tree, without what the device decides. Modules of matrices
/// take the rows of those with dot products.
fn row(line: &str, names: &BTreeSet<String>) -> Option<String> {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let name = words.next()?;
    let is_mode = |constant: &&str| constant.starts_with("1000=") || constant.starts_with("1001=");
    let counts = names.contains(name) && !name.contains("matrices");
    let constants = words.filter(|constant| !is_mode(constant));
    let words: Vec<&str> = std::iter::once(name).chain(constants).collect();
    counts.then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_the_launcher_chose() {
        let names = ["a/b", "a/matrices"].map(str::to_owned).into();
        let of = |line: &str| row(line, &names);
        let expected = Some("a/b 0=1 3=4294967295".to_owned());
        assert_eq!(of("a/b 0=1 3=4294967295 1000=1 1001=0"), expected);
        assert_eq!(of("a/b 1000=1 1001=0"), Some("a/b".to_owned()));
        assert_eq!(of("chain/of_a_graph 0=1"), None);
        assert_eq!(of("a/matrices 4=16"), None);
        assert_eq!(of("# a/b 0=1"), None);
    }

    #[test]
    fn a_shader_without_a_row_is_named() {
        let names = ["a/b", "a/c", "a/matrices"].map(str::to_owned).into();
        let missing = without_rows(&["a/b 0=1", "a/b 0=2"], &names);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].starts_with("a/c: "), "{missing:?}");
        assert!(without_rows(&["a/b", "a/c"], &names).is_empty());
    }
}
