//! Tensors written to files and read back, and files that are not what they should be.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use hlx_core::testing::devices;
use hlx_io::{
    Result, from_safetensors, load_npy, load_npz, load_safetensors, save_npy, save_npz,
    save_safetensors, to_safetensors,
};

/// A folder of one test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hlx-io-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Tensors of every type and of awkward shapes, some of them views.
fn tensors(device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let mut all = BTreeMap::new();
    for dtype in DType::ALL {
        let x = Tensor::randn(device, &[3, 5], 1)?
            .mul(3.0)?
            .to_dtype(dtype)?;
        all.insert(format!("layer.{dtype}"), x.transpose(0, 1)?);
        all.insert(
            format!("none.{dtype}"),
            Tensor::zeros(device, &[2, 0], dtype)?,
        );
        all.insert(format!("one.{dtype}"), Tensor::ones(device, &[], dtype)?);
    }
    let odd = [f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE, f32::MAX];
    all.insert("odd".into(), Tensor::from_slice(device, &odd, &[5])?);
    Ok(all)
}

fn assert_equal(found: &BTreeMap<String, Tensor>, want: &BTreeMap<String, Tensor>) -> Result<()> {
    let names = |all: &BTreeMap<String, Tensor>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(want));
    for (name, want) in want {
        let found = &found[name];
        assert_eq!(
            (found.shape(), found.dtype()),
            (want.shape(), want.dtype()),
            "{name}"
        );
        // By their text, in which NaN is equal to itself.
        let words = |x: &Tensor| to_safetensors(&BTreeMap::from([(String::new(), x.clone())]));
        assert_eq!(words(found)?, words(want)?, "{name}");
    }
    Ok(())
}

#[test]
fn safetensors_come_back_as_they_were() -> Result<()> {
    let folder = Folder::new("safetensors");
    for device in devices() {
        let (all, file) = (tensors(device)?, folder.file("all.safetensors"));
        save_safetensors(&file, &all)?;
        assert_equal(&load_safetensors(device, &file)?, &all)?;
    }
    Ok(())
}

#[test]
fn npy_and_npz_come_back_as_they_were() -> Result<()> {
    let folder = Folder::new("npy");
    for device in devices() {
        let mut all = tensors(device)?;
        all.retain(|_, x| x.dtype() != DType::BF16);
        let file = folder.file("all.npz");
        save_npz(&file, &all)?;
        assert_equal(&load_npz(device, &file)?, &all)?;
        for (name, x) in &all {
            let file = folder.file("one.npy");
            save_npy(&file, x)?;
            let one = |x: Tensor| BTreeMap::from([(name.clone(), x)]);
            assert_equal(&one(load_npy(device, &file)?), &one(x.clone()))?;
        }
        let half = Tensor::ones(device, &[2], DType::BF16)?;
        let error = save_npy(&file, &half).expect_err("NumPy has no such type");
        let want = "save_npy: the tensor has elements of bf16, which NumPy does not have; convert it \
                    to f32";
        assert_eq!(error.to_string(), want);
    }
    Ok(())
}

