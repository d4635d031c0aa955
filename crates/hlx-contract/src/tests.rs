//! Contracts: one value, one handle, on every device.

mod bounds;
mod compute;
mod faults;

use std::path::PathBuf;

use hlx_core::Device;
use hlx_store::{Dtype, Handle, Store};

use super::*;

const VECTOR_ADD: &[u8] = include_bytes!("../../hlx-core/spv/examples/vector_add.spv");

/// A store in a folder of its own, which goes with it.
struct Temporary(PathBuf, Store);

impl Temporary {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("hlx-contract-{name}-{}", std::process::id()));
        let store = Store::open(&folder).expect("a store");
        Self(folder, store)
    }

    fn tensor(&self, shape: &[usize], seed: u32) -> Handle {
        let n = shape.iter().product::<usize>() as u32;
        let value = |i: u32| (((i + seed) * 7919 % 2003) as f32 - 1000.0) / 256.0;
        let bytes: Vec<u8> = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
        self.1
            .put_tensor(Dtype::F32, shape, &bytes)
            .expect("a tensor")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn product_of(store: &Temporary, [m, n, k]: [usize; 3]) -> Kernel {
    let inputs = [
        store.tensor(&[m, k], 1),
        store.tensor(&[k, n], 2),
        store.tensor(&[n], 3),
    ];
    product("product", [m, n, k], inputs.map(Some)).expect("a contract")
}

/// `(a b + bias) + d`, in two kernels.
fn pipeline_of(store: &Temporary) -> Pipeline {
    let first = product_of(store, [40, 36, 20]);
    let d = store.tensor(&[40, 36], 5);
    let second = sum("sum", &[40, 36], [None, Some(d)]).expect("a contract");
    let link = Link {
        from: Port::new(0, "c"),
        to: Port::new(1, "a"),
    };
    let outputs = vec![Port::new(1, "c"), Port::new(0, "c")];
    Pipeline::new("product_and_sum", vec![first, second], vec![link], outputs)
}

/// A vector addition of the user's own shader.
fn addition(store: &Temporary, count: u32) -> Kernel {
    let shader = Shader::compute(VECTOR_ADD);
    let n = count as usize;
    let mut kernel = sum(
        "addition",
        &[n],
        [store.tensor(&[n], 1), store.tensor(&[n], 2)].map(Some),
    )
    .expect("a contract");
    kernel.shader = shader.put(&store.1).expect("stored");
    kernel.workgroup_size = [64, 1, 1];
    kernel.workgroups = [count.div_ceil(64), 1, 1];
    kernel.specialization.clear();
    kernel.push_constants = vec![Scalar::U32(count)];
    kernel
}

fn vulkan() -> Vec<Device> {
    hlx_core::testing::vulkan_devices()
}

/// Runs of one prepared contract wrote the same outputs at the same time.
#[test]
fn threads_run_one_prepared_contract() {
    let store = Temporary::new("threads");
    let kernel = product_of(&store, [96, 80, 64]);
    let mut devices = vulkan();
    devices.push(hlx_core::testing::cpu().expect("cpu"));
    for device in devices {
        let prepared = device.prepare(&store.1, &kernel).expect("ready");
        let alone = prepared.run().expect("run").handle;
        let run = || (0..20).map(|_| prepared.run().expect("run").handle);
        let results = std::thread::scope(|scope| {
            let threads = [0; 4].map(|_| scope.spawn(|| run().collect::<Vec<_>>()));
            threads.map(|thread| thread.join().expect("a thread"))
        });
        for found in results.into_iter().flatten() {
            assert_eq!(found, alone, "{}", device.info());
        }
    }
}

#[test]
fn json_and_bytes_give_one_value_and_one_handle() {
    let store = Temporary::new("round");
    let mut kernel = product_of(&store, [4, 8, 16]);
    kernel.push_constants = vec![
        Scalar::Bool(true),
        Scalar::I32(-7),
        Scalar::U32(u32::MAX),
        Scalar::f32(0.1),
        Scalar::f32(-0.0),
        Scalar::f32(f32::MAX),
        Scalar::f32(f32::MIN_POSITIVE / 3.0),
        Scalar::f32(f32::NEG_INFINITY),
        Scalar::f32(f32::NAN),
    ];
    let contracts = [
        Contract::Kernel(kernel),
        Contract::Pipeline(pipeline_of(&store)),
        Contract::Shader(Shader::compute(VECTOR_ADD)),
    ];
    for contract in contracts {
        let json = contract.to_json().expect("json");
        let read = Contract::from_json(&json).expect("read");
        assert_eq!(read, contract);
        let handle = contract.put(&store.1).expect("stored");
        let bytes = store.1.get_bytes(&handle).expect("bytes");
        assert_eq!(Contract::from_bytes(&bytes).expect("read"), contract);
        assert_eq!(
            (
                read.handle().expect("a handle"),
                contract.handle().expect("a handle")
            ),
            (handle, handle)
        );
        for end in 0..bytes.len().min(300) {
            assert!(Contract::from_bytes(&bytes[..end]).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        let error = Contract::from_bytes(&longer)
            .expect_err("longer")
            .to_string();
        assert!(error.contains("1 bytes behind the contract"), "{error}");
    }
}

#[test]
fn handles_are_what_they_were() {
    let store = Temporary::new("golden");
    let shader = own_shader("elementwise/binary").expect("own");
    let handles = [
        Shader::compute(&[1, 2, 3, 4]).handle().expect("a handle"),
        product_of(&store, [4, 8, 16]).shader,
        shader.handle().expect("a handle"),
        product_of(&store, [4, 8, 16]).handle().expect("a handle"),
        pipeline_of(&store).handle().expect("a handle"),
        hlx_core::testing::cpu()
            .expect("cpu")
            .execute_in(&store.1, &pipeline_of(&store))
            .expect("run")
            .handle,
    ];
    let found = handles.map(|handle| handle.hex()[..16].to_owned());
    assert_eq!(found, GOLDEN);
}

/// The first digits of handles: a shader of four bytes, HLX's product and its elementwise kernel, a
/// product, a pipeline, and what comes out of that. The first and the last must never change; the
/// others name HLX's own shaders, and change with the bytes of their modules.
const GOLDEN: [&str; 6] = [
    "75f47df67e777f55",
    "ad11b02df8cf345e",
    "bde0621844a39363",
    "f3f9b6806b56df35",
    "79c5c9e963daa5ff",
    "bae5fb045852aed5",
];

#[test]
fn every_device_gives_one_handle() {
    let store = Temporary::new("devices");
    for sizes in [[1, 1, 1], [64, 64, 64], [67, 130, 35]] {
        let kernel = product_of(&store, sizes);
        let expected = hlx_core::testing::cpu()
            .expect("cpu")
            .execute_in(&store.1, &kernel)
            .expect("run");
        let tensor = store.1.get_tensor(&expected.handle).expect("stored");
        assert_eq!(tensor.shape, [sizes[0], sizes[1]]);
        for device in vulkan() {
            let prepared = device.prepare(&store.1, &kernel).expect("ready");
            for _ in 0..3 {
                let found = prepared.run().expect("run");
                assert_eq!(
                    found.handle,
                    expected.handle,
                    "{sizes:?} on {}",
                    device.info()
                );
            }
        }
    }
    let pipeline = pipeline_of(&store);
    let expected = hlx_core::testing::cpu()
        .expect("cpu")
        .execute_in(&store.1, &pipeline)
        .expect("run");
    assert_eq!(expected.outputs.len(), 2);
    let list =
        String::from_utf8(store.1.get_bytes(&expected.handle).expect("a list")).expect("text");
    assert!(
        list.starts_with("1 c sha256:") && list.lines().count() == 2,
        "{list}"
    );
    for device in vulkan() {
        let found = device.execute_in(&store.1, &pipeline).expect("run");
        assert_eq!(
            (found.handle, found.outputs),
            (expected.handle, expected.outputs.clone())
        );
    }
}

#[test]
fn shaders_of_the_users_run_on_vulkan_and_not_on_the_cpu() {
    let store = Temporary::new("user");
    let kernel = addition(&store, 1000);
    for device in vulkan() {
        let found = device.execute_in(&store.1, &kernel).expect("run");
        let tensor = store.1.get_tensor(&found.handle).expect("stored");
        let value = |i: u32, seed: u32| (((i + seed) * 7919 % 2003) as f32 - 1000.0) / 256.0;
        let expected: Vec<u8> = (0..1000)
            .flat_map(|i| (value(i, 1) + value(i, 2)).to_le_bytes())
            .collect();
        assert_eq!(tensor.data, expected);
    }
    let error = hlx_core::testing::cpu()
        .expect("cpu")
        .execute_in(&store.1, &kernel)
        .expect_err("no twin");
    let error = error.to_string();
    assert!(
        error.contains("is not one of HLX's own") && error.contains("addition"),
        "{error}"
    );
}
