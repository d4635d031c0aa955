//! Sizes whose product wraps, given to every launcher that takes sizes: each is refused before anything runs, though the
//! wrapped product is the length of the buffers that come with it.

#[path = "sizes/rows.rs"]
mod rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hlx_core::sizes::LARGEST;
use hlx_core::{Buffer, Device};
use hlx_kernels::testing::devices;
use hlx_kernels::{KernelError, Layout, Operand, row_major};

/// Two factors, and what their product is in 64 bits that wrap.
const WRAPPING: [([usize; 2], usize); 5] = [
    ([1 << 32, 1 << 32], 0),
    ([1 << 63, 2], 0),
    ([2, 1 << 63], 0),
    // 3 x 0xaaaa_aaaa_aaaa_aaab = 2^65 + 1.
    ([3, 0xaaaa_aaaa_aaaa_aaab], 1),
    ([0xaaaa_aaaa_aaaa_aaab, 3], 1),
];

/// Launchers of sizes that no row can wrap, with the reason.
const NEEDS_NO_ROW: [(&str, &str); 14] = [
    ("argsort", "takes an axis"),
    ("cumprod", "takes an axis"),
    ("cumsum", "takes an axis"),
    ("gather", "takes an axis"),
    ("index_select", "takes an axis"),
    ("reduce", "takes axes"),
    ("sort", "takes an axis"),
    ("topk", "takes an axis and a number below its extent"),
    ("scatter", "takes an axis and the shape of a layout"),
    ("scatter_add", "as scatter"),
    ("index_add", "as scatter"),
    (
        "forward",
        "of prepared operands of a shape that was checked",
    ),
    ("delta", "of an attention that was checked"),
    ("append_integer_heads", "checks as append_heads"),
];

#[test]
fn sizes_whose_product_wraps_are_refused_by_every_launcher() {
    let names: BTreeSet<&str> = rows::ROWS.iter().map(|row| row.0).collect();
    for device in devices() {
        let other = device.buffer_of::<u32>(&[7; 300]).expect("a buffer");
        for (name, launch) in rows::ROWS {
            for (factors, len) in WRAPPING {
                let x = device.alloc(len).expect("a small buffer");
                let found = launch(device, &x, factors);
                let error = found.err().unwrap_or_else(|| {
                    panic!("{name} takes {factors:?} for a buffer of {len} on {device:?}")
                });
                assert!(!error.to_string().contains('\n'), "{name}: {error}");
            }
        }
        assert_eq!(device.download_words(&other).expect("read"), [7; 300]);
    }
    let excused: BTreeSet<&str> = NEEDS_NO_ROW.iter().map(|(name, _)| *name).collect();
    let missing: Vec<String> = launchers_of_sizes()
        .into_iter()
        .filter(|name| !names.contains(&**name) && !excused.contains(&**name))
        .collect();
    assert!(missing.is_empty(), "launchers without a row: {missing:?}");
}

/// The source files of the crate, without tests.
fn sources() -> Vec<(PathBuf, String)> {
    let (mut folders, mut found) = (
        vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")],
        vec![],
    );
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the crate's sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
                let text = std::fs::read_to_string(&path).expect("readable");
                let product = text.split("#[cfg(test)]\nmod tests {").next();
                found.push((path, product.unwrap_or_default().to_owned()));
            }
        }
    }
    found
}

/// The public functions that take a device and sizes: numbers, or one of the structs of sizes.
fn launchers_of_sizes() -> BTreeSet<String> {
    const SIZES: [&str; 17] = [
        "usize",
        "MatMul",
        "Conv2d",
        "Pool2d",
        "BatchNorm",
        "&Norm,",
        "&Dropout",
        "&Rope",
        "TimeStep,",
        "&Attention,",
        "AttentionOutput",
        "Choices",
        "ExpertsProduct",
        "IntegerProduct",
        "Interpolate2d",
        "Watched",
        "TensorSpan",
    ];
    let mut found = BTreeSet::new();
    for (_, text) in sources() {
        for part in text.split("\npub fn ").skip(1) {
            let signature = part.split('{').next().unwrap_or_default();
            let is_launcher =
                signature.contains("device: &Device") && signature.contains("Result<");
            if is_launcher && SIZES.iter().any(|size| signature.contains(size)) {
                let name = signature.split(['(', '<']).next().unwrap_or_default();
                found.insert(name.to_owned());
            }
        }
    }
    assert!(found.len() > 40, "{found:?}");
    found
}

fn of(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).expect("a shape")
}

#[test]
fn no_view_has_a_number_of_elements_that_wraps() {
    for (factors, _) in WRAPPING {
        let [a, b] = factors;
        for shape in [&[a, b][..], &[a, 1, b], &[a, b, 0], &[0, a, b]] {
            assert!(Layout::contiguous(shape).is_err(), "{shape:?}");
            assert!(of(&[]).expand(shape).is_err(), "{shape:?}");
            assert!(of(&[1]).reshape(shape).is_err(), "{shape:?}");
        }
        assert!(row_major(&[1, a, b]).iter().all(|&stride| stride > 0));
    }
    let wide = of(&[1])
        .expand(&[LARGEST])
        .expect("the largest of all views");
    assert_eq!(wide.n_elements(), LARGEST);
    assert!(wide.unfold(0, LARGEST / 2, 1).is_err());
    assert!(of(&[1, 1]).expand(&[LARGEST, 2]).is_err());
}

#[test]
fn no_layout_leads_past_its_buffer() -> Result<(), KernelError> {
    let device = &devices()[0];
    let (x, out) = (device.buffer_of(&[1.0; 64])?, device.alloc(64)?);
    let line = of(&[64]);
    for offset in [
        1,
        64,
        isize::MAX as usize - 63,
        1 << 63,
        usize::MAX - 63,
        usize::MAX,
    ] {
        let moved = line.starting_at(offset);
        for layout in [moved.flip(0).expect("flipped"), moved.clone()] {
            let operand = Operand {
                buffer: &x,
                layout: &layout,
            };
            let refused = hlx_kernels::elementwise::copy_strided(device, operand, &out);
            assert!(refused.is_err(), "{layout}");
        }
    }
    for far in [usize::MAX, 1 << 63, isize::MAX as usize] {
        assert!(line.select(0, far).is_err());
        assert!(line.slice(0, (far, far, 1)).is_err());
        let one = line.slice(0, (5, 64, far)).expect("one element");
        assert_eq!((one.shape(), one.span()), (&[1][..], (5, 6)));
        let one = line.unfold(0, 64, far).expect("one window");
        assert_eq!((one.shape(), one.span()), (&[1, 64][..], (0, 64)));
        assert!(line.diagonal(far as isize, 0, 1).is_err());
    }
    Ok(())
}

/// What a row's launcher is given: buffers of the wrapped length, and the factors.
type Launch = fn(&Device, &Buffer, [usize; 2]) -> Result<(), KernelError>;
