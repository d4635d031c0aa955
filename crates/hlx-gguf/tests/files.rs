//! Files that the `gguf` package has written are read, and files are written as they were read.

mod common;

use std::fs;

use hlx_gguf::{Array, BlockKind, Gguf, Metadata, NewTensor, Value, to_gguf, write_gguf};

use common::{Scratch, bytes_of, fixture};

#[test]
fn metadata_of_every_type_are_read() {
    let file = Gguf::open(&fixture("small.gguf")).expect("a file");
    let metadata = file.metadata();
    let expected = [
        ("a.u8", Value::U8(200)),
        ("a.i8", Value::I8(-100)),
        ("a.u16", Value::U16(60_000)),
        ("a.i16", Value::I16(-30_000)),
        ("a.u32", Value::U32(4_000_000_000)),
        ("a.i32", Value::I32(-2_000_000_000)),
        ("a.f32", Value::F32(0.1)),
        ("a.bool", Value::Bool(true)),
        ("a.text", Value::from("gr\u{fc}n \u{2581} \n")),
        ("a.u64", Value::U64(1 << 63)),
        ("a.i64", Value::I64(-(1 << 62))),
        ("a.f64", Value::F64(0.1)),
        ("a.floats", Value::from(vec![0.5_f32, -1.5])),
        ("a.numbers", Value::from(vec![1, -2, 3])),
        ("a.truths", Value::from(vec![true, false])),
    ];
    for (key, value) in expected {
        assert_eq!(metadata.get(key), Some(&value), "{key}");
    }
    let texts = metadata.texts("a.texts").expect("texts").expect("a key");
    assert_eq!(texts, ["", "a", "\u{2581}b"]);
    let lists = metadata.get("a.lists").and_then(Value::as_array);
    let [one, two] = [vec![1, 2], vec![3]].map(Array::I32);
    assert_eq!(lists, Some(&Array::Array(vec![one, two])));
}

#[test]
fn tensors_of_every_kind_are_read_whole_and_by_rows() {
    let file = Gguf::open(&fixture("small.gguf")).expect("a file");
    assert_eq!(file.tensors().len(), BlockKind::ALL.len());
    for kind in BlockKind::ALL {
        let tensor = file.tensor(kind.name()).expect("a tensor");
        let (rows, columns) = match kind.block_values() {
            256 => (2, 256),
            1 => (3, 5),
            n => (3, n),
        };
        assert_eq!(
            (tensor.kind(), tensor.shape()),
            (kind, &[rows, columns][..])
        );
        let bytes = bytes_of(kind, rows * columns / kind.block_values());
        assert_eq!(file.read(tensor).expect("bytes"), bytes, "{kind:?}");
        let values = file.values(tensor).expect("values");
        let last = file.values_of_rows(tensor, rows - 1..rows).expect("a row");
        assert_eq!(values[(rows - 1) * columns..], last, "{kind:?}");
        let refused = file.read_rows(tensor, 0..rows + 1).expect_err("a row more");
        let expected = format!(
            "read_rows: rows 0..{} of {}, which has {rows}",
            rows + 1,
            kind.name()
        );
        assert_eq!(refused.to_string(), expected);
    }
}

#[test]
fn a_model_in_several_files_is_opened_by_any_of_them() {
    for name in ["m-00001-of-00003.gguf", "m-00003-of-00003.gguf"] {
        let file = Gguf::open(&fixture("parts").join(name)).expect("a model");
        assert_eq!(file.paths().count(), 3);
        assert_eq!(file.metadata().text("a.text"), Ok(Some("of the first")));
        for at in 0..5 {
            let tensor = file.tensor(&format!("t{at}")).expect("a tensor");
            assert_eq!(file.values(tensor).expect("values"), [at as f32; 6]);
        }
    }
}

#[test]
fn a_file_is_told_by_how_it_begins() {
    assert!(Gguf::is_gguf(&fixture("small.gguf")));
    for other in ["make_gguf.py", "parts", "no such file"] {
        assert!(!Gguf::is_gguf(&fixture(other)), "{other}");
    }
}

