//! What `cargo xtask test` runs without `--all`: what proves the most for its time.

use std::path::Path;

use crate::files;

/// Packages whose tests take `--all`, and what they prove; `shader-compiler` and `hlx-python` have none.
const PACKAGES: [(&str, &str); 8] = [
    ("fuzz-targets", "inputs that fuzzing found"),
    ("hlx-bench", "the tables of the benchmarks"),
    (
        "hlx-examples",
        "the examples and the Rust blocks of the pages",
    ),
    ("hlx-proof", "orders of summation, found from outside"),
    (
        "hlx-python",
        "the Python package, which `cargo xtask python` tests",
    ),
    ("radv", "the check of AMD's machine code"),
    ("shader-compiler", "the compiler of shaders"),
    ("shader-lint", "push constants beside vulkano-shaders"),
];

/// Test programs that take `--all`, and what they prove.
const PROGRAMS: [(&str, &str); 23] = [
    ("adapters", "adapters that are not merged, from the program"),
    ("balance", "the balance loss of experts, from the program"),
    ("causal_balance", "the balance loss of experts by shards"),
    (
        "causal_hugging_face",
        "the families of models beside transformers",
    ),
    (
        "causal_inference",
        "weights of 16 bits, of the families of models",
    ),
    ("half_forms", "16-bit forms of all operations"),
    ("half_weights", "weights of 16 bits beside widened ones"),
    ("hostile_sizes", "sizes that no memory holds"),
    ("in_place", "operations in place"),
    ("index", "index tensors, masks and views beside each other"),
    ("likeliest", "the likeliest token, found on the device"),
    ("lora_gpt2", "adapters of GPT-2"),
    ("lora_peft", "adapters beside PEFT"),
    ("pages", "the commands of the pages"),
    (
        "pytorch_modules",
        "layers and losses beside PyTorch's own samples",
    ),
    (
        "pytorch_samples",
        "all operations beside PyTorch's own samples",
    ),
    ("recurrent_pytorch", "recurrent layers beside PyTorch"),
    ("special_points", "operations at NaN, infinities and zeros"),
    ("text_chat_bounds", "the bounds of chat templates"),
    ("text_chat_hostile", "chat templates that mean harm"),
    ("tuning", "every way that tuning can choose, of kernels"),
    ("unread", "words that no kernel may read"),
    (
        "ways",
        "every way that tuning can choose, above the kernels",
    ),
];

/// The arguments of `cargo test` that leave them out, and doc tests with them.
pub fn arguments(root: &Path) -> Result<Vec<String>, String> {
    let mut arguments: Vec<String> = ["--workspace", "--lib", "--bins"].map(String::from).into();
    for (package, _) in PACKAGES {
        arguments.extend(["--exclude".to_string(), package.to_string()]);
    }
    for program in programs(root)? {
        if !PROGRAMS.iter().any(|(left_out, _)| *left_out == program) {
            arguments.extend(["--test".to_string(), program]);
        }
    }
    Ok(arguments)
}

/// What the summary says of them.
pub fn left_out() -> Vec<String> {
    let named = PACKAGES.iter().chain(&PROGRAMS);
    let mut lines = vec!["without --all, doc tests and:".to_string()];
    lines.extend(named.map(|(name, proves)| format!("  {name}: {proves}")));
    lines
}

/// The names of the crates' test programs: `crates/X/tests/NAME.rs` and `crates/X/tests/NAME/main.rs`.
fn programs(root: &Path) -> Result<Vec<String>, String> {
    let crates = root.join("crates");
    let mut names = Vec::new();
    for file in files::under(&crates, &["rs"])? {
        let name = files::relative(&crates, &file);
        match name.split('/').collect::<Vec<_>>()[..] {
            [_, "tests", file] => names.push(file.trim_end_matches(".rs").to_string()),
            [_, "tests", folder, "main.rs"] => names.push(folder.to_string()),
            _ => {}
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{PACKAGES, PROGRAMS, arguments, programs};
    use crate::command;

    #[test]
    fn what_is_left_out_exists_and_the_rest_runs() {
        let root = command::root();
        let programs = programs(&root).expect("reads");
        for (name, _) in PROGRAMS {
            assert!(programs.iter().any(|program| program == name), "{name}");
        }
        let arguments = arguments(&root).expect("reads");
        let tests = arguments.iter().filter(|argument| *argument == "--test");
        assert_eq!(tests.count() + PROGRAMS.len(), programs.len());
        let manifest = std::fs::read_to_string(root.join("Cargo.lock")).expect("a lock file");
        for (package, _) in PACKAGES {
            assert!(
                manifest.contains(&format!("name = \"{package}\"")),
                "{package}"
            );
        }
    }
}
