//! Launches, transfers, graphs and memory, on every device of this machine.

mod vector_add;

use hlx_core::testing::{left_out, own_devices as devices, vulkan_devices};
use hlx_core::{Binding, CoreError, Launch, Tuning};
use vector_add::add;

#[test]
fn dependent_launches_run_in_order() {
    for device in devices() {
        let one = device.buffer_of(&[1.0; 1000]).expect("buffer");
        let mut sum = device.buffer_of(&[0.0; 1000]).expect("buffer");
        // More launches than one submission takes; each reads what the last one wrote, and the
        // memory of older sums is reused in stream order.
        for _ in 0..300 {
            let next = device.alloc(1000).expect("buffer");
            add(&device, &sum, &one, &next).expect("launch");
            sum = next;
        }
        assert_eq!(
            device.download::<f32>(&sum).expect("download"),
            vec![300.0; 1000],
            "{}",
            device.info()
        );
        let held = device.memory();
        assert_eq!(held.buffers, 2, "{held:?}");
        assert!(
            held.peak_bytes <= 4 * 4096,
            "three sums and the ones: {held:?}"
        );
    }
}

#[test]
fn transfers_larger_than_the_ring_arrive_whole() {
    for device in devices() {
        let data: Vec<u32> = (0..9_000_001_u32)
            .map(|i| i.wrapping_mul(2_654_435_761))
            .collect();
        let buffer = device.buffer_of::<u32>(&data).expect("upload");
        assert!(
            device.download_words(&buffer).expect("download") == data,
            "{}",
            device.info()
        );
    }
}

#[test]
fn uploads_flush_subnormals_and_keep_the_sign() {
    for device in devices() {
        let tiny = f32::from_bits(1);
        let buffer = device
            .buffer_of(&[tiny, -tiny, f32::MIN_POSITIVE])
            .expect("upload");
        let bits = device.download_words(&buffer).expect("download");
        assert_eq!(bits, [0, 0x8000_0000, f32::MIN_POSITIVE.to_bits()]);
    }
}

#[test]
fn a_graph_replays_with_new_inputs() {
    for device in devices() {
        let input = device.buffer_of(&[0.0; 100]).expect("buffer");
        let one = device.buffer_of(&[1.0; 100]).expect("buffer");
        let (graph, output) = device
            .record(|| -> Result<_, CoreError> {
                let middle = device.alloc(100)?;
                add(&device, &input, &one, &middle)?;
                let output = device.alloc(100)?;
                add(&device, &middle, &middle.clone(), &output)?;
                Ok(output)
            })
            .expect("record");
        assert_eq!(graph.len(), 2);
        for value in [3.0, 5.0, 7.0] {
            device.upload(&input, &[value; 100]).expect("upload");
            graph.replay().expect("replay");
            let expected = vec![2.0 * (value + 1.0); 100];
            assert_eq!(
                device.download::<f32>(&output).expect("download"),
                expected,
                "{}",
                device.info()
            );
        }
        // Replays without a wait between them run in order too.
        for value in 0..40 {
            device.upload(&input, &[value as f32; 100]).expect("upload");
            graph.replay().expect("replay");
        }
        assert_eq!(
            device.download::<f32>(&output).expect("download"),
            vec![80.0; 100]
        );
    }
}

