//! A receipt: a body, its place in a server's chain, information, and a signature over them.

use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::canonical::canonical;
use crate::digest::{Hex, Sha256};
use crate::format::{ALGORITHM, KIND, MOST_BYTES, VERSION};
use crate::key::{PublicKey, SigningKey};
use crate::number::Whole;
use crate::{ReceiptError, Result};

/// A receipt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// [`KIND`].
    #[serde(rename = "type")]
    kind: String,
    /// [`VERSION`].
    version: u32,
    /// The answer.
    pub body: Body,
    /// The receipt that the server completed before.
    pub link: Link,
    /// What the answer does not depend on.
    pub information: Information,
    /// Over all of this, without itself.
    pub signature: Signature,
}

/// The place of a receipt in a chain: the receipts of one run of a server, in the order of their completion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// A random number of the chain.
    pub chain: Hex<16>,
    /// The receipt's number, from 0.
    pub sequence: Whole,
    /// SHA-256 of the canonical JSON of the receipt before; none of the first.
    pub previous_receipt_sha256: Option<Sha256>,
}

/// What the server says besides: nothing of it can be checked by recomputing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Information {
    /// Seconds since 1970.
    pub created: Whole,
    /// The device, with its driver.
    pub device: String,
    /// The program and its version.
    pub program: String,
    /// The name that the model was asked for by.
    pub model: String,
    /// The route that was asked.
    pub route: String,
    /// SHA-256 of a certificate of an audit of the run that has trained the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Sha256>,
}

/// Who has signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// [`ALGORITHM`].
    pub algorithm: String,
    /// The key.
    pub public_key: PublicKey,
    /// 64 bytes (RFC 8032).
    pub value: Hex<64>,
}

/// What is signed: a receipt without its signature.
#[derive(Serialize)]
struct Unsigned<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    version: u32,
    body: &'a Body,
    link: &'a Link,
    information: &'a Information,
}

impl Receipt {
    /// Signs a body with its link and information.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn sign(
        key: &SigningKey,
        body: Body,
        link: Link,
        information: Information,
    ) -> Result<Self> {
        let message = message(&body, &link, &information)?;
        Ok(Self {
            kind: KIND.to_owned(),
            version: VERSION,
            body,
            link,
            information,
            signature: Signature {
                algorithm: ALGORITHM.to_owned(),
                public_key: key.public(),
                value: Hex(key.sign(&message)),
            },
        })
    }

    /// Reads a receipt. Nothing of it has been checked then but its form.
    ///
    /// # Errors
    /// [`ReceiptError::Form`], [`ReceiptError::Kind`] and [`ReceiptError::Version`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        /// What is looked at before the rest, which other versions may have in another form.
        #[derive(Deserialize)]
        struct Front {
            #[serde(rename = "type")]
            kind: serde_json::Value,
            version: serde_json::Value,
        }
        if bytes.len() > MOST_BYTES {
            let reason = format!("{} bytes, expected at most {MOST_BYTES}", bytes.len());
            return Err(ReceiptError::Form(reason));
        }
        let front: Front = serde_json::from_slice(bytes).map_err(ReceiptError::form)?;
        if front.kind != KIND {
            return Err(ReceiptError::Kind(shown(&front.kind)));
        }
        if front.version != VERSION {
            return Err(ReceiptError::Version(shown(&front.version)));
        }
        let receipt: Self = serde_json::from_slice(bytes).map_err(ReceiptError::form)?;
        receipt.check_form()?;
        Ok(receipt)
    }

    /// As [`Receipt::parse`], of JSON that was read.
    ///
    /// # Errors
    /// As [`Receipt::parse`].
    pub fn of_value(value: &serde_json::Value) -> Result<Self> {
        Self::parse(value.to_string().as_bytes())
    }

    fn check_form(&self) -> Result<()> {
        let (body, link) = (&self.body, &self.link);
        let (n, n_digests) = (body.token_ids.len(), body.step_logits_sha256.len());
        if n != n_digests {
            let reason =
                format!("token_ids has {n} tokens, and step_logits_sha256 {n_digests} digests");
            return Err(ReceiptError::Form(reason));
        }
        if body.prompt_token_ids.is_empty() {
            return Err(ReceiptError::form("prompt_token_ids is empty"));
        }
        if (link.sequence.0 == 0) != link.previous_receipt_sha256.is_none() {
            let reason = "link: the first receipt of a chain alone has no receipt before";
            return Err(ReceiptError::form(reason));
        }
        if self.signature.algorithm != ALGORITHM {
            let found = &self.signature.algorithm;
            let reason = format!("signature.algorithm is {found:?}, expected {ALGORITHM:?}");
            return Err(ReceiptError::Form(reason));
        }
        Ok(())
    }

    /// Checks that the receipt's own key has signed it.
    ///
    /// # Errors
    /// [`ReceiptError::Signature`].
    pub fn check_signature(&self) -> Result<()> {
        let message = message(&self.body, &self.link, &self.information)?;
        let Signature {
            public_key, value, ..
        } = &self.signature;
        match public_key.has_signed(&message, &value.0) {
            true => Ok(()),
            false => Err(ReceiptError::Signature(public_key.to_string())),
        }
    }

    /// Checks that the receipt says to be signed by this key.
    ///
    /// # Errors
    /// [`ReceiptError::OtherKey`].
    pub fn check_key(&self, expected: &PublicKey) -> Result<()> {
        let found = &self.signature.public_key;
        match found == expected {
            true => Ok(()),
            false => Err(ReceiptError::OtherKey {
                found: found.to_string(),
                expected: expected.to_string(),
            }),
        }
    }

    /// The canonical JSON of the receipt: what is written to files.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        canonical(self)
    }

    /// SHA-256 of the canonical JSON, by which the next receipt names this one.
    ///
    /// # Errors
    /// As [`Receipt::to_bytes`].
    pub fn sha256(&self) -> Result<Sha256> {
        Ok(Sha256::of(&self.to_bytes()?))
    }
}

impl Body {
    /// SHA-256 of the canonical JSON of the body: equal for equal answers to one request, whoever has computed them.
    ///
    /// # Errors
    /// A number that is not finite.
    pub fn sha256(&self) -> Result<Sha256> {
        Ok(Sha256::of(&canonical(self)?))
    }
}

fn message(body: &Body, link: &Link, information: &Information) -> Result<Vec<u8>> {
    canonical(&Unsigned {
        kind: KIND,
        version: VERSION,
        body,
        link,
        information,
    })
}

/// The beginning of a value, for a line.
fn shown(value: &serde_json::Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
