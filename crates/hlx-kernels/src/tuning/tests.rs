//! Tunings of devices, and cuts that are refused.

use super::*;

fn of(kind: DeviceKind, processors: u32, native: bool) -> KernelTuning {
    let cpu = hlx_core::testing::cpu().expect("cpu");
    let info = DeviceInfo {
        kind,
        processors,
        ..cpu.info().clone()
    };
    KernelTuning::new(&info, native, IntegerPath::Plain)
}

#[test]
fn every_kind_of_device_has_a_valid_tuning() {
    for kind in [
        DeviceKind::Cpu,
        DeviceKind::VulkanGpu,
        DeviceKind::VulkanSoftware,
    ] {
        for (native, processors) in [(true, 0), (false, 0), (true, 132), (false, 2)] {
            let tuning = of(kind, processors, native);
            assert_eq!(
                tuning.check().map_err(|e| e.to_string()),
                Ok(()),
                "{kind:?}"
            );
            assert_eq!(tuning.held_rows.is_empty(), kind != DeviceKind::VulkanGpu);
        }
    }
    let gpu = of(DeviceKind::VulkanGpu, 132, true);
    assert_eq!(gpu.attention.full_groups, 264);
}

#[test]
fn the_first_covering_entry_is_taken() {
    let tuning = of(DeviceKind::VulkanGpu, 132, true);
    let held = |cols| RowCut::covering(&tuning.held_rows, cols).map(|cut| cut.threads);
    assert_eq!(
        [held(1), held(1024), held(1025)],
        [Some(32), Some(32), Some(128)]
    );
    assert_eq!([held(16_384), held(16_385)], [Some(128), None]);
    let pairs = |chains| {
        let cut = ColumnCut::covering(&tuning.column_pairs, chains).expect("covered");
        (cut.width, cut.rows_ahead)
    };
    assert_eq!(
        [pairs(1023), pairs(1024), pairs(4096)],
        [(8, 0), (16, 0), (32, 0)]
    );
    assert_eq!([pairs(18_431), pairs(18_432)], [(32, 0), (32, 32)]);
}

#[test]
fn a_cut_that_no_kernel_has_is_refused() {
    let good = of(DeviceKind::Cpu, 0, true);
    let mut threads = good.clone();
    threads.streamed_rows[0].threads = 64;
    let mut width = good.clone();
    width.columns[0].width = 24;
    let mut short = good.clone();
    short.column_pairs.pop();
    let mut tiles = good;
    tiles.products.tiles.clear();
    for (tuning, field) in [
        (threads, "threads"),
        (width, "width"),
        (short, "cover"),
        (tiles, "tiles"),
    ] {
        let text = tuning.check().expect_err("refused").to_string();
        assert!(
            text.starts_with("tuning: ") && text.contains(field),
            "{text}"
        );
    }
}
