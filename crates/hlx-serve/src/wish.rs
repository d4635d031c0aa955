//! What a request says of its receipt.

use axum::http::HeaderMap;
use hlx_receipt::Sha256;

use crate::error::ApiError;

/// The header of those who cannot add a field.
const HEADER: &str = "x-hlx-receipt";
/// The bytes of a nonce at most.
const LONGEST_NONCE: usize = 256;

/// What a request wants.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Whether the receipt is in the answer.
    pub is_shown: bool,
    /// What the client tells the receipt by.
    pub nonce: Option<String>,
    /// SHA-256 of the request's body.
    pub request_sha256: Sha256,
    /// The route.
    pub route: String,
}

/// How a request came.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    request_sha256: Sha256,
    route: String,
    /// What the header says; taken by those who give receipts.
    header: Option<String>,
}

impl Sent {
    /// Reads what is said beside a body.
    pub fn new(route: &str, headers: &HeaderMap, body: &[u8]) -> Result<Self, ApiError> {
        let header = headers.get(HEADER).map(|value| value.to_str());
        let header = header.transpose().map_err(|_| {
            let reason = "is no text of ASCII, expected 1 or a nonce";
            ApiError::of_parameter(HEADER, reason)
        })?;
        let header = header
            .map(str::trim)
            .filter(|&text| !["", "0", "false"].contains(&text));
        Ok(Self {
            request_sha256: Sha256::of(body),
            route: route.to_owned(),
            header: header.map(str::to_owned),
        })
    }

    /// Fails where the header wants a receipt that nobody has taken note of.
    pub fn finish(&self) -> Result<(), ApiError> {
        match &self.header {
            None => Ok(()),
            Some(_) => Err(ApiError::unsupported(
                HEADER,
                format!("{} gives no receipts", self.route),
            )),
        }
    }

    /// Takes what the header says.
    pub fn take_header(&mut self) -> Option<String> {
        self.header.take()
    }

    /// The wish of a request, whose receipt is in the answer if it is shown.
    ///
    /// # Errors
    /// A nonce that is empty or too long.
    pub fn wish(&self, is_shown: bool, nonce: Option<String>) -> Result<Wish, ApiError> {
        let n = nonce.as_ref().map_or(1, String::len);
        if !(1..=LONGEST_NONCE).contains(&n) {
            let reason = format!("has {n} bytes, expected 1 to {LONGEST_NONCE}");
            return Err(ApiError::of_parameter("receipt.nonce", reason));
        }
        Ok(Wish {
            is_shown,
            nonce,
            request_sha256: self.request_sha256,
            route: self.route.clone(),
        })
    }
}
