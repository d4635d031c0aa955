//! The floors of hlx-core: no file imports from a floor above its own.

use std::path::Path;

use crate::files;

/// The modules at the crate's root, from the ground up; those of one floor may know each other.
/// `lib.rs`, which names them all, is above.
const FLOORS: [&[&str]; 9] = [
    &[
        "error",
        "arith",
        "arithmetic",
        "bytes",
        "digest",
        "dtype",
        "environment",
        "extensions",
        "files",
        "machine",
        "notice",
        "printable",
        "recording",
        "sizes",
        "specification",
        "test_report",
    ],
    &[
        "cpu",
        "device_info",
        "multiversion",
        "probe_report",
        "shader",
        "tuning",
        "underflow",
    ],
    &["memory"],
    &["fusion", "launch", "timing", "unread", "view", "watched"],
    &["cpu_stream", "vulkan"],
    &["device", "graph"],
    &["dispatch", "no_gpu", "peak"],
    &["probe"],
    &["open", "testing"],
];

/// Every import that goes up, a line each, and every module that has no floor.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let source = root.join("crates/hlx-core/src");
    let mut wrong = Vec::new();
    for file in files::under(&source, &["rs"])? {
        let name = files::relative(&source, &file);
        let module = name.split(['/', '.']).next().unwrap_or(&name);
        if module == "lib" || name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        let Some(floor) = floor_of(module) else {
            wrong.push(format!(
                "hlx-core/src/{name} is on no floor of xtask/src/floors.rs"
            ));
            continue;
        };
        let above = imports(&files::text(&file)?);
        wrong.extend(
            above
                .into_iter()
                .filter(|import| floor_of(import).is_some_and(|other| other > floor))
                .map(|import| format!("hlx-core/src/{name} imports {import}, a floor above it")),
        );
    }
    Ok(wrong)
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// The root modules that a file names behind `crate::`, tests and comments left out.
fn imports(text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]").next().unwrap_or(text);
    let code: Vec<&str> = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for behind in code.split("crate::").skip(1) {
        let list = match behind.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or(list),
            None => behind,
        };
        let items = if behind.starts_with('{') {
            list.split(',').collect()
        } else {
            vec![list]
        };
        for item in items {
            let name: String = item
                .trim()
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            found.push(name);
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::{floor_of, imports};

    #[test]
    fn imports_are_found_one_by_one_and_in_lists() {
        let text = "//! crate::probe\nuse crate::memory::Buffer;\nuse crate::{Shader, arith, \
                    cpu::Level};\nfn f() { crate::vulkan::list() }\n#[cfg(test)]\nuse crate::open;";
        assert_eq!(imports(text), ["memory", "arith", "cpu", "vulkan"]);
    }

    #[test]
    fn the_streams_are_above_memory_and_below_the_device() {
        assert!(floor_of("memory") < floor_of("vulkan"));
        assert_eq!(floor_of("vulkan"), floor_of("cpu_stream"));
        assert!(floor_of("vulkan") < floor_of("device"));
        assert!(floor_of("device") < floor_of("probe"));
    }
}
