//! Keeps lengths from being multiplied before they are checked: a product of sizes that wraps is the length of a smaller
//! buffer, which then passes the check. Launchers and operations hand over the extents instead
//! (`hlx_kernels::check_len(.., [rows, columns])`, `Device::alloc_shape(&[rows, columns])`).

use std::path::Path;

use crate::files;

/// Functions that take a length, and those of the crates whose sizes come from callers.
const CALLS: [&str; 9] = [
    "check_len(",
    ".alloc(",
    ".alloc_typed(",
    // The declarations of kernels.
    ".read(",
    ".read_if(",
    ".write(",
    ".update(",
    ".accumulate(",
    ".checked(",
];
const CRATES: [&str; 4] = ["hlx-kernels", "hlx-autograd", "hlx-nn", "hlx-python"];

/// Every call with a product among its arguments, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for name in CRATES {
        let folder = root.join("crates").join(name).join("src");
        for source in files::under(&folder, &["rs"])? {
            let name = files::relative(root, &source);
            let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
            if !is_test && !name.ends_with("/testing.rs") {
                wrong.extend(check_source(&name, &files::text(&source)?));
            }
        }
    }
    Ok(wrong)
}

fn check_source(name: &str, text: &str) -> Vec<String> {
    let product = files::product(text);
    let mut wrong = Vec::new();
    for call in CALLS {
        let mut calls = product.split(call);
        let mut row = calls
            .next()
            .map_or(0, |before| before.matches('\n').count());
        for behind in calls {
            let arguments = arguments(behind);
            if multiplies(arguments) {
                let at = row + 1;
                let call = call.trim_matches(['.', '(']);
                wrong.push(format!(
                    "{name}:{at}: {call} of a product; give the extents, which are multiplied with a check"
                ));
            }
            row += behind.matches('\n').count();
        }
    }
    wrong
}

/// What stands before the bracket that closes a call.
fn arguments(behind: &str) -> &str {
    let mut depth = 1;
    let end = behind.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    });
    &behind[..end.unwrap_or(behind.len())]
}

fn multiplies(arguments: &str) -> bool {
    [" * ", ".product()", ".product::<"]
        .iter()
        .any(|sign| arguments.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_among_the_arguments_is_found_where_it_stands() {
        let text = "fn f() {\n    check_len(NAME, \"x\", x,\n        rows * columns)?;\n    device.alloc(n)?;\n}";
        let found = check_source("a.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("a.rs:2: check_len of a product"),
            "{found:?}"
        );
        let product = "    device.alloc_typed(dtype, shape.iter().product())?;\n";
        assert_eq!(check_source("b.rs", product).len(), 1);
        let checked = "check_len(NAME, \"x\", x, [rows, columns])?; let n = rows * columns; device.alloc_shape(&[2, n])?;";
        assert!(check_source("c.rs", checked).is_empty());
    }
}
