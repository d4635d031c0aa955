//! What is measured: a list of cases by device, each a name that PyTorch's side reads as well.

use anyhow::{Context as _, Result, bail};
use hlx_core::{Device, DeviceKind};

use crate::step::configuration;

/// The families that `--kernel` names, in the order in which they run.
pub const FAMILIES: [&str; 19] = [
    "matmul",
    "integer",
    "softmax",
    "layer_norm",
    "norm",
    "gelu",
    "cross_entropy",
    "attention",
    "reduce",
    "optimizer",
    "embedding",
    "elementwise",
    "strided",
    "axes",
    "chains",
    "conv2d",
    "lstm",
    "tree_digest",
    "step",
];

/// What a case's rate counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Floating-point operations of one run.
    Flops(f64),
    /// Bytes that one run has to move.
    Bytes(f64),
}

impl Amount {
    /// The unit of the rate.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Flops(_) => "TFLOP/s",
            Self::Bytes(_) => "GB/s",
        }
    }

    /// The rate of a run of this many milliseconds, in the unit.
    pub fn rate(self, milliseconds: f64) -> f64 {
        match self {
            Self::Flops(flops) => flops / milliseconds * 1e-9,
            Self::Bytes(bytes) => bytes / milliseconds * 1e-6,
        }
    }
}

/// One case: an operation and its sizes, written `softmax_forward 16384x4096`.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The operation.
    pub op: String,
    /// Its sizes; their meaning is the operation's.
    pub sizes: Vec<usize>,
    /// What it is called instead of its sizes: the configuration of a step.
    pub label: Option<String>,
}

impl Case {
    fn new(op: &str, sizes: &[usize]) -> Self {
        Self {
            op: op.to_owned(),
            sizes: sizes.to_vec(),
            label: None,
        }
    }

    fn step(name: &str) -> Self {
        Self {
            op: "step".to_owned(),
            sizes: Vec::new(),
            label: Some(name.to_owned()),
        }
    }

    /// Reads a case's name.
    ///
    /// # Errors
    /// A text that is not an operation with its sizes.
    pub fn parse(name: &str) -> Result<Self> {
        let (op, rest) = name.split_once(' ').context("an operation and its sizes")?;
        if op == "step" {
            return Ok(Self::step(rest));
        }
        let sizes: Result<Vec<usize>, _> = rest.split('x').map(str::parse).collect();
        let case = Self::new(op, &sizes.with_context(|| format!("sizes `{rest}`"))?);
        match OPERATIONS.iter().find(|(known, ..)| *known == op) {
            Some((_, count, _)) if *count == case.sizes.len() => Ok(case),
            Some((_, count, _)) => bail!("{op} takes {count} sizes, found `{rest}`"),
            None => bail!("no operation `{op}`"),
        }
    }

    /// The name: operation and sizes.
    pub fn name(&self) -> String {
        format!("{} {}", self.op, self.shape())
    }

    /// The sizes, or the configuration.
    pub fn shape(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        self.label.clone().unwrap_or_else(|| sizes.join("x"))
    }

