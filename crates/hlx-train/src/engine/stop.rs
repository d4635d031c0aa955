//! Texts that end a generated text.

/// The texts that end a generation.
pub(super) struct Stops<'a>(&'a [Vec<u8>]);

impl<'a> Stops<'a> {
    /// Empty texts end nothing.
    pub fn new(stops: &'a [Vec<u8>]) -> Self {
        Self(stops)
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        let stops = self.0.iter().map(Vec::as_slice);
        stops.filter(|stop| !stop.is_empty())
    }

    /// The bytes of the longest stop that a text ends in, asked after every byte.
    pub fn ended_by(&self, text: &[u8]) -> Option<usize> {
        let ends = self.all().filter(|stop| text.ends_with(stop));
        ends.map(<[u8]>::len).max()
    }

    /// How many bytes at the end of a text may be the beginning of a stop.
    pub fn held(&self, text: &[u8]) -> usize {
        let begun = |stop: &[u8]| {
            let longest = (stop.len() - 1).min(text.len());
            (1..=longest).rev().find(|&n| text.ends_with(&stop[..n]))
        };
        self.all().filter_map(begun).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_held_back_from_its_first_byte_on() {
        let stops = [b"\n\n".to_vec(), b"END".to_vec(), Vec::new()];
        let stops = Stops::new(&stops);
        for (text, held) in [
            ("", 0),
            ("a", 0),
            ("a\n", 1),
            ("aE", 1),
            ("aEN", 2),
            ("ENE", 1),
        ] {
            assert_eq!(stops.held(text.as_bytes()), held, "{text:?}");
            assert_eq!(stops.ended_by(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(stops.ended_by(b"a\n\n"), Some(2));
        assert_eq!(stops.ended_by(b"END"), Some(3));
        assert_eq!(Stops::new(&[]).held(b"a\n"), 0);
    }
}
