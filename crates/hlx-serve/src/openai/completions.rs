//! `/v1/completions`.

use axum::response::Response;
use hlx_train::engine::{Event, Logprobs, Token, Usage};
use serde_json::{Map, Value, json};

use super::{Frame, HARMLESS, Head, finish_reason, logprob, usage_of};
use crate::app::{Model, Shared, respond};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompts::{Prompt, Prompts};
use crate::sampling::{Drawing, max_tokens};
use crate::stream::{self, Chunk, Chunks};
use crate::waiting::{Answer, Answers, all_usage};

/// The likeliest tokens that are returned for a token at most.
const MOST_TOP: u64 = 100;
const KIND: &str = "text_completion";
/// OpenAI's number of tokens where none is said.
const USUAL_TOKENS: usize = 16;

/// What a request wants.
pub(crate) struct Wanted {
    model: String,
    prompts: Prompts,
    drawing: Drawing,
    logprobs: Option<usize>,
    echo: bool,
    most: usize,
}

/// Reads a request, without a model.
pub(crate) fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let model = fields.text_needed("model")?;
    let prompt = fields.take("prompt");
    let prompts = Prompts::read("prompt", fields.needed("prompt", prompt)?)?;
    let drawing = Drawing::take(&mut fields)?;
    let logprobs = fields.whole("logprobs", 0..=MOST_TOP)?;
    let echo = fields.flag("echo")?.unwrap_or(false);
    let most = max_tokens(&mut fields, "max_tokens")?.unwrap_or(USUAL_TOKENS);
    let best_of = fields.whole("best_of", 1..=u64::MAX)?;
    if best_of.is_some_and(|best_of| best_of != drawing.n as u64) {
        let reason = "is known here only as the value of n";
        return Err(ApiError::unsupported("best_of", reason));
    }
    if fields.take("suffix").is_some() {
        let reason = "is not known here: a text is continued at its end";
        return Err(ApiError::unsupported("suffix", reason));
    }
    fields.pass(&HARMLESS);
    fields.pass_if(&[("store", &[json!(false)])])?;
    fields.finish()?;
    Ok(Wanted {
        model,
        prompts,
        drawing,
        logprobs: logprobs.map(|n| n as usize),
        echo,
        most,
    })
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let Wanted {
        model,
        prompts,
        drawing,
        logprobs,
        echo,
        most,
    } = read(fields)?;
    let model = shared.model(&model)?;
    model.check_number(prompts.len(), drawing.n)?;
    let prompts = prompts.encode(&model).await?;
    let requests = prompts.iter().flat_map(|prompt| {
        let mut requests = drawing.requests(&prompt.ids, most, logprobs);
        if let Some(first) = requests.first_mut().filter(|_| echo) {
            first.prompt_logprobs = logprobs;
        }
        requests
    });
    let answers = Answers::start(&model, requests.collect(), &drawing.wish)?;
    let form = Form {
        head: Head::new("cmpl-", model, drawing.seed)?,
        echo,
        logprobs,
        prompts,
        drawing,
    };
    if form.drawing.streams {
        return Ok(stream::respond(Growing::new(form, answers)?));
    }
    let (mut all, receipts) = answers.collect().await?;
    let n = form.drawing.n;
    // The prompt's log-probabilities were computed once for all of its answers.
    for group in all.chunks_mut(n) {
        let prompt = group[0].prompt.clone();
        group
            .iter_mut()
            .for_each(|one| one.prompt.clone_from(&prompt));
    }
    let usages: Vec<Usage> = all.iter().map(|one| one.usage).collect();
    let choices: Vec<Value> = all
        .iter()
        .enumerate()
        .map(|(at, one)| form.choice(at, one))
        .collect();
    let usage = usage_of(all_usage(&usages, n));
    let mut body = form.head.body(KIND, json!(choices), Some(usage));
    receipts.add_to(&mut body);
    Ok(respond(&body))
}

/// What bodies of answers are made of.
struct Form {
    head: Head,
    echo: bool,
    logprobs: Option<usize>,
    prompts: Vec<Prompt>,
    drawing: Drawing,
}

impl Form {
    fn choice(&self, at: usize, answer: &Answer) -> Value {
        let prompt = &self.prompts[at / self.drawing.n];
        let text = match self.echo {
            true => prompt.text.clone() + &answer.text,
            false => answer.text.clone(),
        };
        let logprobs = self.logprobs.map(|_| {
            let mut list = TokenList::default();
            if self.echo {
                list.add_first(&self.head.model, prompt.ids[0]);
                answer
                    .prompt
                    .iter()
                    .for_each(|one| list.add(&self.head.model, one));
            }
            list.add_all(&self.head.model, &answer.tokens);
            // lm-evaluation-harness wants one token behind the prompt, whichever it is.
            list.add_all(&self.head.model, answer.end_token.as_slice());
            list.shown(self.logprobs)
        });
        let mut choice = json!({
            "index": at,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason(answer.finish.as_ref()),
        });
        if let Some(digest) = &answer.digest {
            choice["logits_sha256"] = json!(digest);
        }
        choice
    }
}

/// Tokens in the form of completions.
#[derive(Default)]
struct TokenList {
    tokens: Vec<Value>,
    logprobs: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<usize>,
    /// Characters so far.
    offset: usize,
}

