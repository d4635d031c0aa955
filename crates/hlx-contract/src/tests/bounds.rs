//! Kernels that leave their tensors: none reads or writes another tensor.

use super::*;

#[test]
fn indexes_past_an_end_are_bounded_by_the_device() {
    let store = Temporary::new("bounds");
    let mut kernel = addition(&store, 1000);
    kernel.push_constants = vec![Scalar::U32(1 << 28)];
    kernel.workgroups = [4096, 1, 1];
    for device in vulkan() {
        let found = device.execute_in(&store.1, &kernel).expect("run");
        let whole = device
            .execute_in(&store.1, &addition(&store, 1000))
            .expect("run");
        assert_eq!(found.handle, whole.handle);
    }
}

/// Robust buffer access bounded a foreign kernel by the arena that all tensors shared.
#[test]
fn a_kernel_that_leaves_its_tensors_reaches_no_other_tensor() {
    const GUARD: u32 = 0x4442_4344; // 777.05: no sum that the kernel computes.
    let store = Temporary::new("guard");
    let mut kernel = addition(&store, 1000);
    kernel.push_constants = vec![Scalar::U32(1 << 22)];
    kernel.workgroups = [65_535, 1, 1];
    for device in vulkan() {
        let before = device.buffer_of::<u32>(&[GUARD; 4096]).expect("a guard");
        let prepared = device.prepare(&store.1, &kernel).expect("ready");
        let after = device.buffer_of::<u32>(&[GUARD; 4096]).expect("a guard");
        let found = prepared.run().expect("run");
        for guard in [&before, &after] {
            let words = device.download_words(guard).expect("download");
            assert_eq!(words, [GUARD; 4096], "{}", device.info());
        }
        let whole = device.execute_in(&store.1, &addition(&store, 1000));
        assert_eq!(found.handle, whole.expect("run").handle);
    }
}

/// A read past `a`'s ten elements gives zero or a word of `a`, never one of another tensor.
#[test]
fn a_kernel_that_reads_past_a_tensor_finds_no_other_tensors_words() {
    let store = Temporary::new("reads");
    let mut kernel = addition(&store, 1000);
    let short = store.tensor(&[10], 1);
    kernel.inputs[0].shape = vec![10];
    kernel.inputs[0].tensor = Some(short);
    let zeros = store.1.put_tensor(Dtype::F32, &[1000], &[0; 4000]);
    kernel.inputs[1].tensor = Some(zeros.expect("zeros"));
    let words = |handle: &Handle| -> Vec<u32> {
        let bytes = store.1.get_tensor(handle).expect("a tensor").data;
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|&word| u32::from_le_bytes(word)).collect()
    };
    let own = words(&short);
    for device in vulkan() {
        let secret = device.buffer_of(&[777.0; 4096]).expect("a neighbour");
        let found = device.execute_in(&store.1, &kernel).expect("run");
        let sums = words(&found.handle);
        assert_eq!(sums[..10], own);
        assert!(
            sums[10..]
                .iter()
                .all(|word| *word == 0 || own.contains(word)),
            "{}",
            device.info()
        );
        drop(secret);
    }
}
