//! Graphs that tell when windows are final, host memory that a device copies by itself, and timelines.

mod vector_add;

use hlx_core::testing::{own_devices, vulkan_devices};
use hlx_core::{Buffer, CoreError, Device};
use vector_add::add;

const WORDS: usize = 64 * 5;

fn numbers(device: &Device, factor: f32) -> Buffer {
    let data: Vec<f32> = (0..WORDS).map(|idx| factor * idx as f32).collect();
    device.buffer_of(&data).expect("numbers")
}

/// What is launched when a window is final reads its last values, and changes of it are preserved; windows are
/// told in their order, one that nothing writes before the first launch.
#[test]
fn a_replay_tells_when_windows_are_final() {
    for device in own_devices() {
        let (x, late, early, untouched) = (
            numbers(&device, 1.0),
            numbers(&device, 0.0),
            numbers(&device, 0.0),
            numbers(&device, 7.0),
        );
        let watched = [untouched.clone(), early.clone(), late.clone()];
        let (graph, ()) = device
            .record_watched(&watched, || -> Result<(), CoreError> {
                add(&device, &x, &x, &late)?; // 2 x, not final yet
                add(&device, &late, &x, &early)?; // 3 x
                add(&device, &early, &x, &late) // 4 x
            })
            .expect("recorded");
        for _ in 0..2 {
            let (mut told, mut seen) = (Vec::new(), Vec::new());
            graph
                .replay_watched(|window| -> Result<(), CoreError> {
                    told.push(window);
                    seen.push(device.download::<f32>(&watched[window])?);
                    // It is final: the rest of the graph does not write it again.
                    device.fill(&watched[window], 0)
                })
                .expect("replayed");
            assert_eq!(told, [0, 1, 2], "{device:?}");
            assert_eq!(seen[1][3], 9.0, "{device:?}");
            // The graph read `early` after it was told final and set to zeros.
            assert_eq!(seen[2][3], 3.0, "{device:?}");
            assert_eq!(
                device.download::<f32>(&late).expect("late"),
                vec![0.0; WORDS]
            );
        }
        // Without a watcher the graph is one.
        graph.replay().expect("replayed");
        assert_eq!(device.download::<f32>(&late).expect("late")[3], 12.0);
    }
}

#[test]
fn an_error_of_the_watcher_ends_the_replay() {
    for device in own_devices() {
        let (x, y) = (numbers(&device, 1.0), numbers(&device, 0.0));
        let watched = [y.clone()];
        let (graph, ()) = device
            .record_watched(&watched, || add(&device, &x, &x, &y))
            .expect("recorded");
        let failed = graph.replay_watched(|_| Err(CoreError::invalid("watch", "refused")));
        assert_eq!(failed.expect_err("refused").to_string(), "watch: refused");
    }
}

#[test]
fn host_memory_is_copied_while_the_device_goes_on() {
    for device in own_devices() {
        let (x, y) = (numbers(&device, 1.0), numbers(&device, 0.0));
        let mut host = device.alloc_host(WORDS + 3).expect("host");
        assert_eq!(host.len(), WORDS + 3);
        let there = device.copy_to_host(&x, host).expect("launched");
        add(&device, &x, &x, &y).expect("add");
        host = there.wait().expect("copied");
        assert_eq!(host.words()[5], 5.0_f32.to_bits(), "{device:?}");
        host.words_mut()[5] = 0.5_f32.to_bits();
        let back = device.copy_from_host(host, &y).expect("launched");
        assert_eq!(device.download::<f32>(&y).expect("y")[5], 0.5);
        assert!(back.is_done().expect("done"));
        let small = device.alloc_host(1).expect("host");
        let refused = device
            .copy_to_host(&x, small)
            .err()
            .map(|error| error.to_string());
        let expected = format!("download: host memory has 1 words, expected {WORDS}");
        assert_eq!(refused, Some(expected));
    }
}

/// A download takes the memory of an earlier, longer one, and returns its own words alone.
#[test]
fn a_download_into_the_memory_of_a_longer_one_has_its_own_length() {
    for device in own_devices() {
        let x = numbers(&device, 1.0);
        let long = device.download_later(&x).expect("launched");
        assert_eq!(long.wait().expect("words").len(), WORDS, "{device:?}");
        let first = x.slice(0, 3).expect("window");
        let short = device.download_later(&first).expect("launched");
        let expected = [0.0, 1.0, 2.0].map(f32::to_bits);
        assert_eq!(short.wait().expect("words"), expected, "{device:?}");
    }
}

/// Work after a value of a timeline waits for it, whoever raises it.
#[test]
fn work_waits_for_a_timeline() {
    for device in vulkan_devices() {
        let Ok((timeline, _file)) = device.timeline() else {
            assert!(device.sharing_uuid().is_none(), "{device:?}");
            continue;
        };
        let x = numbers(&device, 1.0);
        let shared = device.alloc_shared(WORDS).expect("shared");
        assert!(shared.bytes >= 4 * WORDS as u64);
        device.copy(&x, &shared.buffer).expect("copy");
        device.raise(&timeline, 1).expect("raise");
        timeline.wait(1).expect("waited");
        device.await_value(&timeline, 2).expect("await");
        device.fill(&shared.buffer, 0).expect("fill");
        let host = device.alloc_host(WORDS).expect("host");
        let copy = device.copy_to_host(&shared.buffer, host).expect("launched");
        assert!(!copy.is_done().expect("looked"), "{device:?}");
        timeline.raise(2).expect("raised");
        let host = copy.wait().expect("copied");
        assert_eq!(host.words(), vec![0; WORDS], "{device:?}");
    }
}
