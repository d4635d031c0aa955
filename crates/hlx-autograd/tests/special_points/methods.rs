//! The methods of a tensor, read from the sources: each has a row at its special points, or a reason for none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hlx_autograd::{Activation, Binary, Unary};

/// No gradient goes through these: their results are truth values, places or integers, or steps of no slope.
const NO_GRADIENT: &str = "any all argmax argmin argsort isnan isfinite logical_not bitwise_not floor_divide eq ne lt \
    le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift \
    view_dtype takes_experts_in_blocks";

/// Frames over a kind of operations, each of which has a row of its own.
const FRAMES: &str = "unary binary activation loss_with_rows max_pool2d_with_indices";

/// Kernels of training without a second derivative; their gradients have tests beside them.
const KERNELS: &str = "attention packed_attention cross_entropy_scaled cross_entropy_with_rows dropout embedding \
    embedding_padded feed_forward mse_scaled to_experts experts_linear checkpoint checkpoint_with lstm_scan gru_scan \
    linears gated_feed_forward";

/// Linear in their input, or in each of two, with constants for the rest: no point is special.
const LINEAR: &str = "from_experts rope with_magnitudes";

/// The public methods of `impl Tensor` in a source, with their arguments; tests are not among them.
fn signatures(text: &str) -> Vec<(String, String)> {
    let product = text.split("\nmod tests {").next().unwrap_or(text);
    let mut found = Vec::new();
    for block in product
        .split("\nimpl ")
        .skip(1)
        .filter(|block| block.starts_with("Tensor {"))
    {
        let block = block.split("\n}").next().unwrap_or(block);
        for method in block.split("\n    pub fn ").skip(1) {
            let head = method.split(" -> ").next().unwrap_or(method);
            let (name, arguments) = head.split_once('(').unwrap_or((head, ""));
            let name = name.split('<').next().unwrap_or(name);
            found.push((name.to_owned(), arguments.to_owned()));
        }
    }
    found
}

/// The sources under a folder, without tests.
fn files_under(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        let own = path.strip_prefix(env!("CARGO_MANIFEST_DIR"));
        let is_test = own.is_ok_and(|own| own.to_string_lossy().contains("test"));
        if path.is_dir() {
            files_under(&path, files);
        } else if !is_test {
            files.push(path);
        }
    }
}

/// The methods of a tensor whose arguments have a size: a number of elements, a shape, a place, a width, or options
/// with such ones. Dimensions are none.
pub fn sized() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![sources.join("create.rs")];
    files_under(&sources.join("ops"), &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        for (name, arguments) in signatures(&text) {
            let has_size = arguments.split(',').map(str::trim).any(|argument| {
                let of_size = [
                    "usize",
                    "isize",
                    "[E]",
                    "ConvOptions",
                    "PoolOptions",
                    "f64;",
                ];
                let is_dimension = [
                    "dim",
                    "first: isize",
                    "second: isize",
                    "order",
                    "last: isize",
                ];
                of_size.iter().any(|kind| argument.contains(kind))
                    && !is_dimension.iter().any(|kind| argument.starts_with(kind))
            });
            if has_size {
                names.insert(name);
            }
        }
    }
    names
}

#[test]
fn every_operation_has_a_row_at_its_special_points() {
    let mut files = Vec::new();
    files_under(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops"),
        &mut files,
    );
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        names.extend(signatures(&text).into_iter().map(|(name, _)| name));
    }
    names.extend(
        Unary::ALL
            .iter()
            .map(|operation| operation.name().to_owned()),
    );
    names.extend(
        Binary::ALL
            .iter()
            .map(|operation| operation.name().to_owned()),
    );
    names.extend(Activation::ALL.iter().map(ToString::to_string));
    assert!(names.len() > 150, "{} methods were found", names.len());
    let rows = super::rows::ROWS.iter();
    let rows: BTreeSet<&str> = rows
        .filter_map(|(name, _)| name.split([',', ' ']).next())
        .collect();
    let exempt = [NO_GRADIENT, FRAMES, KERNELS, LINEAR];
    let exempt: BTreeSet<&str> = exempt
        .iter()
        .flat_map(|list| list.split_whitespace())
        .collect();
    let missing = names
        .iter()
        .filter(|name| !rows.contains(name.as_str()) && !exempt.contains(name.as_str()));
    let missing: Vec<&String> = missing.collect();
    assert!(missing.is_empty(), "no row and no reason: {missing:?}");
    let gone = rows.union(&exempt).filter(|name| !names.contains(**name));
    let gone: Vec<&&str> = gone.collect();
    assert!(gone.is_empty(), "no such methods: {gone:?}");
}
