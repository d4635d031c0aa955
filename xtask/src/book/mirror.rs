//! What mdbook reads: the pages and all files that they link to, each in its place, so that relative links stay right.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{chapters, links, remove};
use crate::files;

/// Larger files of a linked folder are named on its list and not copied.
const LARGEST: u64 = 1 << 20;

/// Writes the copy anew.
pub fn write(root: &Path, to: &Path) -> Result<(), String> {
    remove(to)?;
    copy_folder(&root.join("docs"), &to.join("docs"))?;
    let mut wanted = BTreeSet::new();
    for page in chapters(root)? {
        let name = files::relative(root, &page);
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let targets = links::of_text(&files::text(&page)?);
        wanted.extend(targets.iter().map(|link| links::join(folder, &link.target)));
        wanted.insert(name);
    }
    let pages: BTreeSet<_> = chapters(root)?.into_iter().collect();
    for name in &wanted {
        let from = root.join(name);
        if name.is_empty() {
            continue;
        }
        if from.is_dir() {
            list_folder(&from, name, to, &pages)?;
        } else if from.is_file() && !name.starts_with("..") {
            copy(&from, &to.join(name))?;
        }
    }
    let summary = files::text(&root.join("docs/SUMMARY.md"))?;
    files::write(&to.join("SUMMARY.md"), of_root(&summary).as_bytes())?;
    remove_file(&to.join("docs/SUMMARY.md"))?;
    // Pages link to the table, which the book shows beside every page.
    let redirect =
        "<!doctype html>\n<meta http-equiv=\"refresh\" content=\"0; url=../index.html\">\n";
    files::write(&to.join("docs/SUMMARY.html"), redirect.as_bytes())?;
    copy(&root.join("docs/book.toml"), &to.join("book.toml"))?;
    remove_file(&to.join("docs/book.toml"))
}

/// The table of contents with paths from the root of the repository.
fn of_root(summary: &str) -> String {
    let mut parts = summary.split("](");
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        text += &format!("]({}){rest}", links::join("docs", target));
    }
    text
}

/// A page that lists the files of a folder, and copies of those that are small. Those that are pages of the book are linked as such.
fn list_folder(
    from: &Path,
    name: &str,
    to: &Path,
    pages: &BTreeSet<PathBuf>,
) -> Result<(), String> {
    let mut rows = String::new();
    let entries = fs::read_dir(from).map_err(|error| format!("cannot read {name}: {error}"))?;
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path().is_file() && !is_of_the_book(&entry.file_name()))
        .collect();
    found.sort_by_key(fs::DirEntry::file_name);
    for entry in found {
        let file = entry.file_name().to_string_lossy().into_owned();
        if entry.metadata().is_ok_and(|data| data.len() <= LARGEST) {
            copy(&entry.path(), &to.join(name).join(&file))?;
            let target = match pages.contains(&entry.path()) {
                true => file.replace(".md", ".html"),
                false => file.clone(),
            };
            rows += &format!("<li><a href=\"{target}\">{file}</a></li>\n");
        } else {
            rows += &format!("<li>{file}</li>\n");
        }
    }
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{name}</title>\n<h1>{name}</h1>\n<ul>\n{rows}</ul>\n"
    );
    let folder = to.join(name);
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    files::write(&folder.join("index.html"), page.as_bytes())
}

/// Whether a file makes the book and is not in it.
fn is_of_the_book(name: &OsStr) -> bool {
    name == "book.toml" || name == "SUMMARY.md"
}

/// Copies a folder with what is below it.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot copy {}: {error}", from.display());
    for entry in fs::read_dir(from).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(cannot)?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let cannot = |error: std::io::Error| {
        format!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        )
    };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    fs::copy(from, to).map(drop).map_err(cannot)
}

fn remove_file(file: &Path) -> Result<(), String> {
    fs::remove_file(file).map_err(|error| format!("cannot remove {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::of_root;

    #[test]
    fn the_table_names_pages_from_the_root() {
        let table = "[What](../README.md)\n\n- [Start](start.md)\n  - [B](benchmarks/README.md)\n";
        let expected =
            "[What](README.md)\n\n- [Start](docs/start.md)\n  - [B](docs/benchmarks/README.md)\n";
        assert_eq!(of_root(table), expected);
    }
}
