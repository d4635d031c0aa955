//! Gives a module's entry point another name.

use rspirv::spirv::Op;

use crate::{HEADER_WORDS, string};

/// Renames the entry points called `main` to a name of four letters, which takes as many words. A malformed
/// module is left as it is, for the driver's parser to refuse.
pub fn rename_entry(words: &mut [u32], name: &[u8; 4]) {
    let mut at = HEADER_WORDS;
    while let Some(&first) = words.get(at) {
        let (length, opcode) = ((first >> 16) as usize, first & 0xffff);
        let Some(instruction) = words.get_mut(at..at + length.max(1)) else {
            return;
        };
        // The execution model and the function stand before the name.
        if opcode == Op::EntryPoint as u32
            && instruction.len() > 4
            && string(&instruction[3..]).is_ok_and(|(name, _)| name == "main")
        {
            instruction[3] = u32::from_le_bytes(*name);
        }
        at += length.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, a memory model, and entry points called `main` and `other`.
    const MODULE: [u32; 19] = [
        0x0723_0203,
        0x0001_0500,
        0,
        9,
        0, // header
        (3 << 16) | 14,
        0,
        1, // OpMemoryModel
        (5 << 16) | 15,
        5,
        7,
        0x6e69_616d,
        0, // OpEntryPoint GLCompute %7 "main"
        (6 << 16) | 15,
        5,
        8,
        0x6568_746f,
        0x72,
        3, // OpEntryPoint GLCompute %8 "other" %3
    ];

    #[test]
    fn main_alone_is_renamed_in_place() {
        let mut words = MODULE;
        rename_entry(&mut words, b"part");
        let mut expected = MODULE;
        expected[11] = 0x7472_6170;
        assert_eq!(words, expected);
    }

    #[test]
    fn malformed_words_end_the_search() {
        for end in 0..MODULE.len() {
            let mut words = MODULE[..end].to_vec();
            rename_entry(&mut words, b"part");
        }
        let mut zeros = [0; 9];
        rename_entry(&mut zeros, b"part");
        assert_eq!(zeros, [0; 9]);
    }
}
