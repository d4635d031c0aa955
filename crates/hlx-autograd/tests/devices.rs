//! Operands of one operation are of one device, or an error names the operation, the argument and
//! both devices.

use std::path::{Path, PathBuf};

use hlx_autograd::{
    Activation, AttentionSpec, BackwardPlan, BatchNormOptions, ConvOptions, CrossEntropyOptions,
    DType, ExpertChoices, Gradient, LossReduction, Recompute, Recurrence, Result, Tensor,
};
use hlx_core::Device;

/// Tensors of one device.
struct Operands {
    /// \[4, 4\].
    matrix: Tensor,
    /// \[4\].
    row: Tensor,
    /// \[1\].
    one: Tensor,
    /// \[4\].
    ids: Tensor,
    /// \[1, 1, 2, 2\].
    image: Tensor,
    /// \[4, 4\].
    mask: Tensor,
}

impl Operands {
    fn new(device: &Device) -> Self {
        let values = |shape: &[usize]| {
            let n = shape.iter().product();
            Tensor::from_slice(device, &vec![0.5; n], shape).expect("uploads")
        };
        Self {
            matrix: values(&[4, 4]).with_gradient(),
            row: values(&[4]),
            one: values(&[1]),
            ids: Tensor::from_slice::<u32>(device, &[0, 1, 2, 3], &[4]).expect("uploads"),
            image: values(&[1, 1, 2, 2]),
            mask: Tensor::ones(device, &[4, 4], DType::Bool).expect("memory"),
        }
    }
}

