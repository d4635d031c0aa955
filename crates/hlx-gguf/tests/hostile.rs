//! Files that are cut, changed or made to harm: one clear line each, and no memory that their size does not justify.

mod common;

use hlx_gguf::{Gguf, Metadata, NewTensor, to_gguf};

use common::fixture;

/// What the reader says of these bytes.
fn refused(bytes: &[u8]) -> String {
    let error = Gguf::from_bytes(bytes.to_vec()).expect_err("a hostile file");
    let line = error.to_string();
    assert!(!line.contains(char::is_control), "{line:?}");
    line.strip_prefix("GGUF: ").expect("the file").to_owned()
}

/// Reads whatever can be read; must not panic.
fn read_all(bytes: &[u8]) -> bool {
    match Gguf::from_bytes(bytes.to_vec()) {
        Ok(file) => file.tensors().all(|tensor| {
            let values = file.values(tensor).expect("checked bytes");
            values.len() == tensor.shape().iter().product::<usize>()
        }),
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(char::is_control), "{line:?}");
            false
        }
    }
}

fn small() -> Vec<u8> {
    std::fs::read(fixture("small.gguf")).expect("a fixture")
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = small();
    // The last tensor ends before the padding behind it.
    let padded = (0..32).rev().find(|n| read_all(&whole[..whole.len() - n]));
    let end = whole.len() - padded.expect("the whole file");
    for end in 0..end {
        assert!(!read_all(&whole[..end]), "cut at {end}");
    }
}

#[test]
fn a_file_with_any_bit_flipped_is_read_or_refused() {
    let whole = small();
    let mut n_read = 0;
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[place] ^= 1 << bit;
            n_read += usize::from(read_all(&flipped));
        }
    }
    // Those in the tensors' bytes change values alone.
    assert!(n_read > whole.len() * 4, "{n_read}");
}

#[test]
fn any_eight_bytes_may_be_a_huge_number() {
    let whole = small();
    for number in [1_u64 << 60, 1 << 32, u64::MAX, u64::MAX / 8 + 1, 1 << 63] {
        for place in 0..whole.len().min(2600) - 8 {
            let mut changed = whole.clone();
            changed[place..place + 8].copy_from_slice(&number.to_le_bytes());
            read_all(&changed);
        }
    }
}

/// Writes a header piece by piece.
#[derive(Default)]
struct Maker(Vec<u8>);

impl Maker {
    fn new(n_tensors: u64, n_keys: u64) -> Self {
        let mut made = Self(b"GGUF\x03\0\0\0".to_vec());
        made.u64(n_tensors).u64(n_keys);
        made
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.u64(text.len() as u64).0.extend(text.as_bytes());
        self
    }

    /// A tensor of f32 with its extents, innermost first, and its place in the data.
    fn tensor(&mut self, name: &str, extents: &[u64], offset: u64) -> &mut Self {
        self.text(name).u32(extents.len() as u32);
        extents.iter().for_each(|&extent| _ = self.u64(extent));
        self.u32(0).u64(offset)
    }

    fn refused(&mut self) -> String {
        refused(&self.0)
    }

    /// What is said with a kilobyte of data behind it.
    fn refused_with_data(&mut self) -> String {
        let end = self.0.len().next_multiple_of(32) + 1024;
        self.0.resize(end, 0);
        self.refused()
    }
}

#[test]
fn what_is_no_file_of_this_kind_is_named() {
    assert_eq!(
        refused(b"PK\x03\x04rest"),
        "is no GGUF file: it does not begin with `GGUF`"
    );
    assert_eq!(
        refused(b"GGUF\x01\0\0\0"),
        "has version 1 of GGUF, expected 2 or 3"
    );
    assert_eq!(
        refused(b"GGUF\0\0\0\x03"),
        "is a big-endian GGUF file; only little-endian ones are read"
    );
    assert!(refused(b"GG").starts_with("is cut short: at byte 0"));
}

#[test]
fn counts_that_no_file_has_take_no_memory() {
    assert_eq!(
        Maker::new(1 << 60, 0).refused(),
        "states 1152921504606846976 tensors, expected at most 16777216"
    );
    assert_eq!(
        Maker::new(0, 1 << 60).refused(),
        "states 1152921504606846976 keys, expected at most 16777216"
    );
    for (id, n) in [
        (0, 1_u64 << 60),
        (6, 1 << 62),
        (8, 1 << 61),
        (9, 1 << 60),
        (10, 1 << 61),
    ] {
        let found = Maker::new(0, 1).text("a").u32(9).u32(id).u64(n).refused();
        assert!(found.starts_with("`a`: is cut short: at byte"), "{found}");
    }
    let found = Maker::new(0, 1).u64(1 << 60).refused();
    assert_eq!(
        found,
        "a key has 1152921504606846976 bytes, expected at most 65535"
    );
    let found = Maker::new(0, 1).text("a").u32(8).u64(u64::MAX).refused();
    assert!(found.starts_with("`a`: is cut short"), "{found}");
}

