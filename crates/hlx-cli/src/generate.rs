//! `hlx generate`: text from a trained model; the same seed gives the same text on every device.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::files;
use hlx_train::config::parse_seed;
use hlx_train::generate::{News, Wanted};
use hlx_train::sample::Sampling;
use hlx_train::text_source::{TextOptions, TextSource};

use crate::next;
use crate::numbers::{MAX_TEXTS, MAX_TOKENS, real, within};
use crate::print::{self, Streamed, say};
use crate::weights::ModelArguments;

/// How tokens are drawn.
#[derive(clap::Args)]
pub struct DrawingArguments {
    /// Divides the logits; 0 always takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = real, allow_negative_numbers = true)]
    temperature: f32,
    /// Draw from the K likeliest tokens; 0 draws from all.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = within::<usize>(0..=MAX_TOKENS), allow_negative_numbers = true)]
    top_k: usize,
    /// Draw from the likeliest tokens that together have probability P.
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = real, allow_negative_numbers = true)]
    top_p: f32,
    /// Draw from the tokens that have at least this part of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = real, allow_negative_numbers = true)]
    min_p: f32,
    /// Divide the logits of tokens that are there already by this; 1 changes nothing.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = real, allow_negative_numbers = true)]
    repetition_penalty: f32,
    /// Keys the draws.
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = parse_seed, allow_negative_numbers = true)]
    seed: u64,
}

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The text to continue, or for a model of pairs the input to answer; may be given several times.
    #[arg(long, value_name = "TEXT")]
    prompt: Vec<String>,
    /// A file with a prompt in each line; empty lines are skipped.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Tokens at most.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = within::<usize>(0..=MAX_TOKENS), allow_negative_numbers = true)]
    max_tokens: usize,
    #[command(flatten)]
    drawing: DrawingArguments,
    /// End a text before this one; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Texts for each prompt.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<usize>(1..=MAX_TEXTS as u64), allow_negative_numbers = true)]
    samples: usize,
    /// For a model of pairs: put no separator after a prompt: it ends with one, or is to be continued.
    #[arg(long)]
    raw: bool,
    /// Print a JSON object for each text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let sampling = arguments.drawing.sampling()?;
    let prompts = arguments.all_prompts()?;
    let (n_texts, n_prompts) = (arguments.samples, prompts.len());
    ensure!(
        n_prompts.saturating_mul(n_texts) <= MAX_TEXTS,
        "--samples: {n_texts} texts for each of {n_prompts} prompts, expected at most {MAX_TEXTS} in all"
    );
    let source = arguments.model.source_to_write(&Wanted {
        sampling,
        max_tokens: arguments.max_tokens,
        n_texts: arguments.samples,
    })?;
    let options = arguments.options(sampling);
    let encoded: Vec<Result<Vec<u32>>> = prompts
        .iter()
        .map(|one| source.encode(one, arguments.raw))
        .collect();
    if prompts.len() == 1 {
        let ids = encoded.into_iter().collect::<Result<Vec<_>>>()?;
        if arguments.samples == 1 && !arguments.json {
            return stream(&source, &ids, &options);
        }
        let encoded = vec![Ok(ids.concat())];
        return print_texts(&source, &prompts, encoded, &options, arguments.json);
    }
    print_texts(&source, &prompts, encoded, &options, arguments.json)
}

/// Prints the texts after prompts, in the order of these; what is wrong with one ends no other.
///
/// # Errors
/// The last of the lines that name what is wrong with a prompt, the others being printed; standard output that takes
/// no more.
fn print_texts(
    source: &TextSource,
    prompts: &[String],
    encoded: Vec<Result<Vec<u32>>>,
    options: &TextOptions,
    json: bool,
) -> Result<()> {
    let n_texts = options.n_texts;
    let print = |number: usize, text: &str| {
        let prompt = &prompts[number / n_texts];
        match json {
            true => say!(
                "{}",
                serde_json::json!({"kind": "text", "prompt": prompt, "text": text})
            ),
            false => say!("> {prompt}\n{text}\n"),
        }
    };
    let mut texts = InOrder::new(prompts.len() * n_texts, print);
    let mut failures = Failures {
        last: None,
        names_prompts: prompts.len() > 1,
    };
    let (mut numbers, mut good) = (Vec::new(), Vec::new());
    for (number, ids) in encoded.into_iter().enumerate() {
        match ids {
            Ok(ids) => {
                numbers.push(number);
                good.push(ids);
            }
            Err(error) => {
                failures.add(&prompts[number], error);
                (0..n_texts).try_for_each(|text| texts.set(number * n_texts + text, None))?;
            }
        }
    }
    let written = match good.is_empty() {
        true => Ok(()),
        false => source.write(&good, options, &mut |number, news| {
            let News::End(text) = news else {
                return Ok(());
            };
            let prompt = numbers[number / n_texts];
            let text = match text {
                Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
                Err(error) => {
                    failures.add(&prompts[prompt], error);
                    None
                }
            };
            texts.set(prompt * n_texts + number % n_texts, text)
        }),
    };
    // What was made before an error of the device is printed all the same.
    texts.finish()?;
    match (written, failures.last) {
        (Err(error), Some(last)) => {
            print::error(&last);
            Err(error)
        }
        (Err(error), None) => Err(error),
        (Ok(()), Some(last)) => Err(last),
        (Ok(()), None) => Ok(()),
    }
}

