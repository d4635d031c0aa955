//! A hundred devices opened, used and closed: nothing grows. Alone in its file, and so in its
//! process, because it measures the process's memory.

mod vector_add;

use hlx_core::Device;
use vector_add::add;

/// The resident memory of this process in bytes.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
}

#[test]
fn a_hundred_openings_leave_nothing_behind() {
    for selector in hlx_core::testing::selectors() {
        let mut settled = 0;
        for round in 0..100 {
            let device = Device::open(&selector).expect("open");
            let a = device.buffer_of(&[1.0; 10_000]).expect("buffer");
            let c = device.alloc(10_000).expect("buffer");
            let (graph, ()) = device.record(|| add(&device, &a, &a, &c)).expect("record");
            graph.replay().expect("replay");
            drop((graph, a));
            assert_eq!(device.download::<f32>(&c).expect("download")[9_999], 2.0);
            if round == 20 {
                settled = resident_bytes();
            }
        }
        let grown = resident_bytes().saturating_sub(settled);
        assert!(
            grown < 24 << 20,
            "{selector}: {grown} bytes grown over 80 devices"
        );
    }
    assert_eq!(hlx_core::validation_messages(), 0);
}