    /// The family that it belongs to.
    pub fn family(&self) -> &'static str {
        let found = OPERATIONS.iter().find(|(op, ..)| *op == self.op);
        found.map_or("step", |(_, _, family)| family)
    }

    /// What one run counts. Bytes are those that the operation cannot do without, each input
    /// read once and each output written once.
    pub fn amount(&self) -> Amount {
        let s: Vec<f64> = self.sizes.iter().map(|&size| size as f64).collect();
        let floats = |count: f64| Amount::Bytes(4.0 * count);
        match self.op.as_str() {
            "matmul" | "matmul_tn" | "matmul_nt" | "linear" | "linear_gelu" | "weight_gradient"
            | "integer_product" | "integer_sums" | "integer_gelu" | "integer_gelu_slope" => {
                Amount::Flops(2.0 * s[0] * s[1] * s[2])
            }
            // A product of the weight with every patch, forward and for either gradient.
            "conv2d_forward" | "conv2d_backward_input" | "conv2d_backward_weight" => {
                Amount::Flops(2.0 * s[0] * s[1] * s[2] * s[3] * s[3] * s[4] * s[4])
            }
            // The products with both weights, backward also those of their gradients.
            "lstm_forward" => Amount::Flops(8.0 * s[0] * s[1] * s[3] * (s[2] + s[3])),
            "lstm_backward" => Amount::Flops(16.0 * s[0] * s[1] * s[3] * (s[2] + s[3])),
            // B, T, H, D: products over the pairs at or below the diagonal, 2 forward, 5 backward.
            "attention_forward" | "integer_attention_forward" => {
                Amount::Flops(2.0 * 2.0 * attention_pairs(&s))
            }
            "attention_backward" | "integer_attention_backward" => {
                Amount::Flops(2.0 * 5.0 * attention_pairs(&s))
            }
            "softmax_forward" | "layer_norm_forward" | "gelu_forward" | "copy" | "transposed"
            | "permuted" | "cat" | "exp" | "add_row" => floats(2.0 * s.iter().product::<f64>()),
            "to_bf16" => floats(1.5 * s.iter().product::<f64>()),
            "sum_inner" | "sum_outer" | "amax_inner" | "argmax_inner" | "topk" => {
                floats(s.iter().product::<f64>())
            }
            "cumsum_inner" | "cumsum_outer" | "index_select" => {
                floats(2.0 * s.iter().product::<f64>())
            }
            // Indices, or places, are words of their own; additions also read what they add to.
            "gather" | "sort_inner" | "index_add" => floats(3.0 * s.iter().product::<f64>()),
            "scatter_add" => floats(4.0 * s.iter().product::<f64>()),
            // A byte of the condition.
            "where" => floats(3.25 * s.iter().product::<f64>()),
            "softmax_backward"
            | "layer_norm_backward"
            | "gelu_backward"
            | "add"
            | "chain_6"
            | "chain_6_compiled"
            | "chain_12"
            | "chain_12_compiled"
            | "add_transposed" => floats(3.0 * s.iter().product::<f64>()),
            "rms_norm_forward" => floats(2.0 * s[0] * s[1]),
            "rms_norm_backward" => floats(3.0 * s[0] * s[1]),
            "batch_norm_forward" => floats(2.0 * s[0] * s[1] * s[2] * s[2]),
            "batch_norm_backward" => floats(3.0 * s[0] * s[1] * s[2] * s[2]),
            "layer_norm_params" => floats(2.0 * s[0] * s[1]),
            "cross_entropy_forward" | "global_norm" | "column_sum" | "tree_digest" => {
                floats(s.iter().product::<f64>())
            }
            "cross_entropy_backward" => floats(2.0 * s[0] * s[1]),
            "adamw" => floats(7.0 * s[0]),
            "embedding_forward" => floats(2.0 * s[0] * s[2]),
            "embedding_backward" => floats(s[0] * s[2] + s[1] * s[2]),
            _ => self
                .label
                .as_deref()
                .and_then(crate::step::configuration)
                .map_or(Amount::Flops(0.0), |step| Amount::Flops(step.flops())),
        }
    }
}

/// Pairs of a query and a key at or below it, of all heads, times the head's width.
fn attention_pairs(s: &[f64]) -> f64 {
    s[0] * s[2] * s[1] * (s[1] + 1.0) / 2.0 * s[3]
}

