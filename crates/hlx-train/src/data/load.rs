//! Reading a corpus from a file, with the line of whatever is wrong in it.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use hlx_core::bytes::to_hex;
use hlx_core::files::{self, Source};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::utf8::{NotUtf8, Utf8Check};
use super::{Dataset, END, SEPARATOR, Span};
use crate::config::Format;

/// A line of a file of pairs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    input: String,
    output: String,
}

impl Dataset {
    /// Reads a file and cuts it into samples of at most `positions` positions.
    ///
    /// # Errors
    /// One line with the file, and the line where there is one: a file that cannot be read, is
    /// empty or not UTF-8; malformed JSON; a pair that is empty, holds a reserved byte, or is
    /// longer than the positions.
    pub fn load(path: &Path, format: Format, positions: usize) -> Result<Self> {
        let name = path.display().to_string();
        let file = match format {
            Format::Text => Source::open(path),
            _ => files::read(path).map(Source::from),
        };
        let file = file.with_context(|| name.clone())?;
        Self::of_file(file, &name, format, positions)
    }

    /// As [`Dataset::load`], from the file's bytes; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`Dataset::load`].
    pub fn from_bytes(file: &[u8], name: &str, format: Format, positions: usize) -> Result<Self> {
        Self::of_file(Source::from(file), name, format, positions)
    }

    /// As [`Dataset::load`], of a text whose digest is known, and which was found to be UTF-8: its bytes are
    /// not read.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub(crate) fn of_checked_text(path: &Path, positions: usize, digest: String) -> Result<Self> {
        let name = path.display().to_string();
        let bytes = Source::open(path).with_context(|| name.clone())?;
        Ok(Self {
            format: Format::Text,
            spans: cut_text(&bytes, &name, positions)?,
            name,
            bytes,
            digest,
        })
    }

    /// Draws `count` pairs of English and HLX's text notation, and leaves out those that are longer than
    /// the positions.
    ///
    /// # Errors
    /// One line: more pairs than the grammar is asked for, or none that fits.
    pub fn drawn_pairs(count: usize, seed: u64, positions: usize) -> Result<Self> {
        let mut lines = Vec::new();
        for pair in hlx_data::ascii_pairs(count, seed)? {
            if pair.input.len() + 1 + pair.output.len() <= positions {
                serde_json::to_writer(&mut lines, &pair)?;
                lines.push(b'\n');
            }
        }
        Self::from_bytes(&lines, "drawn pairs", Format::AsciiPairs, positions)
    }

    /// As [`Dataset::from_bytes`], of bytes that a text holds.
    ///
    /// # Errors
    /// As [`Dataset::load`].
    pub(crate) fn of_file(
        file: Source,
        name: &str,
        format: Format,
        positions: usize,
    ) -> Result<Self> {
        let digest = digest_of_text(&file, name)?;
        let (bytes, spans) = match (format, file.memory()) {
            (Format::Pairs | Format::AsciiPairs, Some(text)) => {
                let text = std::str::from_utf8(text).with_context(|| name.to_owned())?;
                let (bytes, spans) = read_pairs(text, name, positions)?;
                (Source::from(bytes), spans)
            }
            (Format::Text, _) => {
                let spans = cut_text(&file, name, positions)?;
                (file, spans)
            }
            _ => {
                bail!("{name}: tokens and images are no rows of bytes")
            }
        };
        Ok(Self {
            format,
            name: name.to_owned(),
            bytes,
            spans,
            digest,
        })
    }
}

/// The SHA-256 of a file, in one pass that checks that it is UTF-8 and not blank.
fn digest_of_text(file: &Source, name: &str) -> Result<String> {
    let head = file.read(0..file.len().min(hlx_text::HEAD as u64));
    if let Some(reason) = hlx_text::no_text(&head.with_context(|| name.to_owned())?) {
        bail!("{name}: {reason}");
    }
    let wrong = |NotUtf8 { line, at }| anyhow!("{name}:{line}: not UTF-8 at byte {at}");
    let (mut hash, mut check, mut is_blank) = (Sha256::new(), Utf8Check::default(), true);
    let mut fault = None;
    let read = file.each_piece(|piece| {
        hash.update(piece);
        is_blank = is_blank && piece.iter().all(u8::is_ascii_whitespace);
        fault = fault.or_else(|| check.add(piece).err());
    });
    read.with_context(|| name.to_owned())?;
    ensure!(!is_blank, "{name}: holds no data");
    match fault.or(check.finish().err()) {
        Some(place) => Err(wrong(place)),
        None => Ok(to_hex(&hash.finalize())),
    }
}