#[test]
fn a_graph_computes_what_its_launches_in_order_do() {
    for device in devices() {
        // Sums of sums, picked by a small generator: many can run side by side, some overwrite
        // what others read, and most buffers are dropped while later launches still need words.
        let run = |record: bool| -> Result<(Vec<f32>, Vec<f32>), CoreError> {
            let (mut seed, start) = (7_usize, [1.0_f32; 130]);
            let mut next = |n: usize| {
                seed = (seed * 1_103_515_245 + 12_345) % (1 << 31);
                (seed >> 8) % n
            };
            let outside = device.buffer_of(&start)?;
            let mut body = || -> Result<hlx_core::Buffer, CoreError> {
                let mut live = Vec::new();
                for _ in 0..6 {
                    let buffer = device.alloc(130)?;
                    device.copy(&outside, &buffer)?;
                    live.push(buffer);
                }
                for _ in 0..120 {
                    let (a, b, slot) = (next(6), next(6), next(6));
                    let out = if next(4) == 0 && slot != a && slot != b {
                        live[slot].clone()
                    } else {
                        device.alloc(130)?
                    };
                    add(&device, &live[a], &live[b], &out)?;
                    // Every eighth starts anew, so that no sum overflows.
                    if next(8) == 0 {
                        device.fill(&out, 1.5_f32.to_bits())?;
                    }
                    live[slot] = out;
                }
                let total = device.alloc(130)?;
                device.copy(&live[0], &total)?;
                for other in &live[1..] {
                    let sum = device.alloc(130)?;
                    add(&device, &total, other, &sum)?;
                    device.copy(&sum, &total)?;
                }
                device.copy(&live[2], &outside)?;
                Ok(total)
            };
            let total = if record {
                let (graph, total) = device.record(body)?;
                graph.replay()?;
                total
            } else {
                body()?
            };
            Ok((
                device.download::<f32>(&total)?,
                device.download::<f32>(&outside)?,
            ))
        };
        let (recorded, eager) = (run(true).expect("runs"), run(false).expect("runs"));
        assert_eq!(recorded, eager, "{}", device.info());
    }
}

#[test]
fn launches_whose_results_nobody_reads_are_no_part_of_a_graph() {
    for device in devices() {
        let input = device.buffer_of(&[1.0; 100]).expect("buffer");
        let outside = device.buffer_of(&[0.0; 100]).expect("buffer");
        let body = || -> Result<_, CoreError> {
            let (read, in_part, held) =
                (device.alloc(100)?, device.alloc(100)?, device.alloc(100)?);
            let (unread, after) = (device.alloc(100)?, device.alloc(100)?);
            add(&device, &input, &input.clone(), &read)?;
            device.copy(&read, &in_part)?;
            // Two launches after each other that only they themselves read, and a fill of what they wrote.
            add(&device, &read, &input, &unread)?;
            add(&device, &unread, &read, &after)?;
            device.fill(&unread, 0)?;
            add(&device, &in_part, &input, &held)?;
            device.copy(&held, &outside)?;
            // A part of a buffer that is read, and one that is not.
            device.fill(&in_part.slice(64, 36)?, 7.0_f32.to_bits())?;
            device.fill(&in_part.slice(0, 64)?, 0)?;
            device.copy(&in_part.slice(64, 36)?, &outside.slice(64, 36)?)?;
            Ok(held)
        };
        let tuning = Tuning {
            skips_unread: false,
            ..device.tuning().clone()
        };
        let all = device.with_tuning(tuning).expect("a tuning");
        let (whole, _) = all.record(body).expect("recorded");
        let (graph, held) = device.record(body).expect("recorded");
        assert_eq!((whole.len(), graph.len()), (10, 6), "{}", device.info());
        graph.replay().expect("replayed");
        let expected = [vec![3.0; 64], vec![7.0; 36]].concat();
        assert_eq!(device.download::<f32>(&held).expect("held"), vec![3.0; 100]);
        assert_eq!(device.download::<f32>(&outside).expect("outside"), expected);
    }
}

#[test]
fn graphs_share_the_memory_they_work_in() {
    for device in vulkan_devices() {
        let (words, before) = (1 << 21, device.held_bytes());
        let one = device.buffer_of(&vec![1.0; words]).expect("buffer");
        let record = || {
            device
                .record(|| -> Result<_, CoreError> {
                    let mut sum = device.alloc(words)?;
                    add(&device, &one, &one.clone(), &sum)?;
                    for _ in 0..20 {
                        let next = device.alloc(words)?;
                        add(&device, &sum, &one, &next)?;
                        sum = next;
                    }
                    Ok(sum)
                })
                .expect("record")
        };
        let graphs = [record(), record(), record()];
        // From each graph the sum that is still held, and two more for all of them; the pool takes
        // memory in blocks of four such buffers.
        let words_held = (device.held_bytes() - before) / 4;
        assert!(words_held <= 12 * words as u64, "{words_held}");
        for (graph, _) in &graphs {
            graph.replay().expect("replay");
        }
        for (_, sum) in &graphs {
            let found = device.download::<f32>(sum).expect("download");
            let wrong = found.iter().position(|value| *value != 22.0);
            assert_eq!(wrong.map(|at| (at, found[at])), None, "{}", device.info());
        }
    }
}

