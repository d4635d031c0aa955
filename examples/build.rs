//! Writes the Rust blocks of the project's pages as one file, a function per page, which tests/pages.rs compiles.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use pages::{Page, Use};

fn main() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for watched in ["docs", "README.md", "CONTRIBUTING.md", "python/README.md"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let tests: String = pages::pages(&root)?.iter().map(test).collect();
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.ok_or("OUT_DIR is not set")?.join("pages.rs");
    std::fs::write(&out, tests).map_err(|error| format!("cannot write {}: {error}", out.display()))
}

/// The test of a page; empty where it has no block to compile.
fn test(page: &Page) -> String {
    let mut body = String::new();
    for block in page.blocks.iter().filter(|block| block.language == "rust") {
        let code = without_ends(&block.code);
        let line = block.line;
        let written = match &block.usage {
            // The names of a whole program stay its own.
            Use::Run if code.contains("fn main()") => writeln!(body, "{{\n{code}\nmain()?;\n}}"),
            Use::Run => writeln!(body, "// Line {line}.\n{code}"),
            Use::Compile => writeln!(
                body,
                "if std::hint::black_box(false) {{\n// Line {line}.\n{code}\n}}"
            ),
            Use::Needs(need) if need == "vulkan" => {
                writeln!(
                    body,
                    "if !has_vulkan() {{\nreturn Ok(());\n}}\n// Line {line}.\n{code}"
                )
            }
            Use::Excerpt(_) | Use::Output | Use::Needs(_) => Ok(()),
        };
        written.unwrap_or_default(); // A String takes everything.
    }
    if body.is_empty() {
        return body;
    }
    let name = page.name.trim_end_matches(".md").to_lowercase();
    let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    format!(
        "#[test]\n#[allow(warnings, clippy::all, clippy::unwrap_used, clippy::print_stdout, missing_docs)]\n\
         fn {name}() -> Result<(), Box<dyn std::error::Error>> {{\nat_root()?;\n{body}\nOk(())\n}}\n\n"
    )
}

/// The lines that rustdoc and mdBook hide, which begin with `# `, without that mark; its closing `Ok` is left out.
fn without_ends(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.starts_with("# Ok"));
    let shown = lines.map(|line| line.strip_prefix("# ").unwrap_or(line));
    shown.collect::<Vec<_>>().join("\n")
}
