//! Tensors from and to `ndarray`, files that Python reads, and other devices.
//!
//! `cargo run --release --example 03_arrays_and_files`
#![allow(clippy::print_stdout)] // An example shows what it computes.

use std::collections::BTreeMap;

use hlx::io::{from_ndarray, load_npz, save_npz, save_safetensors, to_ndarray};
use hlx::prelude::*;
use ndarray::{Array2, Ix2};

fn main() -> Result<()> {
    show(&Device::open_from_env("auto")?)
}

fn show(device: &Device) -> Result<()> {
    let table = Array2::from_shape_fn((3, 4), |(row, column)| (10 * row + column) as i64);
    // 64-bit integers become i32, if they fit.
    let x = from_ndarray(device, &table)?;
    println!("{x}");
    let y = to_ndarray::<i32, Ix2>(&x.transpose(0, 1)?)?;
    assert_eq!(y[[3, 2]], 23);

    // `numpy.load` and `safetensors.torch.load_file` read these.
    let folder = std::env::temp_dir().join(format!("hlx-example-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    let all = BTreeMap::from([
        ("table".to_owned(), x.clone()),
        ("noise".to_owned(), Tensor::randn(device, &[2, 2], 1)?),
    ]);
    save_npz(&folder.join("all.npz"), &all)?;
    save_safetensors(&folder.join("all.safetensors"), &all)?;
    let read = load_npz(device, &folder.join("all.npz"))?;
    assert!(read["noise"].equal(&all["noise"])?);
    std::fs::remove_dir_all(&folder).expect("the folder is ours");

    // Another device has the same bits, and gradients find their way back.
    let other = Device::open("cpu")?;
    let there = all["noise"].to(&other)?;
    let products = [all["noise"].matmul(&all["noise"])?, there.matmul(&there)?];
    assert!(products[0].to(&other)?.equal(&products[1])?);
    Ok(())
}

#[test]
fn it_runs_on_every_device() -> Result<()> {
    hlx::device::testing::devices().iter().try_for_each(show)
}
