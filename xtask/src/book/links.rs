//! Links between pages: each names a file that exists and, after `#`, a heading that the page has.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::chapters;
use crate::files;

/// A link of a page to something in the repository.
pub struct Link {
    /// The path as it is written, empty for the page itself.
    pub target: String,
    /// What follows `#`.
    pub heading: Option<String>,
}

/// Links to headings that do not exist, and to Markdown files that are no pages of the book, which mdBook takes for some; one
/// line each. Files that do not exist are found by `tidy`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut texts = BTreeMap::new();
    for page in chapters(root)? {
        texts.insert(files::relative(root, &page), files::text(&page)?);
    }
    let ids: BTreeMap<_, _> = texts
        .iter()
        .map(|(name, text)| (name, headings(text)))
        .collect();
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in of_text(text) {
            let target = if link.target.is_empty() {
                name.clone()
            } else {
                join(folder, &link.target)
            };
            match (&link.heading, ids.get(&target)) {
                (Some(heading), Some(ids)) if !ids.contains(heading) => {
                    wrong.push(format!("{name}: {target} has no heading for #{heading}"));
                }
                (_, None) if is_outside(&target) => {
                    wrong.push(format!("{name}: {target} is no page of the book"));
                }
                _ => {}
            }
        }
    }
    Ok(wrong)
}

/// Whether a target that is no chapter would be a chapter to mdBook. The table of contents is beside every page.
fn is_outside(target: &str) -> bool {
    target.ends_with(".md") && target != "docs/SUMMARY.md"
}

/// The links of a page that stay in the repository; those in code are none.
pub fn of_text(text: &str) -> Vec<Link> {
    let prose = prose(text);
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    local
        .map(|target| match target.split_once('#') {
            Some((path, heading)) => Link {
                target: path.to_string(),
                heading: Some(heading.to_string()),
            },
            None => Link {
                target: target.to_string(),
                heading: None,
            },
        })
        .collect()
}

/// A page without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The ids of a page's headings, as hosts of Git repositories and mdBook make them.
fn headings(text: &str) -> HashSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = HashSet::new();
    for line in prose(text).lines() {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        // A link in a heading counts with its text alone.
        let mut plain = String::new();
        for (place, part) in title.trim().split("](").enumerate() {
            plain += if place == 0 {
                part
            } else {
                part.split_once(')').map_or(part, |(_, rest)| rest)
            };
        }
        let letters = plain.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ if letter.is_alphanumeric() => letter.to_lowercase().next(),
            _ => None,
        });
        let id: String = letters.collect();
        let count = seen.entry(id.clone()).or_default();
        ids.insert(if *count == 0 {
            id
        } else {
            format!("{id}-{count}")
        });
        *count += 1;
    }
    ids
}

/// A relative path from a folder, both with `/`, without `.` and `..` where they can be resolved.
pub fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{headings, join, of_text};

    #[test]
    fn paths_are_resolved() {
        assert_eq!(join("docs/benchmarks", "../../README.md"), "README.md");
        assert_eq!(join("docs", "./a.md"), "docs/a.md");
        assert_eq!(join("", "../x"), "../x");
    }

    #[test]
    fn links_in_code_are_none() {
        let text = "[a](b.md#c)\n```\n[d](e.md)\n```\n[f](#g) [h](https://i.org)\n";
        let links = of_text(text);
        let found: Vec<_> = links
            .iter()
            .map(|link| (link.target.as_str(), link.heading.as_deref()))
            .collect();
        assert_eq!(found, [("b.md", Some("c")), ("", Some("g"))]);
    }

    #[test]
    fn headings_have_the_ids_of_hosts() {
        let ids = headings(
            "# One `two`, three\n## A [b](c.md) d\n## Same\n## Same\n#no\n```\n# code\n```\n",
        );
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort();
        assert_eq!(ids, ["a-b-d", "one-two-three", "same", "same-1"]);
    }
}
