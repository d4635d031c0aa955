//! Sizes that no memory holds, given to every function that takes one: each is an error, and no other buffer changes.

use hlx_core::testing::own_devices;
use hlx_core::{Buffer, CoreError, DType, Device};

/// Lengths that wrap when they are rounded up, doubled, multiplied by 4 or added to an offset.
const HOSTILE: [usize; 12] = [
    usize::MAX,
    usize::MAX - 1,
    usize::MAX - 62,
    usize::MAX - 63,
    usize::MAX / 2 + 1,
    usize::MAX / 4 + 1,
    usize::MAX / 4 + 64,
    usize::MAX / 8 + 1,
    isize::MAX as usize / 8,
    (1 << 50) + 1,
    1 << 50,
    1 << 48,
];

/// Refuses a success, and an error without a reason.
fn refused<T>(what: &str, len: usize, result: Result<T, CoreError>) {
    let error = result.err().unwrap_or_else(|| panic!("{what} of {len}"));
    let line = error.to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "{what}: {line}");
}

/// Runs `body` beside two buffers, whose words must be as before.
fn beside_others(device: &Device, body: impl FnOnce(&Device)) {
    let words: Vec<u32> = (0..200).collect();
    let others = [0, 1].map(|_| device.buffer_of::<u32>(&words).expect("small"));
    let before = device.memory();
    body(device);
    assert_eq!(device.memory().buffers, before.buffers);
    let behind = device.alloc(64).expect("the device is usable");
    device.fill(&behind, 7).expect("filled");
    for other in &others {
        assert_eq!(device.download_words(other).expect("read"), words);
    }
}

#[test]
fn a_buffer_of_more_words_than_memory_has_is_refused_and_no_other_is_touched() {
    for device in own_devices() {
        beside_others(&device, |device| {
            for len in HOSTILE {
                refused("alloc", len, device.alloc(len));
                refused("alloc_isolated", len, device.alloc_isolated(len));
                refused("alloc_host", len, device.alloc_host(len));
                refused("alloc_shared", len, device.alloc_shared(len));
                for dtype in DType::ALL {
                    // Less than 2^48 words is for the device's budget to refuse.
                    if dtype.words(len) >= 1 << 46 {
                        refused(dtype.name(), len, device.alloc_typed(dtype, len));
                    }
                }
            }
        });
    }
}

#[test]
fn a_recorded_buffer_of_more_words_than_memory_has_is_refused() {
    for device in own_devices() {
        beside_others(&device, |device| {
            for len in HOSTILE {
                let recorded = device.record(|| {
                    let buffer = device.alloc(len)?;
                    device.fill(&buffer, 1)?;
                    Ok::<Buffer, CoreError>(buffer)
                });
                refused("a recorded buffer", len, recorded);
                // Buffers whose handles are gone share memory; their sizes are added up.
                let dropped = device.record(|| {
                    let all: Result<Vec<_>, _> = (0..20).map(|_| device.alloc(len)).collect();
                    let (all, out) = (all?, device.alloc(64)?);
                    for buffer in &all {
                        device.fill(buffer, 1)?;
                        device.copy(&buffer.slice(0, 64)?, &out)?;
                    }
                    Ok::<Buffer, CoreError>(out)
                });
                refused("dropped buffers", len, dropped);
            }
        });
    }
}

#[test]
fn no_window_or_view_reaches_past_its_buffer() {
    for device in own_devices() {
        beside_others(&device, |device| {
            let buffer = device.alloc(128).expect("small");
            for len in HOSTILE {
                refused("slice", len, buffer.slice(64, len));
                refused("slice", len, buffer.slice(len, 64));
                refused("slice", len, buffer.slice(len, usize::MAX - len + 1));
                for dtype in DType::ALL {
                    refused("view", len, buffer.view_as(dtype, len));
                    let bytes = buffer.view_as(DType::U8, 512).expect("equal");
                    refused("slice of bytes", len, bytes.slice(4, len));
                }
                // Nothing is read or written by these.
                device.note_change(&buffer, 0..len, false);
                assert!(buffer.changed_after(0, 0..len));
                device.note_change(&buffer, len..usize::MAX, true);
            }
        });
    }
}
