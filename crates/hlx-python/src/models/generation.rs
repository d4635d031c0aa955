//! Texts and tokens after prompts.

use hlx_train::companions::Companions;
use hlx_train::generate::{Drawn, TokenGeneration, Wanted, check_settings, generate_tokens};
use hlx_train::sample::Sampling;
use hlx_train::text_source::{TextOptions, TextSource};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::held::{Held, PyLanguageModel};
use super::stream::{Event, PyStream};
use crate::error::{of_anyhow, value_error};

/// The options of a call, by their names in Python.
pub fn options_of(operation: &str, given: &Bound<'_, PyDict>) -> PyResult<TextOptions> {
    let usual = Sampling::default();
    let sampling = Sampling {
        temperature: number(given, "temperature", usual.temperature)?,
        top_k: number(given, "top_k", usual.top_k)?,
        top_p: number(given, "top_p", usual.top_p)?,
        min_p: number(given, "min_p", usual.min_p)?,
        repetition_penalty: number(given, "repetition_penalty", usual.repetition_penalty)?,
        seed: number(given, "seed", usual.seed)?,
    };
    if let Some((name, fault)) = sampling.fault() {
        return Err(value_error(format!("{operation}: {name}: {fault}")));
    }
    Ok(TextOptions {
        max_tokens: number(given, "max_new_tokens", 256)?,
        sampling,
        n_texts: number(given, "num_return_sequences", 1)?,
        stop: number(given, "stop", Vec::new())?,
        raw: number(given, "raw", false)?,
    })
}

fn number<'py, T>(given: &Bound<'py, PyDict>, name: &str, usual: T) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match given.get_item(name)? {
        Some(value) => value.extract(),
        None => Ok(usual),
    }
}

/// Checks the settings of generation in the folder that a model was read from.
pub fn check_folder(held: &Held, options: &TextOptions) -> PyResult<()> {
    // The metadata of a GGUF file state tokens, which are no settings.
    let Some(folder) = held.folder.as_ref().filter(|path| !path.is_file()) else {
        return Ok(());
    };
    let folder = &Companions::Folder(folder.clone());
    let wanted = Wanted {
        sampling: options.sampling,
        max_tokens: options.max_tokens,
        n_texts: options.n_texts,
    };
    check_settings(folder, &wanted).map_err(of_anyhow)
}

/// For tokens: the tokens that end a sequence, and whether it goes on past the model's positions.
fn token_options(source: &TextSource, options: &TextOptions, slides: bool) -> TokenGeneration {
    TokenGeneration {
        n_texts: options.n_texts,
        slides,
        ..TokenGeneration::new(
            options.max_tokens,
            options.sampling,
            source.end_tokens().to_vec(),
        )
    }
}

#[pymethods]
impl PyLanguageModel {
    /// The tokens of a prompt, as the model's documents begin.
    fn encode_prompt(&self, prompt: &str, raw: bool) -> PyResult<Vec<u32>> {
        self.held().source.encode(prompt, raw).map_err(of_anyhow)
    }

    /// The texts after prompts of token ids.
    fn generate(&self, prompts: Vec<Vec<u32>>, options: &Bound<'_, PyDict>) -> PyResult<PyStream> {
        let options = options_of("generate", options)?;
        let held = self.held();
        check_folder(&held, &options)?;
        let device = held.device()?;
        PyStream::start("generate", device, move |teller| {
            let tell = &mut |number, news: hlx_train::generate::News<'_>| teller.news(number, news);
            held.source.write(&prompts, &options, tell)
        })
    }

    /// The tokens after prompts of token ids.
    fn generate_tokens(
        &self,
        prompts: Vec<Vec<u32>>,
        options: &Bound<'_, PyDict>,
        stop_tokens: Option<Vec<u32>>,
    ) -> PyResult<PyStream> {
        let options = options_of("generate_tokens", options)?;
        let held = self.held();
        let device = held.device()?;
        let mut options = token_options(&held.source, &options, false);
        if let Some(stop_tokens) = stop_tokens {
            options.stop_tokens = stop_tokens;
        }
        PyStream::start("generate_tokens", device, move |teller| {
            let model = held.source.model();
            let take = &mut |number, drawn| {
                teller.tell(match drawn {
                    Drawn::Token(token) => Event::Token(number, token),
                    Drawn::End => Event::End(number, None),
                    Drawn::Failed => Event::End(number, Some(Drawn::failure().to_string())),
                })?;
                Ok(false)
            };
            generate_tokens(model, &prompts, &options, take).map(drop)
        })
    }
}
