//! Generation: the time of a token and of a prompt, in HLX, transformers and llama.cpp.

use anyhow::{Context as _, Result};
use hlx_core::DeviceKind;

use super::bench::{Bench, output_of};
use super::sheet::Sheet;
use crate::decode::{ModelShape, quick};
use crate::{note, say};

const COLUMNS: &str =
    "program,model,weights,arithmetic,layers,vocabulary,tokens,token_ms,prompt_ms";

/// What one row measures.
struct Case {
    shape: ModelShape,
    weights: &'static str,
    arithmetic: &'static str,
}

const CASES: [Case; 3] = [
    Case::new(ModelShape::Qwen3, "bf16", "portable"),
    Case::new(ModelShape::Qwen3, "bf16", "integer"),
    Case::new(ModelShape::Llama1B, "q8_0", "integer"),
];

impl Case {
    const fn new(shape: ModelShape, weights: &'static str, arithmetic: &'static str) -> Self {
        Self {
            shape,
            weights,
            arithmetic,
        }
    }

    fn model(&self) -> &'static str {
        match self.shape {
            ModelShape::Qwen3 => "Qwen3-0.6B",
            ModelShape::Llama1B => "Llama 3.2 1B",
            ModelShape::Llama8B => "Llama 3.1 8B",
            ModelShape::Qwen3Moe => "Qwen3 30B-A3B",
        }
    }

    /// Rows of the vocabulary: the model's, or as many as a binding of `words` holds in f32, from which the weights
    /// are made.
    fn vocabulary(&self, words: usize, is_quick: bool) -> Result<usize> {
        let config = match is_quick {
            true => quick()?,
            false => self.shape.config()?,
        };
        Ok(config.vocabulary.min(words / config.width))
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
    let words = bench.open()?.max_binding_words();
    let mut sheet = Sheet::new(&bench.facts("generation")?, COLUMNS);
    let row = |program: &str, case: &Case, arithmetic: &str, vocabulary: &str, ms: [f64; 2]| {
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
            vocabulary.to_owned(),
            tokens.to_owned(),
            format!("{:.3}", ms[0]),
            format!("{:.3}", ms[1]),
        ]
    };
    for case in &CASES {
        let vocabulary = case.vocabulary(words, bench.quick)?.to_string();
        let mut verb = vec![
            "decode",
            "--shape",
            case.shape.name(),
            "--dtype",
            case.weights,
        ];
        verb.extend(["--arithmetic", case.arithmetic, "--seconds", seconds]);
        verb.extend([
            "--layers",
            layers,
            "--tokens",
            tokens,
            "--vocabulary",
            &vocabulary,
        ]);
        verb.extend(bench.quick.then_some("--quick"));
        let text = bench.own(&verb)?;
        let ms = [word_after(&text, "likeliest")?, word_after(&text, "first")?];
        sheet.add(row("HLX", case, case.arithmetic, &vocabulary, ms));
        sheet.write(&bench.partial("generation.csv"))?;
    }
    type Peer = fn(&Bench, [&str; 3]) -> Result<(String, [f64; 2])>;
    let peers: [(&str, &Case, Peer); 2] = [
        ("transformers", &CASES[0], transformers),
        ("llama.cpp", &CASES[2], llama),
    ];
    for (program, case, measure) in peers {
        let vocabulary = case.vocabulary(words, bench.quick)?.to_string();
        match measure(bench, [layers, &vocabulary, tokens]) {
            Ok((version, ms)) => {
                sheet.facts.push((program.to_owned(), version));
                sheet.add(row(program, case, "-", &vocabulary, ms));
            }
            Err(error) => note!("{program} is left out: {error:#}"),
        }
    }
    sheet.write(&bench.partial("generation.csv"))
}

/// The version, and the milliseconds of a token and of the prompt, for a number of layers, rows of the vocabulary and
/// tokens of the prompt.
fn transformers(
    bench: &Bench,
    [layers, vocabulary, tokens]: [&str; 3],
) -> Result<(String, [f64; 2])> {
    let mut script = bench.python("generation.py")?;
    script.args(["--layers", layers, "--vocabulary", vocabulary]);
    script.args(["--prompt", tokens, "--first", tokens, "--new", "17"]);
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

/// As [`transformers`], of llama.cpp.
fn llama(bench: &Bench, [layers, vocabulary, tokens]: [&str; 3]) -> Result<(String, [f64; 2])> {
    let mut script = bench.python("llama.py")?;
    script.args(["--vocabulary", vocabulary]);
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
    use super::{CASES, word_after};

    #[test]
    fn a_vocabulary_is_cut_to_what_a_binding_holds() -> anyhow::Result<()> {
        let (qwen3, llama) = (&CASES[0], &CASES[2]);
        assert_eq!(qwen3.vocabulary(1 << 30, false)?, 151_936);
        assert_eq!(llama.vocabulary(1 << 30, false)?, 128_256);
        // 128 MiB, as of lavapipe.
        assert_eq!(qwen3.vocabulary(1 << 25, false)?, 32_768);
        assert_eq!(llama.vocabulary(1 << 25, false)?, 16_384);
        assert_eq!(llama.vocabulary(1 << 25, true)?, 512);
        Ok(())
    }

    #[test]
    fn numbers_are_found_by_the_words_before_them() -> anyhow::Result<()> {
        let text = "a\nlikeliest    1.250 ms  on the host\nfirst token of 16: 3.5 ms\n";
        assert_eq!(word_after(text, "likeliest")?, 1.25);
        assert_eq!(word_after(text, "first token of 16:")?, 3.5);
        assert!(word_after(text, "last").is_err());
        Ok(())
    }
}
