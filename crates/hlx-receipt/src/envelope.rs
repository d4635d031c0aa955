//! DSSE envelopes: bytes of a stated type with Ed25519 signatures over both
//! (<https://github.com/secure-systems-lab/dsse>, protocol version 1).

use serde::{Deserialize, Serialize};

use crate::digest::Hex;
use crate::key::{PublicKey, SigningKey};
use crate::{ReceiptError, Result};

/// A signed payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// What the payload is.
    #[serde(rename = "payloadType")]
    pub payload_type: String,
    /// The payload in base64.
    payload: String,
    /// Who has signed it: one signature.
    signatures: [EnvelopeSignature; 1],
}

/// A signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    /// The public key, as `hlx key show` prints it.
    keyid: PublicKey,
    /// 64 bytes in base64.
    sig: String,
}

impl Envelope {
    /// Signs a payload.
    pub fn sign(key: &SigningKey, payload_type: &str, payload: &[u8]) -> Self {
        let signature = key.sign(&signed_bytes(payload_type, payload));
        Self {
            payload_type: payload_type.to_owned(),
            payload: base64::encode(payload),
            signatures: [EnvelopeSignature {
                keyid: key.public(),
                sig: base64::encode(signature),
            }],
        }
    }

    /// Reads an envelope's JSON. Nothing of it has been checked then but its form.
    ///
    /// # Errors
    /// [`ReceiptError::Certificate`] for another form, and for more than one signature.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let read = serde_json::from_slice(bytes);
        read.map_err(|error| ReceiptError::certificate(format!("no envelope: {error}")))
    }

    /// The payload.
    ///
    /// # Errors
    /// [`ReceiptError::Certificate`] for what is not base64 with its padding.
    pub fn payload(&self) -> Result<Vec<u8>> {
        decoded("payload", &self.payload)
    }

    /// The key that the envelope says to be signed by.
    pub fn key(&self) -> &PublicKey {
        &self.signatures[0].keyid
    }

    /// Checks the signature of the envelope's own key.
    ///
    /// # Errors
    /// [`ReceiptError::CertificateSignature`], and [`ReceiptError::Certificate`] for what is not base64.
    pub fn check_signature(&self) -> Result<()> {
        let [EnvelopeSignature { keyid, sig }] = &self.signatures;
        let wrong = || ReceiptError::CertificateSignature(keyid.to_string());
        let signature: [u8; 64] = decoded("sig", sig)?.try_into().map_err(|_| wrong())?;
        let message = signed_bytes(&self.payload_type, &self.payload()?);
        match keyid.has_signed(&message, &Hex(signature).0) {
            true => Ok(()),
            false => Err(wrong()),
        }
    }

    /// The envelope's JSON.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        crate::canonical(self)
    }
}

/// What is signed: DSSE's pre-authentication encoding (PAE).
fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let front = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [front.as_bytes(), payload].concat()
}

/// Base64 with one spelling of each value.
fn decoded(name: &str, text: &str) -> Result<Vec<u8>> {
    let bytes = base64::decode(text).ok();
    let bytes = bytes.filter(|bytes| base64::encode(bytes) == text);
    bytes.ok_or_else(|| ReceiptError::certificate(format!("{name} is no base64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of DSSE's specification (protocol.md, "Test vectors").
    #[test]
    fn the_bytes_that_are_signed_are_those_of_the_specification() {
        let found = signed_bytes("http://example.com/HelloWorld", b"hello world");
        let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(found, expected);
    }

    #[test]
    fn another_byte_of_payload_type_key_or_signature_is_found() {
        let key = SigningKey::of_seed(&[7; 32]);
        let bytes = Envelope::sign(&key, "text", b"what is said")
            .to_bytes()
            .expect("writes");
        let passes = |bytes: &[u8]| {
            let envelope = Envelope::parse(bytes)?;
            envelope.check_signature()
        };
        assert_eq!(passes(&bytes), Ok(()));
        for at in 0..bytes.len() {
            assert!(passes(&bytes[..at]).is_err(), "{at} bytes");
            for flip in [1, 2, 4, 8, 16, 32, 64] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                assert!(passes(&changed).is_err(), "byte {at} ^ {flip}");
            }
        }
    }
}
