//! Generation: the time of a token and of a prompt, in HLX, transformers and llama.cpp.

use anyhow::{Context as _, Result};
use hlx_core::DeviceKind;

use super::bench::{Bench, output_of};
use super::sheet::Sheet;
use crate::{note, say};

const COLUMNS: &str = "program,model,weights,arithmetic,layers,tokens,token_ms,prompt_ms";

/// What one row measures.
struct Case {
    shape: &'static str,
    weights: &'static str,
    arithmetic: &'static str,
}

const CASES: [Case; 3] = [
    Case::new("qwen3", "bf16", "portable"),
    Case::new("qwen3", "bf16", "integer"),
    Case::new("llama-1b", "q8_0", "integer"),
];

impl Case {
    const fn new(shape: &'static str, weights: &'static str, arithmetic: &'static str) -> Self {
        Self {
            shape,
            weights,
            arithmetic,
        }
    }

    fn model(&self) -> &'static str {
        match self.shape {
            "qwen3" => "Qwen3-0.6B",
            _ => "Llama 3.2 1B",
        }
    }
}

/// Measures shapes with random weights, one sequence: generation.csv. A token comes after the prompt, and its own
/// likeliest successor is on the host.
///
/// # Errors
/// What HLX's device reports. Another program that does not run here is left out, and says why.
pub fn measure(bench: &Bench) -> Result<()> {
    // Layers, tokens of the prompt, seconds a measurement. Software drivers get two layers of the model.
    let (layers, tokens, seconds) = match bench.kind {
        _ if bench.quick => ("1", "16", "0.05"),
        DeviceKind::VulkanGpu => ("32", "512", "0.5"),
        DeviceKind::Cpu => ("32", "128", "1"),
        DeviceKind::VulkanSoftware => ("2", "64", "1"),
    };
    let mut sheet = Sheet::new(&bench.facts("generation")?, COLUMNS);
    let row = |program: &str, case: &Case, arithmetic: &str, ms: [f64; 2]| {
        say!(
            "{program:14} {} {} {:.3} ms",
            case.model(),
            case.weights,
            ms[0]
        );
        [
            program.to_owned(),
            case.model().to_owned(),
            case.weights.to_owned(),
            arithmetic.to_owned(),
            layers.to_owned(),
            tokens.to_owned(),
            format!("{:.3}", ms[0]),
            format!("{:.3}", ms[1]),
        ]
    };
    for case in &CASES {
        let mut verb = vec!["decode", "--shape", case.shape, "--dtype", case.weights];
        verb.extend(["--arithmetic", case.arithmetic, "--seconds", seconds]);
        verb.extend(["--layers", layers, "--tokens", tokens]);
        verb.extend(bench.quick.then_some("--quick"));
        let text = bench.own(&verb)?;
        let ms = [word_after(&text, "likeliest")?, word_after(&text, "first")?];
        sheet.add(row("HLX", case, case.arithmetic, ms));
        sheet.write(&bench.partial("generation.csv"))?;
    }
    for (program, case, measured) in [
        (
            "transformers",
            &CASES[0],
            transformers(bench, layers, tokens),
        ),
        ("llama.cpp", &CASES[2], llama(bench, layers, tokens)),
    ] {
        match measured {
            Ok((version, ms)) => {
                sheet.facts.push((program.to_owned(), version));
                sheet.add(row(program, case, "-", ms));
            }
            Err(error) => note!("{program} is left out: {error:#}"),
        }
    }
    sheet.write(&bench.partial("generation.csv"))
}

/// The version, and the milliseconds of a token and of the prompt.
fn transformers(bench: &Bench, layers: &str, tokens: &str) -> Result<(String, [f64; 2])> {
    let mut script = bench.python("generation.py")?;
    script.args([
        "--layers", layers, "--prompt", tokens, "--first", tokens, "--new", "17",
    ]);
    script.args([
        "--batch",
        "1",
        "--rounds",
        "1",
        "--device",
        bench.peer_device(),
    ]);
    let text = output_of(&mut script, "generation.py")?;
    let version = text.lines().next().unwrap_or_default().to_owned();
    let first = format!("first token of {tokens}:");
    Ok((
        version,
        [
            word_after(&text, "batch 1, dynamic cache:")?,
            word_after(&text, &first)?,
        ],
    ))
}

fn llama(bench: &Bench, layers: &str, tokens: &str) -> Result<(String, [f64; 2])> {
    let mut script = bench.python("llama.py")?;
    script.args(["--layers", layers, "--prompt", tokens, "--new", "17"]);
    script.args(["--device", if bench.is_on_cpu() { "cpu" } else { "vulkan" }]);
    script.arg("--programs").arg(&bench.programs);
    let text = output_of(&mut script, "llama.py")?;
    let version = text.lines().next().unwrap_or_default().to_owned();
    Ok((
        version,
        [word_after(&text, "token")?, word_after(&text, "prompt")?],
    ))
}

/// The number that follows the beginning of a line.
fn word_after(text: &str, begin: &str) -> Result<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(begin));
    let word = rest.and_then(|rest| rest.split_whitespace().next());
    let word = word.with_context(|| format!("no line `{begin}`"))?;
    word.parse()
        .with_context(|| format!("`{begin} {word}`: no number"))
}

#[cfg(test)]
mod tests {
    use super::word_after;

    #[test]
    fn numbers_are_found_by_the_words_before_them() -> anyhow::Result<()> {
        let text = "a\nlikeliest    1.250 ms  on the host\nfirst token of 16: 3.5 ms\n";
        assert_eq!(word_after(text, "likeliest")?, 1.25);
        assert_eq!(word_after(text, "first token of 16:")?, 3.5);
        assert!(word_after(text, "last").is_err());
        Ok(())
    }
}
