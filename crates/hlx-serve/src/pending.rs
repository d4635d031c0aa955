//! Answers that are to have receipts, and the receipts that a body shows.

use hlx_receipt::{Information, Receipt, Whole};
use hlx_train::engine::{Finish, Request, Trace};
use hlx_train::receipts::{Answered, body_of};
use serde_json::{Value, json};

use crate::app::Model;
use crate::clock::now;
use crate::error::ApiError;
use crate::wish::Wish;

/// An answer that grows, whose receipt is made when it has ended.
#[derive(Debug)]
pub(crate) struct Pending {
    request: Request,
    text: String,
    /// Whether the answer says the digest of its logits.
    shows_digest: bool,
}

/// An answer that has ended.
struct Ended {
    request: Request,
    text: String,
    trace: Trace,
    digest: String,
    finish: Finish,
}

impl Pending {
    /// Notes a request, and lets the engine compute the digests that a receipt has.
    pub fn note(request: &mut Request) -> Self {
        let shows_digest = std::mem::replace(&mut request.digests, true);
        Self {
            request: request.clone(),
            text: String::new(),
            shows_digest,
        }
    }

    pub fn push(&mut self, text: &str) {
        self.text += text;
    }

    /// Makes the receipt of the answer, which has ended so. The digest is left where the request wants it.
    pub async fn end(
        &mut self,
        model: &Model,
        wish: &Wish,
        (finish, digest, trace): (&Finish, &mut Option<String>, &mut Option<Trace>),
    ) -> Result<Option<Receipt>, ApiError> {
        let ended = Ended {
            // The prompt may be long, and nothing needs it any more.
            request: std::mem::replace(&mut self.request, Request::new(Vec::new(), 0)),
            text: std::mem::take(&mut self.text),
            trace: trace.take().unwrap_or_default(),
            digest: digest.clone().unwrap_or_default(),
            finish: finish.clone(),
        };
        if !self.shows_digest {
            *digest = None;
        }
        let (model, wish) = (model.clone(), wish.clone());
        // Signatures and files take their time.
        let work = tokio::task::spawn_blocking(move || ended.receipt(&model, &wish));
        let done = work
            .await
            .map_err(|error| ApiError::internal(error.to_string()))?;
        done.map_err(|error| ApiError::internal(format!("the receipt: {error:#}")))
    }
}

impl Ended {
    fn receipt(&self, model: &Model, wish: &Wish) -> anyhow::Result<Option<Receipt>> {
        let Some(keeper) = model.keeper() else {
            return Ok(None);
        };
        let answered = Answered {
            trace: &self.trace,
            digest: &self.digest,
            finish: &self.finish,
            text: &self.text,
        };
        let body = body_of(&self.request, model.asked(wish), answered)?;
        let information = Information {
            created: Whole(now()),
            device: model.device().to_owned(),
            program: concat!("hlx ", env!("CARGO_PKG_VERSION")).to_owned(),
            model: model.id.clone(),
            route: wish.route.clone(),
            audit: model.audit(),
        };
        keeper.add(body, information).map(Some)
    }
}

/// The receipts that an answer shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown(Option<Vec<Value>>);

impl Shown {
    /// Those of a request's answers in their order.
    pub fn of(receipts: &[Option<Receipt>]) -> Result<Self, ApiError> {
        let values = receipts.iter().flatten().map(serde_json::to_value);
        let values = values.collect::<Result<Vec<_>, _>>();
        let values = values.map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(Self(Some(values)))
    }

    /// Adds `receipt`, or `receipts` of several answers, to a body.
    pub fn add_to(self, body: &mut Value) {
        let Some(mut all) = self.0 else {
            return;
        };
        match all.len() {
            1 => body["receipt"] = all.remove(0),
            _ => body["receipts"] = json!(all),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