#[test]
fn a_failed_recording_leaves_the_device_usable() {
    for device in devices() {
        let buffer = device.buffer_of(&[1.0; 64]).expect("buffer");
        let failed = device.record(|| -> Result<(), CoreError> {
            device.upload(&buffer, &[2.0; 64])?;
            Ok(())
        });
        let message = failed
            .err()
            .expect("an upload inside a recording is an error")
            .to_string();
        assert!(message.contains("upload: not possible while a graph is being recorded"));
        assert!(!device.is_recording());
        let nested = device.record(|| device.record(|| Ok::<(), CoreError>(())).map(|_| ()));
        assert!(
            nested
                .err()
                .expect("nested")
                .to_string()
                .contains("already being recorded")
        );
        assert_eq!(
            device.download::<f32>(&buffer).expect("download"),
            vec![1.0; 64]
        );
    }
}

#[test]
fn wrong_arguments_are_errors() {
    for device in devices() {
        let a = device.buffer_of(&[1.0; 128]).expect("buffer");
        let error = add(&device, &a, &a, &a).expect_err("overlap");
        assert!(
            error
                .to_string()
                .starts_with("vector_add: bindings 0 and 2 share memory")
        );
        let error = a.slice(100, 29).expect_err("window");
        assert!(
            error
                .to_string()
                .contains("elements 100..100+29 lie outside a buffer of 128")
        );
        let error = device.upload(&a, &[0.0]).expect_err("length");
        assert!(
            error
                .to_string()
                .contains("buffer has 128 elements, data 1")
        );
        let error = device
            .copy(&a.slice(0, 64).expect("window"), &a)
            .expect_err("copy");
        assert!(
            error
                .to_string()
                .contains("source has 64 words, target 128")
        );
        if !device.is_cpu() {
            let c = device.alloc(64).expect("buffer");
            let askew = a.slice(1, 64).expect("window");
            let error = add(&device, &askew, &a, &c).expect_err("alignment");
            assert!(
                error.to_string().contains("not at a multiple of 64"),
                "{error}"
            );
        }
    }
}

/// The memory of an isolated buffer goes with it, and no other buffer shares it.
#[test]
fn an_isolated_buffer_has_memory_of_its_own() {
    for device in devices() {
        let shared = device.buffer_of(&[1.0; 100]).expect("buffer");
        let isolated = device.alloc_isolated(100).expect("buffer");
        device.upload(&isolated, &[2.0; 100]).expect("upload");
        let sum = device.alloc_isolated(100).expect("buffer");
        add(&device, &shared, &isolated, &sum).expect("launch");
        drop(isolated);
        assert_eq!(device.download::<f32>(&sum).expect("download"), [3.0; 100]);
        let arena = format!("{shared:?}");
        let block = |text: &str| {
            text.split("at ")
                .nth(1)
                .and_then(|at| Some(at.split('+').next()?.to_owned()))
        };
        assert_ne!(block(&format!("{sum:?}")), block(&arena));
        assert_eq!(
            device.memory().buffers,
            1,
            "the pool holds the shared one alone"
        );
    }
}

