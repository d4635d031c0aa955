//! The documentation of the crates beside the book, and the page that links to it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::mirror::copy_folder;
use crate::{command, files};

/// A crate with documentation.
pub struct Documented {
    /// The library's name, which is its folder's name in the documentation.
    library: String,
    /// What its manifest says it is.
    description: String,
}

/// The libraries below `crates`. The native layer of the Python package has no interface for Rust.
pub fn crates(root: &Path) -> Result<Vec<Documented>, String> {
    let folder = root.join("crates");
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read crates: {error}"))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().join("src/lib.rs").is_file() || name == "hlx-python" {
            continue;
        }
        let manifest = files::text(&entry.path().join("Cargo.toml"))?;
        let description = described(&manifest)
            .ok_or_else(|| format!("crates/{name}/Cargo.toml has no description"))?;
        found.push(Documented {
            library: name.replace('-', "_"),
            description: description.to_string(),
        });
    }
    found.sort_by(|a, b| a.library.cmp(&b.library));
    Ok(found)
}

fn described(manifest: &str) -> Option<&str> {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("description = \""));
    line.and_then(|rest| rest.strip_suffix('"'))
}

/// Adds a last chapter to the book's source that links to the crates; none without crates.
pub fn add_page(source: &Path, crates: &[Documented]) -> Result<(), String> {
    if crates.is_empty() {
        return Ok(());
    }
    let table = source.join("SUMMARY.md");
    let summary = files::text(&table)? + "\n[Reference of the crates](reference.md)\n";
    files::write(&table, summary.as_bytes())?;
    files::write(&source.join("reference.md"), page(crates).as_bytes())
}

fn page(crates: &[Documented]) -> String {
    let mut text = "# Reference of the crates\n\nWhat rustdoc writes about every public item. Begin with [hlx](api/hlx/index.html), \
        which has most of the others as modules ([The crates](docs/crates.md)).\n\n| crate | what it is |\n|---|---|\n"
        .to_string();
    for Documented {
        library,
        description,
    } in crates
    {
        let _ = writeln!(
            text,
            "| [{library}](api/{library}/index.html) | {description} |"
        );
    }
    text
}

/// Copies what rustdoc has written. An error names a crate that it has not written about.
pub fn copy(crates: &[Documented], to: &Path) -> Result<(), String> {
    let from = command::built("").with_file_name("doc");
    copy_folder(&from, to)?;
    let is_missing = |one: &&Documented| !to.join(&one.library).join("index.html").is_file();
    match crates.iter().find(is_missing) {
        Some(missing) => Err(format!("rustdoc has no page of {}", missing.library)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{crates, described, page};
    use crate::command;

    #[test]
    fn the_page_links_to_every_library() {
        let found = crates(&command::root()).expect("reads");
        let text = page(&found);
        for library in ["hlx", "hlx_core", "hlx_train"] {
            let link = format!("| [{library}](api/{library}/index.html) | ");
            assert!(text.contains(&link), "{library}");
        }
        for other in ["hlx_cli", "hlx_python"] {
            assert!(!text.contains(other), "{other}");
        }
    }

    #[test]
    fn descriptions_are_read() {
        let manifest = "[package]\nname = \"a\"\ndescription = \"What it is.\"\n";
        assert_eq!(described(manifest), Some("What it is."));
        assert_eq!(described("[package]\n"), None);
    }
}
