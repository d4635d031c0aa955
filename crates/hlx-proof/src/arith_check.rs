//! HLX's arithmetic on every device against Rust, bit for bit: edge cases and a million inputs a
//! function, through the same launch as any kernel.

use hlx_core::{Binding, Launch, arith, groups_1d, push_bytes};

use hlx_kernels::shader;

use crate::exhaustive::{EDGE_TRIPLES, OPERATIONS, launch_operation, triple};
use hlx_kernels::testing::{TestMemory, run_everywhere};

shader!(random, arith::random);

#[test]
fn every_function_has_the_same_bits_everywhere() {
    let rows: Vec<[u32; 3]> = (0..EDGE_TRIPLES + 400_000).map(triple).collect();
    let columns: [Vec<u32>; 3] =
        [0, 1, 2].map(|column| rows.iter().map(|row| row[column]).collect());
    for (op, name) in OPERATIONS.iter().enumerate() {
        run_everywhere(name, |device, mem: &mut TestMemory| {
            let a = mem.input_u32(device, &columns[0])?;
            let b = mem.input_u32(device, &columns[1])?;
            let c = mem.input_u32(device, &columns[2])?;
            let out = mem.output(device, columns[0].len())?;
            launch_operation(device, op, [&a, &b, &c], &out)?;
            Ok(vec![out])
        });
    }
}

#[test]
fn random_numbers_have_the_same_bits_everywhere() {
    let count = 100_003;
    run_everywhere("philox", |device, mem: &mut TestMemory| {
        let out = mem.output(device, 8 * count)?;
        let push = random::Push {
            count: count as u32,
            key_0: 0xdead_beef,
            key_1: 7,
        };
        let launch = Launch {
            name: "arith_random",
            shader: &random::SHADER,
            specialization: &[],
            bindings: &[Binding::Write(&out)],
            push: push_bytes(&push),
            groups: groups_1d(count.div_ceil(64)),
        };
        device.launch(launch, move |bindings| {
            let ([], [out]) = bindings.split::<0, 1>();
            for (index, row) in out.chunks_exact_mut(8).enumerate() {
                let words = arith::philox4x32([index as u32, 1, 2, 3], [push.key_0, push.key_1]);
                let [x, y, _, _] = words;
                let (normal_0, normal_1) = arith::normal_pair(x, y);
                for (value, word) in row.iter_mut().zip(words) {
                    *value = f32::from_bits(word);
                }
                row[4..].copy_from_slice(&[
                    arith::uniform(x),
                    arith::uniform(y),
                    normal_0,
                    normal_1,
                ]);
            }
        })?;
        Ok(vec![out])
    });
}
