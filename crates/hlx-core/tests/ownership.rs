//! Who owns memory, and who may touch it: buffers of other devices, buffers that outlive their
//! graph or are dropped before it, user-level dispatches, and launches from several threads.

mod vector_add;

use hlx_core::testing::{cpu, left_out, own_devices, vulkan_devices};
use hlx_core::{
    CommandBufferPool, ComputePipeline, CoreError, DescriptorBindingBuilder, Device, Graph,
};
use rayon::prelude::*;
use vector_add::add;

const MODULE: &[u8] = include_bytes!("../spv/examples/vector_add.spv");

/// A second opening of the same device.
fn twin(device: &Device) -> Device {
    Device::open(&device.info().selector).expect("opened before")
}

fn pipeline(device: &Device, bindings: usize) -> Result<ComputePipeline, CoreError> {
    let words: Vec<u32> = MODULE
        .chunks_exact(4)
        .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    // SAFETY: the module is valid and checks its index against the count that it is given.
    unsafe { ComputePipeline::from_spirv(device, "vector_add", &words, "main", &[], bindings, 4) }
}

fn message<T>(result: Result<T, CoreError>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn host_memory_and_timelines_of_another_device_are_refused() {
    // Openings of one device may use each other's.
    let all = vulkan_devices();
    let [device, other, ..] = &all[..] else {
        return left_out("two Vulkan devices", "there are fewer");
    };
    let mine = device.buffer_of(&[1.0, 2.0]).expect("mine");
    let host = || other.alloc_host(2).expect("theirs");
    let mut refused = vec![
        message(device.copy_to_host(&mine, host())),
        message(device.copy_from_host(host(), &mine)),
    ];
    if device.sharing_uuid().is_some() && other.sharing_uuid().is_some() {
        let (theirs, _file) = other.timeline().expect("a timeline");
        refused.push(message(device.raise(&theirs, 1)));
        refused.push(message(device.await_value(&theirs, 1)));
    }
    for line in refused {
        assert!(line.ends_with("is of another device"), "{line}");
    }
    assert_eq!(device.download::<f32>(&mine).expect("read"), [1.0, 2.0]);
}

#[test]
fn a_buffer_of_another_device_is_refused_by_every_operation() {
    for device in own_devices() {
        let other = twin(&device);
        let (mine, theirs) = (
            device.buffer_of(&[1.0, 2.0]).expect("mine"),
            other.buffer_of(&[3.0, 4.0]).expect("theirs"),
        );
        let out = device.alloc(2).expect("out");
        let refused = [
            message(add(&device, &mine, &theirs, &out)),
            message(add(&device, &mine, &mine, &theirs)),
            message(device.copy(&theirs, &out)),
            message(device.copy(&mine, &theirs)),
            message(device.fill(&theirs, 0)),
            message(device.upload(&theirs, &[0.0, 0.0])),
            message(device.download::<f32>(&theirs)),
            message(device.download_later(&theirs)),
            message(device.record::<_, CoreError>(|| add(&device, &theirs, &mine, &out))),
        ];
        let names = [
            "vector_add: binding 1",
            "vector_add: binding 2",
            "copy: source",
            "copy: target",
            "fill: buffer",
            "upload: buffer",
            "download: buffer",
            "download: buffer",
            "vector_add: binding 0",
        ];
        for (message, name) in refused.iter().zip(names) {
            let expected = format!(
                "{name} belongs to {}, expected {}",
                other.label(),
                device.label()
            );
            assert_eq!(message, &expected);
        }
        assert_eq!(other.download::<f32>(&theirs).expect("whole"), [3.0, 4.0]);
    }
}

#[test]
fn clones_of_a_device_share_their_buffers() {
    for device in own_devices() {
        let clone = device.clone();
        assert!(device.is_same(&clone) && !device.is_same(&twin(&device)));
        let x = clone.buffer_of(&[1.5; 8]).expect("x");
        let y = device.alloc(8).expect("y");
        add(&device, &x, &x, &y).expect("add");
        assert_eq!(clone.download::<f32>(&y).expect("download"), [3.0; 8]);
    }
}

#[test]
fn a_dispatch_with_another_pipelines_bindings_is_refused() {
    for device in &vulkan_devices() {
        let buffers: Vec<_> = (0..4)
            .map(|_| device.buffer_of(&[1.0; 64]).expect("buffer"))
            .collect();
        let (three, four) = (
            pipeline(device, 3).expect("three"),
            pipeline(device, 4).expect("four"),
        );
        let bind = |count: usize, pipeline: &ComputePipeline| {
            let builder = DescriptorBindingBuilder::new();
            let reads = buffers[..count - 1].iter().fold(builder, |b, x| b.read(x));
            reads.write(&buffers[count - 1]).build(pipeline)
        };
        let bindings = bind(3, &three).expect("three buffers");
        let pool = CommandBufferPool::new(device).expect("pool");
        let push = 64_u32.to_le_bytes();
        let dispatch = |pipeline: &ComputePipeline, push: &[u8]| {
            pool.record(|recorder| recorder.dispatch(pipeline, &bindings, push, [1, 1, 1]))
        };
        assert!(dispatch(&three, &push).is_ok());
        assert_eq!(
            message(dispatch(&four, &push)),
            "vector_add: 3 buffers bound, expected 4"
        );
        assert_eq!(
            message(dispatch(&three, &[0; 8])),
            "vector_add: 8 bytes of push constants, expected 4"
        );
        let overlapping = DescriptorBindingBuilder::new()
            .read(&buffers[0])
            .read(&buffers[1])
            .write(&buffers[0])
            .build(&three)
            .expect("three buffers");
        let refused = pool.record(|r| r.dispatch(&three, &overlapping, &push, [1, 1, 1]));
        assert!(message(refused).starts_with("vector_add: bindings 0 and 2 share memory"));
        let foreign = twin(device).buffer_of(&[1.0; 64]).expect("foreign");
        let of_another = DescriptorBindingBuilder::new()
            .read(&buffers[0])
            .read(&foreign)
            .write(&buffers[2])
            .build(&three)
            .expect("three buffers");
        let refused = pool.record(|r| r.dispatch(&three, &of_another, &push, [1, 1, 1]));
        let line = message(refused);
        assert!(
            line.starts_with("vector_add: binding 1 belongs to "),
            "{line}"
        );
        assert!(line.contains(", opening "), "{line}");
    }
}

#[test]
fn a_buffer_dropped_after_a_dispatch_was_recorded_is_not_given_away() {
    for device in &vulkan_devices() {
        let pipeline = pipeline(device, 3).expect("pipeline");
        let a = device.buffer_of(&[1.0; 64]).expect("a");
        let c = device.alloc(64).expect("c");
        let bindings = DescriptorBindingBuilder::new()
            .read(&a)
            .read(&a)
            .write(&c)
            .build(&pipeline)
            .expect("bindings");
        let pool = CommandBufferPool::new(device).expect("pool");
        let commands = pool
            .record(|r| r.dispatch(&pipeline, &bindings, &64_u32.to_le_bytes(), [1, 1, 1]))
            .expect("recorded");
        drop((a, c, bindings));
        // These took the dropped buffers' words.
        let others: Vec<_> = (0..4)
            .map(|_| device.buffer_of(&[7.0; 64]).expect("other"))
            .collect();
        commands.submit().expect("submit");
        for other in &others {
            assert_eq!(device.download::<f32>(other).expect("download"), [7.0; 64]);
        }
    }
}

#[test]
fn an_empty_window_shares_no_word_with_another_buffer() {
    use hlx_core::{Binding, Launch};
    for device in own_devices() {
        let x = device.buffer_of(&[1.0; 64]).expect("x");
        let launch = |empty: &hlx_core::Buffer, out: &hlx_core::Buffer| {
            let launch = Launch {
                name: "vector_add",
                shader: vector_add::shader(),
                specialization: &[],
                bindings: &[
                    Binding::Read(empty),
                    Binding::Read(empty),
                    Binding::Write(out),
                ],
                push: &0_u32.to_le_bytes(),
                groups: [1, 1, 1],
            };
            device.launch(launch, |_| ()).expect("launch");
        };
        let out = device.buffer_of(&[3.0; 64]).expect("out");
        // Dropped at once, its memory goes to the next buffer; no barrier would be put between the
        // launch and the fill if the window, which binds a word all the same, counted as none.
        launch(&device.alloc(0).expect("empty"), &out);
        let filled: Vec<_> = (0..3).map(|_| device.alloc(64).expect("next")).collect();
        for next in &filled {
            device.fill(next, 2.0_f32.to_bits()).expect("fill");
        }
        // Within a buffer and at its end, which may be the memory's end.
        launch(&x.slice(0, 0).expect("start"), &out);
        device.fill(&x, 5.0_f32.to_bits()).expect("fill");
        launch(&x.slice(64, 0).expect("end"), &out);
        assert_eq!(device.download::<f32>(&out).expect("download"), [3.0; 64]);
        assert_eq!(device.download::<f32>(&x).expect("download"), [5.0; 64]);
        drop(filled);
    }
    assert_eq!(hlx_core::validation_messages(), 0);
}

/// A graph that writes `x + x` into a buffer it allocates.
fn doubling(device: &Device, x: &hlx_core::Buffer) -> (Graph, hlx_core::Buffer) {
    device
        .record::<_, CoreError>(|| {
            let y = device.alloc(x.len())?;
            add(device, x, x, &y)?;
            Ok(y)
        })
        .expect("record")
}

#[test]
fn outputs_outlive_their_graph() {
    for device in own_devices() {
        let x = device.buffer_of(&[2.0; 4096]).expect("x");
        let (graph, y) = doubling(&device, &x);
        graph.replay().expect("replay");
        drop(graph);
        let others: Vec<_> = (0..4)
            .map(|_| device.buffer_of(&[7.0; 4096]).expect("other"))
            .collect();
        assert_eq!(device.download::<f32>(&y).expect("download"), [4.0; 4096]);
        drop(others);
        // The memory returns to the pool with the last handle.
        let before = device.memory().buffers;
        drop(y);
        if !device.is_cpu() {
            assert_eq!(device.memory().buffers, before - 1);
        }
    }
}

#[test]
fn a_graph_outlives_the_handles_of_its_device() {
    for selector in hlx_core::testing::selectors() {
        let device = Device::open(&selector).expect("open");
        let x = device.buffer_of(&[2.0; 4096]).expect("x");
        let (graph, y) = doubling(&device, &x);
        drop((device, x, y));
        for _ in 0..3 {
            graph.replay().expect("replay");
        }
    }
}

#[test]
fn a_graph_owns_the_buffers_that_it_reads() {
    for device in own_devices() {
        let x = device.buffer_of(&[2.0; 4096]).expect("x");
        let (graph, y) = doubling(&device, &x);
        let in_use = device.memory().buffers;
        drop(x);
        assert_eq!(device.memory().buffers, in_use, "the graph has it");
        let others: Vec<_> = (0..4)
            .map(|_| device.buffer_of(&[7.0; 4096]).expect("other"))
            .collect();
        graph.replay().expect("replay");
        assert_eq!(device.download::<f32>(&y).expect("download"), [4.0; 4096]);
        drop((graph, others));
    }
}

#[test]
fn an_output_of_one_graph_is_the_input_of_the_next() {
    for device in own_devices() {
        let x = device.buffer_of(&[1.0; 256]).expect("x");
        let (first, y) = doubling(&device, &x);
        let (second, z) = doubling(&device, &y);
        drop(y);
        first.replay().expect("first");
        drop(first);
        let _others = device.buffer_of(&[7.0; 256]).expect("other");
        second.replay().expect("second");
        assert_eq!(device.download::<f32>(&z).expect("download"), [4.0; 256]);
    }
}

#[test]
fn another_thread_cannot_launch_while_a_graph_is_recorded() {
    for device in own_devices() {
        let x = device.buffer_of(&[1.0; 64]).expect("x");
        let y = device.alloc(64).expect("y");
        let (graph, messages) = device
            .record::<_, CoreError>(|| {
                let messages = std::thread::scope(|scope| {
                    let other = scope.spawn(|| {
                        [
                            message(add(&device, &x, &x, &y)),
                            message(device.fill(&y, 0)),
                            message(device.alloc(1)),
                            message(device.upload(&y, &[0.0; 64])),
                            message(device.download::<f32>(&y)),
                            message(device.record::<_, CoreError>(|| Ok(()))),
                        ]
                    });
                    other.join().expect("no panic")
                });
                add(&device, &x, &x, &y)?;
                Ok(messages)
            })
            .expect("record");
        let names = [
            "vector_add",
            "fill",
            "alloc",
            "upload",
            "download",
            "record",
        ];
        for (message, name) in messages.iter().zip(names) {
            let expected = format!("{name}: another thread is recording a graph on this device");
            assert_eq!(message, &expected);
        }
        assert_eq!(graph.len(), 1);
        graph.replay().expect("replay");
        assert_eq!(device.download::<f32>(&y).expect("download"), [2.0; 64]);
    }
}

#[test]
fn a_graph_cannot_be_replayed_inside_a_recording() {
    for device in own_devices() {
        let x = device.buffer_of(&[1.0; 64]).expect("x");
        let (graph, _y) = doubling(&device, &x);
        let refused = device.record::<_, CoreError>(|| graph.replay());
        assert_eq!(
            message(refused),
            "replay: not possible while a graph is being recorded"
        );
        assert!(!device.is_recording());
    }
}

#[test]
fn jobs_of_a_users_thread_pool_launch_on_one_device() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build()
        .expect("pool");
    for device in own_devices() {
        let outputs: Vec<Vec<f32>> = pool.install(|| {
            (0..200)
                .into_par_iter()
                .map(|idx| {
                    let x = device.buffer_of(&[idx as f32; 300]).expect("x");
                    let y = device.alloc(300).expect("y");
                    add(&device, &x, &x, &y).expect("add");
                    // Work of the user's own, which idle threads take up.
                    let sum: u64 = (0..64_u64).into_par_iter().sum();
                    assert_eq!(sum, 2016);
                    device.download::<f32>(&y).expect("download")
                })
                .collect()
        });
        for (idx, output) in outputs.iter().enumerate() {
            assert_eq!(output, &[2.0 * idx as f32; 300]);
        }
    }
}

