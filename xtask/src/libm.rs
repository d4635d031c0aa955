//! Keeps the platform's math library out of what can reach a kernel or a digest.
//!
//! Its functions differ from system to system: glibc's `expf` is not mingw's, and mingw's `fmaf`
//! rounds twice. HLX's own are in `hlx_core::arith`. Square roots and roundings to whole numbers
//! are exact everywhere, and so allowed.

use std::path::Path;

use crate::files;

/// Methods of floats that call the platform's library, or on some processor do.
const METHODS: [&str; 32] = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "div_euclid",
    "exp",
    "exp2",
    "exp_m1",
    "gamma",
    "hypot",
    "ln",
    "ln_1p",
    "ln_gamma",
    "log",
    "log10",
    "log2",
    "mul_add",
    "powf",
    "powi",
    "rem_euclid",
    "sin",
    "sin_cos",
    "sinh",
    "tan",
    "tanh",
    "erf",
];

/// Files that may, and why.
const ALLOWED: [(&str, &str); 7] = [
    (
        "crates/hlx-core/src/arith/ops.rs",
        "the one place where a body takes the instruction",
    ),
    (
        "crates/hlx-core/src/arith/reference.rs",
        "f64 references of tests and measured errors",
    ),
    (
        "crates/hlx-proof/src/exhaustive/functions.rs",
        "f64 references of measured errors",
    ),
    (
        "crates/hlx-proof/src/exhaustive/compare.rs",
        "f64 references of measured errors",
    ),
    ("crates/hlx-train/src/curve", "the axes of a plot"),
    ("crates/hlx-report/src", "the axes of plots"),
    ("benches/", "statistics and plots of measurements"),
];

/// Every call outside of tests and of the files allowed, one line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for dir in ["crates", "benches", "examples"] {
        for source in files::under(&root.join(dir), &["rs"])? {
            let name = files::relative(root, &source);
            let allowed = ALLOWED.iter().any(|(start, _)| name.starts_with(start));
            if !allowed && !files::is_test(&name) {
                wrong.extend(check_source(&name, &files::text(&source)?));
            }
        }
    }
    Ok(wrong)
}

fn check_source(name: &str, text: &str) -> Vec<String> {
    let product = files::product(text);
    let mut wrong = Vec::new();
    for (row, line) in product.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for call in calls(code) {
            wrong.push(format!(
                "{name}:{}: `{call}` is the platform's; use hlx_core::arith",
                row + 1
            ));
        }
        let native = code.contains("arith::Native") || code.contains("Native::");
        if native && !name.ends_with("/multiversion.rs") {
            wrong.push(format!(
                "{name}:{}: Native is for multiversion! alone",
                row + 1
            ));
        }
    }
    wrong
}

/// The platform's functions that a line of code calls or names: `x.exp()`, `f64::exp`.
fn calls(code: &str) -> Vec<&'static str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for method in METHODS {
        // `self.log(..)` is some type's own method, and `x.log()?` a tensor's: no float is a result.
        let opening = format!(".{method}(");
        let as_method = code.match_indices(&opening).any(|(at, _)| {
            !code[..at].ends_with("self") && !is_result(&code[at + opening.len()..])
        });
        let as_path = ["f32::", "f64::"].iter().any(|start| {
            let pattern = format!("{start}{method}");
            code.match_indices(&pattern)
                .any(|(at, _)| !code[at + pattern.len()..].starts_with(is_word))
        });
        if as_method || as_path {
            found.push(method);
        }
    }
    found
}

/// Whether a call, of which this is what follows its opening parenthesis, ends with `?`.
fn is_result(rest: &str) -> bool {
    let mut depth = 1;
    for (at, character) in rest.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest[at + 1..].starts_with('?');
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{calls, check_source};

    #[test]
    fn a_tensors_methods_are_results() {
        assert!(calls("dy.mul(x.log()?)?.exp()?").is_empty());
        assert_eq!(calls("let y = Some(x.exp())?;"), ["exp"]);
    }

    #[test]
    fn finds_methods_and_paths_and_nothing_else() {
        assert_eq!(calls("let y = x.exp() + z.ln_1p();"), ["exp", "ln_1p"]);
        assert_eq!(calls("let f = f64::tanh;"), ["tanh"]);
        assert_eq!(calls("a.mul_add(b, c)"), ["mul_add"]);
        for code in [
            "A::exp(x)",
            "arith::log(x)",
            "self.log(line)",
            "x.sqrt()",
            "x.expect(1)",
            "f64::from(x)",
        ] {
            assert!(calls(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn tests_and_comments_may_name_them() {
        let text = "//! A.\n// x.exp()\nfn a() {}\n#[cfg(test)]\nmod tests {\n    x.exp();\n}\n";
        assert!(check_source("crates/a/src/a.rs", text).is_empty());
        let found = check_source("crates/a/src/a.rs", "//! A.\nlet y = x.exp();\n");
        assert!(
            found.len() == 1 && found[0].starts_with("crates/a/src/a.rs:2: `exp`"),
            "{found:?}"
        );
    }

    #[test]
    fn native_operations_are_found_outside_of_the_macro() {
        let text = "use hlx_core::arith::Native;\n";
        assert_eq!(check_source("crates/a/src/a.rs", text).len(), 1);
        assert!(check_source("crates/hlx-core/src/multiversion.rs", text).is_empty());
    }
}
