//! Shaders launched over buffers: eagerly, in a graph, over memory that other tensors share.

use hlx_core::Buffer;
use hlx_kernels::elementwise::add;

use super::*;

const COUNT: u32 = 1000;
const GROUPS: [u32; 3] = [COUNT.div_ceil(64), 1, 1];

fn program(device: &Device) -> Program {
    Program::new(device, "vector_add", &Shader::compute(VECTOR_ADD), &[]).expect("a program")
}

fn values(seed: u32) -> Vec<f32> {
    (0..COUNT)
        .map(|i| ((i + seed) * 7919 % 2003) as f32)
        .collect()
}

fn isolated(device: &Device, values: &[f32]) -> Buffer {
    let buffer = device.alloc_isolated(values.len()).expect("memory");
    device.upload(&buffer, values).expect("uploaded");
    buffer
}

#[test]
fn memory_of_its_own_and_shared_memory_give_the_same_words() {
    for device in vulkan() {
        let program = program(&device);
        let sums: Vec<f32> = values(1)
            .iter()
            .zip(values(2))
            .map(|(a, b)| a + b)
            .collect();
        for own in [false, true] {
            let make = |values: &[f32]| match own {
                true => isolated(&device, values),
                false => device.buffer_of(values).expect("memory"),
            };
            let [a, b, c] = [values(1), values(2), vec![0.5; 1000]].map(|values| make(&values));
            assert_eq!(a.is_isolated(), own);
            let push = [Scalar::U32(COUNT)];
            program
                .launch(&[a, b, c.clone()], &push, GROUPS)
                .expect("launched");
            assert_eq!(device.download::<f32>(&c).expect("words"), sums);
        }
    }
}

/// What a launch does not store to stays as it was, also where it worked on a copy.
#[test]
fn words_that_the_shader_leaves_alone_stay() {
    for device in vulkan() {
        let (a, c) = (device.buffer_of(&values(1)), device.buffer_of(&[0.5; 1000]));
        let (a, c) = (a.expect("memory"), c.expect("memory"));
        let ten = [Scalar::U32(10)];
        program(&device)
            .launch(&[a.clone(), a, c.clone()], &ten, GROUPS)
            .expect("launched");
        let found = device.download::<f32>(&c).expect("words");
        assert_eq!(found[10..], [0.5; 990]);
        assert_eq!(found[3], 2.0 * values(1)[3]);
    }
}

/// Where a driver bounds accesses by the bound window, the test below would pass without it.
#[test]
fn what_a_shader_works_on_is_an_allocation_of_its_own() {
    for device in vulkan() {
        let program = program(&device);
        let shared = device.buffer_of(&values(1)).expect("memory");
        let own = isolated(&device, &values(1));
        let window = own.slice(0, 999).expect("a window");
        for (buffer, is_own) in [(&shared, false), (&own, true), (&window, false)] {
            let found = program.isolated(buffer).expect("memory");
            assert!(found.is_isolated() && found.words() == buffer.words());
            assert_eq!(
                (buffer.is_isolated(), found.overlaps(buffer)),
                (is_own, is_own)
            );
        }
    }
}

#[test]
fn a_launch_that_leaves_its_tensors_reaches_no_other_tensor() {
    const GUARD: f32 = 777.05;
    for device in vulkan() {
        let program = program(&device);
        let before = device.buffer_of(&[GUARD; 4096]).expect("a guard");
        let tensors = [1, 2, 3].map(|seed| device.buffer_of(&values(seed)).expect("memory"));
        let after = device.buffer_of(&[GUARD; 4096]).expect("a guard");
        let past = [Scalar::U32(1 << 22)];
        program
            .launch(&tensors, &past, [65_535, 1, 1])
            .expect("launched");
        for guard in [&before, &after] {
            let words = device.download::<f32>(guard).expect("words");
            assert_eq!(words, [GUARD; 4096], "{}", device.info());
        }
    }
}

/// A graph of one of HLX's kernels, the shader and another of HLX's, over a new input at each replay.
#[test]
fn a_graph_holds_the_shader_between_kernels_of_hlx() {
    for device in vulkan() {
        let program = program(&device);
        let x = device.buffer_of(&values(1)).expect("memory");
        let alloc = || device.alloc(1000).expect("memory");
        let recording = device.start_recording().expect("begun");
        let (twice, sum, result) = (alloc(), alloc(), alloc());
        add(&device, &x, &x, &twice).expect("recorded");
        program
            .launch(
                &[twice, x.clone(), sum.clone()],
                &[Scalar::U32(COUNT)],
                GROUPS,
            )
            .expect("recorded");
        add(&device, &sum, &x, &result).expect("recorded");
        drop(sum);
        let graph = recording.finish().expect("a graph");
        for seed in [1, 5] {
            device.upload(&x, &values(seed)).expect("uploaded");
            graph.replay().expect("replayed");
            let expected: Vec<f32> = values(seed).iter().map(|x| 4.0 * x).collect();
            assert_eq!(device.download::<f32>(&result).expect("words"), expected);
        }
    }
}