/// What is wrong with prompts. All lines but the last are printed.
struct Failures {
    last: Option<anyhow::Error>,
    names_prompts: bool,
}

impl Failures {
    fn add(&mut self, prompt: &str, error: anyhow::Error) {
        let error = match self.names_prompts {
            true => error.context(format!("the prompt {:?}", shortened(prompt))),
            false => error,
        };
        if let Some(before) = self.last.replace(error) {
            print::error(&before);
        }
    }
}

/// The beginning of a prompt, for a line.
fn shortened(prompt: &str) -> String {
    const MOST: usize = 60;
    match prompt.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &prompt[..end]),
        None => prompt.to_owned(),
    }
}

/// Texts that are printed in their order, each once it and all before it are there.
struct InOrder<P> {
    /// What has become of each text; `None` while it is not known.
    texts: Vec<Option<Option<String>>>,
    n_printed: usize,
    print: P,
}

impl<P: FnMut(usize, &str) -> Result<()>> InOrder<P> {
    fn new(n: usize, print: P) -> Self {
        Self {
            texts: vec![None; n],
            n_printed: 0,
            print,
        }
    }

    /// A text is there, or there will be none.
    fn set(&mut self, number: usize, text: Option<String>) -> Result<()> {
        self.texts[number] = Some(text);
        while let Some(Some(text)) = self.texts.get_mut(self.n_printed) {
            if let Some(text) = text.take() {
                (self.print)(self.n_printed, &text)?;
            }
            self.n_printed += 1;
        }
        Ok(())
    }

    /// Prints the texts that are there, after some that are not.
    fn finish(mut self) -> Result<()> {
        for (number, text) in self.texts.iter().enumerate() {
            if let Some(Some(text)) = text {
                (self.print)(number, text)?;
            }
        }
        Ok(())
    }
}

/// Prints the text after a prompt while it grows.
fn stream(source: &TextSource, prompt: &[Vec<u32>], options: &TextOptions) -> Result<()> {
    let mut shown = Streamed::default();
    source.write(prompt, options, &mut |_, news| match news {
        News::Bytes(bytes) => shown.print(bytes),
        News::End(text) => text.map(drop),
    })?;
    print::text("\n")
}

impl Arguments {
    fn options(&self, sampling: Sampling) -> TextOptions {
        TextOptions {
            max_tokens: self.max_tokens,
            sampling,
            n_texts: self.samples,
            stop: self.stop.clone(),
            raw: self.raw,
        }
    }

    fn all_prompts(&self) -> Result<Vec<String>> {
        let mut prompts = self.prompt.clone();
        if let Some(path) = &self.prompts {
            let file = files::read_settings_text(path);
            let file = file.with_context(|| path.display().to_string())?;
            let lines = file.lines().filter(|line| !line.trim().is_empty());
            prompts.extend(lines.map(str::to_owned));
            ensure!(!prompts.is_empty(), "{}: holds no prompt", path.display());
        }
        ensure!(
            !prompts.is_empty(),
            "--prompt: there is no text to go on from or to answer: {}",
            next::generate(&self.model.path, "TEXT")
        );
        Ok(prompts)
    }
}

impl DrawingArguments {
    /// Checks the numbers.
    pub fn sampling(&self) -> Result<Sampling> {
        let &Self {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
        } = self;
        let sampling = Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
        };
        match sampling.fault() {
            None => Ok(sampling),
            Some((name, fault)) => bail!("--{}: {fault}", name.replace('_', "-")),
        }
    }
}
