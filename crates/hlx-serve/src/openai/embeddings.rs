//! `/v1/embeddings`: the mean of the last hidden state over the tokens of a text, divided by its Euclidean norm.

use axum::response::Response;
use serde_json::json;
use tokio::sync::oneshot;

use super::{HARMLESS, shortest};
use crate::app::{Shared, respond};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompts::Prompts;

/// What a request wants.
pub(crate) struct Wanted {
    model: String,
    inputs: Prompts,
    dimensions: Option<u64>,
    is_base64: bool,
}

/// Reads a request, without a model.
pub(crate) fn read(mut fields: Fields) -> Result<Wanted, ApiError> {
    let model = fields.text_needed("model")?;
    let input = fields.take("input");
    let inputs = Prompts::read("input", fields.needed("input", input)?)?;
    let format = fields.text("encoding_format")?;
    let is_base64 = match format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let reason = format!("{other:?} is not known here, expected float or base64");
            return Err(ApiError::unsupported("encoding_format", reason));
        }
    };
    let dimensions = fields.whole("dimensions", 1..=u64::MAX)?;
    fields.pass(&HARMLESS);
    fields.finish()?;
    Ok(Wanted {
        model,
        inputs,
        dimensions,
        is_base64,
    })
}

pub(crate) async fn answer(shared: Shared, fields: Fields) -> Result<Response, ApiError> {
    let wanted = read(fields)?;
    let model = shared.model(&wanted.model)?;
    let width = model.text().model.config().width as u64;
    if let Some(other) = wanted.dimensions.filter(|&n| n != width) {
        let reason = format!("{other} is not known here: an embedding has {width} numbers");
        return Err(ApiError::unsupported("dimensions", reason));
    }
    let encoded = wanted.inputs.encode(&model).await?;
    let encoded: Vec<Vec<u32>> = encoded.into_iter().map(|prompt| prompt.ids).collect();
    let n_tokens: usize = encoded.iter().map(Vec::len).sum();
    let mut data = Vec::new();
    for (index, tokens) in encoded.into_iter().enumerate() {
        let (sender, receiver) = oneshot::channel();
        // Nobody may wait any more.
        let ticket = model
            .engine
            .embed(tokens, Box::new(|found| _ = sender.send(found)))?;
        let found = receiver.await;
        let found =
            found.map_err(|_| ApiError::internal("the engine has ended before the answer"))?;
        drop(ticket);
        let found = found.map_err(ApiError::internal)?;
        let embedding = match wanted.is_base64 {
            true => json!(base64(&found)),
            false => found.iter().map(|&value| json!(shortest(value))).collect(),
        };
        data.push(json!({"object": "embedding", "index": index, "embedding": embedding}));
    }
    Ok(respond(&json!({
        "object": "list",
        "model": model.id,
        "data": data,
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    })))
}

/// f32 as little-endian bytes in base64 (RFC 4648).
fn base64(values: &[f32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three
            .iter()
            .fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
        let word = word << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = (word >> (18 - 6 * place)) & 63;
            match place <= three.len() {
                true => text.push(char::from(DIGITS[digit as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let values = |bytes: [u8; 4]| [f32::from_le_bytes(bytes)];
        assert_eq!(base64(&values(*b"foob")), "Zm9vYg==");
        let two = [f32::from_le_bytes(*b"hell"), f32::from_le_bytes(*b"o wo")];
        assert_eq!(base64(&two), "aGVsbG8gd28=");
        let three: Vec<f32> = [*b"abcd", *b"efgh", *b"ijkl"]
            .map(f32::from_le_bytes)
            .to_vec();
        assert_eq!(base64(&three), "YWJjZGVmZ2hpamts");
        assert_eq!(base64(&[]), "");
    }
}
