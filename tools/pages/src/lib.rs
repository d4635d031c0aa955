//! Reads the blocks of code in the project's pages. Tests run what a block says, or a mark in its fence says why not.
//!
//! A fence begins with three backticks, the language and marks, separated by commas:
//!
//! | mark | what a test does |
//! |---|---|
//! | none | runs the block, after those before it on its page, in one scope or shell |
//! | `no_run` | compiles it (Rust) |
//! | `excerpt=PATH` | finds its lines in this file of the repository, in their order |
//! | `output` | finds its lines in what the page's commands print; two dots stand for what differs between machines |
//! | `needs=WHAT` | checks the commands' options and runs nothing; [`NEEDS`] lists what a block may need |
//!
//! What a block needs and a reader need not see stands before it in a comment: `<!-- rust`, lines, `-->`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a block may need that a test does not have, with what it means.
pub const NEEDS: [(&str, &str); 6] = [
    (
        "files",
        "files of the reader's own: a model, a corpus, a run",
    ),
    ("gpu", "a GPU"),
    ("minutes", "minutes"),
    ("network", "files from the network"),
    ("software", "software that is not part of HLX"),
    ("vulkan", "a Vulkan device: it is run where there is one"),
];

/// The languages of blocks that are run, compiled or compared.
pub const LANGUAGES: [&str; 3] = ["sh", "rust", "python"];

/// What a test does with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is run.
    Run,
    /// It is compiled.
    Compile,
    /// Its lines are looked for in this file.
    Excerpt(String),
    /// The commands of its page print it.
    Output,
    /// It is not run, because it needs one of [`NEEDS`].
    Needs(String),
}

/// One block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first word of the fence; empty where it has none.
    pub language: String,
    /// What its marks say.
    pub usage: Use,
    /// The line of its fence in the page, from 1.
    pub line: usize,
    /// Its lines, without the indentation of the fence.
    pub code: String,
    /// Whether it stands in a comment, where no reader sees it.
    pub is_hidden: bool,
}

/// One page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its path in the repository, with `/`.
    pub name: String,
    /// Its blocks in order, with those that are hidden.
    pub blocks: Vec<Block>,
}

/// The pages that are not in one of [`FOLDERS`].
const FILES: [&str; 5] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "examples/python/README.md",
    "python/README.md",
];

/// The folders of which all Markdown files are pages.
const FOLDERS: [&str; 2] = ["docs", "zoo"];

/// The pages of the repository, by name. An error names the page and the line.
pub fn pages(root: &Path) -> Result<Vec<Page>, String> {
    let mut files: Vec<PathBuf> = FILES.map(PathBuf::from).into();
    for folder in FOLDERS {
        collect(root, Path::new(folder), &mut files)
            .map_err(|error| format!("cannot read {folder}: {error}"))?;
    }
    files.sort();
    let read = |file: PathBuf| {
        let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
        let name = parts.join("/");
        let text = fs::read_to_string(root.join(&file))
            .map_err(|error| format!("cannot read {name}: {error}"))?;
        let blocks = blocks(&text).map_err(|error| format!("{name}:{error}"))?;
        Ok(Page { name, blocks })
    };
    files.into_iter().map(read).collect()
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// The blocks of a page. An error is `LINE: what is wrong`.
pub fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (row, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some((block, outer)) = &mut open {
            let end = if block.is_hidden { "-->" } else { "```" };
            if trimmed.trim_end() == end {
                blocks.extend(open.take().map(|(block, _)| block));
            } else {
                block.code += line.get((*outer).min(indent)..).unwrap_or_default();
                block.code.push('\n');
            }
            continue;
        }
        let fence = trimmed.strip_prefix("```");
        let comment = trimmed.strip_prefix("<!-- ");
        let comment = comment.filter(|language| LANGUAGES.contains(&language.trim_end()));
        if let Some(info) = fence.or(comment) {
            let (language, usage) =
                marks(info.trim()).map_err(|error| format!("{}: {error}", row + 1))?;
            let block = Block {
                language,
                usage,
                line: row + 1,
                code: String::new(),
                is_hidden: fence.is_none(),
            };
            open = Some((block, indent));
        }
    }
    match open {
        Some((block, _)) => Err(format!("{}: the block has no end", block.line)),
        None => Ok(blocks),
    }
}

