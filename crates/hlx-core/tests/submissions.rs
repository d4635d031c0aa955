//! Long work is cut into submissions that stay below the driver's time-out, with the same bits.

mod vector_add;

use hlx_core::testing::vulkan_devices;
use hlx_core::{Buffer, CoreError, Device, Tuning};
use vector_add::add;

const WORDS: usize = 64 * 300 + 7;

/// The Vulkan devices, as seen by somebody on a device of this many bytes per second.
fn slow_devices(bytes_per_second: f64) -> Vec<Device> {
    vulkan_devices()
        .iter()
        .map(|device| {
            let tuning = Tuning {
                bytes_per_second,
                submission_ms: 200.0,
                ..device.tuning().clone()
            };
            device.with_tuning(tuning).expect("valid")
        })
        .collect()
}

fn inputs(device: &Device) -> (Vec<f32>, Buffer, Buffer) {
    let data: Vec<f32> = (0..WORDS).map(|idx| idx as f32).collect();
    let x = device.buffer_of(&data).expect("x");
    let y = device.alloc(WORDS).expect("y");
    (data, x, y)
}

/// Bytes per second at which one vector addition is estimated to take this many milliseconds; the
/// estimate is twice the time at this rate.
fn rate_for(milliseconds: f64) -> f64 {
    // The second reading of the same window is not counted.
    let bytes = 2.0 * 4.0 * WORDS as f64;
    2.0 * bytes / (milliseconds * 1e-3)
}

#[test]
fn a_launch_longer_than_a_submission_is_cut_by_workgroups() {
    for device in slow_devices(rate_for(2000.0)) {
        let (data, x, y) = inputs(&device);
        device.sync().expect("sync");
        let before = device.submissions();
        add(&device, &x, &x, &y).expect("add");
        device.sync().expect("sync");
        // 20 parts of about 100 ms, of which one or two are a submission.
        let submissions = device.submissions() - before;
        assert!((10..=20).contains(&submissions), "{submissions}");
        let expected: Vec<f32> = data.iter().map(|value| value + value).collect();
        assert_eq!(device.download::<f32>(&y).expect("download"), expected);
    }
}

#[test]
fn a_graph_longer_than_a_submission_is_replayed_in_several() {
    for device in slow_devices(rate_for(60.0)) {
        let (data, x, y) = inputs(&device);
        let (graph, ()) = device
            .record::<_, CoreError>(|| {
                let z = device.alloc(WORDS)?;
                for _ in 0..10 {
                    add(&device, &x, &x, &z)?;
                    add(&device, &z, &x, &y)?;
                }
                Ok(())
            })
            .expect("record");
        assert_eq!(graph.len(), 20);
        device.sync().expect("sync");
        let before = device.submissions();
        graph.replay().expect("replay");
        // 20 launches of 60 to 90 ms by estimate, two a submission of 200 ms.
        let by_estimate = device.submissions() - before;
        assert!((7..=10).contains(&by_estimate), "{by_estimate}");
        let expected: Vec<f32> = data.iter().map(|value| value * 3.0).collect();
        assert_eq!(device.download::<f32>(&y).expect("download"), expected);
        // The first replay took a few milliseconds in truth: it is known now.
        let before = device.submissions();
        graph.replay().expect("replay");
        assert_eq!(device.submissions() - before, 1);
        assert_eq!(device.download::<f32>(&y).expect("download"), expected);
    }
}

#[test]
fn a_short_graph_is_one_submission() {
    for device in slow_devices(1e12) {
        let (_, x, y) = inputs(&device);
        let (graph, ()) = device
            .record::<_, CoreError>(|| add(&device, &x, &x, &y))
            .expect("record");
        device.sync().expect("sync");
        let before = device.submissions();
        graph.replay().expect("replay");
        assert_eq!(device.submissions() - before, 1);
    }
}

#[test]
fn eager_work_is_submitted_before_it_gets_long() {
    for device in slow_devices(rate_for(100.0)) {
        let (_, x, y) = inputs(&device);
        device.sync().expect("sync");
        let before = device.submissions();
        for _ in 0..8 {
            add(&device, &x, &x, &y).expect("add");
        }
        device.sync().expect("sync");
        assert_eq!(device.submissions() - before, 4);
    }
}
