//! Readers of hlx-ranks: what comes from other processes.

use std::fs;

use hlx_ranks::testing::{memory_bytes, read_memory, read_wire};

use crate::scratch;

/// Reads what comes over the network: see [`hlx_ranks::testing::read_wire`].
pub fn wire(data: &[u8]) {
    read_wire(data);
}

/// The bytes of a small memory of two ranks, and where in it words of the second rank lie.
const BYTES: usize = 4096 + 2 * (4096 + 2 * 4096);
const SECOND: usize = 4096 + 4096 + 2 * 4096;

/// Reads shared memory whose first words, or those of a rank, are any bytes.
pub fn memory(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    let path = scratch("ranks-memory").join("memory");
    let mut bytes = vec![0; BYTES];
    bytes[..4096].copy_from_slice(&whole());
    let at = if kind % 2 == 0 { 0 } else { SECOND };
    let n = data.len().min(4096);
    bytes[at..at + n].copy_from_slice(&data[..n]);
    fs::write(&path, bytes).expect("written");
    read_memory(&path);
}

/// The first page of a memory of two ranks with the smallest slots.
fn whole() -> [u8; 4096] {
    static PAGE: std::sync::OnceLock<[u8; 4096]> = std::sync::OnceLock::new();
    *PAGE.get_or_init(|| {
        let path = scratch("ranks-memory").join("whole");
        let _ = fs::remove_file(&path);
        let bytes = memory_bytes(&path).expect("a memory");
        fs::remove_file(&path).expect("removed");
        let mut page: [u8; 4096] = bytes.try_into().expect("a page");
        page[16..24].copy_from_slice(&4096_u64.to_le_bytes());
        page
    })
}

/// Seeds: a first page, one of another number of ranks, and words of a rank.
pub fn memory_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let page = &whole()[..512];
    let with = |at: usize, word: u64| {
        let mut bytes = [&[0], page].concat();
        bytes[1 + 8 * at..9 + 8 * at].copy_from_slice(&word.to_le_bytes());
        bytes
    };
    // A beat, a state, the length of a line, and a chunk for rank 0 that is longer than its slot.
    let mut words = vec![0_u64; 132];
    (words[0], words[1], words[2]) = (7, 1, 12);
    (words[8], words[10]) = (1 << 16, 4104);
    words[128] = u64::from_le_bytes(*b"it \x1b[2Jx");
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    vec![
        ("whole", [&[0], page].concat()),
        ("many_ranks", with(1, 1 << 61)),
        ("odd_slots", with(2, 4097)),
        ("large_slots", with(2, 1 << 63)),
        ("blamed", with(3, u64::MAX)),
        ("long_chunk", [&[1][..], &words].concat()),
    ]
}
