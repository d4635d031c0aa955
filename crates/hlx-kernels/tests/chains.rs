//! Chains of element-wise launches, joined into one launch when a graph is recorded: their results
//! have the bits of the CPU's single launches, for random chains over all types, broadcasts and strides.

mod chains {
    pub mod program;
}

use std::thread;

use chains::program::Program;
use hlx_core::testing::{self, left_out, own_devices, spirv_val};
use hlx_core::{Buffer, DType, Device, DeviceKind, Tuning};
use hlx_kernels::activation::{Activation, activation_backward, activation_forward};
use hlx_kernels::elementwise::{add, mul, scale};
use hlx_kernels::{KernelError, chain_modules};

/// Random chains on every device; a software driver compiles each of them for a second or more.
const CHAINS: u64 = 1000;
const CHAINS_ON_SOFTWARE: u64 = 8;

fn chains_on(device: &Device) -> u64 {
    let all = std::env::var_os("HLX_EXHAUSTIVE").is_some();
    match device.info().kind {
        DeviceKind::VulkanSoftware if !all => {
            left_out(
                &format!("{} of {CHAINS} random chains", CHAINS - CHAINS_ON_SOFTWARE),
                "a software driver compiles each for seconds; HLX_EXHAUSTIVE=1 runs them",
            );
            CHAINS_ON_SOFTWARE
        }
        _ => CHAINS,
    }
}

/// The words of a buffer, with one NaN for all of a type.
fn words(device: &Device, buffer: &Buffer) -> Vec<u32> {
    let mut words = device.download_words(buffer).expect("download");
    // The bits of an element, its infinity and the NaN that stands for all.
    let (bits, infinity, nan) = match buffer.dtype() {
        DType::F32 => (32, 0x7f80_0000, 0x7fc0_0000),
        DType::F16 => (16, 0x7c00, 0x7e00),
        DType::BF16 => (16, 0x7f80, 0x7fc0),
        _ => return words,
    };
    for word in &mut words {
        for shift in (0..32).step_by(bits) {
            let element = (*word >> shift) & (u32::MAX >> (32 - bits));
            if element & (u32::MAX >> (33 - bits)) > infinity {
                *word = *word & !((u32::MAX >> (32 - bits)) << shift) | nan << shift;
            }
        }
    }
    words
}

/// Runs one random chain launch by launch on the CPU and recorded on a device, compares the words, and
/// returns how many launches the recording has and how many the chain.
fn chain_is_right([cpu, device]: [&Device; 2], seed: u64) -> [usize; 2] {
    let program = Program::random(seed);
    let alone = program.inputs(cpu).expect("inputs");
    let alone = program.run(cpu, &alone).expect("single launches");
    let want: Vec<Vec<u32>> = alone.iter().map(|result| words(cpu, result)).collect();
    let inputs = program.inputs(device).expect("inputs");
    let (graph, results) = device
        .record(|| program.run(device, &inputs))
        .expect("recorded");
    graph.replay().expect("replayed");
    for (number, (result, want)) in results.iter().zip(&want).enumerate() {
        let found = words(device, result);
        let first = found
            .iter()
            .zip(want)
            .position(|(found, want)| found != want);
        assert_eq!(
            first,
            None,
            "{}: seed {seed}, result {number}: {program:?}",
            device.info()
        );
    }
    [graph.len(), program.steps.len()]
}

/// Openings that share the chains of a device: what takes time on a GPU is its driver's compiler.
fn devices_of(device: &Device) -> usize {
    match device.info().kind {
        DeviceKind::Cpu | DeviceKind::VulkanSoftware => 1,
        _ => thread::available_parallelism().map_or(1, |n| n.get().min(8)),
    }
}