/// The operations: name, number of sizes, family.
///
/// Products have M, N, K: `matmul` is A B, `matmul_tn` has A stored transposed, `matmul_nt` B;
/// `linear` is `matmul_nt` with a bias, `linear_gelu` applies GELU to it; `weight_gradient` is
/// `matmul_tn` over K rows in 8 shards; `integer_product` is `matmul_nt` in the integer arithmetic, its
/// operands' preparation included, `integer_sums` the same without it, `integer_gelu` with GELU after it and
/// `integer_gelu_slope` with its slope; `integer_attention_*` prepare their operands. Rows and columns elsewhere; attention has B, T, H, D;
/// an embedding has the number of ids, the vocabulary and the width.
///
/// `transposed` and `permuted` (B, T, H, D to B, H, T, D) write contiguous copies, `cat` joins the two
/// halves of the columns, `add_row` adds a row to every row, and `add_transposed` the transposed
/// operand. `axes.rs` says what goes along which axis. `chain_6` and `chain_12` are 6 and 12 element-wise
/// operations, `_compiled` the same beside torch.compile. Batch norms have samples, channels and the
/// images' extent; the backward of a norm has its parameters' gradients too. Convolutions have samples,
/// channels of both sides, and the extents of images and kernels. A layer of an LSTM has samples,
/// positions, inputs and units.
const OPERATIONS: [(&str, usize, &str); 63] = [
    ("matmul", 3, "matmul"),
    ("matmul_tn", 3, "matmul"),
    ("matmul_nt", 3, "matmul"),
    ("linear", 3, "matmul"),
    ("linear_gelu", 3, "matmul"),
    ("weight_gradient", 3, "matmul"),
    ("integer_product", 3, "integer"),
    ("integer_sums", 3, "integer"),
    ("integer_gelu", 3, "integer"),
    ("integer_gelu_slope", 3, "integer"),
    ("integer_attention_forward", 4, "integer"),
    ("integer_attention_backward", 4, "integer"),
    ("softmax_forward", 2, "softmax"),
    ("softmax_backward", 2, "softmax"),
    ("layer_norm_forward", 2, "layer_norm"),
    ("layer_norm_backward", 2, "layer_norm"),
    ("layer_norm_params", 2, "layer_norm"),
    ("rms_norm_forward", 2, "norm"),
    ("rms_norm_backward", 2, "norm"),
    ("batch_norm_forward", 3, "norm"),
    ("batch_norm_backward", 3, "norm"),
    ("gelu_forward", 2, "gelu"),
    ("gelu_backward", 2, "gelu"),
    ("cross_entropy_forward", 2, "cross_entropy"),
    ("cross_entropy_backward", 2, "cross_entropy"),
    ("attention_forward", 4, "attention"),
    ("attention_backward", 4, "attention"),
    ("column_sum", 2, "reduce"),
    ("global_norm", 1, "reduce"),
    ("adamw", 1, "optimizer"),
    ("embedding_forward", 3, "embedding"),
    ("embedding_backward", 3, "embedding"),
    ("add", 1, "elementwise"),
    ("transposed", 2, "strided"),
    ("permuted", 4, "strided"),
    ("cat", 2, "strided"),
    ("exp", 2, "strided"),
    ("to_bf16", 2, "strided"),
    ("add_row", 2, "strided"),
    ("add_transposed", 2, "strided"),
    ("where", 2, "strided"),
    ("sum_inner", 2, "axes"),
    ("sum_outer", 2, "axes"),
    ("amax_inner", 2, "axes"),
    ("argmax_inner", 2, "axes"),
    ("cumsum_inner", 2, "axes"),
    ("cumsum_outer", 2, "axes"),
    ("sort_inner", 2, "axes"),
    ("topk", 2, "axes"),
    ("gather", 2, "axes"),
    ("index_select", 2, "axes"),
    ("scatter_add", 2, "axes"),
    ("index_add", 2, "axes"),
    ("chain_6", 2, "chains"),
    ("chain_6_compiled", 2, "chains"),
    ("chain_12", 2, "chains"),
    ("chain_12_compiled", 2, "chains"),
    ("conv2d_forward", 5, "conv2d"),
    ("conv2d_backward_input", 5, "conv2d"),
    ("conv2d_backward_weight", 5, "conv2d"),
    ("lstm_forward", 4, "lstm"),
    ("lstm_backward", 4, "lstm"),
    ("tree_digest", 1, "tree_digest"),
];

/// How large the cases of a device are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A GPU: the sizes of the transformers, batch and all.
    Gpu,
    /// A processor: the same in a second or so a case.
    Processor,
    /// A software driver, or a short look.
    Small,
}

/// The sizes that suit a device.
pub fn scale_of(device: &Device, quick: bool) -> Scale {
    match device.info().kind {
        _ if quick => Scale::Small,
        DeviceKind::VulkanGpu => Scale::Gpu,
        DeviceKind::Cpu => Scale::Processor,
        DeviceKind::VulkanSoftware => Scale::Small,
    }
}

