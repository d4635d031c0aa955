//! `schedule.bin`: the state of a schedule that follows the losses.

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_nn::PlateauState;

use super::Checkpoint;

/// The checkpoint's file of the schedule's state; a rate that depends on the step alone has none.
pub const SCHEDULE_FILE: &str = "schedule.bin";

/// The file's bytes.
///
/// # Errors
/// The encoder's message; it is not expected to fail.
pub(crate) fn schedule_state_bytes(state: PlateauState) -> Result<Vec<u8>> {
    let config = bincode::config::standard();
    Ok(bincode::serde::encode_to_vec(state, config)?)
}

/// Reads the state of a checkpoint.
///
/// # Errors
/// A checkpoint without the file, and bytes that are not a state.
pub(crate) fn read_schedule_state(checkpoint: &Checkpoint) -> Result<PlateauState> {
    let place = || format!("{}/{SCHEDULE_FILE}", checkpoint.path().display());
    from_bytes(checkpoint.file(SCHEDULE_FILE)?).with_context(place)
}

fn from_bytes(bytes: &[u8]) -> Result<PlateauState> {
    let decoded = bincode::serde::decode_from_slice(bytes, bincode::config::standard());
    let (state, used) = decoded.map_err(|error| anyhow!("is no state of a schedule: {error}"))?;
    ensure!(
        used == bytes.len(),
        "has {} bytes too many",
        bytes.len() - used
    );
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_whole_or_not_at_all() {
        let state = PlateauState {
            rate: 0.1,
            best: Some(1.25),
            n_bad: 3,
            cooldown: 1,
        };
        let bytes = schedule_state_bytes(state).expect("encodes");
        assert_eq!(from_bytes(&bytes).expect("decodes"), state);
        for cut in 0..bytes.len() {
            assert!(from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(from_bytes(&[bytes, vec![0]].concat()).is_err());
    }
}
