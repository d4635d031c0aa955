//! The ways in which a [`Tuning`] and a [`KernelTuning`] can send a launch through the kernels, as changes of a device's own.

use hlx_core::{Device, Tuning};
use hlx_kernels::{
    AttentionTuning, ColumnCut, DigitLayout, KernelTuning, MapTuning, ProductTile, ProductTuning,
    RowCut,
};

/// What changes the tuning of a device and of its kernels.
type Change = fn(&mut Tuning, &mut KernelTuning);

/// A change of a device's tuning.
#[derive(Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// Which of the device's ways to sum products of integers is taken, if not its own.
    integers: Option<usize>,
    apply: Change,
}

const fn way(name: &'static str, apply: Change) -> Way {
    Way {
        name,
        integers: None,
        apply,
    }
}

const fn integers(name: &'static str, number: usize) -> Way {
    Way {
        name,
        integers: Some(number),
        // Of a convolution as few patches at a time as there can be.
        apply: |_, t| t.integer_patch_bytes = 1,
    }
}

impl Way {
    /// A handle of the device that takes this way; none where the device lacks it.
    pub fn of(&self, device: &Device) -> Option<Device> {
        let mut tuning = device.tuning().clone();
        let mut kernels = KernelTuning::of(device).clone();
        (self.apply)(&mut tuning, &mut kernels);
        if let Some(number) = self.integers {
            kernels.products.integers = *device.integer_paths().get(number)?;
        }
        let device = device.with_tuning(tuning).expect("a valid tuning");
        Some(kernels.on(&device).expect("a valid tuning"))
    }
}

/// The device's own.
pub const OWN: Way = way("the device's own tuning", |_, _| {});

pub const MAPS: &[Way] = &[
    way("two vectors a thread", |_, t| t.maps.two_vectors_from = 1),
    way("whole vectors apart", |_, t| {
        t.maps.whole_vectors = !t.maps.whole_vectors;
        t.maps.copy_transposed_from = 1;
    }),
];

pub const ROWS: &[Way] = &[
    way("rows held by 32 threads", |_, t| {
        t.held_rows = vec![row_cut(1024, 32, 2)]
    }),
    way("rows held by 128 threads", |_, t| {
        t.held_rows = vec![row_cut(1024, 128, 1)]
    }),
    way("rows streamed by 128 threads, blocks ahead", |_, t| {
        t.held_rows.clear();
        t.streamed_rows = vec![RowCut {
            blocks_ahead: 2,
            ..row_cut(usize::MAX, 128, 1)
        }];
    }),
    way("rows streamed by 32 threads", |_, t| {
        t.held_rows.clear();
        t.streamed_rows = vec![row_cut(usize::MAX, 32, 3)];
    }),
];

pub const COLUMNS: &[Way] = &[
    way("columns by threads", |_, t| columns(t, 32, 2)),
    way("columns by wide tiles", |_, t| columns(t, 128, 0)),
    way("columns by narrow tiles", |_, t| columns(t, 2, 0)),
];

pub const REDUCTIONS: &[Way] = &[
    way("8 loads, one processor", |d, t| {
        t.reduction_loads = 8;
        d.processors = 1;
    }),
    way("16 loads, many processors", |d, t| {
        t.reduction_loads = 16;
        d.processors = 4096;
    }),
];

pub const PROCESSORS: &[Way] = &[
    way("one processor", |d, _| d.processors = 1),
    way("four processors", |d, _| d.processors = 4),
    way("many processors", |d, _| d.processors = 4096),
];

pub const PRODUCTS: &[Way] = &[
    way("tiles of 128 x 128", |_, t| only_tile(t, 128, 128)),
    way("tiles of 64 x 128", |_, t| only_tile(t, 64, 128)),
    way("tiles of 64 x 64", |_, t| only_tile(t, 64, 64)),
    way("tiles of 32 x 64", |_, t| only_tile(t, 32, 64)),
    way("B transposed first, the other way for epilogues", |_, t| {
        let products = &mut t.products;
        products.transpose_b_from_rows = 1;
        products.transpose_b_from_terms = 1;
        products.fused_epilogues = !products.fused_epilogues;
    }),
];

pub const FEW_ROWS: &[Way] = &[
    way("few rows split, prologues", |_, t| {
        t.products.few_rows_up_to = 16;
        t.products.few_rows_split_up_to = 64;
        t.products.few_rows_split_groups = [usize::MAX; 2];
        t.products.few_rows_wide_from = [1; 2];
        t.products.prologue_up_to = 4;
    }),
    way("few rows by 8 columns", |_, t| {
        t.products.few_rows_up_to = 16;
        t.products.few_rows_wide_from = [usize::MAX; 2];
    }),
    way("no kernels of few rows", |_, t| {
        t.products.few_rows_up_to = 0;
        t.products.few_rows_split_up_to = 0;
        t.products.prologue_up_to = 0;
    }),
];

pub const FUSED_TILES: &[Way] = &[
    way("fused, tiles of 128 x 128", |_, t| fused_tile(t, 128, 128)),
    way("fused, tiles of 64 x 128", |_, t| fused_tile(t, 64, 128)),
    way("fused, tiles of 64 x 64", |_, t| fused_tile(t, 64, 64)),
    way("fused, tiles of 32 x 64", |_, t| fused_tile(t, 32, 64)),
];

