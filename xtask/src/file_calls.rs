//! Keeps product code from going past `hlx_core::files`: which replaces a file as one, follows links, writes
//! devices straight, and never writes where a program reads; and which reads regular files of a bounded size.

use std::path::Path;

use crate::files;

/// Calls that `hlx_core::files` stands for.
struct Rule {
    calls: &'static [&'static str],
    /// What a call does that is not allowed.
    does: &'static str,
    /// The starts of the names of files that may, and why.
    allowed: &'static [(&'static str, &'static str)],
}

/// Calls that change a file or a folder.
const WRITES: Rule = Rule {
    calls: &[
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
    ],
    does: "writes",
    allowed: &MAY_WRITE,
};

/// Calls that read a file whatever it is: a pipe, a device, more than memory has; and calls that map one.
const READS: Rule = Rule {
    calls: &[
        "fs::read(",
        "fs::read_to_string(",
        "File::open(",
        "Mmap::map(",
        "MmapOptions::new(",
    ],
    does: "reads",
    allowed: &MAY_READ,
};

const MAY_WRITE: [(&str, &str); 22] = [
    ("benches/src/peers.rs", "removes caches of its own"),
    ("benches/src/prove/", "removes folders of its own"),
    (
        "benches/src/results/",
        "folders and parts of files of its own",
    ),
    (
        "crates/hlx-cli/src/zoo/weights.rs",
        "removes a file that it has written",
    ),
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
        "crates/hlx-ranks/src/secret/file.rs",
        "a secret in a folder that its user alone can open",
    ),
    (
        "crates/hlx-receipt/src/key.rs",
        "a private key that its user alone can read from its first byte on, and that replaces nothing",
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
        "crates/hlx-train/src/run/chain/file.rs",
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
        "crates/hlx-train/src/verify/verdict.rs",
        "appends a line to a file of its own",
    ),
    (
        "crates/hlx-train/src/train/state_file.rs",
        "ranks write their parts of a file in a temporary folder",
    ),
];

const MAY_READ: [(&str, &str); 8] = [
    ("benches/src/", "tables that it has written"),
    (
        "crates/hlx-core/src/container.rs",
        "asks whether this user may open a device, and reads nothing of it",
    ),
    (
        "crates/hlx-core/src/cpu.rs",
        "the system's file of processors",
    ),
    ("crates/hlx-core/src/files", "the one place that does it"),
    (
        "crates/hlx-core/src/machine.rs",
        "the system's file of memory",
    ),
    (
        "crates/hlx-core/src/no_gpu.rs",
        "asks whether this user may open a device, and reads nothing of it",
    ),
    (
        "crates/hlx-ranks/src/",
        "knows nothing of hlx-core: the system's tables, and files in folders of the user alone",
    ),
    (
        "crates/hlx-text/src/prepare/state.rs",
        "asks for the lock of a folder",
    ),
];

/// Every call outside of tests and of the files allowed, one line each; and every file allowed that makes none.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut sources = Vec::new();
    for dir in ["crates", "benches"] {
        for source in files::under(&root.join(dir), &["rs"])? {
            let name = files::relative(root, &source);
            if name.contains("/src/") && !files::is_test(&name) {
                sources.push((name, files::text(&source)?));
            }
        }
    }
    let mut wrong = Vec::new();
    for rule in [WRITES, READS] {
        let mut unused: Vec<&str> = rule.allowed.iter().map(|(start, _)| *start).collect();
        for (name, text) in &sources {
            let found = rule.check(name, text);
            let allowed = rule
                .allowed
                .iter()
                .find(|(start, _)| name.starts_with(start));
            match allowed {
                Some((start, _)) if !found.is_empty() => unused.retain(|one| one != start),
                Some(_) => {}
                None => wrong.extend(found),
            }
        }
        let unused = unused.into_iter();
        wrong.extend(
            unused.map(|start| format!("xtask/src/file_calls.rs: {start} {} no file", rule.does)),
        );
    }
    Ok(wrong)
}

impl Rule {
    fn check(&self, name: &str, text: &str) -> Vec<String> {
        let lines = files::product(text).lines().enumerate();
        lines
            .filter_map(|(row, line)| {
                let code = line.split("//").next().unwrap_or_default();
                let call = self.calls.iter().find(|call| calls(code, call))?;
                let (call, does) = (call.trim_end_matches('('), self.does);
                Some(format!(
                    "{name}:{}: `{call}` {does} past hlx_core::files",
                    row + 1
                ))
            })
            .collect()
    }
}

/// Whether a line of code has a call, and not one of a longer name such as `EventFile::create(`.
fn calls(code: &str, call: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut places = code.match_indices(call);
    places.any(|(at, _)| !code[..at].ends_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::{READS, WRITES};

    #[test]
    fn finds_calls_outside_of_tests_and_comments() {
        let text = "//! A.\n/// fs::write(a)\nfn a() {\n    std::fs::write(b, c);\n}\n\
                    #[cfg(test)]\nmod tests {\n    fs::copy(a, b);\n}\n";
        let found = WRITES.check("crates/a/src/b.rs", text);
        let expected = "crates/a/src/b.rs:4: `fs::write` writes past hlx_core::files";
        assert_eq!(found, [expected]);
        let other = "fn a() { files::write_set(b); fs::read(c); EventFile::create(d); }";
        assert!(WRITES.check("b.rs", other).is_empty());
        let expected = "b.rs:1: `fs::read` reads past hlx_core::files";
        assert_eq!(READS.check("b.rs", other), [expected]);
        let other = "fn a() { files::read(c); fs::read_dir(d); ChainFile::open(e); }";
        assert!(READS.check("b.rs", other).is_empty());
    }
}
