//! The licences of the crates that a program is made of, with their texts, in one file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use crate::crates::{Arguments, Crate};

/// Licences that a program under MIT and Apache-2.0 may hold code of.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// How files with a licence's text begin.
const FILES: [&str; 6] = [
    "license",
    "licence",
    "copying",
    "notice",
    "unlicense",
    "copyright",
];

/// Writes the file.
///
/// # Errors
/// A crate without a licence that is allowed; what Cargo says; a file that cannot be read or written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let crates = arguments.crates()?;
    let foreign: Vec<&Crate> = crates
        .all
        .iter()
        .filter(|one| one.source.is_some())
        .collect();
    let wrong: Vec<String> = foreign
        .iter()
        .filter(|one| !is_allowed(one))
        .map(|one| named(one))
        .collect();
    ensure!(
        wrong.is_empty(),
        "no licence that is allowed: {}",
        wrong.join(", ")
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in &foreign {
        for text in texts_of(one)? {
            texts.entry(text).or_default().push(named(one));
        }
    }
    let text = page(&foreign, &texts)?;
    fs::write(&arguments.out, text).with_context(|| arguments.out.display().to_string())
}

fn named(one: &Crate) -> String {
    format!("{} {}", one.name, one.version)
}

fn is_allowed(one: &Crate) -> bool {
    one.licence.as_deref().is_some_and(allows)
}

/// Whether an SPDX expression can be met by licences that are allowed: one of alternatives, each of several.
fn allows(expression: &str) -> bool {
    let expression = expression.trim();
    if let Some((left, right)) = split(expression, " OR ") {
        return allows(left) || allows(right);
    }
    if let Some((left, right)) = split(expression, " AND ") {
        return allows(left) && allows(right);
    }
    match expression
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'))
    {
        Some(inner) => allows(inner),
        None => ALLOWED.contains(&expression),
    }
}

/// Splits at the first operator that stands in no brackets.
fn split<'a>(expression: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let is_outside = |at: usize| {
        let before = &expression[..at];
        before.matches('(').count() == before.matches(')').count()
    };
    let at = expression
        .match_indices(operator)
        .map(|(at, _)| at)
        .find(|&at| is_outside(at))?;
    Some((&expression[..at], &expression[at + operator.len()..]))
}

/// The texts in a crate's folder, sorted by the names of their files.
fn texts_of(one: &Crate) -> Result<Vec<String>> {
    let name = || one.folder.display().to_string();
    let mut files: Vec<_> = fs::read_dir(&one.folder)
        .with_context(name)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .to_lowercase();
            path.is_file() && FILES.iter().any(|start| name.starts_with(start))
        })
        .collect();
    files.sort();
    let read = |path| {
        Ok(String::from_utf8_lossy(&fs::read(path)?)
            .replace('\r', "")
            .trim()
            .to_owned())
    };
    files.iter().map(read).collect()
}

fn page(crates: &[&Crate], texts: &BTreeMap<String, Vec<String>>) -> Result<String> {
    let mut page = String::from(
        "The program hlx is licensed under MIT or Apache-2.0 (LICENSE-MIT, LICENSE-APACHE). It holds code of Rust's\n\
         standard library (MIT or Apache-2.0) and of the following crates; their licences' texts follow.\n\n",
    );
    for one in crates {
        let licence = one.licence.as_deref().unwrap_or_default();
        let has_text = texts.values().flatten().any(|name| *name == named(one));
        let note = match has_text {
            true => "",
            // The text is in the archive itself.
            false if licence.contains("Apache-2.0") => " (LICENSE-APACHE; its package has no text)",
            false => bail!(
                "{}: its package has no text of its licence, {licence}",
                named(one)
            ),
        };
        writeln!(page, "{}: {licence}{note}", named(one))?;
    }
    let mut by_crates: Vec<_> = texts.iter().collect();
    by_crates.sort_by_key(|(_, names)| *names);
    for (text, names) in by_crates {
        let rule = "-".repeat(80);
        write!(page, "\n{rule}\n{}\n\n{text}\n", names.join(", "))?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn an_expression_is_met_by_licences_that_are_allowed() {
        for fine in [
            "MIT",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "Unlicense OR GPL-2.0 AND ISC",
        ] {
            assert!(allows(fine), "{fine}");
        }
        for wrong in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND AGPL-3.0",
            "",
            "GPL-2.0 OR LGPL-2.1 AND MIT",
        ] {
            assert!(!allows(wrong), "{wrong}");
        }
    }
}
