//! Writes the tables of `docs/benchmarks` from CSV files in `benches/results`, and checks that the pages have them.
//!
//! A page names a file between two comments, and the table is written there:
//!
//! ```text
//! <!-- table: notes/checkpoints.csv -->
//! <!-- table: end -->
//! ```
//!
//! A file begins with facts (`# device: NVIDIA H200`), then has a line of headings and a line per row. A cell with a
//! comma stands in quotation marks.

use std::fs;
use std::path::Path;

use crate::files;

const RESULTS: &str = "benches/results";
const NOTES: &str = "benches/results/notes";
const PAGES: &str = "docs/benchmarks";
const BEGIN: &str = "<!-- table: ";
const END: &str = "<!-- table: end -->";

/// Writes the tables into the pages under `root`; with `check`, only compares them with what would be written.
///
/// Returns a line for each page that is out of date and each file in `notes` that no page shows. Errors name a
/// malformed page or CSV file.
pub fn generate(root: &Path, check: bool) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let mut shown = Vec::new();
    for page in files::under(&root.join(PAGES), &["md"])? {
        let name = files::relative(root, &page);
        let old = files::text(&page)?;
        let read = |file: &str| {
            let path = root.join(RESULTS).join(file);
            shown.push(path.clone());
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| format!("{name}: {file}: {error}"))?;
            let table = markdown(&text).map_err(|error| format!("{file}: {error}"))?;
            Ok(format!("{table}\n[CSV](../../{RESULTS}/{file})\n"))
        };
        let new = filled(&old, read).map_err(|error| format!("{name}: {error}"))?;
        if new == old {
            continue;
        }
        match check {
            true => wrong.push(format!(
                "{name} is out of date: run `cargo xtask bench report`"
            )),
            false => files::write(&page, new.as_bytes())?,
        }
    }
    for file in files::under(&root.join(NOTES), &["csv"])? {
        if !shown.contains(&file) {
            let name = files::relative(root, &file);
            wrong.push(format!("{name}: no page of {PAGES} shows it"));
        }
    }
    Ok(wrong)
}

/// A page with the tables of the files that it names.
fn filled(
    page: &str,
    mut read: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut pieces = page.split(BEGIN);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // The comment that ends the table before begins alike.
        if let Some(rest) = piece.strip_prefix("end -->") {
            text += &format!("{END}{rest}");
            continue;
        }
        let (file, _) = piece
            .split_once(" -->")
            .ok_or_else(|| format!("there is no --> after {BEGIN}"))?;
        text += &format!("{BEGIN}{file} -->\n\n{}\n", read(file)?);
    }
    match page.matches(END).count() * 2 == page.matches(BEGIN).count() {
        true => Ok(text),
        false => Err(format!("each table needs a line {END}")),
    }
}

/// The facts of a CSV file in one line, and its rows as a table.
fn markdown(csv: &str) -> Result<String, String> {
    let (facts, rows): (Vec<_>, Vec<_>) = csv
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| line.starts_with('#'));
    let facts: Vec<String> = facts.into_iter().map(fact).collect();
    let mut text = capital(&format!("{}.\n\n", facts.join("; ")));
    let mut columns = None;
    for (row_idx, row) in rows.into_iter().enumerate() {
        let cells = cells(row)?;
        let expected = *columns.get_or_insert(cells.len());
        if cells.len() != expected {
            let found = cells.len();
            return Err(format!(
                "row {row_idx} has {found} cells, expected {expected}: {row}"
            ));
        }
        let shown: Vec<String> = match row_idx {
            0 => cells.iter().map(|cell| cell.replace('_', " ")).collect(),
            _ => cells.iter().map(|cell| short(cell)).collect(),
        };
        text += &format!("| {} |\n", shown.join(" | "));
        if row_idx == 0 {
            text += &format!("|{}\n", "---|".repeat(expected));
        }
    }
    match columns {
        Some(_) => Ok(text),
        None => Err("there is no line of headings".to_owned()),
    }
}

/// A fact without its key, where the value says enough.
fn fact(line: &str) -> String {
    let fact = line.trim_start_matches('#').trim();
    let bare = ["date: ", "device: ", "note: "];
    let value = bare.iter().find_map(|key| fact.strip_prefix(key));
    let with_key = || match fact.split_once(": ") {
        Some(("command", command)) => format!("`{command}`"),
        Some((key, value)) => format!("{key} {value}"),
        None => fact.to_owned(),
    };
    value.map_or_else(with_key, str::to_owned)
}

/// A sentence whose first letter is a capital.
fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|first| first.to_uppercase());
    first.into_iter().flatten().chain(letters).collect()
}

/// The cells of a line; those in quotation marks may hold commas.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("one cell at least").push(letter),
        }
    }
    match is_quoted {
        true => Err(format!("a quotation mark is not closed: {line}")),
        false => Ok(cells),
    }
}

/// A number of six decimals, as hlx-bench writes them, with four significant digits; any other cell as it is.
fn short(cell: &str) -> String {
    let decimals = cell
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    match cell.parse::<f64>() {
        Ok(number) if decimals == 6 => {
            let whole = match cell.strip_prefix("0.") {
                Some(_) => 0,
                None => cell.len() - decimals - 1,
            };
            format!("{number:.*}", 4_usize.saturating_sub(whole))
        }
        _ => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{cells, filled, markdown};

    const PAGE: &str = "# A\n\n<!-- table: a.csv -->\nold\n<!-- table: end -->\n\nrest\n";

    #[test]
    fn a_table_is_written_between_its_comments() -> Result<(), String> {
        let new = filled(PAGE, |file| Ok(format!("| {file} |\n")))?;
        let expected = PAGE.replace("\nold\n", "\n\n| a.csv |\n\n");
        assert_eq!(new, expected);
        assert_eq!(filled(&new, |file| Ok(format!("| {file} |\n")))?, new);
        assert!(filled("<!-- table: a.csv -->\n", |_| Ok(String::new())).is_err());
        assert!(filled(PAGE, |_| Err("no file".to_owned())).is_err());
        Ok(())
    }

    #[test]
    fn a_file_becomes_facts_and_rows() -> Result<(), String> {
        let csv =
            "# device: A\n# rounds: 7\ncase,this_ms\nadd,1.426464\n\"1,024\",0.012712\nx,1.86635\n";
        let expected = "A; rounds 7.\n\n| case | this ms |\n|---|---|\n| add | 1.426 |\n\
                        | 1,024 | 0.0127 |\n| x | 1.86635 |\n";
        assert_eq!(markdown(csv)?, expected);
        assert!(markdown("# device: A\n").is_err());
        assert!(markdown("a,b\n1\n").is_err());
        assert!(cells("\"a,b").is_err());
        Ok(())
    }
}
