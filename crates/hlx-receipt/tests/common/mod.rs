//! Receipts of no model.
#![allow(dead_code)]

use hlx_receipt::{
    Body, Chain, FinishReason, Information, ModelDigests, NamedFile, Receipt, ReceiptError,
    Sampling, Sha256, SigningKey, StepDigest, Whole,
};

pub fn key() -> SigningKey {
    SigningKey::of_seed(&[7; 32])
}

pub fn body(nonce: &str) -> Body {
    Body {
        specification: 2,
        arithmetic: "portable".to_owned(),
        place: None,
        model: ModelDigests {
            weights_sha256: Sha256::of(b"weights"),
            config_sha256: Sha256::of(b"config"),
            dtype: "f32".to_owned(),
            files: vec![NamedFile {
                name: "model.safetensors".to_owned(),
                sha256: Sha256::of(b"file"),
            }],
            tokenizer_sha256: Sha256::of(b"tokenizer"),
            chat_template_sha256: None,
        },
        request_sha256: Sha256::of(b"request"),
        nonce: Some(nonce.to_owned()),
        sampling: Sampling {
            seed: Whole(u64::MAX),
            index: 0,
            max_tokens: Whole(3),
            temperature: 0.7,
            top_p: 1.0,
            top_k: Whole(0),
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: vec![(3, -1.5)],
            stop: vec!["\n\u{e9}\u{1f600}".to_owned()],
            stop_token_ids: vec![0],
            grammar: None,
        },
        prompt_token_ids: vec![1, 2, 3],
        token_ids: vec![4, 5, 6],
        finish_reason: FinishReason::Length,
        response_sha256: Sha256::of(b"text"),
        logits_sha256: Sha256::of(b"logits"),
        step_logits_sha256: vec![
            StepDigest::default_of(1),
            StepDigest::default_of(2),
            StepDigest::default_of(3),
        ],
    }
}

/// Digests of nothing.
trait Numbered {
    fn default_of(n: u8) -> Self;
}

impl Numbered for StepDigest {
    fn default_of(n: u8) -> Self {
        Self([n; 8])
    }
}

pub fn information() -> Information {
    Information {
        created: Whole(1_764_000_000),
        device: "CPU".to_owned(),
        program: "hlx 0.1.0".to_owned(),
        model: "small".to_owned(),
        route: "/v1/completions".to_owned(),
        audit: None,
    }
}

/// A chain of `n` receipts.
pub fn chain(n: usize) -> Vec<Receipt> {
    let mut chain = Chain::new(key()).expect("begins");
    let next = |at: usize| {
        let added = chain.add::<ReceiptError>(body(&at.to_string()), information(), |_| Ok(()));
        added.expect("is added")
    };
    (0..n).map(next).collect()
}
