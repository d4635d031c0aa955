//! `cargo xtask book`: the pages as a book with search, and the documentation of the crates beside it.

mod api;
mod commands;
mod links;
mod mirror;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

use pages::{Page, Use};

pub use mirror::copy_folder;

use crate::Outcome;
use crate::command::{self, step};

pub const HELP: &str = "\
cargo xtask book [--no-api] [--install]

Builds the pages (README, CONTRIBUTING, CHANGELOG, docs, zoo) as a book with search into target/book, and rustdoc of
the crates into target/book/api, with a page that links to each. It checks the book's table of contents, links, marks
and commands first, as `cargo xtask lint` does.

It needs mdbook: on the path, or in target/mdbook.

  --no-api    without rustdoc
  --install   install mdbook into target/mdbook if it is nowhere; it takes minutes. CI=true does the same";

/// The version that --install takes.
const MDBOOK: &str = "0.5.4";

pub fn run(args: &[String]) -> Outcome {
    let (mut has_api, mut installs) = (true, std::env::var("CI").is_ok_and(|ci| ci == "true"));
    for argument in args {
        match argument.as_str() {
            "--no-api" => has_api = false,
            "--install" => installs = true,
            other => return Err(crate::unknown_argument("book", other)),
        }
    }
    let root = command::root();
    let wrong = check(&root)?;
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let program = mdbook(&root, installs)?;
    let book = root.join("target/book");
    let documented = match has_api {
        true => api::crates(&root)?,
        false => Vec::new(),
    };
    step("the book", || {
        let source = root.join("target/book-source");
        mirror::write(&root, &source)?;
        api::add_page(&source, &documented)?;
        remove(&book)?;
        let mut build = std::process::Command::new(program);
        build
            .env("MDBOOK_LOG", "warn")
            .arg("build")
            .arg(&source)
            .arg("--dest-dir")
            .arg(&book);
        command::succeed("mdbook", &mut build)
    })?;
    if has_api {
        step("rustdoc", || {
            command::document(&[])?;
            api::copy(&documented, &book.join("api"))
        })?;
    }
    println!("{}", blocks(&pages::pages(&root)?));
    println!("book  {}", book.join("index.html").display());
    if has_api {
        println!("api   {}", book.join("api/hlx/index.html").display());
    }
    Ok(0)
}

/// What is wrong with the book, one line each: for `cargo xtask lint`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = summary::check(root)?;
    wrong.extend(links::check(root)?);
    wrong.extend(commands::check(root, &pages::pages(root)?));
    Ok(wrong)
}

/// How many blocks of the pages the tests run, and how many they leave out.
pub fn blocks(pages: &[Page]) -> String {
    let visible = pages.iter().flat_map(|page| &page.blocks);
    let visible = visible.filter(|block| !block.is_hidden);
    let visible: Vec<_> = visible
        .filter(|block| !matches!(block.language.as_str(), "" | "text"))
        .collect();
    let count = |language: &str, usage: fn(&Use) -> bool| {
        let blocks = visible.iter().filter(|block| block.language == language);
        blocks.filter(|block| usage(&block.usage)).count()
    };
    let mut lines = vec!["blocks of the pages:".to_string()];
    for language in pages::LANGUAGES {
        let [run, compiled, compared] = [
            count(language, |usage| *usage == Use::Run),
            count(language, |usage| *usage == Use::Compile),
            count(language, |usage| matches!(usage, Use::Excerpt(_))),
        ];
        let parts = [
            (run, "run"),
            (compiled, "compiled"),
            (compared, "compared with their file"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let mut parts: Vec<_> = parts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        for (need, _) in pages::NEEDS {
            let is_left_out = |block: &&&pages::Block| {
                block.language == language && block.usage == Use::Needs(need.to_string())
            };
            let left_out = visible.iter().filter(is_left_out).count();
            if left_out > 0 {
                let word = if need == "vulkan" {
                    "run where there is"
                } else {
                    "left out for"
                };
                parts.push(format!("{left_out} {word} {need}"));
            }
        }
        lines.push(format!("  {language}: {}", parts.join(", ")));
    }
    lines.join("\n")
}

/// mdbook on the path or in target/mdbook, installed there if that is wanted.
fn mdbook(root: &Path, installs: bool) -> Result<PathBuf, String> {
    if command::on_path("mdbook") {
        return Ok("mdbook".into());
    }
    let folder = root.join("target/mdbook");
    let program = folder
        .join("bin")
        .join(format!("mdbook{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    let install = ["install", "mdbook", "--version", MDBOOK, "--locked"];
    // Without optimisation it is compiled in half the time, and builds the book in seconds.
    let features = ["--no-default-features", "--features", "search", "--debug"];
    let install = [&install[..], &features].concat();
    if !installs {
        let by_hand = install.join(" ");
        return Err(format!(
            "book: mdbook is not installed: `cargo xtask book --install`, or `cargo {by_hand}`"
        ));
    }
    step("installing mdbook", || {
        let mut install = command::quiet_cargo(&install);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0");
        install.arg("--root").arg(&folder);
        install.arg("--target-dir").arg(folder.join("build"));
        command::succeed("cargo install mdbook", &mut install)
    })?;
    remove(&folder.join("build"))?;
    Ok(program)
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The pages of the book, by their paths in the repository: all but the table of contents, and the page that PyPI shows.
fn chapters(root: &Path) -> Result<Vec<PathBuf>, String> {
    let pages = pages::pages(root)?.into_iter();
    let pages =
        pages.filter(|page| !["docs/SUMMARY.md", "python/README.md"].contains(&&*page.name));
    Ok(pages.map(|page| root.join(page.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_are_counted_by_what_tests_do_with_them() {
        let text = "```sh\nhlx a\n```\n```sh,needs=gpu\nhlx b\n```\n\
                    <!-- sh\nhlx c\n-->\n```rust,no_run\nd\n```\n```\ne\n```\n";
        let blocks_of = pages::blocks(text).expect("reads");
        let page = pages::Page {
            name: "a.md".to_string(),
            blocks: blocks_of,
        };
        let expected =
            "blocks of the pages:\n  sh: 1 run, 1 left out for gpu\n  rust: 1 compiled\n  python: ";
        assert_eq!(blocks(&[page]), expected);
    }
}
