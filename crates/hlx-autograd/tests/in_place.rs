//! Operations in place: values, gradients, and what is refused.

use hlx_autograd::{
    Activation, AutogradError, BatchNormOptions, ConvOptions, DType, ExpertChoices, PoolOptions,
    Result, Tensor, Unary, no_grad,
};
use hlx_core::Device;
use hlx_core::testing::{devices, own_devices};

fn counted(device: &Device, shape: &[usize]) -> Result<Tensor> {
    let n = shape.iter().product::<usize>();
    Tensor::arange(device, 0.0, n as f32, 1.0)?.reshape(shape)
}

fn message(error: AutogradError) -> String {
    error.to_string()
}

#[test]
fn views_share_what_is_written() -> Result<()> {
    for device in devices() {
        let x = counted(device, &[3, 4])?;
        x.select(1, 2)?.fill_(9.0)?;
        x.narrow(0, 0, 1)?.mul_(10.0)?;
        let want = [
            0.0, 10.0, 90.0, 30.0, 4.0, 5.0, 9.0, 7.0, 8.0, 9.0, 9.0, 11.0,
        ];
        assert_eq!(x.to_vec::<f32>()?, want);
        x.transpose(0, 1)?
            .narrow(0, 3, 1)?
            .copy_(&counted(device, &[3])?)?;
        assert_eq!(x.select(1, 3)?.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
        // Its own elements in another order.
        let mut y = counted(device, &[4])?;
        y.copy_(&y.flip(&[0])?)?;
        assert_eq!(y.to_vec::<f32>()?, [3.0, 2.0, 1.0, 0.0]);
        let mut none = counted(device, &[0, 3])?;
        none.add_(1.0)?.zero_()?.copy_(&counted(device, &[3])?)?;
        assert_eq!(none.shape(), [0, 3]);
    }
    Ok(())
}

/// An operation in place and the one whose result it writes.
type Pair = (
    &'static str,
    fn(&mut Tensor, &Tensor) -> Result<()>,
    fn(&Tensor, &Tensor) -> Result<Tensor>,
);

#[rustfmt::skip] // One line per operation.
const PAIRS: [Pair; 31] = [
    ("add_", |x, y| x.add_(y).map(drop), |x, y| x.add(y)),
    ("sub_", |x, y| x.sub_(y).map(drop), |x, y| x.sub(y)),
    ("mul_", |x, y| x.mul_(y).map(drop), |x, y| x.mul(y)),
    ("div_", |x, y| x.div_(y).map(drop), |x, y| x.div(y)),
    ("pow_", |x, y| x.pow_(y).map(drop), |x, y| x.pow(y)),
    ("remainder_", |x, y| x.remainder_(y).map(drop), |x, y| x.remainder(y)),
    ("neg_", |x, _| x.neg_().map(drop), |x, _| x.neg()),
    ("abs_", |x, _| x.abs_().map(drop), |x, _| x.abs()),
    ("square_", |x, _| x.square_().map(drop), |x, _| x.square()),
    ("sqrt_", |x, _| x.sqrt_().map(drop), |x, _| x.sqrt()),
    ("rsqrt_", |x, _| x.rsqrt_().map(drop), |x, _| x.rsqrt()),
    ("reciprocal_", |x, _| x.reciprocal_().map(drop), |x, _| x.reciprocal()),
    ("exp_", |x, _| x.exp_().map(drop), |x, _| x.exp()),
    ("log_", |x, _| x.log_().map(drop), |x, _| x.log()),
    ("tanh_", |x, _| x.tanh_().map(drop), |x, _| x.unary(Unary::Tanh, [0.0; 2])),
    ("sigmoid_", |x, _| x.sigmoid_().map(drop), |x, _| x.unary(Unary::Sigmoid, [0.0; 2])),
    ("relu_", |x, _| x.relu_().map(drop), |x, _| x.unary(Unary::ReLU, [0.0; 2])),
    ("floor_", |x, _| x.floor_().map(drop), |x, _| x.floor()),
    ("ceil_", |x, _| x.ceil_().map(drop), |x, _| x.ceil()),
    ("round_", |x, _| x.round_().map(drop), |x, _| x.round()),
    ("tril_", |x, _| x.tril_(0).map(drop), |x, _| x.tril(0)),
    ("triu_", |x, _| x.triu_(1).map(drop), |x, _| x.triu(1)),
    ("clamp_", |x, _| x.clamp_(0.6, 1.4).map(drop), |x, _| x.clamp(0.6, 1.4)),
    ("zero_", |x, _| x.zero_().map(drop), |x, _| x.zeros_like()),
    ("fill_", |x, _| x.fill_(2.5).map(drop), |x, _| Tensor::full(x.device(), x.shape(), 2.5, x.dtype())),
    ("copy_", |x, y| x.copy_(y).map(drop), |x, y| y.expand(x.shape())),
    ("masked_fill_", |x, y| x.masked_fill_(&y.gt(1.0)?, 7.0).map(drop), |x, y| x.masked_fill(&y.gt(1.0)?, 7.0)),
    ("scatter_add_", |x, y| x.scatter_add_(1, &places(y)?, y).map(drop), |x, y| x.scatter_add(1, &places(y)?, y)),
    ("index_put_", |x, y| x.index_put_(&[(&rows(y)?).into()], y, false).map(drop), |x, y| x.index_put(&[(&rows(y)?).into()], y, false)),
    ("index_put_, added", |x, y| x.index_put_(&[(&rows(y)?).into()], y, true).map(drop), |x, y| x.index_put(&[(&rows(y)?).into()], y, true)),
    ("index_add_", |x, y| x.index_add_(0, &rows(y)?, y).map(drop), |x, y| x.index_add(0, &rows(y)?, y)),
];

fn places(y: &Tensor) -> Result<Tensor> {
    y.mul(1.3)?.to_dtype(DType::I32)
}

fn rows(y: &Tensor) -> Result<Tensor> {
    Tensor::from_slice(y.device(), &[2, 0, 0], &[3])
}

/// x and y, \[3, 4\], with values in [0.5, 1.5).
fn operands(device: &Device) -> Result<[Tensor; 2]> {
    Ok([
        Tensor::rand(device, &[3, 4], 1)?.add(0.5)?,
        Tensor::rand(device, &[3, 4], 2)?.add(0.5)?,
    ])
}

#[test]
fn an_operation_in_place_has_the_bits_and_the_gradients_of_its_operation() -> Result<()> {
    for device in devices() {
        for (name, in_place, operation) in PAIRS {
            let [x, y] = operands(device)?;
            let leaves = || [x.with_gradient(), y.with_gradient()];
            let (one, two) = (leaves(), leaves());
            // The result of an operation whose derivative saves nothing.
            let mut result = one[0].add(0.0)?;
            in_place(&mut result, &one[1])?;
            let want = operation(&two[0].add(0.0)?, &two[1])?;
            assert!(result.equal(&want)?, "{name}");
            if !want.requires_grad() {
                continue;
            }
            let weight = Tensor::randn(device, &[3, 4], 3)?;
            want.mul(&weight)?.sum()?.backward()?;
            result.mul(&weight)?.sum()?.backward()?;
            for (one, two) in one.iter().zip(&two) {
                let zeros = x.zeros_like()?;
                let [one, two] = [one, two].map(|x| x.grad().unwrap_or(zeros.clone()));
                assert!(one.equal(&two)?, "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn windows_and_other_types_are_written_in_place() -> Result<()> {
    for device in devices() {
        for (name, in_place, operation) in PAIRS {
            let types = [DType::F32, DType::F16, DType::BF16];
            // A software driver compiles each pair of operation and type.
            let types = if device.is_cpu() {
                &types[..]
            } else {
                &types[2..]
            };
            for &dtype in types {
                let [x, y] = operands(device)?;
                let whole = Tensor::full(device, &[5, 7], 0.75, DType::F32)?.to_dtype(dtype)?;
                let mut window = whole
                    .transpose(0, 1)?
                    .slice(1, 1..4, 1)?
                    .slice(0, 0..7, 2)?;
                window = window.transpose(0, 1)?;
                window.copy_(&x)?;
                let y = y.to_dtype(dtype)?;
                let want = match operation(&x.to_dtype(dtype)?, &y) {
                    Ok(want) => want,
                    // No kernel for the type: refused in place as well.
                    Err(_) => {
                        assert!(in_place(&mut window, &y).is_err(), "{name} of {dtype}");
                        continue;
                    }
                };
                in_place(&mut window, &y)?;
                assert!(window.equal(&want)?, "{name} of {dtype}");
                // Nothing beside the window: the first and last rows, the odd columns.
                let around = [whole.narrow(0, 0, 1)?, whole.slice(1, 1..7, 2)?];
                for part in around {
                    let same = Tensor::full(device, part.shape(), 0.75, dtype)?;
                    assert!(part.equal(&same)?, "{name} of {dtype}: {part}");
                }
            }
        }
    }
    Ok(())
}

/// An operation of two leaves \[4, 4\] and \[4, 4\], both of which may be saved.
type Network = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>);

/// Four tokens of two experts, which have one weight.
fn experts(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let chosen = Tensor::from_slice::<u32>(x.device(), &[0, 1, 0, 1], &[4, 1])?;
    let choices = ExpertChoices::new(&chosen, 2)?;
    let rows = x.to_experts(&choices)?;
    rows.experts_linear(&[y.clone(), y.clone()], &choices)?
        .from_experts(&y.narrow(1, 0, 1)?, &choices)
}

#[rustfmt::skip] // One line per operation.
const NETWORKS: [Network; 42] = [
    ("add", |x, y| x.add(y)),
    ("mul", |x, y| x.mul(y)),
    ("div", |x, y| x.div(y)),
    ("pow", |x, y| x.pow(y)),
    ("atan2", |x, y| x.atan2(y)),
    ("maximum", |x, y| x.maximum(y)),
    ("where_", |x, y| x.where_(&x.gt(y)?, y)),
    ("exp", |x, y| x.exp()?.add(y)),
    ("sin", |x, y| x.sin()?.add(y)),
    ("sigmoid", |x, y| x.sigmoid()?.add(y)),
    ("gelu", |x, y| x.gelu()?.add(y)),
    ("silu", |x, y| x.activation(Activation::SiLU)?.add(y)),
    ("to_dtype", |x, y| x.to_dtype(DType::BF16)?.to_dtype(DType::F32)?.add(y)),
    ("softmax", |x, y| x.softmax()?.mul(y)),
    ("logsumexp", |x, y| x.logsumexp(&[1], true)?.mul(y)),
    ("amax", |x, y| x.amax(&[1], true)?.mul(y)),
    ("prod", |x, y| x.prod(&[1], true)?.mul(y)),
    ("var", |x, y| x.var(&[1], 1, true)?.mul(y)),
    ("norm", |x, y| x.norm(2.0, &[1], true)?.mul(y)),
    ("cumsum", |x, y| x.cumsum(0)?.mul(y)),
    ("cumprod", |x, y| x.cumprod(0)?.mul(y)),
    ("gather", |x, y| x.gather(1, &y.to_dtype(DType::I32)?)),
    ("index", |x, y| x.index(&[(&y.to_dtype(DType::I32)?).into(), (..).into()])),
    ("index_put", |x, y| x.index_put(&[(&y.to_dtype(DType::I32)?.select(0, 0)?).into()], y, true)),
    ("experts", experts),
    ("sort", |x, y| x.sort(1, false)?.0.mul(y)),
    ("cat", |x, y| Tensor::cat(&[x, y], 0)),
    ("tril", |x, y| x.tril(0)?.mul(y)),
    ("matmul", |x, y| x.matmul(y)),
    ("batched matmul", |x, y| x.reshape(&[2, 2, 4])?.matmul(&y.reshape(&[2, 4, 2])?)),
    ("einsum", |x, y| Tensor::einsum("ij,kj->ik", &[x, y])),
    ("linear", |x, y| x.linear(y, Some(&y.select(0, 0)?))),
    ("feed_forward", |x, y| x.feed_forward((y, None), Activation::GELU, (y, None), Some(x))),
    ("layer_norm", |x, y| x.layer_norm(&y.select(0, 0)?, &y.select(0, 1)?, 1e-5)),
    ("rms_norm", |x, y| x.rms_norm(&[4], Some(&y.select(0, 0)?), 1e-5)),
    ("rms_norm_one_plus", |x, y| x.rms_norm_one_plus(&[4], &y.select(0, 0)?, 1e-5)),
    ("rope", |x, y| {
        let positions = Tensor::from_slice::<u32>(x.device(), &[0, 1, 5, 9], &[4])?;
        let frequencies = Tensor::from_slice(x.device(), &[1.0, 0.5], &[2])?;
        x.unsqueeze(1)?.rope(&positions, &frequencies, 1.0)?.squeeze(1)?.mul(y)
    }),
    ("group_norm", |x, y| x.group_norm(2, Some([&y.select(0, 0)?, &y.select(0, 1)?]), 1e-5)),
    ("batch_norm", |x, y| {
        x.batch_norm(Some([&y.select(0, 0)?, &y.select(0, 1)?]), None, &BatchNormOptions::default())
    }),
    ("mse_scaled", |x, y| x.mse_scaled(&y.detach(), &Tensor::ones(x.device(), &[1], DType::F32)?)?.add(y)),
    ("conv2d", |x, y| {
        let image = x.reshape(&[1, 1, 4, 4])?;
        image.conv2d(&y.reshape(&[4, 1, 2, 2])?, None, &ConvOptions::default())
    }),
    ("max_pool2d", |x, y| x.reshape(&[1, 1, 4, 4])?.max_pool2d(&PoolOptions::square(2))?.add(y.sum()?)),
];

/// What a test changes between the forward and the backward pass.
#[derive(Clone, Copy, Debug)]
enum Changed {
    Left,
    Right,
    Output,
}

/// Gradients of a random weighting of a network's output, with something changed in between.
fn gradients(
    network: Network,
    [x, y]: &[Tensor; 2],
    change: Option<Changed>,
) -> Result<Vec<Tensor>> {
    let leaves = [leaf(x)?, leaf(y)?];
    let output = network.1(&leaves[0], &leaves[1])?;
    let loss = output
        .mul(Tensor::randn(x.device(), output.shape(), 9)?)?
        .sum()?;
    let changed = change.map(|change| match change {
        Changed::Left => leaves[0].clone(),
        Changed::Right => leaves[1].clone(),
        Changed::Output => output.clone(),
    });
    if let Some(mut changed) = changed {
        no_grad(|| changed.mul_(-3.0).map(drop))?;
    }
    loss.backward()?;
    Ok(leaves.iter().filter_map(Tensor::grad).collect())
}

/// A leaf over memory of its own.
fn leaf(x: &Tensor) -> Result<Tensor> {
    Ok(x.add(0.0)?.with_gradient())
}

/// Whatever an operation saves and whatever is changed before the backward pass: either the gradients
/// are those of the values from before, or the pass is refused. Never a wrong gradient.
#[test]
fn no_change_in_place_gives_a_wrong_gradient() -> Result<()> {
    for device in devices() {
        let both = [
            Tensor::rand(device, &[4, 4], 1)?.add(0.5)?,
            Tensor::rand(device, &[4, 4], 2)?.add(0.5)?,
        ];
        let (mut refused, mut right) = (0, 0);
        for network in NETWORKS {
            let want = gradients(network, &both, None)?;
            for change in [Changed::Left, Changed::Right, Changed::Output] {
                let name = format!("{} with {change:?} changed", network.0);
                match gradients(network, &both, Some(change)) {
                    Ok(found) => {
                        right += 1;
                        assert_eq!(found.len(), want.len(), "{name}");
                        for (found, want) in found.iter().zip(&want) {
                            assert!(found.equal(want)?, "{name}");
                        }
                    }
                    Err(AutogradError::Changed { .. }) => refused += 1,
                    Err(error) => panic!("{name}: {error}"),
                }
            }
        }
        // Both happen: the check refuses what it must, and not everything.
        assert!(
            refused > 30 && right > 20,
            "{refused} refused, {right} right"
        );
    }
    Ok(())
}

#[test]
fn the_error_names_the_operation_and_the_tensor() -> Result<()> {
    let device = &devices()[0];
    let x = counted(device, &[2, 3])?.with_gradient();
    let mut h = x.mul(2.0)?;
    let y = h.sin()?.sum()?;
    h.add_(1.0)?;
    let text = message(y.backward().expect_err("h was saved"));
    assert_eq!(
        text,
        "sin: the tensor [2, 3] of mul was changed in place after it was saved; change a copy, or \
         after the backward pass"
    );
    assert!(x.grad().is_none());
    // The derivative of exp reads its output.
    let mut e = x.exp()?;
    let loss = e.sum()?;
    e.mul_(2.0)?;
    let text = message(loss.backward().expect_err("the output was saved"));
    assert!(text.starts_with("exp: the tensor [2, 3] of "), "{text}");
    Ok(())
}

#[test]
fn a_leaf_is_changed_within_no_grad_only() -> Result<()> {
    for device in devices() {
        let mut w = counted(device, &[3])?.with_gradient();
        let text = message(w.add_(1.0).expect_err("a leaf"));
        let want = "add_: the tensor [3] of (unnamed) is a leaf that requires a gradient, or a view \
                    of one; change it within no_grad";
        assert_eq!(text, want);
        let text = message(w.narrow(0, 0, 1)?.zero_().expect_err("a view of a leaf"));
        assert!(
            text.starts_with("zero_: the tensor [1] of narrow is a leaf"),
            "{text}"
        );
        // A step of gradient descent, twice.
        for _ in 0..2 {
            w.square()?.sum()?.backward()?;
            let gradient = w.grad().expect("a gradient");
            no_grad(|| w.sub_(gradient.mul(0.25)?).map(drop))?;
            w.zero_grad();
        }
        assert!(w.requires_grad());
        assert_eq!(w.to_vec::<f32>()?, [0.0, 0.25, 0.5]);
    }
    Ok(())
}

#[test]
fn handles_without_the_history_are_refused() -> Result<()> {
    let device = &devices()[0];
    let w = counted(device, &[3])?.with_gradient();
    let base = counted(device, &[2, 3])?;
    let mut row = base.select(0, 1)?;
    row.mul_(&w)?;
    // The view has the history, its base does not.
    row.sum()?.backward()?;
    assert_eq!(
        w.grad().expect("a gradient").to_vec::<f32>()?,
        [3.0, 4.0, 5.0]
    );
    let text = message(base.sum().expect_err("the base"));
    assert_eq!(
        text,
        "sum: the tensor [2, 3] of constant was changed in place through another handle or view, \
         which has the history of its values; use that one, or detach this one"
    );
    assert_eq!(base.detach().sum()?.item::<f32>()?, 3.0 + 14.0);
    assert!(base.select(0, 0).is_err(), "a new view of the base");
    let clone = row.clone();
    row.add_(&w)?;
    assert!(clone.sum().is_err(), "a clone from before");
    assert!(no_grad(|| clone.sum()).is_ok());
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let device = &devices()[0];
    let mut x = counted(device, &[3])?;
    let text = message(
        x.add_(&counted(device, &[2, 3])?)
            .expect_err("it would grow"),
    );
    let want =
        "add_: the result has shape [2, 3], expected [3], as a tensor in place keeps its shape";
    assert_eq!(text, want);
    let text = message(x.copy_(&counted(device, &[2])?).expect_err("another shape"));
    assert_eq!(text, "copy_: shape [2] does not expand to [3]");
    let mut whole = x.to_dtype(DType::I32)?;
    let text = message(whole.mul_(0.5).expect_err("a float"));
    assert_eq!(text, "mul_: the result has elements of f32, expected i32");
    whole.copy_(&x.add(0.5)?)?;
    assert_eq!(whole.to_vec::<i32>()?, [0, 1, 2]);
    let text = message(x.expand(&[2, 3])?.zero_().expect_err("shared elements"));
    assert!(text.contains("assign_strided"), "{text}");
    Ok(())
}

#[test]
fn a_recorded_change_is_made_at_every_replay() -> Result<()> {
    for device in &own_devices() {
        let mut total = counted(device, &[3])?;
        let step = Tensor::ones(device, &[3], DType::F32)?;
        let (graph, _) = device.record(|| {
            let twice = step.mul(2.0)?;
            total.add_(&twice)?;
            total.narrow(0, 0, 1)?.fill_(7.0)?;
            Ok::<_, AutogradError>(())
        })?;
        for _ in 0..3 {
            graph.replay()?;
        }
        assert_eq!(total.to_vec::<f32>()?, [7.0, 7.0, 8.0]);
        // What was saved before a replay is found changed after it.
        let x = step.with_gradient();
        let loss = x.mul(&total)?.sum()?;
        graph.replay()?;
        assert!(matches!(
            loss.backward(),
            Err(AutogradError::Changed { op: "mul", .. })
        ));
    }
    Ok(())
}

#[test]
fn a_recorded_pass_with_changes_in_place_has_the_bits_of_one_that_is_not() -> Result<()> {
    for device in &own_devices() {
        let x = Tensor::randn(device, &[4, 8], 1)?;
        let pass = |w: &Tensor| -> Result<Tensor> {
            let mut h = x.matmul(w)?;
            h.add_(1.0)?.relu_()?.sigmoid_()?;
            h.sum()?.backward()?;
            Ok(w.grad().expect("a gradient"))
        };
        let leaf = || Ok::<_, AutogradError>(Tensor::randn(device, &[8, 3], 2)?.with_gradient());
        let want = pass(&leaf()?)?;
        let w = leaf()?;
        let (graph, gradient) = device.record(|| pass(&w))?;
        graph.replay()?;
        assert!(gradient.equal(&want)?);
    }
    Ok(())
}

#[test]
fn a_leaf_is_made_and_unmade() -> Result<()> {
    let device = &devices()[0];
    let mut x = counted(device, &[2])?;
    assert!(x.is_leaf() && !x.requires_grad());
    x.requires_grad_(true)?;
    x.mul(3.0)?.sum()?.backward()?;
    assert_eq!(x.grad().expect("a gradient").to_vec::<f32>()?, [3.0; 2]);
    let mut y = x.mul(2.0)?;
    assert!(!y.is_leaf());
    let text = message(y.requires_grad_(false).expect_err("an output"));
    assert_eq!(
        text,
        "requires_grad_: the tensor is the output of an operation; detach it"
    );
    x.requires_grad_(false)?;
    assert!(!x.requires_grad());
    Ok(())
}