/// An npy file of version 1 with a header as NumPy writes it.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn arrays_of_other_orders_and_types_are_read() -> Result<()> {
    let folder = Folder::new("orders");
    let device = &devices()[0];
    let read = |bytes: Vec<u8>| {
        let file = folder.file("array.npy");
        fs::write(&file, bytes).expect("writes");
        load_npy(device, &file)
    };
    // [[0, 1, 2], [3, 4, 5]] by columns.
    let columns: Vec<u8> = [0_i32, 3, 1, 4, 2, 5]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let x = read(npy("<i4", true, "(2, 3)", &columns))?;
    assert_eq!(
        (x.shape(), x.to_vec::<i32>()?),
        (&[2, 3][..], vec![0, 1, 2, 3, 4, 5])
    );
    let big_endian: Vec<u8> = [1.5_f64, -2.0]
        .iter()
        .flat_map(|x| x.to_be_bytes())
        .collect();
    assert_eq!(
        read(npy(">f8", false, "(2,)", &big_endian))?.to_vec::<f32>()?,
        [1.5, -2.0]
    );
    let long: Vec<u8> = [7_i64, -1].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(
        read(npy("<i8", false, "(2,)", &long))?.to_vec::<i32>()?,
        [7, -1]
    );
    let longer: Vec<u8> = [7_i64, 1 << 40]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let error = read(npy("<i8", false, "(2,)", &longer)).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "load_npy: element 1 of the array is 1099511627776, which i32 does not hold"
    );
    let error = read(npy("<c8", false, "(1,)", &[0; 8])).expect_err("complex");
    let text = error.to_string();
    assert!(
        text.ends_with("array.npy: the array has elements of c8, which no tensor stores"),
        "{text}"
    );
    let error = read(npy("<f4", false, "(1000, 1000)", &[0; 8])).expect_err("a lie");
    let text = error.to_string();
    assert!(
        text.contains("the array of shape [1000, 1000] and type f4 has 8 bytes"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_file_cut_anywhere_is_one_line() -> Result<()> {
    let folder = Folder::new("cut");
    let device = &devices()[0];
    let x = Tensor::randn(device, &[3, 2], 1)?;
    let all = BTreeMap::from([("x".to_owned(), x.clone()), ("y".to_owned(), x.clone())]);
    let names = ["x.npy", "x.npz", "x.safetensors"];
    save_npy(&folder.file(names[0]), &x)?;
    save_npz(&folder.file(names[1]), &all)?;
    save_safetensors(&folder.file(names[2]), &all)?;
    for name in names {
        let file = folder.file(name);
        let whole = fs::read(&file).expect("reads");
        for length in 0..whole.len() {
            fs::write(&file, &whole[..length]).expect("writes");
            let outcome = match name {
                "x.npy" => load_npy(device, &file).map(drop),
                "x.npz" => load_npz(device, &file).map(drop),
                _ => load_safetensors(device, &file).map(drop),
            };
            let text = outcome.expect_err("the file is cut").to_string();
            assert!(
                !text.contains('\n') && text.contains(name),
                "{length}: {text}"
            );
        }
    }
    let error = load_npy(device, &folder.file("missing.npy")).expect_err("no file");
    assert!(error.to_string().starts_with("load_npy: "), "{error}");
    Ok(())
}

#[test]
fn no_changed_byte_makes_a_reader_panic() -> Result<()> {
    let folder = Folder::new("changed");
    let device = &devices()[0];
    let all = BTreeMap::from([("x".to_owned(), Tensor::randn(device, &[3, 2], 1)?)]);
    let (npz, safe) = (folder.file("x.npz"), folder.file("x.safetensors"));
    let npy = folder.file("x.npy");
    save_npy(&npy, &all["x"])?;
    save_npz(&npz, &all)?;
    save_safetensors(&safe, &all)?;
    let mut refused = 0;
    for file in [npy, npz, safe] {
        let whole = fs::read(&file).expect("reads");
        for place in 0..whole.len() {
            for change in [0x01, 0x10, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] ^= change;
                fs::write(&file, bytes).expect("writes");
                let outcome = match file.extension().and_then(|name| name.to_str()) {
                    Some("npy") => load_npy(device, &file).map(drop),
                    Some("npz") => load_npz(device, &file).map(drop),
                    _ => load_safetensors(device, &file).map(drop),
                };
                refused += usize::from(outcome.is_err());
            }
        }
    }
    assert!(refused > 500, "{refused} changes refused");
    Ok(())
}

#[test]
fn types_that_no_tensor_stores_are_refused() -> Result<()> {
    let device = &devices()[0];
    let header = br#"{"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend([0, 0]);
    let error = from_safetensors(device, &bytes).expect_err("f8");
    let want = "from_safetensors: w has elements of F8_E4M3, which no tensor stores";
    assert_eq!(error.to_string(), want);
    Ok(())
}
