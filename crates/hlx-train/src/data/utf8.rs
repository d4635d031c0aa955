//! Checking that a text is UTF-8, piece by piece.

/// What has been checked of a text.
#[derive(Default)]
pub(super) struct Utf8Check {
    /// Bytes that are UTF-8.
    n_valid: u64,
    /// Line feeds in them.
    n_lines: usize,
    /// Bytes after them: the beginning of a character whose rest is still to come.
    rest: Vec<u8>,
}

/// Where a text is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotUtf8 {
    /// From 1.
    pub line: usize,
    /// The byte in the text.
    pub at: u64,
}

impl Utf8Check {
    /// Checks the next piece of the text.
    pub fn add(&mut self, piece: &[u8]) -> Result<(), NotUtf8> {
        // Three bytes at most are left of a piece, so that few pieces are copied for their sake.
        let joined;
        let bytes = match self.rest.is_empty() {
            true => piece,
            false => {
                joined = [&self.rest, piece].concat();
                &joined
            }
        };
        let (n_valid, is_wrong) = match std::str::from_utf8(bytes) {
            Ok(_) => (bytes.len(), false),
            Err(error) => (error.valid_up_to(), error.error_len().is_some()),
        };
        let (valid, rest) = bytes.split_at(n_valid);
        self.n_lines += valid.iter().filter(|&&byte| byte == b'\n').count();
        self.n_valid += n_valid as u64;
        self.rest = rest.to_vec();
        match is_wrong {
            true => Err(self.place()),
            false => Ok(()),
        }
    }

    /// Checks that the last character is whole.
    pub fn finish(&self) -> Result<(), NotUtf8> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.place()),
        }
    }

    fn place(&self) -> NotUtf8 {
        NotUtf8 {
            line: self.n_lines + 1,
            at: self.n_valid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a text is wrong, in pieces of `n` bytes.
    fn check(text: &[u8], n: usize) -> Result<(), NotUtf8> {
        let mut check = Utf8Check::default();
        text.chunks(n).try_for_each(|piece| check.add(piece))?;
        check.finish()
    }

    #[test]
    fn pieces_may_cut_characters() {
        let cases: [(&[u8], _); 5] = [
            ("aß\n€\n😀".as_bytes(), Ok(())),
            (b"a\nb\xff", Err(NotUtf8 { line: 2, at: 3 })),
            (
                "a😀".as_bytes()[..4].into(),
                Err(NotUtf8 { line: 1, at: 1 }),
            ),
            (b"\xc3a", Err(NotUtf8 { line: 1, at: 0 })),
            (b"\xe2\x82\n\n", Err(NotUtf8 { line: 1, at: 0 })),
        ];
        for (text, expected) in cases {
            for n in 1..=text.len() {
                assert_eq!(check(text, n), expected, "{text:?} by {n}");
            }
        }
    }
}