pub const CONVOLUTIONS: &[Way] = &[
    way("tiles of 128 x 128", |_, t| only_tile(t, 128, 128)),
    way("tiles of 64 x 128", |_, t| only_tile(t, 64, 128)),
    way("tiles of 64 x 64, many processors", |d, t| {
        only_tile(t, 64, 64);
        d.processors = 4096;
    }),
    way("tiles of 32 x 64", |_, t| only_tile(t, 32, 64)),
    way("a slow device, which stores patches", |d, _| {
        d.flops_per_second = 1e6
    }),
];

pub const ATTENTION: &[Way] = &[
    way("few workgroups fill the device", |_, t| {
        t.attention.full_groups = 1;
        t.attention.few_queries_up_to = 0;
    }),
    way("nothing is stored", |_, t| {
        t.attention.full_groups = usize::MAX;
        t.attention.stored_bytes = 0;
    }),
    way("one head at a time is stored", |_, t| {
        t.attention.full_groups = usize::MAX;
        t.attention.stored_bytes = 4 * 68 * 68 * 4 * 3;
        t.attention.few_queries_up_to = 8;
    }),
];

/// Every device has the first; most have no more than three.
pub const INTEGERS: &[Way] = &[
    integers("its first way to sum integers", 0),
    integers("its second way to sum integers", 1),
    integers("its third way to sum integers", 2),
    integers("its fourth way to sum integers", 3),
    way("digits in rows, tiles of 96 x 96", |_, t| {
        integer_tile(t, DigitLayout::Rows, [96, 96])
    }),
    way("digits in pieces, tiles of 64 x 64", |_, t| {
        integer_tile(t, DigitLayout::Pieces, [64, 64])
    }),
];

pub const DIGESTS: &[Way] = &[
    way("a thread for each leaf", |_, t| t.digest_pairs_up_to = 0),
    way("two threads for each leaf", |_, t| {
        t.digest_pairs_up_to = usize::MAX
    }),
];

pub const CUT: &[Way] = &[way("launches cut by workgroups", |d, _| {
    d.flops_per_second = 1e4;
    d.bytes_per_second = 1e4;
    d.submission_ms = 200.0;
})];

fn row_cut(up_to: usize, threads: usize, rows: usize) -> RowCut {
    RowCut {
        up_to,
        threads,
        rows,
        blocks_ahead: 1,
    }
}

fn columns(tuning: &mut KernelTuning, width: usize, rows_ahead: usize) {
    let cut = ColumnCut {
        up_to: usize::MAX,
        width,
        rows_ahead,
    };
    (tuning.columns, tuning.column_pairs) = (vec![cut], vec![cut]);
}

fn only_tile(tuning: &mut KernelTuning, rows: usize, columns: usize) {
    tuning.products.tiles = vec![ProductTile {
        rows,
        columns,
        short_steps: false,
        gflops: vec![1.0],
    }];
    tuning.products.few_rows_up_to = 0;
    tuning.products.few_rows_split_up_to = 0;
}

fn integer_tile(tuning: &mut KernelTuning, digits: DigitLayout, [rows, columns]: [usize; 2]) {
    tuning.products.digits = digits;
    tuning.products.integer_tiles = vec![ProductTile {
        rows,
        columns,
        short_steps: false,
        gflops: vec![1.0],
    }];
}

fn fused_tile(tuning: &mut KernelTuning, rows: usize, columns: usize) {
    only_tile(tuning, rows, columns);
    tuning.products.fused_epilogues = true;
}

/// Names every field, so that a new one is looked at here: each is changed by a way above, or belongs to a crate
/// above this one, or to recorded graphs.
#[allow(dead_code)] // It is compiled, not called.
fn every_field(tuning: Tuning, kernels: KernelTuning) {
    let Tuning {
        processors: _,
        flops_per_second: _,
        bytes_per_second: _,
        submission_ms: _,
        // Of recorded graphs: `chains.rs`, and `recorded_chains_...` beside the bodies.
        chains: _,
        skips_unread: _,
    } = tuning;
    let KernelTuning {
        maps:
            MapTuning {
                two_vectors_from: _,
                whole_vectors: _,
                copy_transposed_from: _,
            },
        held_rows: _,
        streamed_rows: _,
        columns: _,
        column_pairs: _,
        reduction_loads: _,
        products:
            ProductTuning {
                tiles: _,
                fused_epilogues: _,
                transpose_b_from_rows: _,
                transpose_b_from_terms: _,
                few_rows_up_to: _,
                few_rows_split_up_to: _,
                few_rows_split_groups: _,
                few_rows_wide_from: _,
                prologue_up_to: _,
                integers: _,
                digits: _,
                integer_tiles: _,
                half_tiles: _,
            },
        attention:
            AttentionTuning {
                full_groups: _,
                stored_bytes: _,
                few_queries_up_to: _,
            },
        // Of hlx-autograd, whose `tests/ways.rs` changes them.
        embedding_sum_from: _,
        shards_in_turn_from: _,
        recompute_from: _,
        integer_patch_bytes: _,
        digest_pairs_up_to: _,
    } = kernels;
}
