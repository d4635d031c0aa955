//! Connections between processes that know one secret.
//!
//! The handshake is Noise's `NNpsk0` (<https://noiseprotocol.org/noise.html>): each side sends a fresh public key
//! that is sealed with the secret, and shows that it can open the other's. Both then have two keys of this
//! connection alone, under which every record is encrypted and numbered: one that was changed, left out, repeated
//! or recorded before is an error. Nothing here knows ranks.

mod channel;

use std::io::{Error, ErrorKind, Read, Write};

use snow::{Builder, HandshakeState, TransportState};

pub(crate) use self::channel::Channel;
use crate::Secret;

/// What the side that connects begins with: the protocol and its version.
pub(crate) const MAGIC: [u8; 8] = *b"HLXRANK2";
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Bytes of a sealed public key: the key and the seal.
const SEALED: usize = 32 + 16;
/// Bytes that the side that connects sends first, and those of the answer.
pub(crate) const FIRST: usize = MAGIC.len() + SEALED;
pub(crate) const SECOND: usize = SEALED;

/// The side that connects, between its first bytes and the answer.
pub(crate) struct Caller(HandshakeState);

fn failed(error: snow::Error) -> Error {
    Error::new(ErrorKind::InvalidData, error.to_string())
}

fn builder(secret: &Secret) -> Result<Builder<'_>, snow::Error> {
    let builder = Builder::new(PATTERN.parse()?);
    builder.psk(0, secret.key())?.prologue(&MAGIC)
}

impl Caller {
    /// Returns the first bytes, too.
    ///
    /// # Errors
    /// No random numbers.
    pub fn new(secret: &Secret) -> Result<(Self, [u8; FIRST]), Error> {
        let built = builder(secret).and_then(Builder::build_initiator);
        let mut state = built.map_err(failed)?;
        let mut bytes = [0; FIRST];
        let (magic, sealed) = bytes.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        state.write_message(&[], sealed).map_err(failed)?;
        Ok((Self(state), bytes))
    }

    /// The keys, if the answer is of one who knows the secret.
    ///
    /// # Errors
    /// It is not.
    pub fn finish(self, answer: &[u8; SECOND]) -> Result<TransportState, Error> {
        let Self(mut state) = self;
        let opened = state.read_message(answer, &mut []);
        opened
            .and_then(|_| state.into_transport_mode())
            .map_err(failed)
    }
}

/// The side that listens: the answer to the first bytes of one who knows the secret, and the keys. The other side
/// may have recorded these bytes: it has shown that it is here when its first record opens.
///
/// # Errors
/// The bytes are of one who does not know the secret.
pub(crate) fn answer(
    secret: &Secret,
    first: &[u8; FIRST],
) -> Result<([u8; SECOND], TransportState), Error> {
    let Some(sealed) = first.strip_prefix(&MAGIC) else {
        return Err(ErrorKind::InvalidData.into());
    };
    let answered = || -> Result<_, snow::Error> {
        let mut state = builder(secret)?.build_responder()?;
        state.read_message(sealed, &mut [])?;
        let mut answer = [0; SECOND];
        state.write_message(&[], &mut answer)?;
        Ok((answer, state.into_transport_mode()?))
    };
    answered().map_err(failed)
}

/// Makes the handshake over a stream that blocks, or never does, by `wait` between its tries.
///
/// # Errors
/// The stream's, those of `wait`, and an answer of one who does not know the secret.
pub(crate) fn call<S: Read + Write>(
    mut stream: S,
    secret: &Secret,
    mut wait: impl FnMut() -> Result<(), Error>,
) -> Result<Channel<S>, Error> {
    let (caller, first) = Caller::new(secret)?;
    // A new connection takes so few bytes at once.
    stream.write_all(&first)?;
    let (mut bytes, mut n) = ([0; SECOND], 0);
    while n < bytes.len() {
        match stream.read(&mut bytes[n..]) {
            // Whoever knows the secret sends all of it at once.
            Ok(0) if n > 0 => return Err(ErrorKind::InvalidData.into()),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(more) => n += more,
            Err(error) if is_early(&error) => wait()?,
            Err(_) if n > 0 => return Err(ErrorKind::InvalidData.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(Channel::new(stream, caller.finish(&bytes)?))
}

/// Whether a call would have had to wait.
pub(crate) fn is_early(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::TimedOut
    )
}

#[cfg(test)]
pub(crate) mod tests;