/// The method, the operation and the argument of its error, and a call with that argument of
/// another device.
type Case = (
    &'static str,
    [&'static str; 2],
    fn(&Operands, &Operands) -> Result<Tensor>,
);

const RIGHT: &str = "the right operand";
const TARGET: &str = "the target";
const MEAN: LossReduction = LossReduction::Mean;

#[rustfmt::skip] // One line per case.
const CASES: [Case; 71] = [
    ("add", ["add", RIGHT], |x, y| x.matrix.add(&y.matrix)),
    ("sub", ["sub", RIGHT], |x, y| x.matrix.sub(&y.matrix)),
    ("mul", ["mul", RIGHT], |x, y| x.matrix.mul(&y.matrix)),
    ("matmul", ["matmul", RIGHT], |x, y| x.matrix.matmul(&y.matrix)),
    ("outer", ["outer", RIGHT], |x, y| x.row.outer(&y.row)),
    ("linear", ["linear", "weight"], |x, y| x.matrix.linear(&y.matrix, None)),
    ("linear", ["linear", "bias"], |x, y| x.matrix.linear(&x.matrix, Some(&y.row))),
    ("linear_add", ["linear_add", "weight"], |x, y| x.matrix.linear_add(&y.matrix, None, &x.matrix)),
    ("linear_add", ["linear_add", "the residual"], |x, y| x.matrix.linear_add(&x.matrix, None, &y.matrix)),
    ("linears", ["linears", "a weight"], |x, y| linears(x, [x, y, x])),
    ("linears", ["linears", "a bias"], |x, y| linears(x, [x, x, y])),
    ("linears", ["linears", "the gain"], |x, y| linears(x, [y, x, x])),
    ("gated_feed_forward", ["gated_feed_forward", "the weight of the gate"], |x, y| gated(x, [y, x, x])),
    ("gated_feed_forward", ["gated_feed_forward", "the weight down"], |x, y| gated(x, [x, y, x])),
    ("gated_feed_forward", ["gated_feed_forward", "the residual"], |x, y| gated(x, [x, x, y])),
    ("feed_forward", ["feed_forward", "the weight up"], |x, y| feed_forward(x, [y, x, x, x, x])),
    ("feed_forward", ["feed_forward", "the bias up"], |x, y| feed_forward(x, [x, y, x, x, x])),
    ("feed_forward", ["feed_forward", "the weight down"], |x, y| feed_forward(x, [x, x, y, x, x])),
    ("feed_forward", ["feed_forward", "the bias down"], |x, y| feed_forward(x, [x, x, x, y, x])),
    ("feed_forward", ["feed_forward", "the residual"], |x, y| feed_forward(x, [x, x, x, x, y])),
    ("attention", ["attention", "k"], |x, y| attend(x, [y, x, x])),
    ("attention", ["attention", "v"], |x, y| attend(x, [x, y, x])),
    ("attention", ["attention", "lengths"], |x, y| attend(x, [x, x, y])),
    ("embedding", ["embedding", "weight"], |x, y| x.ids.embedding(&y.matrix)),
    ("embedding_padded", ["embedding", "weight"], |x, y| x.ids.embedding_padded(&y.matrix, 0)),
    ("to_experts", ["to_experts", "choices"], |x, y| x.matrix.to_experts(&choices(y)?)),
    ("experts_linear", ["experts_linear", "a weight"], |x, y| {
        x.matrix.experts_linear(&[x, x, x, y].map(|of| of.matrix.clone()), &choices(x)?)
    }),
    ("from_experts", ["from_experts", "weights"], |x, y| {
        x.matrix.from_experts(&y.row.unsqueeze(1)?, &choices(x)?)
    }),
    ("layer_norm", ["layer_norm", "weight"], |x, y| x.matrix.layer_norm(&y.row, &x.row, 1e-5)),
    ("layer_norm", ["layer_norm", "bias"], |x, y| x.matrix.layer_norm(&x.row, &y.row, 1e-5)),
    ("cross_entropy_scaled", ["cross_entropy", "targets"], |x, y| x.matrix.cross_entropy_scaled(&y.ids, &x.one, 0.0)),
    ("cross_entropy_with_rows", ["cross_entropy", "scale"], |x, y| {
        Ok(x.matrix.cross_entropy_with_rows(&x.ids, &y.one, 0.0)?.0)
    }),
    ("batch_norm", ["batch_norm", "weight"], |x, y| {
        x.matrix.batch_norm(Some([&y.row, &x.row]), None, &BatchNormOptions::default())
    }),
    ("batch_norm_by", ["batch_norm", "variance"], |x, y| x.matrix.batch_norm_by(&x.row, &y.row, None, 1e-5)),
    ("group_norm", ["group_norm", "bias"], |x, y| x.matrix.group_norm(2, Some([&x.row, &y.row]), 1e-5)),
    ("rms_norm", ["rms_norm", "weight"], |x, y| x.matrix.rms_norm(&[4], Some(&y.row), 1e-5)),
    ("rms_norm_one_plus", ["rms_norm", "weight"], |x, y| x.matrix.rms_norm_one_plus(&[4], &y.row, 1e-5)),
    ("with_magnitudes", ["with_magnitudes", "magnitudes"], |x, y| x.matrix.with_magnitudes(&y.row, &x.row)),
    ("with_magnitudes", ["with_magnitudes", "norms"], |x, y| x.matrix.with_magnitudes(&x.row, &y.row)),
    ("rope", ["rope", "frequencies"], |x, y| {
        x.matrix.unsqueeze(1)?.rope(&x.ids, &y.row.narrow(0, 0, 2)?, 1.0)
    }),
    ("mse_loss", ["mse_loss", TARGET], |x, y| x.matrix.mse_loss(&y.matrix, MEAN)),
    ("l1_loss", ["l1_loss", TARGET], |x, y| x.matrix.l1_loss(&y.matrix, MEAN)),
    ("huber_loss", ["huber_loss", TARGET], |x, y| x.matrix.huber_loss(&y.matrix, 1.0, MEAN)),
    ("smooth_l1_loss", ["smooth_l1_loss", TARGET], |x, y| x.matrix.smooth_l1_loss(&y.matrix, 1.0, MEAN)),
    ("binary_cross_entropy_with_logits", ["binary_cross_entropy_with_logits", "pos_weight"], |x, y| {
        x.matrix.binary_cross_entropy_with_logits(&x.matrix, Some(&x.row), Some(&y.row), MEAN)
    }),
    ("kl_div", ["kl_div", TARGET], |x, y| x.matrix.kl_div(&y.matrix, false, MEAN)),
    ("nll_loss", ["nll_loss", "targets"], |x, y| x.matrix.nll_loss(&y.ids, &CrossEntropyOptions::default())),
    ("cross_entropy_loss", ["cross_entropy_loss", "weight"], |x, y| {
        let options = CrossEntropyOptions { weight: Some(&y.row), ..CrossEntropyOptions::default() };
        x.matrix.cross_entropy_loss(&x.ids, &options)
    }),
    ("loss_with_rows", ["loss_with_rows", "scale"], |x, y| Ok(x.matrix.loss_with_rows(&y.one)?.0)),
    ("mse_scaled", ["mse", "the target"], |x, y| x.matrix.mse_scaled(&y.matrix, &x.one)),
    ("mse_scaled", ["mse", "scale"], |x, y| x.matrix.mse_scaled(&x.matrix, &y.one)),
    ("conv2d", ["conv2d", "weight"], |x, y| x.image.conv2d(&y.image, None, &ConvOptions::default())),
    ("conv1d", ["conv1d", "weight"], |x, y| {
        x.image.select(0, 0)?.conv1d(&y.image.select(0, 0)?, None, &ConvOptions::default())
    }),
    ("conv_transpose1d", ["conv_transpose2d", "weight"], |x, y| {
        let weight = y.image.select(0, 0)?.transpose(0, 1)?;
        let signal = x.image.select(0, 0)?;
        signal.conv_transpose1d(&weight, None, &ConvOptions::default(), 0)
    }),
    ("conv_transpose2d", ["conv_transpose2d", "weight"], |x, y| {
        x.image.conv_transpose2d(&y.image, None, &ConvOptions::default(), [0, 0])
    }),
    ("where_", ["where", "the condition"], |x, y| x.matrix.where_(&y.mask, 0.0)),
    ("masked_fill", ["masked_fill", "the mask"], |x, y| x.matrix.masked_fill(&y.mask, 0.0)),
    ("masked_select", ["masked_select", "the mask"], |x, y| x.matrix.masked_select(&y.mask)),
    ("gather", ["gather", "the index"], |x, y| x.row.gather(0, &y.ids)),
    ("index_select", ["index_select", "the index"], |x, y| x.matrix.index_select(0, &y.ids)),
    ("scatter", ["scatter", "the source"], |x, y| x.row.scatter(0, &x.ids, &y.row)),
    ("scatter_add", ["scatter_add", "the index"], |x, y| x.row.scatter_add(0, &y.ids, &x.row)),
    ("index_add", ["index_add", "the source"], |x, y| x.row.index_add(0, &x.ids, &y.row)),
    ("index_put", ["index_put", "the values"], |x, y| {
        x.matrix.index_put(&[(&x.ids).into()], &y.row, false)
    }),
    ("take_along_dim", ["take_along_dim", "the index"], |x, y| x.row.take_along_dim(&y.ids, Some(0))),
    ("repeat_interleave_by", ["repeat_interleave", "repeats"], |x, y| {
        x.matrix.repeat_interleave_by(&y.ids, 0)
    }),
    // What a checkpoint's body reads is found where it is read.
    ("checkpoint", ["mul", RIGHT], |x, y| {
        let row = y.row.clone();
        x.matrix.checkpoint(move |x| x.mul(&row))
    }),
    ("checkpoint_with", ["mul", RIGHT], |x, y| {
        let row = y.row.clone();
        x.matrix.checkpoint_with(Recompute::AllButAttention, move |x| x.mul(&row))
    }),
    ("lstm_scan", ["lstm_scan", "weight"], |x, y| {
        let weight = y.row.unsqueeze(1)?;
        Ok(x.matrix.unsqueeze(0)?.lstm_scan(recurrence(&weight), None)?.0)
    }),
    ("gru_scan", ["gru_scan", "the hidden state"], |x, y| {
        let (gates, weight) = (x.matrix.narrow(1, 0, 3)?, x.row.narrow(0, 0, 3)?.unsqueeze(1)?);
        gates.unsqueeze(0)?.gru_scan(recurrence(&weight), Some(&y.one.unsqueeze(0)?))
    }),
    ("backward_from", ["backward_from", "the upstream gradient"], |x, y| {
        x.matrix.backward_from(&y.matrix, &BackwardPlan::default())?;
        Ok(x.matrix.clone())
    }),
];

fn recurrence(weight: &Tensor) -> Recurrence<'_> {
    Recurrence {
        weight,
        bias: None,
        projection: None,
        reverse: false,
    }
}