#[test]
fn a_cpu_body_that_launches_on_its_device_is_refused() {
    use hlx_core::{Binding, Launch};
    let device = cpu().expect("cpu");
    let x = device.buffer_of(&[1.0; 8]).expect("x");
    let found = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let (inner, text) = (device.clone(), std::sync::Arc::clone(&found));
    let launch = Launch {
        name: "outer",
        shader: vector_add::shader(),
        specialization: &[],
        bindings: &[Binding::ReadWrite(&x)],
        push: &[],
        groups: [1, 1, 1],
    };
    device
        .launch(launch, move |_| {
            *text.lock().expect("lock") = message(inner.alloc(4));
        })
        .expect("launch");
    assert_eq!(
        *found.lock().expect("lock"),
        "alloc: called from the CPU body of a launch on the same device"
    );
}

#[test]
fn a_panic_of_a_cpu_body_reaches_the_caller_and_leaves_the_device_usable() {
    use hlx_core::{Binding, Launch};
    let device = cpu().expect("cpu");
    let x = device.buffer_of(&[1.0; 8]).expect("x");
    let launch = |bindings: &[Binding<'_>]| {
        let launch = Launch {
            name: "panics",
            shader: vector_add::shader(),
            specialization: &[],
            bindings,
            push: &[],
            groups: [1, 1, 1],
        };
        device.launch(launch, |_| panic!("on purpose"))
    };
    let run = || {
        let outcome = std::panic::AssertUnwindSafe(|| launch(&[Binding::ReadWrite(&x)]));
        assert!(std::panic::catch_unwind(outcome).is_err());
    };
    run();
    rayon::scope(|scope| scope.spawn(|_| run()));
    assert_eq!(device.download::<f32>(&x).expect("download"), [1.0; 8]);
}
