//! The reader of receipts.

use hlx_receipt::{
    Body, FinishReason, Information, Link, ModelDigests, Receipt, ReceiptError, Sampling, Sha256,
    SigningKey, StepDigest, Whole, check_chains,
};

/// Reads a receipt, and checks what needs no model. One that is read is written as it was meant, and read again.
pub fn receipt(data: &[u8]) {
    let Ok(receipt) = Receipt::parse(data) else {
        return;
    };
    let bytes = receipt.to_bytes().expect("numbers of JSON are finite");
    let again = Receipt::parse(&bytes).expect("what is written is read");
    assert_eq!(again.to_bytes().ok(), Some(bytes));
    let signed = [
        receipt.check_signature().is_ok(),
        again.check_signature().is_ok(),
    ];
    assert_eq!(signed[0], signed[1]);
    let found = check_chains(&[receipt, again]).expect("are checked");
    assert_eq!((found.len(), found[0].n_receipts), (1, 1));
}

/// First inputs: a receipt, and one that is cut.
///
/// # Errors
/// A number that is not finite; it is not expected to fail.
pub fn receipt_seeds() -> Result<Vec<(&'static str, Vec<u8>)>, ReceiptError> {
    let body = Body {
        specification: 1,
        arithmetic: "portable".to_owned(),
        place: None,
        model: ModelDigests {
            weights_sha256: Sha256::of(b"w"),
            config_sha256: Sha256::of(b"c"),
            dtype: "f32".to_owned(),
            files: Vec::new(),
            tokenizer_sha256: Sha256::of(b"t"),
            chat_template_sha256: None,
        },
        request_sha256: Sha256::of(b"r"),
        nonce: Some("n".to_owned()),
        sampling: Sampling {
            seed: Whole(u64::MAX),
            index: 0,
            max_tokens: Whole(1),
            temperature: 0.7,
            top_p: 1.0,
            top_k: Whole(0),
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: vec![(1, 1e-9)],
            stop: vec!["\u{1f600}\n".to_owned()],
            stop_token_ids: vec![0],
            grammar: None,
        },
        prompt_token_ids: vec![1],
        token_ids: vec![2],
        finish_reason: FinishReason::Length,
        response_sha256: Sha256::of(b"a"),
        logits_sha256: Sha256::of(b"l"),
        step_logits_sha256: vec![StepDigest::from([7; 8])],
    };
    let information = Information {
        created: Whole(0),
        device: "d".to_owned(),
        program: "p".to_owned(),
        model: "m".to_owned(),
        route: "r".to_owned(),
        audit: None,
    };
    let link = Link {
        chain: [3; 16].into(),
        sequence: Whole(0),
        previous_receipt_sha256: None,
    };
    let receipt = Receipt::sign(&SigningKey::of_seed(&[1; 32]), body, link, information)?;
    let whole = receipt.to_bytes()?;
    let cut = whole[..whole.len() / 2].to_vec();
    Ok(vec![("whole", whole), ("cut", cut)])
}