/// A driver reads past the descriptors of a layout that is smaller than the shader's.
#[test]
fn a_launch_that_binds_less_than_its_shader_declares_is_refused() {
    for device in vulkan_devices() {
        let (a, b) = (
            device.alloc(4).expect("buffer"),
            device.alloc(4).expect("buffer"),
        );
        let launch = |bindings: &[Binding<'_>], push: &[u8]| {
            let launch = Launch {
                name: "vector_add",
                shader: &vector_add::VECTOR_ADD,
                specialization: &[],
                bindings,
                push,
                groups: [1, 1, 1],
            };
            device
                .launch(launch, |_| {})
                .expect_err("refused")
                .to_string()
        };
        let count = 4_u32.to_le_bytes();
        assert_eq!(
            launch(&[Binding::Read(&a), Binding::Write(&b)], &count),
            "examples/vector_add: 2 bindings, the shader declares binding 2"
        );
        let c = device.alloc(4).expect("buffer");
        let three = [Binding::Read(&a), Binding::Read(&b), Binding::Write(&c)];
        assert_eq!(
            launch(&three, &[]),
            "examples/vector_add: 0 bytes of push constants, the shader declares 4"
        );
    }
}

#[test]
fn more_memory_than_the_device_has_is_one_clear_error() {
    for device in devices() {
        let error = device.alloc(1 << 50).expect_err("a petabyte");
        let text = error.to_string();
        assert!(matches!(error, CoreError::OutOfMemory { .. }), "{text}");
        assert!(text.contains("4503599627370496 bytes asked for"), "{text}");
        let buffer = device.buffer_of(&[1.0]).expect("the device still works");
        assert_eq!(device.download::<f32>(&buffer).expect("download"), [1.0]);
    }
}

#[test]
fn timing_reports_name_the_kernels() {
    for device in devices() {
        let a = device.buffer_of(&[1.0; 4096]).expect("buffer");
        let c = device.alloc(4096).expect("buffer");
        device.sync().expect("sync");
        device.set_timing(true);
        for _ in 0..3 {
            add(&device, &a, &a.clone(), &c).expect("launch");
        }
        let (graph, ()) = device.record(|| add(&device, &a, &a, &c)).expect("record");
        graph.replay().expect("replay");
        let report = device.take_timing().expect("timing");
        device.set_timing(false);
        let calls: Vec<(&str, u64)> = report
            .kernels
            .iter()
            .map(|k| (k.name.as_str(), k.calls))
            .collect();
        assert_eq!(calls, [("vector_add", 4)], "{}", device.info());
        assert!(report.total_ms() > 0.0);
        // Two windows of 4,096 words, of which the one that is read twice counts once.
        assert_eq!(report.kernels[0].work.bytes, 4 * 2 * 4096 * 4);
        let starts: Vec<f64> = report.launches.iter().map(|l| l.start_us).collect();
        assert!(starts.len() == 4 && starts[0] == 0.0 && starts.is_sorted());
    }
}

#[test]
fn the_validation_layer_is_there_when_asked_for() {
    let asked = std::env::var("HLX_VALIDATION").is_ok_and(|value| value == "1");
    if !asked || !cfg!(target_os = "linux") {
        return left_out(
            "the validation layer",
            "HLX_VALIDATION is not 1, or not Linux",
        );
    }
    if vulkan_devices().is_empty() {
        return; // Recorded as left out: no device loads the layer.
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    assert!(
        maps.contains("khronos_validation"),
        "the layer is not loaded"
    );
}

#[test]
fn later_work_leaves_a_pending_download_as_it_was() {
    for device in devices() {
        let buffer = device.alloc(1000).expect("buffer");
        let pending: Vec<_> = (0..20)
            .map(|word| {
                device.fill(&buffer, word).expect("fill");
                device.download_later(&buffer).expect("download")
            })
            .collect();
        device.fill(&buffer, 77).expect("fill");
        device.sync().expect("sync");
        for (word, pending) in (0..).zip(pending) {
            assert!(pending.is_done().expect("fence"), "{}", device.info());
            // One in three is never read.
            if word % 3 != 0 {
                assert_eq!(pending.wait().expect("words"), vec![word; 1000]);
            }
        }
        let empty = device
            .alloc(0)
            .and_then(|none| device.download_later(&none)?.wait());
        assert_eq!(empty.expect("no words"), Vec::<u32>::new());
    }
}
