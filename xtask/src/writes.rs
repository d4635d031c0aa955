//! Keeps product code from writing, moving and removing files past `hlx_core::files`, which replaces a file as
//! one, follows links, writes devices straight, and never writes where a program reads.

use std::path::Path;

use crate::files;

/// Calls that change a file or a folder.
const CALLS: [&str; 10] = [
    "fs::copy(",
    "fs::hard_link(",
    "fs::remove_dir(",
    "fs::remove_dir_all(",
    "fs::remove_file(",
    "fs::rename(",
    "fs::write(",
    "File::create(",
    "File::create_new(",
    "OpenOptions::new(",
];

/// Files that may, and why.
const ALLOWED: [(&str, &str); 17] = [
    ("benches/src/peers.rs", "removes caches of its own"),
    ("benches/src/prove/", "removes folders of its own"),
    ("crates/hlx-core/src/files/", "the one place that does it"),
    (
        "crates/hlx-core/src/test_report.rs",
        "appends to a report of tests",
    ),
    (
        "crates/hlx-core/src/vulkan/instance.rs",
        "appends to a log that a variable names",
    ),
    (
        "crates/hlx-ranks/src/peers/lines.rs",
        "sockets under names of the process",
    ),
    (
        "crates/hlx-ranks/src/shared",
        "shared memory under names of the process",
    ),
    ("crates/hlx-store/src/gc.rs", "removes objects of the store"),
    ("crates/hlx-store/src/pins.rs", "removes a pin of the store"),
    (
        "crates/hlx-store/src/write.rs",
        "opens objects to renew their age, and the store's lock",
    ),
    (
        "crates/hlx-text/src/prepare/state.rs",
        "locks a folder that it has proved to be its own, and removes its state",
    ),
    (
        "crates/hlx-train/src/run/chain.rs",
        "appends records to a locked run",
    ),
    (
        "crates/hlx-train/src/run/checkpoint.rs",
        "renames a checkpoint before it removes it",
    ),
    ("crates/hlx-train/src/run/lock.rs", "the lock of a run"),
    (
        "crates/hlx-train/src/run/metrics_file.rs",
        "appends lines to a locked run",
    ),
    (
        "crates/hlx-train/src/run/tensorboard.rs",
        "creates a file of a new name, and appends to it",
    ),
    (
        "crates/hlx-train/src/train/state_file.rs",
        "ranks write their parts of a file in a temporary folder",
    ),
];

/// Every call outside of tests and of the files allowed, a line each; and every file allowed that makes none.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let mut unused: Vec<&str> = ALLOWED.iter().map(|(start, _)| *start).collect();
    for dir in ["crates", "benches"] {
        for source in files::under(&root.join(dir), &["rs"])? {
            let name = files::relative(root, &source);
            if !name.contains("/src/") || is_test(&name) {
                continue;
            }
            let found = check_source(&name, &files::text(&source)?);
            match allowed(&name) {
                Some(start) if !found.is_empty() => unused.retain(|one| *one != start),
                Some(_) => {}
                None => wrong.extend(found),
            }
        }
    }
    let unused = unused.into_iter();
    wrong.extend(unused.map(|start| format!("xtask/src/writes.rs: {start} writes no file")));
    Ok(wrong)
}

/// The row of [`ALLOWED`] that a file falls under.
fn allowed(name: &str) -> Option<&'static str> {
    let mut starts = ALLOWED.iter().map(|(start, _)| *start);
    starts.find(|start| name.starts_with(start))
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs") || name.ends_with("/test_support.rs")
}

fn check_source(name: &str, text: &str) -> Vec<String> {
    // Unit tests end a file.
    let product = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let lines = product.lines().enumerate();
    lines
        .filter_map(|(row, line)| {
            let code = line.split("//").next().unwrap_or_default();
            let call = CALLS.iter().find(|call| calls(code, call))?;
            let call = call.trim_end_matches('(');
            Some(format!(
                "{name}:{}: `{call}` writes past hlx_core::files",
                row + 1
            ))
        })
        .collect()
}

/// Whether a line of code has a call, and not one of a longer name such as `EventFile::create(`.
fn calls(code: &str, call: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut places = code.match_indices(call);
    places.any(|(at, _)| !code[..at].ends_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::check_source;

    #[test]
    fn finds_calls_outside_of_tests_and_comments() {
        let text = "//! A.\n/// fs::write(a)\nfn a() {\n    std::fs::write(b, c);\n}\n\
                    #[cfg(test)]\nmod tests {\n    fs::copy(a, b);\n}\n";
        let found = check_source("crates/a/src/b.rs", text);
        let expected = "crates/a/src/b.rs:4: `fs::write` writes past hlx_core::files";
        assert_eq!(found, [expected]);
        let other = "fn a() { files::write_set(b); fs::read(c); EventFile::create(d); }";
        assert!(check_source("b.rs", other).is_empty());
    }
}
