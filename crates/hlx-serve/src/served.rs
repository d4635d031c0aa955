//! A model as it is served.

use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use hlx_core::SPECIFICATION;
use hlx_nn::CausalModel;
use hlx_receipt::{Grammar, ModelDigests, NamedFile, Place, Sha256};
use hlx_text::ChatTemplate;
use hlx_train::engine::{Engine, Guides, Limits};
use hlx_train::generate::TextModel;
use hlx_train::receipts::{Asked, digests_of};
use hlx_train::run::place;

use crate::clock::now;
use crate::error::ApiError;
use crate::format::Formats;
use crate::tools::Style;
use crate::wish::Wish;

/// A model under its name, with the engine that answers for it.
#[derive(Debug)]
pub struct Served {
    /// The name that requests say.
    pub id: String,
    pub(crate) engine: Engine,
    /// Seconds since 1970 when it was opened.
    pub(crate) created: u64,
    template: Option<ChatTemplate>,
    /// How the template writes calls of functions.
    style: Option<Style>,
    formats: OnceLock<Result<Formats, String>>,
    digests: ModelDigests,
    arithmetic: &'static str,
    /// Where answers are computed, of an arithmetic whose bits depend on that.
    place: Option<Place>,
    device: String,
    /// SHA-256 of a certificate of an audit of the model's training.
    audit: Option<Sha256>,
}

impl Served {
    /// Starts the engine of a model.
    ///
    /// # Errors
    /// A chat template with a fault of syntax, and as [`Engine::start`].
    pub fn start(id: &str, text: TextModel, limits: Limits) -> Result<Self> {
        Self::start_on(id, vec![text], limits)
    }

    /// Starts the engine of a model on several devices, on each of which it was opened.
    ///
    /// # Errors
    /// A chat template with a fault of syntax, and as [`Engine::start_on`].
    pub fn start_on(id: &str, texts: Vec<TextModel>, limits: Limits) -> Result<Self> {
        let texts: Vec<Arc<TextModel>> = texts.into_iter().map(Arc::new).collect();
        let text = texts.first().with_context(|| format!("{id}: no device"))?;
        let device = text.model.device()?;
        let digests = digests_of(text, Vec::new(), text.tokenizer.chat_template())?;
        let devices = texts.iter().map(|text| text.model.device());
        let devices = devices.map(|device| Ok(device?.info().to_string()));
        let devices = devices.collect::<Result<Vec<_>>>()?.join(", ");
        let place = one_place(id, &texts)?;
        let template = text.tokenizer.chat_template().is_some();
        let template = template.then(|| ChatTemplate::of(&text.tokenizer));
        let source = text.tokenizer.chat_template();
        Ok(Self {
            style: source.and_then(Style::of_template),
            id: id.to_owned(),
            template: template.transpose()?,
            engine: Engine::start_on(texts, limits).with_context(|| id.to_owned())?,
            created: now(),
            formats: OnceLock::new(),
            digests,
            arithmetic: device.arithmetic().name(),
            place,
            device: devices,
            audit: None,
        })
    }

    /// The same with the digests of the files that the model was read from, for receipts.
    #[must_use]
    pub fn with_files(mut self, files: Vec<NamedFile>) -> Self {
        self.digests.files = files;
        self
    }

    /// The same with a certificate of an audit of its training, which receipts name by its SHA-256.
    #[must_use]
    pub fn with_audit(mut self, certificate: Sha256) -> Self {
        self.audit = Some(certificate);
        self
    }

    /// SHA-256 of the certificate of its training, if it has one.
    pub(crate) fn audit(&self) -> Option<Sha256> {
        self.audit
    }

    /// The same with another chat template.
    ///
    /// # Errors
    /// A template with a fault of syntax.
    pub fn with_template(self, source: &str) -> Result<Self> {
        let template = ChatTemplate::with_tokens_of(source, &self.text().tokenizer)?;
        Ok(Self {
            template: Some(template),
            style: Style::of_template(source),
            digests: ModelDigests {
                chat_template_sha256: Some(Sha256::of(source.as_bytes())),
                ..self.digests.clone()
            },
            ..self
        })
    }