/// Weight up, bias up, weight down, bias down and residual, each of the operands given.
fn feed_forward(x: &Operands, from: [&Operands; 5]) -> Result<Tensor> {
    let up = (&from[0].matrix, Some(&from[1].row));
    let down = (&from[2].matrix, Some(&from[3].row));
    let residual = Some(&from[4].matrix);
    x.matrix.feed_forward(up, Activation::GELU, down, residual)
}

/// The gain of the norm, the weight and the bias of the second of two maps, each of the operands given.
fn linears(x: &Operands, [gain, weight, bias]: [&Operands; 3]) -> Result<Tensor> {
    let maps = [(&x.matrix, None), (&weight.matrix, Some(&bias.row))];
    Ok(x.matrix.linears(Some((&gain.row, 1e-5)), &maps)?.remove(1))
}

/// The weights of gate and down, and the residual, each of the operands given.
fn gated(x: &Operands, [gate, down, residual]: [&Operands; 3]) -> Result<Tensor> {
    let maps = [
        (&gate.matrix, None),
        (&x.matrix, None),
        (&down.matrix, None),
    ];
    let residual = Some(&residual.matrix);
    x.matrix
        .gated_feed_forward(None, maps, Activation::SiLU, residual)
}

/// An expert for each of four tokens.
fn choices(x: &Operands) -> Result<ExpertChoices> {
    ExpertChoices::new(&x.ids.unsqueeze(1)?, 4)
}

