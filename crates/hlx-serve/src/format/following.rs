//! Guides by the crate llguidance.

use std::sync::Arc;

use hlx_nn::CausalModel;
use hlx_train::engine::{Guide, Guides};
use hlx_train::generate::TextModel;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use super::{Form, Grammar};
use crate::error::ApiError;

/// What makes guides for a model.
pub(crate) struct Formats {
    factory: Arc<ParserFactory>,
    end_tokens: Vec<u32>,
}

impl std::fmt::Debug for Formats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Formats")
    }
}

impl Formats {
    /// Reads the bytes of a model's tokens.
    ///
    /// # Errors
    /// A model without an end token, and one whose tokens do not make a form.
    pub fn new(text: &TextModel) -> Result<Self, String> {
        let vocabulary = text.model.vocabulary();
        let end_tokens: Vec<u32> = text.end_tokens.clone();
        let in_range = end_tokens.iter().find(|&&end| (end as usize) < vocabulary);
        let Some(&end) = in_range else {
            return Err("the model has no token that ends an answer".to_owned());
        };
        let bytes_of = |id: u32| match end_tokens.contains(&id) {
            // No text: the marker is a byte that no UTF-8 has.
            true => [
                &[TokTrie::SPECIAL_TOKEN_MARKER][..],
                format!("<end{id}>").as_bytes(),
            ]
            .concat(),
            false => text.tokenizer.token_bytes(id).unwrap_or_default(),
        };
        let words: Vec<Vec<u8>> = (0..vocabulary as u32).map(bytes_of).collect();
        let info = TokRxInfo::new(vocabulary as u32, end);
        let trie = TokTrie::from(&info, &words);
        let env: llguidance::toktrie::TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&env).map_err(|error| error.to_string())?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Self {
            factory: Arc::new(factory),
            end_tokens,
        })
    }

    /// Guides to the grammar of a receipt.
    ///
    /// # Errors
    /// A grammar that is none.
    pub fn guides_to(&self, grammar: &hlx_receipt::Grammar) -> Result<Guides, String> {
        let form = Form {
            path: "grammar".to_owned(),
            grammar: Grammar::of_stated(grammar)?,
        };
        self.guides(form).map_err(|error| error.message)
    }

    /// Guides to answers of a form.
    ///
    /// # Errors
    /// A schema that is none, or larger than the bounds allow.
    pub fn guides(&self, form: Form) -> Result<Guides, ApiError> {
        let path = form.path.clone();
        let grammar = form.grammar.stated();
        let (factory, end_tokens) = (Arc::clone(&self.factory), self.end_tokens.clone());
        let make = move || -> Result<Box<dyn Guide>, String> {
            let grammar = match &form.grammar {
                Grammar::Schema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
                Grammar::Lark(grammar) => TopLevelGrammar::from_lark(grammar.clone()),
            };
            let matcher = Matcher::new(factory.create_parser(grammar));
            match matcher.get_error() {
                Some(error) => Err(one_line(&error)),
                None => Ok(Box::new(Following {
                    matcher,
                    end_tokens: end_tokens.clone(),
                })),
            }
        };
        // The first is made here, so that what is wrong is said before the answer.
        make().map_err(|reason| ApiError::of_parameter(&path, reason))?;
        Ok(Guides::new(grammar, make))
    }
}

/// The first line of a message.
fn one_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

/// An answer that follows a grammar.
struct Following {
    matcher: Matcher,
    end_tokens: Vec<u32>,
}

impl Guide for Following {
    fn restrict(&mut self, logits: &mut [f32]) -> Result<(), String> {
        let mask = self.matcher.compute_mask();
        let mask = mask.map_err(|error| one_line(&error.to_string()))?;
        // One end token is known to the grammar, and stands for all of them.
        let ends = self.end_tokens.iter().any(|&end| mask.is_allowed(end));
        for (id, logit) in logits.iter_mut().enumerate() {
            let id = id as u32;
            let may_come = match self.end_tokens.contains(&id) {
                true => ends,
                false => mask.is_allowed(id),
            };
            if !may_come {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    fn accept(&mut self, id: u32) -> Result<(), String> {
        let accepted = self.matcher.consume_token(id);
        accepted.map_err(|error| one_line(&error.to_string()))
    }

    fn has_ended(&self) -> bool {
        self.matcher.is_stopped()
    }
}