#[test]
fn random_chains_have_the_bits_of_their_launches() {
    for (index, device) in own_devices().iter().enumerate() {
        let (chains, parts) = (chains_on(device), devices_of(device));
        let run = |part: usize| {
            let (cpu, device) = (testing::cpu().expect("CPU"), &own_devices()[index]);
            let seeds = (part as u64..chains).step_by(parts);
            seeds
                .map(|seed| chain_is_right([&cpu, device], seed))
                .fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
        };
        let [launched, recorded] = thread::scope(|scope| {
            let threads: Vec<_> = (0..parts)
                .map(|part| scope.spawn(move || run(part)))
                .collect();
            let counts = threads
                .into_iter()
                .map(|thread| thread.join().expect("a chain's words differ"));
            counts.fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
        });
        // Copies of transposed operands and results of other lengths stay launches of their own.
        assert!(
            2 * launched < recorded,
            "{launched} of {recorded} launches on {}",
            device.info()
        );
    }
    validate(&chain_modules());
}

/// spirv-val accepts every module.
fn validate(modules: &[&[u8]]) {
    for bytes in modules {
        match spirv_val(bytes) {
            Ok(found) => assert_eq!(found, None),
            Err(error) => return left_out("spirv-val", &format!("it does not start: {error}")),
        }
    }
}

/// `y = gelu(2 a + b)` and the gradient of an activation, over the kernels of contiguous operands.
fn dense_chain(device: &Device, [a, b]: [&Buffer; 2]) -> Result<Vec<Buffer>, KernelError> {
    let n = a.len();
    let [twice, sum, y, dy] = [(); 4].map(|()| device.alloc(n));
    let (twice, sum, y, dy) = (twice?, sum?, y?, dy?);
    scale(device, a, 2.0, &twice)?;
    add(device, &twice, b, &sum)?;
    activation_forward(device, Activation::GELU, &sum, &y)?;
    activation_backward(device, Activation::SiLU, &sum, &y, &dy)?;
    let out = device.alloc(n)?;
    mul(device, &dy, b, &out)?;
    Ok(vec![out, y])
}

#[test]
fn kernels_of_contiguous_operands_are_joined() {
    for device in own_devices() {
        for n in [1, 5, 2048, 2051] {
            let data: Vec<f32> = hlx_kernels::testing::values(n as u64, 2 * n);
            let a = device.buffer_of(&data[..n]).expect("a");
            let b = device.buffer_of(&data[n..]).expect("b");
            let want = dense_chain(&device, [&a, &b]).expect("single launches");
            let (graph, found) = device
                .record(|| dense_chain(&device, [&a, &b]))
                .expect("recorded");
            assert_eq!(graph.len(), 1, "{}", device.info());
            graph.replay().expect("replayed");
            for (found, want) in found.iter().zip(&want) {
                assert_eq!(
                    words(&device, found),
                    words(&device, want),
                    "{}",
                    device.info()
                );
            }
        }
    }
}

#[test]
fn a_tuning_turns_chains_off() {
    for device in own_devices() {
        let tuning = Tuning {
            chains: false,
            ..device.tuning().clone()
        };
        let device = device.with_tuning(tuning).expect("a tuning");
        let a = device.buffer_of(&[1.0, 2.0, 3.0]).expect("a");
        let (graph, _) = device
            .record(|| dense_chain(&device, [&a, &a.clone()]))
            .expect("recorded");
        assert_eq!(graph.len(), 5, "{}", device.info());
    }
}

#[test]
fn a_replay_computes_from_what_its_operands_then_hold() {
    for device in own_devices() {
        let (a, b) = (
            device.buffer_of(&[1.0; 7]).expect("a"),
            device.buffer_of(&[2.0; 7]).expect("b"),
        );
        let (graph, results) = device
            .record(|| dense_chain(&device, [&a, &b]))
            .expect("recorded");
        for seed in 0..3 {
            let data = hlx_kernels::testing::normal(seed, 14);
            device.upload(&a, &data[..7]).expect("upload");
            device.upload(&b, &data[7..]).expect("upload");
            graph.replay().expect("replayed");
            let want = dense_chain(&device, [&a, &b]).expect("single launches");
            for (found, want) in results.iter().zip(&want) {
                assert_eq!(
                    words(&device, found),
                    words(&device, want),
                    "{}",
                    device.info()
                );
            }
        }
    }
}
