//! `/v1/embeddings`: the mean of the last hidden state over the tokens of a text, divided by its Euclidean norm.

use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{HARMLESS, shortest};
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::routes::{Shared, respond};

/// Texts of a request at most.
const MOST_TEXTS: usize = 2048;

pub(crate) async fn answer(shared: Shared, mut fields: Fields) -> Result<Response, ApiError> {
    let id = fields.text("model")?;
    let model = shared.model(&fields.needed("model", id)?)?;
    let input = fields.take("input");
    let inputs = match fields.needed("input", input)? {
        Value::Array(all) if !all.first().is_some_and(Value::is_number) => all,
        one => vec![one],
    };
    if inputs.is_empty() || inputs.len() > MOST_TEXTS {
        let reason = format!("has {} texts, expected 1 to {MOST_TEXTS}", inputs.len());
        return Err(ApiError::of_parameter("input", reason));
    }
    let format = fields
        .text("encoding_format")?
        .unwrap_or_else(|| "float".to_owned());
    if !["float", "base64"].contains(&format.as_str()) {
        let reason = format!("{format:?} is not known here, expected float or base64");
        return Err(ApiError::unsupported("encoding_format", reason));
    }
    let width = model.text().model.config().width as u64;
    if let Some(wanted) = fields
        .whole("dimensions", 1..=u64::MAX)?
        .filter(|&n| n != width)
    {
        let reason = format!("{wanted} is not known here: an embedding has {width} numbers");
        return Err(ApiError::unsupported("dimensions", reason));
    }
    fields.pass(&HARMLESS);
    fields.finish()?;
    let encoded = {
        let model = model.clone();
        let work = tokio::task::spawn_blocking(move || {
            let inputs = inputs.iter().enumerate();
            let read = inputs.map(|(at, input)| {
                let path = format!("input[{at}]");
                match input {
                    Value::String(text) => model.encode(&path, text),
                    Value::Array(all) => {
                        let ids = all
                            .iter()
                            .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
                        let ids: Option<Vec<u32>> = ids.collect();
                        let ids = ids.ok_or_else(|| wrong(&path, input, "an array of tokens"))?;
                        model.check(&path, &ids)?;
                        Ok(ids)
                    }
                    other => Err(wrong(&path, other, "a string or an array of tokens")),
                }
            });
            read.collect::<Result<Vec<_>, ApiError>>()
        });
        let done = work.await;
        done.map_err(|error| ApiError::internal(error.to_string()))??
    };
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
        let embedding = match format.as_str() {
            "base64" => json!(base64(&found)),
            _ => json!(
                found
                    .iter()
                    .map(|value| shortest(*value))
                    .collect::<Vec<_>>()
            ),
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
