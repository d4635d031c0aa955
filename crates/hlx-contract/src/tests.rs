//! Contracts: one value, one handle, on every device; what does not fit is named.

use std::path::PathBuf;

use hlx_core::Context;
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

fn vulkan() -> Vec<Context> {
    hlx_core::testing::vulkan_contexts()
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
        for ctx in vulkan() {
            let prepared = ctx.prepare(&store.1, &kernel).expect("ready");
            for _ in 0..3 {
                let found = prepared.run().expect("run");
                assert_eq!(found.handle, expected.handle, "{sizes:?} on {}", ctx.info());
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
    for ctx in vulkan() {
        let found = ctx.execute_in(&store.1, &pipeline).expect("run");
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
    for ctx in vulkan() {
        let found = ctx.execute_in(&store.1, &kernel).expect("run");
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

#[test]
fn indexes_past_an_end_are_bounded_by_the_device() {
    let store = Temporary::new("bounds");
    let mut kernel = addition(&store, 1000);
    kernel.push_constants = vec![Scalar::U32(1 << 28)];
    kernel.workgroups = [4096, 1, 1];
    for ctx in vulkan() {
        let found = ctx.execute_in(&store.1, &kernel).expect("run");
        let whole = ctx
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
    for ctx in vulkan() {
        let before = ctx.buffer_u32(&[GUARD; 4096]).expect("a guard");
        let prepared = ctx.prepare(&store.1, &kernel).expect("ready");
        let after = ctx.buffer_u32(&[GUARD; 4096]).expect("a guard");
        let found = prepared.run().expect("run");
        for guard in [&before, &after] {
            let words = ctx.download_u32(guard).expect("download");
            assert_eq!(words, [GUARD; 4096], "{}", ctx.info());
        }
        let whole = ctx.execute_in(&store.1, &addition(&store, 1000));
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
    for ctx in vulkan() {
        let secret = ctx.buffer_f32(&[777.0; 4096]).expect("a neighbour");
        let found = ctx.execute_in(&store.1, &kernel).expect("run");
        let sums = words(&found.handle);
        assert_eq!(sums[..10], own);
        assert!(
            sums[10..]
                .iter()
                .all(|word| *word == 0 || own.contains(word)),
            "{}",
            ctx.info()
        );
        drop(secret);
    }
}

/// Runs a changed kernel where it would run unchanged, and returns what is said.
fn fault(store: &Temporary, kernel: Kernel) -> String {
    let vulkan = vulkan();
    let cpu = hlx_core::testing::cpu().expect("cpu");
    let ctx = vulkan.first().unwrap_or(&cpu);
    ctx.execute_in(&store.1, &kernel)
        .expect_err("a wrong contract runs")
        .to_string()
}

#[test]
fn what_does_not_fit_is_named() {
    type Change = fn(&mut Kernel, &Temporary);
    let store = Temporary::new("faults");
    let cases: &[(Change, &str)] = &[
        (
            |k, _| k.workgroup_size = [64, 1, 1],
            "workgroup_size is [64, 1, 1], the shader's [128, 1, 1]",
        ),
        (|k, _| k.workgroups = [0, 1, 1], "nothing would run"),
        (|k, _| k.workgroups = [1, 70_000, 1], "workgroups"),
        (
            |k, _| k.specialization.swap(0, 1),
            "ascending order of their ids",
        ),
        (
            |k, _| k.specialization[0].value = Scalar::U32(0),
            "constant 0: `TRANS_A` is u32, the shader's is bool",
        ),
        (
            |k, _| k.specialization[7].id = 77,
            "constant 77: the shader has none",
        ),
        (|k, _| k.specialization[7].id = 1000, "are set by HLX"),
        (
            |k, _| _ = k.push_constants.pop(),
            "7 words of push constants, the shader's block has 8",
        ),
        (
            |k, _| k.push_constants[1] = Scalar::f32(1.0),
            "word 1 of the push constants is f32, the shader's is u32",
        ),
        (
            |k, _| _ = k.inputs.pop(),
            "binding 2 (Bias): the shader has it, the contract binds nothing there",
        ),
        (
            |k, _| k.outputs[0].binding = 4,
            "binding 3 (C): the shader has it",
        ),
        (
            |k, _| k.inputs[2].binding = 3,
            "binding 3 (c): a second input or output of this binding",
        ),
        (
            |k, _| k.inputs[1].name = "a".into(),
            "binding 1 (a): a second input or output of this name",
        ),
        (
            |k, _| k.inputs[0].dtype = Dtype::U32,
            "binding 0 (a): dtype u32, the shader's `A` holds f32",
        ),
        (
            |k, _| k.inputs[0].dtype = Dtype::F64,
            "binding 0 (a): dtype f64, expected f32, u32 or i32",
        ),
        (
            |k, _| k.inputs[0].shape = vec![8, 8],
            "binding 0 (a): sha256:",
        ),
        (
            |k, _| k.inputs[0].shape = vec![u64::MAX, 3],
            "binding 0 (a): shape",
        ),
        (
            |k, _| k.outputs[0].shape = vec![0],
            "binding 3 (c): shape [0]",
        ),
        (
            |k, s| k.inputs[2].tensor = Some(s.tensor(&[9], 1)),
            "is f32 [9], expected f32 [8]",
        ),
        (
            |k, _| k.inputs[2].tensor = Some(k.shader),
            "binding 2 (bias): sha256:",
        ),
        (
            |k, _| k.inputs[2].tensor = None,
            "neither a tensor nor a link",
        ),
        (
            |k, _| k.shader = Handle::of_bytes(b"nothing"),
            "is not in the store",
        ),
        (
            |k, s| k.shader = s.1.put_bytes(b"nothing").expect("stored"),
            "no contract",
        ),
        (|k, s| k.shader = s.tensor(&[4], 1), "expected bytes"),
        (|k, _| k.name = "two words".into(), "without spaces"),
        (
            |k, _| {
                let output = k.inputs.remove(0);
                let bound = Output {
                    name: output.name,
                    binding: 0,
                    dtype: Dtype::F32,
                    shape: output.shape,
                };
                k.outputs.insert(0, bound);
            },
            "binding 0 (a): it is an output, and the shader never stores to it",
        ),
    ];
    for (change, expected) in cases {
        let mut kernel = product_of(&store, [4, 8, 16]);
        change(&mut kernel, &store);
        let found = fault(&store, kernel);
        assert!(found.contains(expected), "`{found}` lacks `{expected}`");
    }
    let mut kernel = product_of(&store, [4, 8, 16]);
    let output = kernel.outputs.remove(0);
    let tensor = Some(store.tensor(&[4, 8], 1));
    let Output {
        name,
        binding,
        dtype,
        shape,
    } = output;
    kernel.inputs.push(Input {
        name,
        binding,
        dtype,
        shape,
        tensor,
    });
    kernel.outputs.push(Output {
        name: "d".into(),
        binding: 4,
        dtype,
        shape: vec![4],
    });
    let found = fault(&store, kernel);
    assert!(
        found.contains("binding 3 (c): it is an input, and the shader stores to it"),
        "{found}"
    );
}

#[test]
fn faults_of_pipelines_are_named() {
    type Change = fn(&mut Pipeline);
    let store = Temporary::new("pipelines");
    let cases: &[(Change, &str)] = &[
        (
            |p| p.links.clear(),
            "input `a` of kernel 1 has neither a tensor nor a link",
        ),
        (
            |p| p.links[0].from.name = "d".into(),
            "a link from `d` of kernel 0, which is no output",
        ),
        (
            |p| p.links[0].to.name = "d".into(),
            "a link to `d` of kernel 1, which is no input",
        ),
        (
            |p| p.links[0].to = Port::new(0, "a"),
            "back to `a` of kernel 0",
        ),
        (
            |p| p.links[0].to = Port::new(1, "b"),
            "has a tensor and a link",
        ),
        (|p| p.links[0].from.kernel = 9, "no output"),
        (
            |p| p.outputs[1].name = "d".into(),
            "there is no output `d` of kernel 0",
        ),
        (|p| p.outputs[1] = Port::new(1, "c"), "is named twice"),
        (|p| p.outputs.clear(), "no outputs"),
        (|p| p.links.push(p.links[0].clone()), "ascending order"),
        (
            |p| p.kernels[0].outputs[0].shape = vec![36, 40],
            "to `a` of kernel 1, f32 [40, 36]",
        ),
    ];
    for (change, expected) in cases {
        let mut pipeline = pipeline_of(&store);
        change(&mut pipeline);
        let cpu = hlx_core::testing::cpu().expect("cpu");
        let found = cpu
            .execute_in(&store.1, &pipeline)
            .expect_err("wrong")
            .to_string();
        assert!(found.contains(expected), "`{found}` lacks `{expected}`");
    }
}

#[test]
fn what_a_device_lacks_is_named() {
    let store = Temporary::new("limits");
    // OpCapability Int64 (11) and Float64 (10) behind Shader: refused only where the device lacks
    // them; an undeclared one always.
    let mut words = Shader::compute(VECTOR_ADD).words().expect("words");
    words.splice(7..7, [(2 << 16) | 17, 5]);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let shader = Shader::compute(&bytes);
    let found = inspect(&shader).expect_err("Sampled1D").to_string();
    assert!(
        found.contains("capability 5 is not supported") || found.contains("OpCapability"),
        "{found}"
    );
    let mut kernel = addition(&store, 64);
    kernel.shader = shader.put(&store.1).expect("stored");
    assert!(fault(&store, kernel).contains("the SPIR-V is refused"));
    let odd = Shader::compute(&VECTOR_ADD[..VECTOR_ADD.len() - 1]);
    assert!(
        inspect(&odd)
            .expect_err("odd")
            .to_string()
            .contains("no whole number of words")
    );
}

#[test]
fn wrong_json_is_named() {
    let cases = [
        ("", "no contract"),
        ("{}", "missing field `contract`"),
        (
            r#"{"contract": 903}"#,
            "contract 903, expected 900, 901 or 902",
        ),
        (
            r#"{"contract": 900, "entry_point": "main", "stage": "fragment", "spirv": ""}"#,
            "fragment",
        ),
        (
            r#"{"contract": 900, "entry_point": "main", "stage": "compute", "spirv": "A"}"#,
            "base64",
        ),
        (
            r#"{"contract": 900, "entry_point": "main", "stage": "compute", "spirv": "", "x": 1}"#,
            "unknown field `x`",
        ),
        (
            r#"{"contract": 902, "name": "p", "kernels": [], "links": [], "outputs": 3}"#,
            "line 1",
        ),
    ];
    for (text, expected) in cases {
        let found = Contract::from_json(text).expect_err("wrong").to_string();
        assert!(found.contains(expected), "`{found}` lacks `{expected}`");
    }
}
