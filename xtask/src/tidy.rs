//! Tidiness of the tree: every source says what it is for, nothing is left undone, unused
//! or pointing nowhere.

use std::collections::HashSet;
use std::path::Path;

use crate::digests::{self, Shader};
use crate::files;

/// Words that mean unfinished work, in two pieces so that this file may name them.
const UNDONE: [(&str, &str); 4] = [
    ("to", "do!("),
    ("unimple", "mented!("),
    ("FIX", "ME"),
    ("XX", "X "),
];

/// Examples in Python, each with a shader of its name.
const PYTHON_EXAMPLES: &str = "examples/python/";

/// Every untidiness, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut sources = Vec::new();
    for dir in ["crates", "shaders", "tools", "xtask", "benches", "examples"] {
        sources.extend(files::under(&root.join(dir), &["rs", "comp", "glsl"])?);
    }
    sources.extend(files::under(&root.join("python"), &["py"])?);
    let mut wrong = Vec::new();
    let mut rust = String::new();
    for source in &sources {
        let name = files::relative(root, source);
        let text = files::text(source)?;
        wrong.extend(check_source(&name, &text));
        let loads = name.starts_with("crates/") || name.starts_with("examples/");
        if loads && name.ends_with(".rs") {
            rust += &text;
        }
    }
    let listed = listed(&rust);
    for Shader { name, origin, .. } in digests::shaders(root)? {
        if let Some(file) = name.strip_prefix(PYTHON_EXAMPLES) {
            let example = root.join(format!("{PYTHON_EXAMPLES}{file}.py"));
            if !files::text(&example).is_ok_and(|text| text.contains(&format!("\"{file}.spv\""))) {
                wrong.push(format!("{origin} is not loaded by the example of its name"));
            }
        } else if !is_loaded(&name, &rust, &listed) {
            wrong.push(format!("{origin} is loaded by no Rust file"));
        }
    }
    wrong.extend(check_pages(root)?);
    Ok(wrong)
}

/// The shaders that lists of `shader!` name.
fn listed(rust: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    for call in rust.split("shader!(").skip(1) {
        let list = call.split(')').next().unwrap_or_default();
        let Some((family, modules)) = list.split_once("::{") else {
            continue;
        };
        let modules = modules.trim_end_matches('}').split(',');
        let modules = modules.filter_map(|module| module.split_whitespace().next());
        names.extend(modules.map(|module| format!("{family}/{module}")));
    }
    names
}

/// Whether a source loads a shader: by `shader!`, which names it as a path or in a list, or by its file.
fn is_loaded(name: &str, rust: &str, listed: &HashSet<String>) -> bool {
    if listed.contains(name) {
        return true;
    }
    let path = name.replace('/', "::");
    let mut found = rust.match_indices(&path);
    let is_whole = |(at, _): (usize, &str)| {
        let (before, after) = (&rust[..at], &rust[at + path.len()..]);
        before.ends_with([' ', '(']) && after.starts_with([')', '\n', ','])
    };
    let file = name.strip_prefix("examples/").unwrap_or(name);
    let files = [format!("spv/{name}.spv"), format!("\"{file}.spv\"")];
    found.any(is_whole) || files.iter().any(|file| rust.contains(file))
}

/// Links in the pages to files that do not exist.
fn check_pages(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for pages::Page { name, .. } in pages::pages(root)? {
        let page = root.join(&name);
        for target in links(&files::text(&page)?) {
            if !page.with_file_name(&target).exists() {
                wrong.push(format!("{name}: links to {target}, which does not exist"));
            }
        }
    }
    Ok(wrong)
}

/// The targets of a page's `[text](target)` links that stay in the repository.
fn links(page: &str) -> Vec<String> {
    let targets = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    let local = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    local.map(str::to_string).collect()
}

