//! A recipe's card in Markdown: a function of `zoo.json` and `results.json`.

use std::fmt::Write as _;

use super::index::{Kind, Published, Recipe, Zoo};

/// The card of a recipe.
pub fn card(zoo: &Zoo, recipe: &Recipe) -> String {
    let Recipe {
        name,
        title,
        data,
        licence,
        limits,
        ..
    } = recipe;
    let mut text = format!("# {name}\n\n{title}. Written by `hlx zoo card --write`.\n\n");
    let (needs, argument) = match &recipe.needs {
        Some(_) => ("files", " --data PATH"),
        None => ("minutes", ""),
    };
    let _ = write!(
        text,
        "```sh,needs={needs}\nhlx zoo train {name}{argument}\nhlx zoo verify {name}\n"
    );
    if recipe.kind != Kind::Images {
        let _ = writeln!(text, "hlx zoo chat {name}");
    }
    text += "```\n\n";
    text += "| | |\n|---|---|\n";
    let mut row = |what: &str, said: &str| {
        let _ = writeln!(text, "| {what} | {said} |");
    };
    row("data", data);
    if let Some(needs) = &recipe.needs {
        row("`--data`", needs);
    }
    if let Some(without) = &recipe.without {
        row("without `--data`", without);
    }
    if let Some(after) = &recipe.after {
        row("begins with", &format!("the run of `{after}`"));
    }
    row("licence", licence);
    row("what it can't do", limits);
    text.push('\n');
    let results = zoo.results_of(name);
    if results.is_empty() {
        text += "No result is published yet.\n";
    }
    for result in results {
        text += &section(zoo, result);
    }
    text
}

/// What was published for some data.
fn section(zoo: &Zoo, result: &Published) -> String {
    let kind = match result.held_out {
        true => "held out",
        false => "of the data it was trained on",
    };
    let loss = result.loss.map_or_else(
        || "not noted".to_owned(),
        |loss| format!("{loss:.5}, {kind}"),
    );
    let mut text = format!(
        "**On the data `{}`**\n\n| | |\n|---|---|\n| parameters | {}, {} KB in f32 |\n| steps | {} |\n| loss | {loss} |\n\
         | tree digest of the parameters | `{}` |\n| last record of the chain | `{}` |\n| specification | {} |\n",
        result.data,
        result.n_parameters,
        (4 * result.n_parameters).div_ceil(1000),
        result.steps,
        result.parameters,
        result.record,
        result.specification
    );
    if let Some(weights) = &result.weights {
        let file = zoo.weights_path(&result.name);
        let bytes = std::fs::metadata(&file).map_or(0, |found| found.len());
        let _ = writeln!(
            text,
            "| weights of 16 bits | `weights/{}.gguf`, {} KB, SHA-256 `{weights}` |",
            result.name,
            bytes.div_ceil(1000)
        );
    }
    for time in &result.times {
        let _ = writeln!(text, "| time, {} | {} s |", time.device, time.seconds);
    }
    text.push('\n');
    text
}