#[test]
fn values_of_no_type_and_lists_without_end_are_refused() {
    assert_eq!(
        Maker::new(0, 1).text("a").u32(13).u64(0).refused(),
        "`a`: a value has the unknown type 13"
    );
    // The type of the first list is that of the value.
    let mut nested = Maker::new(0, 1);
    nested.text("a").u32(9);
    for _ in 0..2000 {
        nested.u32(9).u64(1);
    }
    assert_eq!(nested.refused(), "`a`: lists in lists, more than 4 deep");
    let mut truth = Maker::new(0, 1);
    truth.text("a").u32(7).0.push(2);
    assert_eq!(truth.refused(), "`a`: a truth is 2, expected 0 or 1");
    let mut text = Maker::new(0, 1);
    text.text("a").u32(8).u64(2).0.extend([b'x', 0xff]);
    assert_eq!(text.refused(), "`a`: a text is not UTF-8 at byte 46");
}

#[test]
fn names_that_repeat_are_refused() {
    let mut keys = Maker::new(0, 2);
    keys.text("a\n").u32(4).u32(1).text("a\n").u32(4).u32(2);
    assert_eq!(keys.refused(), "has the key `a\\n` twice");
    let mut tensors = Maker::new(2, 0);
    tensors.tensor("t", &[8], 0).tensor("t", &[8], 32);
    assert_eq!(tensors.refused_with_data(), "has the tensor t twice");
}

#[test]
fn tensors_outside_of_the_file_or_of_each_other_are_refused() {
    let one = |extents: &[u64], offset| {
        Maker::new(1, 0)
            .tensor("t", extents, offset)
            .refused_with_data()
    };
    assert_eq!(
        one(&[8], 1024),
        "the tensor t has 32 bytes from 1024 of the data on, which has 1024"
    );
    assert_eq!(
        one(&[8], u64::MAX - 31),
        "the tensor t has 32 bytes from 18446744073709551584 of the data on, which has 1024"
    );
    assert_eq!(
        one(&[8], 8),
        "the tensor t begins at 8 of the data, expected a multiple of 32"
    );
    assert_eq!(
        one(&[1 << 32, 1 << 32], 0),
        "the tensor t has shape [4294967296, 4294967296], which is too large"
    );
    assert_eq!(
        one(&[u64::MAX], 0),
        "the tensor t has shape [18446744073709551615], which is too large"
    );
    assert_eq!(one(&[8, 0], 0), "the tensor t has an extent of 0");
    assert_eq!(
        one(&[1; 5], 0),
        "the tensor t has 5 dimensions, expected 1 to 4"
    );
    assert_eq!(
        one(&[], 0),
        "the tensor t has 0 dimensions, expected 1 to 4"
    );
    let mut both = Maker::new(2, 0);
    both.tensor("t", &[16], 0).tensor("u", &[8], 32);
    assert_eq!(both.refused_with_data(), "the tensors t and u overlap");
}

#[test]
fn alignments_that_are_none_are_refused() {
    for alignment in [0_u64, 1, 12, 1 << 31, u64::MAX] {
        let mut made = Maker::new(1, 1);
        made.text("general.alignment").u32(10).u64(alignment);
        let found = made.tensor("t", &[8], 0).refused_with_data();
        let expected = "expected a power of two from 8 to 1073741824";
        assert!(found.ends_with(expected), "{found}");
    }
    let mut made = Maker::new(1, 1);
    made.text("general.alignment").u32(4).u32(1 << 30);
    let found = made.tensor("t", &[8], 0).refused_with_data();
    assert_eq!(
        found,
        "the tensor t has 32 bytes from 0 of the data on, which has 0"
    );
}

#[test]
fn types_that_are_not_read_are_named() {
    let mut made = Maker::new(1, 0);
    made.text("t").u32(1).u64(256).u32(23).u64(0);
    let found = made.refused_with_data();
    assert!(
        found.starts_with("the tensor t is of type IQ4_XS, expected one of F32,"),
        "{found}"
    );
    let mut made = Maker::new(1, 0);
    made.text("t").u32(1).u64(33).u32(8).u64(0);
    assert_eq!(
        made.refused_with_data(),
        "the tensor t has rows of 33 values, expected a multiple of 32, the block of Q8_0"
    );
}

#[test]
fn splits_that_contradict_themselves_are_refused() {
    let of = |number: u16, count: u16| {
        let mut metadata = Metadata::default();
        metadata.set("split.no", number);
        metadata.set("split.count", count);
        to_gguf(&metadata, &[] as &[NewTensor], |_| Ok(Vec::new())).expect("bytes")
    };
    assert_eq!(
        refused(&of(3, 3)),
        "`split.no` is 3, expected a number below 3"
    );
    assert_eq!(
        refused(&of(1, 60_000)),
        "`split.count` is 60000, expected at most 1024"
    );
    assert_eq!(
        refused(&of(1, 3)),
        "is file 2 of 3 of its model, and the others are not here"
    );
    assert!(Gguf::from_bytes(of(0, 1)).is_ok());
}