/// Lays the pairs end to end as `input 0x1e output 0x04`; blank lines are skipped.
fn read_pairs(text: &str, name: &str, positions: usize) -> Result<(Vec<u8>, Vec<Span>)> {
    let (mut bytes, mut spans) = (Vec::with_capacity(text.len()), Vec::new());
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    ensure!(
        !text.trim_start().starts_with('['),
        "{name}: is a list of JSON, expected a pair a line"
    );
    for (line_idx, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let line_number = line_idx + 1;
        let pair: Pair = serde_json::from_str(line)
            .map_err(|error| anyhow!("{name}:{line_number}: malformed pair: {error}"))?;
        check_pair(&pair, positions).with_context(|| format!("{name}:{line_number}"))?;
        let start = bytes.len();
        bytes.extend_from_slice(pair.input.as_bytes());
        bytes.push(SEPARATOR);
        let n_given = bytes.len() - start;
        bytes.extend_from_slice(pair.output.as_bytes());
        bytes.push(END);
        spans.push(Span {
            start,
            end: bytes.len(),
            n_given,
        });
    }
    Ok((bytes, spans))
}

fn check_pair(pair: &Pair, positions: usize) -> Result<()> {
    for (what, text) in [("input", &pair.input), ("output", &pair.output)] {
        ensure!(!text.is_empty(), "the {what} is empty");
        if let Some(byte) = text.bytes().find(|byte| [SEPARATOR, END].contains(byte)) {
            bail!("the {what} holds the byte {byte:#04x}, which is reserved");
        }
    }
    let time = pair.input.len() + 1 + pair.output.len();
    ensure!(
        time <= positions,
        "the pair takes {time} positions (input {}, separator 1, output {}), and the model has \
         {positions}",
        pair.input.len(),
        pair.output.len(),
    );
    Ok(())
}

