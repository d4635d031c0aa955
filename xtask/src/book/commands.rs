//! Commands in the pages: blocks are marked as such, and verbs, options, examples and configurations exist.

use std::path::Path;

use pages::{Block, Page};

/// How a line begins that belongs into a block of commands.
const PROGRAMS: [&str; 7] = [
    "hlx ", "cargo ", "pip ", "python ", "./hlx", "docker ", "curl ",
];

/// What is wrong, one line each.
pub fn check(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut wrong = Vec::new();
    for page in pages {
        for block in &page.blocks {
            let place = format!("{}:{}", page.name, block.line);
            wrong.extend(
                of_block(root, block)
                    .into_iter()
                    .map(|error| format!("{place}: {error}")),
            );
        }
    }
    wrong
}

fn of_block(root: &Path, block: &Block) -> Vec<String> {
    if block.language.is_empty() {
        let command = block
            .code
            .lines()
            .find(|line| PROGRAMS.iter().any(|program| line.starts_with(program)));
        let error = |line| format!("`{line}` is a command: the fence needs `sh`");
        return command.map(error).into_iter().collect();
    }
    if block.language != "sh" {
        return Vec::new();
    }
    let commands = pages::commands(&block.code);
    commands
        .iter()
        .flat_map(|command| of_command(root, command))
        .collect()
}

fn of_command(root: &Path, command: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for call in pages::calls(command, "cargo") {
        let words: Vec<&str> = call.iter().map(String::as_str).collect();
        match words.get(1) {
            Some(&"xtask") => wrong.extend(of_xtask(&words[2..])),
            Some(&"run") => wrong.extend(of_example(root, &words)),
            _ => {}
        }
    }
    let words = command.split([' ', '=']);
    let configs = words.filter(|word| word.starts_with("configs/") && word.ends_with(".toml"));
    let missing = configs.filter(|path| !root.join(path).is_file());
    wrong.extend(missing.map(|path| format!("{path} does not exist")));
    wrong
}

/// A verb that does not exist, or an option that its help does not name.
fn of_xtask(words: &[&str]) -> Vec<String> {
    let Some((verb, rest)) = words.split_first() else {
        return vec!["`cargo xtask` lacks a verb".to_string()];
    };
    let Some((help, _)) = crate::verb(verb) else {
        return vec![format!("`cargo xtask {verb}` does not exist")];
    };
    // `bench` and `train` hand their arguments on to another program.
    if matches!(*verb, "bench" | "train") {
        return Vec::new();
    }
    let own = rest.iter().take_while(|word| **word != "--");
    let options = own.filter(|word| word.starts_with("--"));
    let options = options.map(|word| word.split('=').next().unwrap_or(word));
    let unknown = options.filter(|option| !help.contains(*option));
    unknown
        .map(|option| format!("`cargo xtask {verb}` has no option {option}"))
        .collect()
}

fn of_example(root: &Path, words: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| *word == "--example")?;
    let name = words.get(at + 1)?;
    let file = root.join("examples").join(format!("{name}.rs"));
    (!file.is_file()).then(|| format!("the example {name} does not exist"))
}

#[cfg(test)]
mod tests {
    use super::of_block;
    use crate::command;

    #[test]
    fn commands_that_do_not_exist_are_found() {
        let wrong = |text: &str| {
            let blocks = pages::blocks(text).expect("reads");
            of_block(&command::root(), &blocks[0]).len()
        };
        assert_eq!(
            wrong(
                "```sh\ncargo xtask test --all -- --nocapture\nhlx train configs/mnist-mlp.toml\n```\n"
            ),
            0
        );
        assert_eq!(
            wrong("```sh\ncargo xtask tests\ncargo xtask lint --fast\n```\n"),
            2
        );
        assert_eq!(
            wrong("```sh\nhlx train configs/none.toml\ncargo run --example 09_none\n```\n"),
            2
        );
        assert_eq!(wrong("```\nhlx list\n```\n"), 1);
        assert_eq!(wrong("```\nloss 1.5\n```\n"), 0);
    }
}