/// Attention with k, v and lengths each of the operands given.
fn attend(x: &Operands, [k, v, lengths]: [&Operands; 3]) -> Result<Tensor> {
    let heads = |x: &Operands| x.matrix.reshape(&[4, 1, 1, 4]);
    let spec = AttentionSpec {
        lengths: Some(lengths.ids.clone()),
        ..AttentionSpec::default()
    };
    heads(x)?.attention(&heads(k)?, &heads(v)?, &spec)
}

fn two_devices() -> [Device; 2] {
    [(); 2].map(|()| hlx_core::testing::cpu().expect("the CPU device opens"))
}

#[test]
fn an_operand_of_another_device_is_refused_and_named() {
    let devices = two_devices();
    let [own, other] = devices.each_ref().map(Operands::new);
    for (method, [op, argument], call) in CASES {
        let found = call(&own, &other).expect_err(method).to_string();
        let [own, other] = devices.each_ref().map(Device::label);
        let want = format!("{op}: {argument} belongs to {other}, self to {own}");
        assert_eq!(found, want, "{method}");
        assert_ne!(own, other);
    }
    for (method, _, call) in CASES {
        call(&own, &own).expect(method);
    }
}

#[test]
fn an_operation_of_ones_own_is_refused_operands_of_two_devices() {
    let devices = two_devices();
    let [own, other] = devices.each_ref().map(Operands::new);
    let out = devices[0].alloc(4).expect("memory");
    let input = own.row.input();
    let result = Tensor::from_operation(
        "mine",
        &[&own.row, &other.row],
        out,
        &[4],
        move |pass, dy| pass.add(&input, Gradient::shared(dy.buffer()?)),
    );
    let text = result.expect_err("two devices").to_string();
    assert!(text.starts_with("mine: an input belongs to "), "{text}");
}

/// The files of a folder and of those in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let below = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    paths.flat_map(below).collect()
}

/// Every public method of `src/ops` with a tensor among its arguments is a case above.
#[test]
fn no_operation_of_several_tensors_is_left_out() {
    let ops = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops");
    let mut found = 0;
    for path in sources(&ops) {
        let text = std::fs::read_to_string(path).expect("a source");
        for method in text.split("    pub fn ").skip(1) {
            let signature = method.split('{').next().unwrap_or_default();
            let arguments = signature.split("->").next().unwrap_or_default();
            let (name, arguments) = arguments.split_once('(').unwrap_or_default();
            let name = name.split('<').next().unwrap_or_default();
            if !arguments.starts_with("&self") && !arguments.trim_start().starts_with("&self,") {
                continue;
            }
            if arguments.contains("&Tensor") {
                assert!(
                    CASES.iter().any(|case| case.0 == name),
                    "{name} has no case"
                );
                found += 1;
            }
        }
    }
    assert!(found >= 13, "{found} methods found");
}