/// Cuts a text into windows of `positions` predicted bytes, one after the other; the last may be
/// shorter. Windows share one byte: what one predicts last, the next reads first. A byte-order mark is left out.
fn cut_text(text: &Source, name: &str, positions: usize) -> Result<Vec<Span>> {
    let mark = files::BYTE_ORDER_MARK;
    let head = text.read(0..text.len().min(mark.len() as u64));
    let head = head.with_context(|| name.to_owned())?;
    let start = if head == mark { mark.len() } else { 0 };
    let end = text.len() as usize;
    ensure!(
        end >= start + 2,
        "{name}: a text of {} bytes has nothing to predict",
        end - start
    );
    let window = |start: usize| Span {
        start,
        end: (start + positions + 1).min(end),
        n_given: 1,
    };
    Ok((start..end - 1).step_by(positions).map(window).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn fails(file: &[u8], format: Format) -> String {
        let error = Dataset::from_bytes(file, "d", format, 16).expect_err("must fail");
        let line = format!("{error:#}");
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn a_pair_is_given_up_to_its_separator() {
        let file = b"{\"input\": \"ab\", \"output\": \"c\"}\n\n";
        let data = Dataset::from_bytes(file, "d", Format::Pairs, 16).expect("loads");
        assert_eq!(data.len(), 1);
        let sample = data.sample(0).expect("in memory");
        assert_eq!((&*sample.tokens, sample.n_given), (&b"ab\x1ec\x04"[..], 3));
        assert_eq!(sample.n_targets(), 2);
        assert_eq!(data.pair(0), (&b"ab"[..], &b"c"[..]));
    }

    #[test]
    fn a_text_predicts_each_byte_but_the_first_once() {
        for len in [2_usize, 16, 17, 18, 33, 40] {
            let file = vec![b'x'; len];
            let data = Dataset::from_bytes(&file, "d", Format::Text, 16).expect("loads");
            let targets: usize = (0..data.len())
                .map(|index| data.sample(index).expect("read").n_targets())
                .sum();
            assert_eq!(targets, len - 1, "{len}");
        }
    }

    /// Windows were cut over the mark of an editor, which is not part of the text.
    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text_or_of_pairs() {
        let text = format!("\u{feff}{}", "the cat sat on the mat. ".repeat(3));
        let data = Dataset::from_bytes(text.as_bytes(), "d", Format::Text, 16).expect("loads");
        let first = data.sample(0).expect("read");
        assert_eq!(&*first.tokens, b"the cat sat on th");
        let n = data.len();
        let random = crate::data::RandomWindows::new(&data, n, 3);
        for number in 0..60 {
            let sample = random.sample(&data, 0, number).expect("read");
            assert_eq!(sample.tokens.len(), 17);
            assert!(sample.tokens.is_ascii());
        }
        let pair = "\u{feff}{\"input\": \"a\", \"output\": \"b\"}";
        let data = Dataset::from_bytes(pair.as_bytes(), "d", Format::Pairs, 16).expect("loads");
        assert_eq!(data.pair(0), (&b"a"[..], &b"b"[..]));
    }

    #[test]
    fn a_corpus_that_is_no_text_is_named_by_what_it_is() {
        for format in [Format::Text, Format::Pairs] {
            assert!(fails(b"\xff\xfea\0", format).starts_with("d: is UTF-16, expected UTF-8"));
            assert!(fails(b"PAR1\x15\0", format).starts_with("d: is Parquet"));
        }
        let list = fails(b"[{\"input\": \"a\"}]", Format::Pairs);
        assert_eq!(list, "d: is a list of JSON, expected a pair a line");
    }

    #[test]
    fn faults_name_the_line() {
        assert_eq!(fails(b"", Format::Pairs), "d: holds no data");
        assert_eq!(fails(b" \n", Format::Text), "d: holds no data");
        assert_eq!(fails(b"a\nb\xff", Format::Text), "d:2: not UTF-8 at byte 3");
        assert!(fails(b"x", Format::Text).contains("nothing to predict"));
        let good = "{\"input\": \"a\", \"output\": \"b\"}\n";
        let after = |line: &str| fails(format!("{good}{line}\n").as_bytes(), Format::Pairs);
        assert!(after("{\"input\": \"a\"").starts_with("d:2: malformed pair: EOF"));
        assert!(after("{\"input\": \"a\"}").contains("missing field `output`"));
        assert!(
            after("{\"input\": \"a\", \"output\": \"\"}").starts_with("d:2: the output is empty")
        );
        assert!(after("{\"input\": \"a\\u0004\", \"output\": \"b\"}").contains("byte 0x04"));
        let long = "{\"input\": \"twelve bytes\", \"output\": \"1234\"}";
        assert!(after(long).starts_with("d:2: the pair takes 17 positions"));
    }

    #[test]
    fn splits_hold_every_sample_once() {
        let file = "{\"input\": \"a\", \"output\": \"b\"}\n".repeat(20);
        let data = Dataset::from_bytes(file.as_bytes(), "d", Format::Pairs, 16).expect("loads");
        let split = data.split(0.25, 3);
        assert_eq!((split.train.len(), split.eval.len()), (15, 5));
        let mut all = [split.train, split.eval].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..20));
        assert!(data.split(0.0, 3).eval.is_empty());
        assert_eq!(data.split(0.001, 3).eval.len(), 1);
    }

    #[test]
    fn a_text_stays_on_disk_and_has_the_samples_and_the_digest_of_its_bytes() {
        let path = std::env::temp_dir().join(format!("hlx-corpus-{}", std::process::id()));
        let text = "the cat sat on the mat. ".repeat(9);
        std::fs::write(&path, &text).expect("writes");
        let opened = Dataset::load(&path, Format::Text, 16).expect("loads");
        let read = Dataset::from_bytes(text.as_bytes(), "d", Format::Text, 16).expect("loads");
        assert!(opened.bytes.memory().is_none());
        assert_eq!(opened.digest(), read.digest());
        assert_eq!(opened.len(), read.len());
        for index in 0..read.len() {
            let [opened, read] = [&opened, &read].map(|data| data.sample(index).expect("read"));
            assert_eq!(opened, read);
        }
        std::fs::write(&path, "").expect("writes");
        let error = Dataset::load(&path, Format::Text, 16).expect_err("empty");
        assert!(error.to_string().ends_with("holds no data"), "{error}");
        std::fs::remove_file(&path).expect("cleared");
        let error = Dataset::load(&std::env::temp_dir(), Format::Text, 16).expect_err("a folder");
        assert!(format!("{error:#}").ends_with("is a folder"), "{error:#}");
    }

    #[test]
    fn a_text_cut_short_while_it_is_in_use_is_an_error() {
        let name = format!("hlx-corpus-cut-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "the cat sat on the mat. ".repeat(9)).expect("writes");
        let data = Dataset::load(&path, Format::Text, 16).expect("loads");
        std::fs::write(&path, "the cat sat on the mat").expect("writes");
        assert_eq!(
            &*data.sample(0).expect("there").tokens,
            b"the cat sat on th"
        );
        let error = data.sample(5).expect_err("behind the end");
        let line = format!("{error:#}");
        assert!(line.ends_with("it had 216 bytes, now 22"), "{line}");
        assert!(line.starts_with(path.to_str().expect("UTF-8")), "{line}");
        std::fs::remove_file(&path).expect("cleared");
    }

    #[test]
    fn no_output_of_drawn_pairs_is_trained_on_and_held_out() {
        let data = Dataset::drawn_pairs(4000, 3, 128).expect("draws");
        assert_eq!((data.len(), data.format()), (4000, Format::AsciiPairs));
        let split = data.split(0.05, 9);
        assert_eq!(split.train.len() + split.eval.len(), 4000);
        assert!(
            (190..=200).contains(&split.eval.len()),
            "{}",
            split.eval.len()
        );
        let outputs = |side: &[usize]| -> HashSet<Vec<u8>> {
            side.iter()
                .map(|&index| data.pair(index).1.to_vec())
                .collect()
        };
        let (trained, held_out) = (outputs(&split.train), outputs(&split.eval));
        assert!(trained.is_disjoint(&held_out));
        assert!(trained.contains(&b"{open:TRUE}"[..]));
        assert_ne!(split, data.split(0.05, 10));
        assert!(data.split(0.0, 9).eval.is_empty());
    }

    #[test]
    fn drawn_pairs_that_are_too_long_are_left_out() {
        let data = Dataset::drawn_pairs(500, 3, 40).expect("draws");
        assert!((50..450).contains(&data.len()), "{}", data.len());
        assert!((0..data.len()).all(|index| data.time(index) <= 40));
        let error = Dataset::drawn_pairs(100, 3, 2).expect_err("nothing fits");
        assert_eq!(error.to_string(), "drawn pairs: holds no data");
    }
}
