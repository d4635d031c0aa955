//! What does not fit is named.

use super::*;

/// Runs a changed kernel where it would run unchanged, and returns what is said.
fn fault(store: &Temporary, kernel: Kernel) -> String {
    let vulkan = vulkan();
    let cpu = hlx_core::testing::cpu().expect("cpu");
    let device = vulkan.first().unwrap_or(&cpu);
    device
        .execute_in(&store.1, &kernel)
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
    // OpCapability Int64 (11) and Float64 (10) after Shader: refused only where the device lacks
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
