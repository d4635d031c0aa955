//! What the tape saves: the values that a derivative reads and no others, and no stack when dropped.

use hlx_autograd::{Activation, DropoutMask, Result, Tensor};
use hlx_core::Device;

/// Elements of the tensors here: 16 KiB.
const N: usize = 4096;
const SIDE: usize = 64;

/// A device of this test alone, so that nobody else allocates on it.
fn device() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn leaf(device: &Device, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| (i % 13) as f32 / 13.0 - 0.4).collect();
    Tensor::from_slice(device, &values, shape)
        .expect("uploads")
        .with_gradient()
}

/// Tensors of N elements that the tape saves of an operation's inputs and by-products, when nobody
/// else does: `operation` is given tensors \[64, 64\] that operations made, which are dropped after.
fn saved(operation: fn(&[Tensor; 2]) -> Result<Tensor>) -> f64 {
    let device = device();
    let leaves = [leaf(&device, &[SIDE, SIDE]), leaf(&device, &[SIDE, SIDE])];
    let before = device.memory().in_use_bytes;
    let inputs = leaves
        .each_ref()
        .map(|leaf| leaf.mul(0.5).expect("an input"));
    let y = operation(&inputs).expect("an operation");
    drop(inputs);
    let held = device.memory().in_use_bytes - before;
    assert!(y.requires_grad());
    (held as f64 - 4.0 * y.n_elements() as f64) / (4 * N) as f64
}

#[test]
fn the_tape_saves_what_the_derivative_reads() {
    type Operation = fn(&[Tensor; 2]) -> Result<Tensor>;
    let cases: [(&str, f64, Operation); 18] = [
        ("add", 0.0, |x| x[0].add(&x[1])),
        ("sub", 0.0, |x| x[0].sub(&x[1])),
        ("mul by a number", 0.0, |x| x[0].mul(3.0)),
        ("reshape", 0.0, |x| x[0].reshape(&[N])),
        ("sum", 0.0, |x| x[0].sum()),
        ("mean", 0.0, |x| x[0].mean()),
        ("dropout", 0.0, |x| {
            let counter = x[0].device().buffer_of::<u32>(&[0, 0])?;
            let (p, seed, purpose) = (0.5, 1, 2);
            let mask = DropoutMask {
                p,
                seed,
                purpose,
                counter,
            };
            x[0].reshape(&[1, SIDE, SIDE])?.dropout(&mask)
        }),
        // Its own output.
        ("softmax", 0.0, |x| x[0].softmax()),
        ("relu", 1.0, |x| x[0].relu()),
        ("softplus", 1.0, |x| x[0].softplus()),
        ("mul", 2.0, |x| x[0].mul(&x[1])),
        ("mul by a constant", 1.0, |x| x[0].mul(x[1].detach())),
        ("matmul", 2.0, |x| x[0].matmul(&x[1])),
        // The gradient of the input alone reads the weight alone.
        ("linear of a constant weight", 1.0, |x| {
            x[0].linear(&x[1].detach(), None)
        }),
        ("mse_scaled", 2.0, |x| {
            let scale = Tensor::from_slice(x[0].device(), &[1.0], &[1])?;
            x[0].mse_scaled(&x[1], &scale)
        }),
        ("cross_entropy", 1.0, |x| {
            let device = x[0].device();
            let targets = Tensor::from_slice::<u32>(device, &[5; SIDE], &[SIDE])?;
            let scale = Tensor::from_slice(device, &[1.0], &[1])?;
            x[0].cross_entropy_scaled(&targets, &scale, 0.0)
        }),
        ("layer_norm", 1.0, |x| {
            let [gain, shift] = [(); 2].map(|()| leaf(x[0].device(), &[SIDE]));
            x[0].layer_norm(&gain, &shift, 1e-5)
        }),
        // The input, one weight for both maps, and what is before and after the activation.
        ("feed_forward", 4.0, |x| {
            let map = (&x[1], None);
            x[0].feed_forward(map, Activation::GELU, map, Some(&x[0]))
        }),
    ];
    for (name, tensors, operation) in cases {
        let found = saved(operation);
        // Counters, factors and statistics are small.
        assert!(
            (found - tensors).abs() < 0.15,
            "{name} saves {found} tensors, expected {tensors}"
        );
    }
}

/// Runs a test on a thread of a quarter of a megabyte, an eighth of what tests usually have.
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 18);
    let thread = thread.spawn(body).expect("a thread");
    thread.join().expect("the test passes");
}

#[test]
fn a_tape_of_a_million_operations_is_dropped_without_recursion() {
    on_a_small_stack(|| {
        let device = device();
        let x = leaf(&device, &[4]);
        let mut y = x.reshape(&[2, 2]).expect("a view");
        for _ in 0..1_000_000 {
            y = y.reshape(&[4]).expect("a view");
        }
        drop(y);
    });
}

#[test]
fn a_tape_of_a_million_operations_is_differentiated_and_dropped() {
    on_a_small_stack(|| {
        let device = device();
        let x = leaf(&device, &[1]);
        let mut y = x.reshape(&[1, 1]).expect("a view");
        for _ in 0..1_000_000 {
            y = y.reshape(&[1]).expect("a view");
        }
        y.backward().expect("a gradient");
        drop(y);
        let gradient = x
            .grad()
            .expect("a gradient")
            .to_vec::<f32>()
            .expect("downloads");
        assert_eq!(gradient, [1.0]);
    });
}

/// Operations that saved tensors, computed values again, and shared inputs.
#[test]
fn a_long_chain_of_saved_tensors_is_dropped_without_recursion() {
    on_a_small_stack(|| {
        let device = device();
        let x = leaf(&device, &[4]);
        let gain = leaf(&device, &[4]);
        let mut y = x.mul(1.0).expect("an operation");
        let mut all = Vec::new();
        for _ in 0..2_000 {
            let active = y.silu().expect("an operation");
            let normed = active.layer_norm(&gain, &gain, 1e-5).expect("an operation");
            y = y
                .add(normed.mul(&active).expect("an operation"))
                .expect("an operation");
            all.push(active);
        }
        // The last owner of most nodes is another tensor than y.
        drop(y);
        drop(all);
    });
}