#[test]
fn a_recording_that_is_dropped_leaves_the_device_as_it_was() {
    let mut devices = vulkan();
    devices.push(hlx_core::testing::cpu().expect("cpu"));
    for device in devices {
        let [a, c] = [values(1), values(2)].map(|x| device.buffer_of(&x).expect("memory"));
        let recording = device.start_recording().expect("begun");
        add(&device, &a, &a, &c).expect("recorded");
        assert!(device.start_recording().is_err() && device.is_recording());
        drop(recording);
        assert!(!device.is_recording());
        assert_eq!(device.download::<f32>(&c).expect("words"), values(2));
        let recording = device.start_recording().expect("begun");
        add(&device, &a, &a, &c).expect("recorded");
        recording.finish().expect("a graph").replay().expect("run");
        assert_eq!(
            device.download::<f32>(&c).expect("words")[7],
            2.0 * values(1)[7]
        );
    }
}

#[test]
fn launches_are_timed_under_their_name() {
    for device in vulkan() {
        let program = program(&device);
        let tensors = [1, 2, 3].map(|seed| isolated(&device, &values(seed)));
        device.sync().expect("done");
        device.set_timing(true);
        program
            .launch(&tensors, &[Scalar::U32(COUNT)], GROUPS)
            .expect("launched");
        device.set_timing(false);
        let report = device.take_timing().expect("times");
        let names: Vec<&str> = report.launches.iter().map(|launch| launch.name).collect();
        assert_eq!(names, ["vector_add"]);
    }
}

#[test]
fn what_does_not_fit_a_launch_is_named() {
    let cpu = hlx_core::testing::cpu().expect("cpu");
    let shader = Shader::compute(VECTOR_ADD);
    let refused = Program::new(&cpu, "vector_add", &shader, &[]).map(|_| ());
    let refused = refused.expect_err("SPIR-V on the CPU").to_string();
    assert!(
        refused.contains("is SPIR-V; the CPU device runs HLX's own kernels"),
        "{refused}"
    );
    for device in vulkan() {
        let program = program(&device);
        let [a, b, c] = [1, 2, 3].map(|seed| device.buffer_of(&values(seed)).expect("memory"));
        let ids = device.buffer_of::<u32>(&[0; 1000]).expect("memory");
        let none = device.alloc(0).expect("memory");
        let push = [Scalar::U32(COUNT)];
        let cases = [
            (
                program.launch(&[a.clone(), b.clone()], &push, GROUPS),
                "vector_add: 2 tensors, the shader binds 3 (A, B, C)",
            ),
            (
                program.launch(&[a.clone(), b.clone(), ids], &push, GROUPS),
                "vector_add: binding 2 (C): dtype u32, the shader's `C` holds f32",
            ),
            (
                program.launch(&[a.clone(), none, c.clone()], &push, GROUPS),
                "vector_add: binding 1 (B): a tensor without elements",
            ),
            (
                program.launch(&[a.clone(), b.clone(), a.clone()], &push, GROUPS),
                "vector_add: binding 2 (C): it shares memory with binding 0, and the shader stores to it",
            ),
            (
                program.launch(&[a.clone(), b.clone(), c.clone()], &[], GROUPS),
                "vector_add: 0 words of push constants, the shader's block has 1",
            ),
            (
                program.launch(
                    &[a.clone(), b.clone(), c.clone()],
                    &[Scalar::I32(1)],
                    GROUPS,
                ),
                "vector_add: word 0 of the push constants is i32, the shader's is u32",
            ),
            (
                program.launch(&[a, b, c], &push, [1, 0, 1]),
                "vector_add: [1, 0, 1] workgroups: nothing would run",
            ),
        ];
        for (result, expected) in cases {
            assert_eq!(result.expect_err(expected).to_string(), expected);
        }
        let constant = SpecializationConstant {
            id: 3,
            value: Scalar::U32(1),
        };
        let error = Program::new(&device, "vector_add", &shader, &[constant]).map(|_| ());
        assert_eq!(
            error.expect_err("no such constant").to_string(),
            "vector_add: specialization constant 3: the shader has none of this id"
        );
    }
}