/// The cases of a scale.
pub fn cases(scale: Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    let squares: &[usize] = match scale {
        Scale::Gpu => &[512, 1024, 2048, 4096, 8192],
        Scale::Processor => &[512, 1024, 2048, 4096],
        Scale::Small => &[64],
    };
    cases.extend(squares.iter().map(|&n| Case::new("matmul", &[n, n, n])));
    for op in ["integer_product", "integer_sums"] {
        cases.extend(squares.iter().map(|&n| Case::new(op, &[n, n, n])));
    }
    // Rows of a step, its widths, and the shape of the row kernels.
    let (rows, widths, table): (usize, &[usize], [usize; 2]) = match scale {
        Scale::Gpu => (16_384, &[256, 768, 3072], [16_384, 4096]),
        Scale::Processor => (1024, &[256, 1024], [4096, 1024]),
        Scale::Small => (128, &[64], [64, 256]),
    };
    let (narrow, wide) = (widths[0], widths[widths.len() - 1]);
    let middle = widths[widths.len() / 2];
    let transposed = *squares.get(2).unwrap_or(&narrow);
    cases.push(Case::new("matmul_tn", &[transposed; 3]));
    cases.push(Case::new("matmul_nt", &[transposed; 3]));
    for (m, n) in [
        (narrow, middle),
        (middle, middle),
        (middle, wide),
        (wide, middle),
    ] {
        cases.push(Case::new("weight_gradient", &[m, n, rows]));
    }
    cases.push(Case::new("matmul_nt", &[rows, narrow, middle]));
    cases.push(Case::new("matmul", &[rows, middle, wide]));
    cases.push(Case::new("linear", &[rows, 3 * middle, middle]));
    cases.push(Case::new("linear", &[rows, middle, wide]));
    cases.push(Case::new("linear_gelu", &[rows, wide, middle]));
    for op in ["integer_sums", "integer_gelu", "integer_gelu_slope"] {
        cases.push(Case::new(op, &[rows, wide, middle]));
    }
    for op in OPERATIONS.iter().filter(|(_, count, _)| *count == 2) {
        cases.push(Case::new(op.0, &table));
    }
    let heads: &[[usize; 4]] = match scale {
        Scale::Gpu => &[
            [32, 512, 12, 64],
            [8, 2048, 12, 64],
            [8, 2048, 6, 128],
            [32, 512, 8, 80],
        ],
        Scale::Processor => &[[8, 128, 4, 64]],
        Scale::Small => &[[1, 64, 2, 32]],
    };
    for shape in heads {
        for op in [
            "attention_forward",
            "attention_backward",
            "integer_attention_forward",
            "integer_attention_backward",
        ] {
            cases.push(Case::new(op, shape));
        }
    }
    // The 3 x 3 kernels of ResNet, and one of its 1 x 1.
    let images: &[[usize; 5]] = match scale {
        Scale::Gpu => &[
            [32, 64, 64, 56, 3],
            [32, 128, 128, 28, 3],
            [32, 256, 256, 14, 3],
            [32, 512, 512, 7, 3],
            [32, 256, 64, 56, 1],
        ],
        Scale::Processor => &[[8, 64, 64, 56, 3], [8, 256, 256, 14, 3]],
        Scale::Small => &[[2, 8, 8, 7, 3]],
    };
    for shape in images {
        for op in OPERATIONS.iter().filter(|(_, count, _)| *count == 5) {
            cases.push(Case::new(op.0, shape));
        }
        // A batch norm after each, on as many channels.
        let [n, _, channels, extent, _] = *shape;
        cases.push(Case::new("batch_norm_forward", &[n, channels, extent]));
        cases.push(Case::new("batch_norm_backward", &[n, channels, extent]));
    }
    let sequences: &[[usize; 4]] = match scale {
        Scale::Gpu => &[[64, 128, 512, 512], [32, 256, 1024, 1024]],
        Scale::Processor => &[[16, 32, 256, 256]],
        Scale::Small => &[[2, 3, 16, 16]],
    };
    for shape in sequences {
        cases.push(Case::new("lstm_forward", shape));
        cases.push(Case::new("lstm_backward", shape));
    }
    let parameters = match scale {
        Scale::Gpu => 85_842_432,
        Scale::Processor => 3_323_392,
        Scale::Small => 65_536,
    };
    let [rows_of_heads, columns] = table;
    cases.push(Case::new(
        "permuted",
        &[rows_of_heads / 64, 64, columns / 64, 64],
    ));
    for op in ["global_norm", "adamw", "add", "tree_digest"] {
        cases.push(Case::new(op, &[parameters]));
    }
    for vocabulary in [256, 50_304] {
        if vocabulary == 256 || scale == Scale::Gpu {
            cases.push(Case::new("embedding_forward", &[rows, vocabulary, middle]));
            cases.push(Case::new("embedding_backward", &[rows, vocabulary, middle]));
        }
    }
    let steps: &[&str] = match scale {
        Scale::Gpu => &["tiny", "small", "medium", "gpt2", "resnet-32", "resnet-128"],
        Scale::Processor => &["tiny", "resnet-32"],
        Scale::Small => &["mini", "resnet-mini"],
    };
    cases.extend(steps.iter().map(|name| Case::step(name)));
    let place = |case: &Case| FAMILIES.iter().position(|family| *family == case.family());
    cases.sort_by_key(place);
    // Small scales have fewer widths, which makes some shapes the same.
    let mut seen = Vec::new();
    cases.retain(|case| {
        let fresh = !seen.contains(&case.name());
        seen.push(case.name());
        fresh
    });
    cases
}