fn check_source(name: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    let mark = if name.ends_with(".py") {
        "\"\"\""
    } else {
        "//"
    };
    let purpose = first.trim_start_matches(['/', '!', ' ', '"']);
    if !first.starts_with(mark) || purpose.is_empty() {
        wrong.push(format!(
            "{name}: the first line does not say what the file is for"
        ));
    }
    for (row, line) in text.lines().enumerate() {
        for (head, tail) in UNDONE {
            if line.contains(&[head, tail].concat()) {
                wrong.push(format!(
                    "{name}:{}: unfinished work ({head}{tail})",
                    row + 1
                ));
            }
        }
    }
    wrong.extend(devices_opened_in_tests(name, text));
    wrong
}

/// Where a test opens a device past `hlx_core::testing`, and so past `HLX_TEST_DEVICES` and the
/// summary of `cargo xtask test`.
fn devices_opened_in_tests(name: &str, text: &str) -> Vec<String> {
    const OPENING: [&str; 5] = [
        "Device::all(",
        "Device::cpu(",
        "Device::devices(",
        "Device::open(\"",
        "Device::open_from_env(",
    ];
    let is_crate = name.starts_with("crates/") || name.starts_with("benches/");
    if !is_crate || !name.ends_with(".rs") || name == "crates/hlx-core/src/testing.rs" {
        return Vec::new();
    }
    let only_tests = name.contains("/tests/")
        || name.ends_with("/tests.rs")
        || name.ends_with("/test_support.rs");
    let tests = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| !only_tests && *line != "#[cfg(test)]");
    tests
        .filter(|(_, line)| OPENING.iter().any(|call| line.contains(call)))
        .map(|(row, _)| {
            format!(
                "{name}:{}: tests open devices through hlx_core::testing",
                row + 1
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{check_source, devices_opened_in_tests, is_loaded, links, listed};

    #[test]
    fn wants_a_purpose_on_the_first_line() {
        assert!(check_source("a.rs", "//! Adds.\nfn a() {}\n").is_empty());
        assert!(check_source("a.comp", "// y = x.\n#version 460\n").is_empty());
        assert!(check_source("a.py", "\"\"\"Adds.\"\"\"\n").is_empty());
        assert_eq!(check_source("a.py", "import math\n").len(), 1);
        for text in [
            "",
            "use std::fs;\n",
            "//\n// Adds.\n",
            "#version 460\n// y = x.\n",
        ] {
            assert_eq!(check_source("a.rs", text).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn a_shader_is_loaded_under_its_whole_name() {
        let rust = "shader!(exp2, unary::exp2);\ninclude_bytes!(\"../spv/f/x.spv\")\n\
                    shader!(sort::{\n    count, top as first_ones\n});";
        for name in ["unary/exp2", "f/x", "sort/count", "sort/top"] {
            assert!(is_loaded(name, rust, &listed(rust)), "{name}");
        }
        for name in ["unary/exp", "f/xy", "sort/first_ones", "sort/to"] {
            assert!(!is_loaded(name, rust, &listed(rust)), "{name}");
        }
    }

    #[test]
    fn finds_links_that_stay_in_the_repository() {
        let page = "[a](docs/a.md), ![b](b.svg) [c](https://x.org/y) [d](#here) [e](e.md#part)";
        assert_eq!(links(page), ["docs/a.md", "b.svg", "e.md"]);
    }

    #[test]
    fn finds_unfinished_work_by_line() {
        let text = format!("// A.\nfn a() {{ {}() }}\n", ["to", "do!"].concat());
        let found = check_source("a.rs", &text);
        assert!(
            found.len() == 1 && found[0].starts_with("a.rs:2: unfinished work"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_open_devices_through_one_helper() {
        let call = ["let device = Device::", "all()?;"].concat();
        let module = format!("//! A.\n{call}\n#[cfg(test)]\nmod tests {{\n{call}\n}}\n");
        let found = devices_opened_in_tests("crates/a/src/b.rs", &module);
        assert_eq!(
            found,
            ["crates/a/src/b.rs:5: tests open devices through hlx_core::testing"]
        );
        for name in ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs"] {
            assert_eq!(devices_opened_in_tests(name, &module).len(), 2, "{name}");
        }
        assert!(devices_opened_in_tests("crates/hlx-core/src/testing.rs", &module).is_empty());
    }
}