impl TokenList {
    fn push(&mut self, model: &Model, id: u32, own: Value, top: Value) {
        let text = model.token_text(id);
        self.offsets.push(self.offset);
        self.offset += text.chars().count();
        self.tokens.push(json!(text));
        self.logprobs.push(own);
        self.top.push(top);
    }

    /// A prompt's first token, which nothing predicts.
    fn add_first(&mut self, model: &Model, id: u32) {
        self.push(model, id, Value::Null, Value::Null);
    }

    fn add(&mut self, model: &Model, one: &Logprobs) {
        let mut top = Map::new();
        // Of tokens with one text the likeliest counts.
        for &(id, value) in one.top.iter().rev() {
            top.insert(model.token_text(id), logprob(value));
        }
        self.push(model, one.id, logprob(one.own), Value::Object(top));
    }

    fn add_all(&mut self, model: &Model, tokens: &[Token]) {
        let known = tokens.iter().filter_map(|token| token.logprobs.as_ref());
        known.for_each(|one| self.add(model, one));
    }

    fn shown(self, n_top: Option<usize>) -> Value {
        let top = n_top.is_some_and(|n| n > 0).then_some(self.top);
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.logprobs,
            "top_logprobs": top,
            "text_offset": self.offsets,
        })
    }
}

/// Answers as chunks.
struct Growing {
    form: Form,
    answers: Answers,
    usages: Vec<Usage>,
    /// Characters of each answer so far, its echoed prompt included.
    offsets: Vec<usize>,
    frame: Frame,
    /// Chunks as JSON.
    ready: std::collections::VecDeque<String>,
    has_usage: bool,
    has_receipts: bool,
}

impl Growing {
    fn new(form: Form, answers: Answers) -> Result<Self, ApiError> {
        let usage = form.drawing.includes_usage.then_some(Value::Null);
        let n = form.prompts.len() * form.drawing.n;
        Ok(Self {
            frame: Frame::new(&form.head, KIND, usage)?,
            usages: vec![Usage::default(); n],
            offsets: vec![0; n],
            has_usage: !form.drawing.includes_usage,
            has_receipts: false,
            ready: std::collections::VecDeque::new(),
            form,
            answers,
        })
    }

    /// The chunk of a text.
    fn chunk(&self, at: usize, text: String, logprobs: &Value) -> String {
        let text = Value::String(text);
        self.frame.chunk(&format!(
            "{{\"index\":{at},\"text\":{text},\"logprobs\":{logprobs},\"finish_reason\":null}}"
        ))
    }

    fn logprobs(&mut self, at: usize, fill: impl FnOnce(&mut TokenList, &Model)) -> Value {
        if self.form.logprobs.is_none() {
            return Value::Null;
        }
        let mut list = TokenList {
            offset: self.offsets[at],
            ..TokenList::default()
        };
        fill(&mut list, &self.form.head.model);
        self.offsets[at] = list.offset;
        list.shown(self.form.logprobs)
    }

    fn chunk_of(&mut self, at: usize, event: Event) -> Option<String> {
        match event {
            Event::Prompt { logprobs } => {
                if !self.form.echo {
                    return None;
                }
                let prompt = &self.form.prompts[at / self.form.drawing.n];
                let (first, text) = (prompt.ids[0], prompt.text.clone());
                let tokens = self.logprobs(at, |list, model| {
                    list.add_first(model, first);
                    logprobs.iter().for_each(|one| list.add(model, one));
                });
                Some(self.chunk(at, text, &tokens))
            }
            Event::Piece { text, tokens } => {
                if text.is_empty() && self.form.logprobs.is_none() {
                    return None;
                }
                let tokens = self.logprobs(at, |list, model| list.add_all(model, &tokens));
                Some(self.chunk(at, text, &tokens))
            }
            Event::End {
                finish,
                end_token,
                usage,
                digest,
                ..
            } => {
                self.usages[at] = usage;
                let tokens = end_token.map_or(Value::Null, |token| {
                    self.logprobs(at, |list, model| list.add_all(model, &[token]))
                });
                let finish = finish_reason(Some(&finish));
                let mut choice =
                    json!({"index": at, "text": "", "logprobs": tokens, "finish_reason": finish});
                if let Some(digest) = digest {
                    choice["logits_sha256"] = json!(digest);
                }
                Some(self.frame.chunk(&choice.to_string()))
            }
        }
    }

    fn usage(&self) -> String {
        let usage = all_usage(&self.usages, self.form.drawing.n);
        let body = self.form.head.body(KIND, json!([]), Some(usage_of(usage)));
        body.to_string()
    }
}

impl Chunks for Growing {
    async fn next(&mut self) -> Option<Result<Chunk, ApiError>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(Ok(Chunk::of_json(ready)));
            }
            match self.answers.next().await {
                Some(Ok((at, event))) => {
                    let chunk = self.chunk_of(at, event);
                    self.ready.extend(chunk);
                }
                Some(Err(error)) => return Some(Err(error)),
                None if !self.has_usage => {
                    self.has_usage = true;
                    return Some(Ok(Chunk::of_json(self.usage())));
                }
                None if self.has_receipts => return None,
                None => {
                    self.has_receipts = true;
                    return self.form.head.last_chunk(KIND, &self.answers);
                }
            }
        }
    }
}