/// The language of a fence and what its marks say.
fn marks(info: &str) -> Result<(String, Use), String> {
    let mut words = info.split(',');
    let language = words.next().unwrap_or_default().to_string();
    let mut usage = Use::Run;
    for word in words {
        if usage != Use::Run {
            return Err(format!("the fence `{info}` has more than one mark"));
        }
        usage = match word.split_once('=') {
            None if word == "no_run" => Use::Compile,
            None if word == "output" => Use::Output,
            Some(("excerpt", path)) => Use::Excerpt(path.to_string()),
            Some(("needs", what)) if NEEDS.iter().any(|(name, _)| *name == what) => {
                Use::Needs(what.to_string())
            }
            _ => {
                let needs = NEEDS.map(|(name, _)| name).join(", ");
                return Err(format!(
                    "the mark `{word}` is unknown, expected no_run, output, excerpt=PATH or needs= with one of {needs}"
                ));
            }
        };
    }
    Ok((language, usage))
}

/// The first line of an excerpt that its file does not have after those before it. A line of dots stands for any lines.
pub fn missing_line<'a>(excerpt: &'a str, file: &str) -> Option<&'a str> {
    let mut lines = file.lines().map(str::trim);
    let wanted = excerpt.lines().map(str::trim);
    wanted
        .filter(|line| !line.is_empty() && *line != "..")
        .find(|wanted| !lines.any(|line| line == *wanted))
}

/// The commands of a block for the shell, a line each: comments are removed, continued lines joined.
pub fn commands(code: &str) -> Vec<String> {
    let joined = code.replace("\\\n", " ");
    let lines = joined.lines().map(|line| without_comment(line).trim());
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_string)
        .collect()
}

/// A line up to a `#` that stands after a space and outside quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match quote {
            Some(end) if letter == end => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            None if letter == '#' && before == ' ' => return &line[..at],
            _ => {}
        }
        before = letter;
    }
    line
}

/// The words of each call of `program` in a command: after variables, `&&`, `|`, `;`, and programs that start others.
pub fn calls(command: &str, program: &str) -> Vec<Vec<String>> {
    let words = words(command);
    let starts = (0..words.len())
        .filter(|at| words[*at] == program && (*at == 0 || !words[at - 1].starts_with('-')));
    let ends = |from: usize| {
        let stop = |word: &String| matches!(word.as_str(), "&&" | "|" | ";" | ">" | "&" | "..");
        words[from..]
            .iter()
            .position(stop)
            .map_or(words.len(), |n| from + n)
    };
    starts.map(|at| words[at..ends(at)].to_vec()).collect()
}

/// The words of a command as a shell divides them, by spaces outside quotes.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for letter in command.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) => word.push(letter),
            None if letter == '\'' || letter == '"' => (quote, is_word) = (Some(letter), true),
            None if letter == ' ' => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            None => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Use, blocks, calls, commands, marks, missing_line};

    #[test]
    fn finds_blocks_with_their_marks_and_what_is_hidden() {
        let page = "a\n```sh,needs=gpu\nhlx x\n```\n\
                    <!-- rust\nlet a = 1;\n-->\n   ```rust\n   a\n     b\n   ```\n```\nc\n```\n";
        let found = blocks(page).expect("reads");
        let seen: Vec<_> = found
            .iter()
            .map(|block| (block.language.as_str(), block.code.as_str(), block.line))
            .collect();
        let expected = [
            ("sh", "hlx x\n", 2),
            ("rust", "let a = 1;\n", 5),
            ("rust", "a\n  b\n", 8),
            ("", "c\n", 12),
        ];
        assert_eq!(seen, expected);
        assert_eq!(found[0].usage, Use::Needs("gpu".to_string()));
        assert!(found[1].is_hidden && !found[2].is_hidden);
    }

    #[test]
    fn refuses_marks_that_it_does_not_know_and_blocks_without_an_end() {
        for wrong in ["sh,needs=luck", "rust,norun", "rust,no_run,needs=gpu"] {
            assert!(marks(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            blocks("a\n```sh\nhlx\n").expect_err("no end"),
            "2: the block has no end"
        );
    }

    #[test]
    fn an_excerpt_has_the_lines_of_its_file_in_order() {
        let file = "fn a() {\n    one();\n    two();\n    three();\n}\n";
        assert_eq!(
            missing_line("fn a() {\n  one();\n  ..\n  three();\n", file),
            None
        );
        assert_eq!(missing_line("two();\none();\n", file), Some("one();"));
    }

    #[test]
    fn calls_are_found_in_commands() {
        let code = "HLX_DEVICE=cpu hlx train a \\\n  --set 'b = \"c d\"'   # not hlx\n\
                    cargo build -p hlx && hlx list # x\n";
        let commands = commands(code);
        assert_eq!(commands.len(), 2);
        let found: Vec<_> = commands
            .iter()
            .flat_map(|line| calls(line, "hlx"))
            .collect();
        assert_eq!(
            found,
            [
                vec!["hlx", "train", "a", "--set", "b = \"c d\""],
                vec!["hlx", "list"]
            ]
        );
    }
}
