//! IDX files: every type there and back, and what is wrong with a file in one line.

use std::fs;

use super::*;
use crate::random::{below, words};

fn arrays() -> Vec<IdxArray> {
    let values = [
        IdxValues::U8(vec![0, 1, 127, 128, 255, 7]),
        IdxValues::I8(vec![0, 1, 127, -128, -1, 7]),
        IdxValues::I16(vec![0, 1, 256, i16::MIN, i16::MAX, -2]),
        IdxValues::I32(vec![0, 1, 65536, i32::MIN, i32::MAX, -2]),
        IdxValues::F32(vec![
            0.0,
            -0.0,
            1.5,
            f32::MIN_POSITIVE,
            f32::INFINITY,
            -3.25,
        ]),
        IdxValues::F64(vec![0.0, -0.0, 1.5, 1e300, f64::NEG_INFINITY, -3.25]),
    ];
    let all = values.map(|values| IdxArray::new(&[2, 1, 3], values).expect("six elements"));
    all.into()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A header by hand: type, extents; then the elements' bytes.
fn file(id: u8, extents: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, id, extents.len() as u8];
    file.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
    file.extend(bytes);
    file
}

#[test]
fn every_type_comes_back_plain_and_compressed() {
    for array in arrays() {
        let bytes = array.to_bytes();
        assert_eq!(parse_idx(&bytes).as_ref(), Ok(&array));
        assert_eq!(parse_idx(&gzip(&bytes)).as_ref(), Ok(&array));
    }
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let parsed = parse_idx(&file(0x0b, &[2], &[0x01, 0x02, 0xff, 0xfe])).expect("two numbers");
    assert_eq!(parsed.values(), &IdxValues::I16(vec![258, -2]));
    let parsed = parse_idx(&file(0x0d, &[1], &[0x3f, 0xc0, 0, 0])).expect("a number");
    assert_eq!(parsed.values(), &IdxValues::F32(vec![1.5]));
    let scalar = parse_idx(&file(0x08, &[], &[9])).expect("a number without dimensions");
    assert_eq!((scalar.shape(), scalar.values().len()), (&[][..], 1));
    let empty = parse_idx(&file(0x08, &[0, u32::MAX, u32::MAX, u32::MAX], &[])).expect("empty");
    assert!(empty.values().is_empty());
}

#[test]
fn a_fault_of_the_file_is_one_line() {
    let huge = [u32::MAX; 3];
    let compressed = gzip(&file(0x08, &[2000], &[7; 2000]));
    let mut damaged = compressed.clone();
    let last = damaged.len() - 5; // Within the checksum.
    damaged[last] ^= 1;
    let cases: [(&[u8], &str); 10] = [
        (&[], "is cut short within its header"),
        (&[0, 0, 8, 3, 0, 0, 0], "is cut short within its header"),
        (
            b"\x89PNG",
            "is no IDX file: it begins with 89 50, expected 00 00",
        ),
        (
            &file(0x0a, &[1], &[1]),
            "has elements of the IDX type 0a, expected one of 08 (u8), 09 (i8), 0b (i16), \
             0c (i32), 0d (f32), 0e (f64)",
        ),
        (
            &file(0x0c, &[2, 2], &[1; 15]),
            "is cut short: its header says [2, 2] of i32, 16 bytes, and 15 follow",
        ),
        (
            &file(0x08, &[2, 2], &[1; 5]),
            "is too long: its header says [2, 2] of u8, 4 bytes, and more follow",
        ),
        (
            &file(0x0e, &huge, &[1; 64]),
            "its header says [4294967295, 4294967295, 4294967295] of f64, more than memory can hold",
        ),
        (
            &file(0x08, &[65_536, 1000], &[1; 64]),
            "is cut short: its header says [65536, 1000] of u8, 65536000 bytes, and 64 follow",
        ),
        (
            &compressed[..compressed.len() - 9],
            "is cut short: its gzip data end after 2000 bytes of elements",
        ),
        (
            &damaged,
            "cannot be decompressed: corrupt gzip stream does not have a matching checksum",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(parse_idx(bytes), Err(expected.to_owned()));
    }
}

/// A gzip file whose end is not gzip data: who inflates it to the end says so.
#[test]
fn a_file_is_inflated_no_further_than_its_array_reaches() {
    let mut bytes = gzip(&file(0x08, &[3], &[0; 8 << 20]));
    bytes.truncate(bytes.len() - 64);
    let expected = "is too long: its header says [3] of u8, 3 bytes, and more follow";
    assert_eq!(parse_idx(&bytes), Err(expected.to_owned()));
    // 2^64 bytes are refused before the first of them.
    let bytes = gzip(&file(0x0e, &[u32::MAX, u32::MAX], &[0; 1 << 20]));
    let line = parse_idx(&bytes).expect_err("more than memory");
    assert!(line.ends_with("more than memory can hold"), "{line}");
}

#[test]
fn any_bytes_are_an_array_that_writes_them_again_or_an_error() {
    let seeds: Vec<Vec<u8>> = arrays().iter().map(IdxArray::to_bytes).collect();
    let mut read = 0;
    for round in 0..20_000 {
        let draw = |at| words(11, 77, round, at);
        let [which, n_changes, cut, zip] = draw(0);
        let mut bytes = seeds[below(which, 6) as usize].clone();
        for change in 0..below(n_changes, 4) {
            let [place, value, ..] = draw(change + 1);
            let place = below(place, bytes.len() as u32) as usize;
            bytes[place] = value as u8;
        }
        if cut % 4 == 0 {
            bytes.truncate(below(cut, bytes.len() as u32) as usize);
        }
        let parsed = match zip % 8 {
            0 => parse_idx(&gzip(&bytes)),
            1 => parse_idx(&[&GZIP, bytes.as_slice()].concat()),
            _ => parse_idx(&bytes),
        };
        if let Ok(array) = parsed {
            assert_eq!(array.to_bytes(), bytes);
            read += 1;
        }
    }
    assert!(
        (2_000..18_000).contains(&read),
        "{read} of 20,000 are files"
    );
}

#[test]
fn files_are_written_and_read() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("hlx-data-idx-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    for (array, name) in arrays().iter().zip(["a", "b.gz", "c", "d.gz", "e", "f.gz"]) {
        let path = folder.join(name);
        write_idx(&path, array)?;
        assert_eq!(&read_idx(&path)?, array);
        let start = fs::read(&path).expect("a file")[..2].to_vec();
        assert_eq!(start == GZIP, name.ends_with(".gz"));
    }
    let missing = read_idx(&folder.join("none"))
        .expect_err("no file")
        .to_string();
    assert!(missing.contains("none: "), "{missing}");
    fs::remove_dir_all(&folder).expect("removed");
    Ok(())
}

#[test]
fn an_array_whose_shape_is_another_is_refused() {
    let error = IdxArray::new(&[2, 2], IdxValues::U8(vec![1])).expect_err("one value");
    let expected = "idx_array: the shape is [2, 2], and there are 1 values";
    assert_eq!(error.to_string(), expected);
    let error = IdxArray::new(&[1 << 33, 0], IdxValues::U8(vec![])).expect_err("too large");
    assert!(error.to_string().starts_with("idx_array: IDX cannot state"));
}
