//! What a graph would hold is known without it, on every device.

mod vector_add;

use hlx_core::{Buffer, CoreError, Device};
use vector_add::add;

const N: usize = 3 << 20;

/// A chain of sums of `n` elements over buffers that only it reads; the last is returned.
fn sums(device: &Device, x: &Buffer, n: usize) -> Result<Buffer, CoreError> {
    let mut sum = device.alloc(n)?;
    add(device, x, x, &sum)?;
    for _ in 0..4 {
        let next = device.alloc(n)?;
        add(device, &sum, x, &next)?;
        sum = next;
    }
    Ok(sum)
}

#[test]
fn a_measured_graph_takes_what_the_recorded_one_does_and_allocates_nothing() {
    for selector in hlx_core::testing::selectors() {
        let device = Device::open(&selector).expect("opens");
        let x = device.buffer_of(&vec![1.0; N]).expect("a buffer");
        let (graph, _) = device.record(|| sums(&device, &x, N)).expect("records");
        let recorded = graph.memory();
        drop(graph);
        let before = device.held_bytes();
        let mut held = None;
        let measured = device.measure::<CoreError>(|| {
            held = Some(sums(&device, &x, N)?);
            Ok(())
        });
        assert_eq!(measured.expect("measures"), recorded, "{selector}");
        assert_eq!(device.held_bytes(), before, "{selector}");
        assert!(
            recorded.held_bytes > recorded.in_use_bytes && recorded.in_use_bytes >= 4 * N as u64
        );
        // The device is ready for the next graph, and a body that fails leaves it so, too.
        let failed = device.measure(|| Err(CoreError::invalid("test", "on purpose")));
        assert!(failed.is_err() && !device.is_recording());
        let (graph, last) = device.record(|| sums(&device, &x, N)).expect("records");
        graph.replay().expect("replays");
        assert_eq!(
            device.download::<f32>(&last).expect("downloads")[N - 1],
            6.0
        );
    }
}