#[test]
fn parts_that_are_missing_or_of_other_models_are_named() {
    let scratch = Scratch::new("parts");
    let [one, two, three] = [1, 2, 3].map(|n| format!("m-0000{n}-of-00003.gguf"));
    let copy = |from: &str, to: &str| {
        fs::copy(fixture("parts").join(from), scratch.0.join(to)).expect("copied");
    };
    let refused = |name: &str| {
        let error = Gguf::open(&scratch.0.join(name)).expect_err("a broken model");
        let line = error.to_string();
        let folder = format!("{}/", scratch.0.display());
        line.strip_prefix(&folder).expect("the path").to_owned()
    };
    copy(&one, &one);
    assert!(refused(&one).starts_with("m-00002-of-00003.gguf: No such file"));
    copy(&three, &two);
    copy(&three, &three);
    assert_eq!(
        refused(&one),
        "m-00002-of-00003.gguf: does not say that it is file 2 of 3 of its model"
    );
    copy(&one, "other.gguf");
    assert_eq!(
        refused("other.gguf"),
        "other.gguf: is file 1 of 3 of its model, and its name does not end in `-00001-of-00003.gguf`"
    );
}

/// A file's metadata and tensors.
fn contents(file: &Gguf) -> (Metadata, Vec<NewTensor>) {
    let tensors = file.tensors().map(|tensor| NewTensor {
        name: tensor.name().to_owned(),
        kind: tensor.kind(),
        shape: tensor.shape().to_vec(),
    });
    (file.metadata().clone(), tensors.collect())
}

#[test]
fn a_file_is_written_with_the_same_bytes_each_time_and_read_back() {
    let scratch = Scratch::new("written");
    let file = Gguf::open(&fixture("small.gguf")).expect("a file");
    let (mut metadata, tensors) = contents(&file);
    let bytes = |at: usize| file.read(file.tensor(&tensors[at].name).expect("a tensor"));
    let lengths = [32, 64, 4096].map(|alignment: u32| {
        metadata.set("general.alignment", alignment);
        let path = scratch.0.join("written.gguf");
        write_gguf(&path, &metadata, &tensors, bytes).expect("written");
        let written = fs::read(&path).expect("a file");
        assert!(written == to_gguf(&metadata, &tensors, bytes).expect("bytes"));
        let back = Gguf::open(&path).expect("read back");
        assert_eq!(back.metadata(), &metadata);
        for tensor in file.tensors() {
            let found = back.tensor(tensor.name()).expect("a tensor");
            assert_eq!(found.shape(), tensor.shape());
            assert!(back.read(found).expect("bytes") == file.read(tensor).expect("bytes"));
        }
        written.len()
    });
    assert!(lengths.is_sorted() && lengths[2] % 4096 == 0);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let tensor = |name: &str, shape: &[usize]| NewTensor {
        name: name.to_owned(),
        kind: BlockKind::Q8_0,
        shape: shape.to_vec(),
    };
    let refused = |tensors: &[NewTensor]| {
        let written = to_gguf(&Metadata::default(), tensors, |_| Ok(vec![0; 34]));
        written.expect_err("no file").to_string()
    };
    let twice = [tensor("a", &[32]), tensor("a", &[32])];
    assert_eq!(refused(&twice), "write_gguf: the tensor a is there twice");
    assert_eq!(
        refused(&[tensor("a", &[2, 33])]),
        "write_gguf: the tensor a has rows of 33 values, expected a multiple of 32, the block of Q8_0"
    );
    assert_eq!(
        refused(&[tensor("a", &[2, 32])]),
        "write_gguf: the tensor a has 34 bytes, expected 68"
    );
    assert_eq!(
        refused(&[tensor("a", &[0, 32])]),
        "write_gguf: the tensor a has shape [0, 32], expected 1 to 4 extents of 1 or more"
    );
    assert!(refused(&[tensor(&"a".repeat(65), &[32])]).ends_with("has 65 bytes, expected 1 to 64"));
    let mut metadata = Metadata::default();
    metadata.set("general.alignment", 24_u32);
    let written = to_gguf(&metadata, &[], |_| Ok(Vec::new()));
    assert_eq!(
        written.expect_err("no alignment").to_string(),
        "write_gguf: `general.alignment` is 24, expected a power of two from 8 to 1073741824"
    );
}
