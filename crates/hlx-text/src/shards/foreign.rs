//! Token files of other programs: nanoGPT's `.bin`, which is plain u16, and llm.c's, which has a
//! header of 256 i32 (magic number, version, number of tokens).

use super::words::Width;

/// Bytes of llm.c's header.
pub(super) const HEADER: usize = 256 * 4;
/// Magic number, version and width of llm.c's files of GPT-2 and of Llama 3 (`dev/data/data_common.py`).
const KINDS: [(u32, u32, Width); 2] = [(20_240_520, 1, Width::U16), (20_240_801, 7, Width::U32)];
/// The magic number of llm.c's multiple-choice examples.
const EXAMPLES: u32 = 20_240_522;

/// Where the tokens of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub header: usize,
    pub width: Width,
}

/// Tells the two formats apart by the magic number at the start of a file, up to [`HEADER`] bytes of it, and checks
/// the length.
pub(super) fn layout(start: &[u8], len: u64) -> Result<Layout, String> {
    let words: Vec<u32> = {
        let (words, _) = start.as_chunks::<4>();
        words.iter().map(|&word| u32::from_le_bytes(word)).collect()
    };
    if len == 0 {
        return Err("holds no tokens".to_owned());
    }
    if words.first() == Some(&EXAMPLES) {
        return Err("holds llm.c's multiple-choice examples, no text".to_owned());
    }
    let known = KINDS
        .iter()
        .find(|(magic, ..)| words.first() == Some(magic));
    let Some(&(_, version, width)) = known else {
        return match len % 2 {
            0 => Ok(Layout {
                header: 0,
                width: Width::U16,
            }),
            _ => Err(format!(
                "has {len} bytes, which are no whole number of u16 tokens"
            )),
        };
    };
    if words.len() < HEADER / 4 {
        return Err(format!(
            "is cut short: llm.c's header has {HEADER} bytes, the file {len}"
        ));
    }
    if words[1] != version {
        return Err(format!(
            "is version {} of llm.c's tokens, expected {version}",
            words[1]
        ));
    }
    let stated = u64::from(words[2]);
    let expected = HEADER as u64 + stated * width.bytes() as u64;
    if len != expected {
        return Err(format!(
            "has {len} bytes, the header states {stated} tokens, which take {expected}"
        ));
    }
    if stated == 0 {
        return Err("holds no tokens".to_owned());
    }
    Ok(Layout {
        header: HEADER,
        width,
    })
}
