//! The book's table of contents: docs/SUMMARY.md lists every page once.

use std::collections::BTreeMap;
use std::path::Path;

use super::{chapters, links};
use crate::files;

/// What is wrong with the table, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let text = files::text(&root.join("docs/SUMMARY.md"))?;
    let pages = chapters(root)?;
    let pages: Vec<_> = pages
        .iter()
        .map(|page| files::relative(root, page))
        .collect();
    Ok(compare(&text, &pages))
}

fn compare(summary: &str, pages: &[String]) -> Vec<String> {
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for link in links::of_text(summary) {
        *listed.entry(links::join("docs", &link.target)).or_default() += 1;
    }
    let missing = pages.iter().filter(|page| !listed.contains_key(*page));
    let mut wrong: Vec<_> = missing
        .map(|page| format!("docs/SUMMARY.md does not list {page}"))
        .collect();
    for (target, count) in &listed {
        if !pages.contains(target) {
            wrong.push(format!(
                "docs/SUMMARY.md lists {target}, which is no page of the book"
            ));
        } else if *count > 1 {
            wrong.push(format!("docs/SUMMARY.md lists {target} {count} times"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn every_page_is_listed_once() {
        let pages = ["README.md", "docs/a.md", "docs/b/c.md"].map(String::from);
        assert!(compare("[x](../README.md)\n- [a](a.md)\n- [c](b/c.md)\n", &pages).is_empty());
        let wrong = compare(
            "- [a](a.md)\n- [a](a.md)\n- [d](d.md)\n- [x](../README.md)\n",
            &pages,
        );
        assert_eq!(
            wrong,
            [
                "docs/SUMMARY.md does not list docs/b/c.md",
                "docs/SUMMARY.md lists docs/a.md 2 times",
                "docs/SUMMARY.md lists docs/d.md, which is no page of the book"
            ]
        );
    }
}