    /// The model with its tokenizer.
    pub(crate) fn text(&self) -> &TextModel {
        self.engine.text()
    }

    /// The model's chat template, if it has one.
    pub(crate) fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// How the template writes calls of functions, if that is known here.
    pub(crate) fn style(&self) -> Option<Style> {
        self.style
    }

    /// The model by its digests.
    pub fn digests(&self) -> &ModelDigests {
        &self.digests
    }

    /// What answers depend on besides the request.
    pub(crate) fn fingerprint(&self) -> String {
        let weights = self.digests.weights_sha256;
        format!("hlx-specification-{SPECIFICATION}-{weights}")
    }

    /// The device that answers are computed on.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// What a receipt says of a request besides what the engine gets.
    pub(crate) fn asked<'a>(&'a self, wish: &'a Wish) -> Asked<'a> {
        Asked {
            model: &self.digests,
            arithmetic: self.arithmetic,
            place: self.place.as_ref(),
            end_tokens: &self.text().end_tokens,
            capacity: self.engine.capacity(),
            request_sha256: wish.request_sha256,
            nonce: wish.nonce.as_deref(),
        }
    }

    /// The tokens of a prompt that is a text.
    pub(crate) fn encode(&self, name: &str, prompt: &str) -> Result<Vec<u32>, ApiError> {
        let text = self.text();
        let ids = text.preparation.prompt(&text.tokenizer, prompt, false);
        let ids = ids.map_err(|error| ApiError::of_parameter(name, error))?;
        self.check(name, &ids)?;
        Ok(ids)
    }

    /// Checks the tokens of a prompt, so that the message names the request's own parameter.
    pub(crate) fn check(&self, name: &str, ids: &[u32]) -> Result<(), ApiError> {
        let (capacity, vocabulary) = (self.engine.capacity(), self.text().model.vocabulary());
        if ids.is_empty() {
            return Err(ApiError::of_parameter(name, "the prompt is empty"));
        }
        if ids.len() > capacity {
            let reason = format!(
                "the prompt has {} tokens, and the model {} takes {capacity}",
                ids.len(),
                self.id
            );
            let error = ApiError::of_parameter(name, reason);
            return Err(error.with_code("context_length_exceeded"));
        }
        match ids.iter().find(|&&id| id as usize >= vocabulary) {
            None => Ok(()),
            Some(id) => Err(ApiError::of_parameter(
                name,
                format!("the token {id} is outside of the vocabulary of {vocabulary}"),
            )),
        }
    }

    /// What restricts answers to a form; made for the first of them.
    pub(crate) fn formats(&self) -> Result<&Formats, ApiError> {
        let formats = self.formats.get_or_init(|| Formats::new(self.text()));
        let wrong = |reason: &String| ApiError::of_parameter("response_format", reason);
        formats.as_ref().map_err(wrong)
    }

    /// What restricts answers to the grammar of a receipt.
    pub(crate) fn guides_to(&self, grammar: &Grammar) -> Result<Guides, String> {
        let formats = self.formats.get_or_init(|| Formats::new(self.text()));
        formats.as_ref().map_err(String::clone)?.guides_to(grammar)
    }

    /// The text of a token by itself; a part of a character is U+FFFD.
    pub(crate) fn token_text(&self, id: u32) -> String {
        self.text().tokenizer.decode_all(&[id]).unwrap_or_default()
    }
}

/// Where all devices of a model compute, of an arithmetic whose bits depend on that.
///
/// # Errors
/// Devices of several models or with several drivers, whose answers would not have the same bits.
fn one_place(id: &str, texts: &[Arc<TextModel>]) -> Result<Option<Place>> {
    let mut found = None;
    for (number, text) in texts.iter().enumerate() {
        let device = text.model.device()?;
        let here = place::of(device.arithmetic(), &device);
        ensure!(
            number == 0 || here == found,
            "{id}: arithmetic {} has the same bits on one device model with one driver alone, and the devices differ",
            device.arithmetic()
        );
        found = here;
    }
    Ok(found)
}