/// The cases of a family or of an operation out of a list, or any one case, by its name.
///
/// # Errors
/// A name that is none of these; the message lists the families.
pub fn select(cases: Vec<Case>, wanted: Option<&str>) -> Result<Vec<Case>> {
    let Some(wanted) = wanted else {
        return Ok(cases);
    };
    let is_step = wanted
        .strip_prefix("step ")
        .map(|name| configuration(name).is_some());
    if wanted.contains(' ') && is_step != Some(false) {
        return Ok(vec![Case::parse(wanted)?]);
    }
    let fits = |case: &Case| [case.family(), &case.op, &case.name()].contains(&wanted);
    let chosen: Vec<Case> = cases.into_iter().filter(fits).collect();
    if chosen.is_empty() {
        bail!("no kernel `{wanted}`; there are {}", FAMILIES.join(", "));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() -> Result<()> {
        for scale in [Scale::Gpu, Scale::Processor, Scale::Small] {
            let all = cases(scale);
            for case in &all {
                assert_eq!(&Case::parse(&case.name())?, case);
                let (Amount::Flops(amount) | Amount::Bytes(amount)) = case.amount();
                assert!(amount > 0.0, "{}", case.name());
                assert!(FAMILIES.contains(&case.family()));
            }
            for family in FAMILIES {
                assert!(all.iter().any(|case| case.family() == family), "{family}");
            }
            let mut names: Vec<String> = all.iter().map(Case::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all.len());
        }
        Ok(())
    }

    #[test]
    fn unknown_names_are_refused_in_one_line() {
        let message = |wanted| {
            format!(
                "{:#}",
                select(cases(Scale::Small), Some(wanted)).expect_err("refused")
            )
        };
        let text = message("gelo");
        assert!(
            text.starts_with("no kernel `gelo`; there are matmul, integer, softmax, "),
            "{text}"
        );
        for bad in ["matmul", "matmul 3x4", "matmul axbxc", "sort 3"] {
            assert!(Case::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn families_operations_and_names_select() -> Result<()> {
        let count = |wanted| Ok::<_, anyhow::Error>(select(cases(Scale::Gpu), Some(wanted))?.len());
        assert_eq!(count("softmax")?, 2);
        assert_eq!(count("softmax_backward")?, 1);
        assert_eq!(count("matmul 512x512x512")?, 1);
        assert!(count("matmul")? > 10);
        Ok(())
    }

    #[test]
    fn rates_have_their_units() {
        assert_eq!(Amount::Flops(2e12).rate(1000.0), 2.0);
        assert_eq!(Amount::Bytes(3e9).rate(1000.0), 3.0);
    }
}
