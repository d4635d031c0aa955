//! The commands of the project's pages: blocks for the shell run in order, in a folder per page (tools/pages).
//!
//! `HLX_PAGES=minutes` also runs the blocks that need minutes.
#![cfg(unix)]
#![allow(missing_docs)]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use pages::{Block, Page, Use};

/// What the blocks of a page expect in their folder: links to what a clone has.
const CLONE: [&str; 6] = ["configs", "crates", "data", "docs", "examples", "zoo"];

#[test]
fn the_commands_of_the_pages_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository");
    let (mut run, mut left_out) = (0, 0);
    for page in pages::pages(&root).expect("reads") {
        let blocks: Vec<_> = of_shell(&page).collect();
        let runs = blocks.iter().filter(|block| is_run(block)).count();
        run += runs;
        left_out += blocks.len() - runs;
        if runs > 0 {
            run_page(&root, &page);
        }
    }
    println!("{run} blocks of commands were run, {left_out} left out");
    assert!(run > 5, "{run} blocks of commands");
}

fn of_shell(page: &Page) -> impl Iterator<Item = &Block> {
    let blocks = page.blocks.iter();
    blocks.filter(|block| block.language == "sh" && !block.is_hidden)
}

fn is_run(block: &Block) -> bool {
    let minutes = env::var("HLX_PAGES").is_ok_and(|value| value == "minutes");
    let needs_minutes = matches!(&block.usage, Use::Needs(need) if need == "minutes");
    block.usage == Use::Run || minutes && needs_minutes
}

/// Runs the blocks of a page as one script. Home, store and runs are in its folder.
fn run_page(root: &Path, page: &Page) {
    let name = page.name.replace(['/', '.'], "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("pages")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    for name in CLONE {
        std::os::unix::fs::symlink(root.join(name), folder.join(name)).expect("a link");
    }
    let mut script = "set -eu\n".to_string();
    for block in page.blocks.iter().filter(|block| block.language == "sh") {
        if block.is_hidden || is_run(block) {
            // The last line that is printed says where a script has ended.
            writeln!(
                script,
                "echo '== {}:{}' >&2\n{}",
                page.name, block.line, block.code
            )
            .expect("text");
        }
    }
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hlx"));
    let programs = program.parent().expect("a folder").to_path_buf();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path)));
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&folder)
        .env("PATH", path.expect("folders"))
        .env("HOME", &folder)
        .env_remove("XDG_DATA_HOME")
        .env_remove("HLX_STORE")
        .output()
        .expect("a shell");
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{}:\n{}", page.name, text.concat());
    for block in page
        .blocks
        .iter()
        .filter(|block| block.usage == Use::Output)
    {
        check_output(page, block, &text.concat());
    }
    fs::remove_dir_all(&folder).expect("removes");
}

/// Fails if the commands do not print the lines of a block of text, in their order. What differs between machines,
/// or is left out, is written as two dots.
fn check_output(page: &Page, block: &Block, output: &str) {
    let mut rest = output;
    for line in block.code.lines() {
        for part in line
            .split("..")
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let place = rest.find(part);
            let at = place.unwrap_or_else(|| {
                panic!(
                    "{}:{}: `{part}` is not printed:\n{output}",
                    page.name, block.line
                )
            });
            rest = &rest[at + part.len()..];
        }
    }
}
