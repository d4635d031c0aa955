//! Tuning of kernels: tiles, cuts and thresholds that were measured on one chip, as one value of a device's handle. It
//! changes speed, never a bit.

use hlx_core::{CoreError, Device, DeviceInfo, DeviceKind, IntegerPath, Tuning};

/// How kernels are cut for a device.
///
/// A handle of a device has one, [`KernelTuning::of`], which [`KernelTuning::on`] replaces for tests and experiments; facts of
/// the device (processors, rates) are in [`Tuning`]. Every table is read in order: the first entry whose `up_to`
/// covers the size is taken. The figures come from one NVIDIA H200 (driver 580.159) unless a field
/// says otherwise; other devices take the same tables with their own number of processors.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTuning {
    /// Element-by-element kernels.
    pub maps: MapTuning,
    /// Kernels that hold rows in registers; empty, or rows longer than the last entry: rows are
    /// read once for each pass. Software drivers would compile the unrolled kernels for minutes.
    pub held_rows: Vec<RowCut>,
    /// Kernels that read a row several times.
    pub streamed_rows: Vec<RowCut>,
    /// Column reductions of one chain per column.
    pub columns: Vec<ColumnCut>,
    /// Column reductions of two chains a column.
    pub column_pairs: Vec<ColumnCut>,
    /// Loads of a thread that are under way together in reductions over any axes: a power of two
    /// from 4 to 32. Software drivers would compile 16 four times as long.
    pub reduction_loads: usize,
    /// Matrix products.
    pub products: ProductTuning,
    /// Attention.
    pub attention: AttentionTuning,
    /// Tokens of a vocabulary from which an embedding's gradient is summed over 2, 4 or 8 shards in
    /// one kernel. 8 shards of 2,048 by 768 columns, tables and their sum against one kernel: 668
    /// and 225 us for 50,304 tokens, 269 and 180 for 16,384 (304 and 455 where one token is a fifth
    /// of the text), 119 and 125 for 4,096.
    pub embedding_sum_from: usize,
    /// Elements of a weight from which the partial sums of its gradient are computed shard by shard, so
    /// that log2 of the shards are in memory and not all: 256 MiB, each of which fills the device.
    pub shards_in_turn_from: usize,
    /// Bytes of digits at most that a convolution over integers prepares for a launch, if one sample's or one piece's are not
    /// more: enough to fill a GPU, or what a processor reads again from its caches.
    pub integer_patch_bytes: usize,
    /// Elements of a tensor from which a recorded backward pass computes the output of a norm or an
    /// activation again instead of keeping it. These are 6 of the 16 activations that a block keeps;
    /// computing them again costs a hundredth of a step. Below, a launch costs more than the memory
    /// is worth.
    pub recompute_from: usize,
    /// Leaves and nodes of a level of a tree digest up to which two threads hash one: a pair takes
    /// 1.24 ms for a leaf and a single thread 1.80, but more work in all; beyond, the device is
    /// full.
    pub digest_pairs_up_to: usize,
}

/// How element-by-element kernels are launched.
#[derive(Clone, Debug, PartialEq)]
pub struct MapTuning {
    /// Elements from which a thread has two vectors of four, whose loads are under way together;
    /// smaller tensors rather fill the device (GELU of 2^26 elements: 133 us instead of 143).
    pub two_vectors_from: usize,
    /// Whether lengths that are multiples of four take a pipeline of their own, without the code
    /// for single elements (GELU of 2^26 elements: 136 us instead of 146).
    pub whole_vectors: bool,
    /// Elements of a result from which an operand that is contiguous along another dimension is
    /// copied first, by tiles: its neighbours would be read from as many cache lines.
    pub copy_transposed_from: usize,
}

impl MapTuning {
    /// Vectors of four that a thread has in a tensor of `len` elements, where the shader leaves it open.
    pub(crate) fn vectors_a_thread(&self, len: usize) -> usize {
        if len >= self.two_vectors_from { 2 } else { 1 }
    }
}

/// How row kernels cut rows of at most `up_to` columns into workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCut {
    /// The longest row of this entry, in elements.
    pub up_to: usize,
    /// Threads of a row: 32 with four lanes each, or 128 with one.
    pub threads: usize,
    /// Rows of a workgroup, which has 256 threads at most.
    pub rows: usize,
    /// Blocks of 128 columns that a kernel which reads rows several times loads at once: 1 to 16.
    pub blocks_ahead: usize,
}

/// How column reductions of at most `up_to` chains (columns of all shards) are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnCut {
    /// The most chains of this entry.
    pub up_to: usize,
    /// Columns of a workgroup: a power of two up to 128.
    pub width: usize,
    /// 0: workgroups load tiles of rows into shared memory. Otherwise a chain has a thread of its
    /// own, which loads this many rows at once: 1 to 64.
    pub rows_ahead: usize,
}

/// How matrix products are launched.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductTuning {
    /// The tiles to choose from, by the estimated time of the fullest processor.
    pub tiles: Vec<ProductTile>,
    /// Whether a product's epilogue is part of its kernel. Software drivers would compile all
    /// activations with every product.
    pub fused_epilogues: bool,
    /// Rows of C from which a B stored `[N,K]` is transposed first by a launch of its own: products
    /// with a plain B are 6% faster, which from some thousands of rows on pays for 8 bytes an
    /// element of B and a launch.
    pub transpose_b_from_rows: usize,
    /// Multiply-adds of a product from which it is so.
    pub transpose_b_from_terms: usize,
    /// Rows of C up to which a product with a B stored `[N,K]` takes the shaders that have a chain a
    /// thread: at most 16.
    pub few_rows_up_to: usize,
    /// Rows of C up to which such a product takes them too, in workgroups that read the same rows of B.
    pub few_rows_split_up_to: usize,
    /// Workgroups up to which it does so, of a B of 16 and of 32 bits: 8 and 3 a processor. Products of 17 to 64 rows took 0.21
    /// to 0.90 and 0.53 to 0.86 of the tiles' time within, 0.89 to 1.36 and 1.01 to 3.1 beyond.
    pub few_rows_split_groups: [usize; 2],
    /// Columns of C from which their workgroups have 16 columns instead of 8, for at most two rows and for three to eight: 4
    /// and 12 a processor, as with fewer columns more processors load. Products of one or two rows took 0.76 to 0.94 of the
    /// time from there on, others with a B of 16 bits 0.60 to 0.93 (1.02 to 1.05 below), with one of 32 bits 0.70 to 1.10
    /// (0.99 to 1.28 below).
    pub few_rows_wide_from: [usize; 2],
    /// Rows of C up to which these shaders compute what comes before a product too, such as a norm: each workgroup does it
    /// for itself, which costs more than a launch does alone (1.0 to 1.25 of its time up to 4 rows), but spares the wait
    /// between two: a step of generation of a model shaped like Qwen3-0.6B on an H100 took 0.91, 0.94 and 0.97 of the time
    /// with 1, 2 and 4 rows, and 1.005 with 6 or 8.
    pub prologue_up_to: usize,
    /// The instructions of products over integers, of those that the probe has found right ([`Device::integer_paths`]).
    pub integers: IntegerPath,
    /// Where the digits lie of operands that products over integers are prepared for. In pieces the loads of a tile follow each
    /// other: sums of 4,096 x 4,096 x 4,096 ran at 323 TFLOP/s instead of 297 on an H100.
    pub digits: DigitLayout,
    /// The tiles of products over integers by matrices, by the same estimate.
    pub integer_tiles: Vec<ProductTile>,
    /// The tiles of products of 16-bit floats by matrices, by the same estimate.
    pub half_tiles: Vec<ProductTile>,
}

/// Where the digits of an operand's rows lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigitLayout {
    /// In rows: `[planes, rows, padded k]`.
    Rows,
    /// In pieces of 16 rows and 32 terms, which matrices are loaded from: `[padded k / 32, rows / 16, planes, 2, 16, 16]`, the
    /// terms in two halves, then the rows, of which the last pieces have room for 16. Kernels of GPUs read and write it.
    Pieces,
}

/// A tile of C that a workgroup computes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductTile {
    /// Rows of C.
    pub rows: usize,
    /// Columns of C.
    pub columns: usize,
    /// Whether a step of a chain's shader has 8 terms also where 16 would do: less shared memory, more workgroups of a
    /// processor. Tiles that have steps of one length alone take that.
    pub short_steps: bool,
    /// What a processor reaches with one, two, ... such workgroups at a time, up to as many as it
    /// holds, in GFLOP/s; from products of 512 to 4096 (docs/benchmarks.md).
    pub gflops: Vec<f64>,
}

/// How attention is launched.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionTuning {
    /// Workgroups that fill the device: two a processor. With fewer, half as many rows in each
    /// shorten the last one (measured at 8 x 4 heads of 128 positions).
    pub full_groups: usize,
    /// The most bytes of the scores' gradient, and over ranges of the weights too, that a backward pass
    /// stores, so that five products suffice instead of seven; 0 never stores them.
    pub stored_bytes: u64,
    /// Queries of a sample up to which attention over ranges takes the kernels that spread a query's keys
    /// and columns over workgroups; 0 never does.
    pub few_queries_up_to: usize,
}

impl KernelTuning {
    /// Returns the tuning of a handle.
    pub fn of(device: &Device) -> &Self {
        device.extension(|| {
            let (native, integers) = (device.native_arithmetic(), device.integer_paths().first());
            let integers = integers.copied().unwrap_or(IntegerPath::Plain);
            Self::new(device.info(), native, integers)
        })
    }

    /// Returns a handle of the same device, memory and stream with this tuning.
    ///
    /// # Errors
    /// As [`KernelTuning::check`].
    pub fn on(self, device: &Device) -> Result<Device, CoreError> {
        self.check()?;
        Ok(device.with_extension(self))
    }

    /// Returns the tuning of a device. `native` says whether it fuses and flushes by itself;
    /// otherwise its kernels emulate HLX's arithmetic and are bound by it. `integers` sums products of integers.
    pub fn new(info: &DeviceInfo, native: bool, integers: IntegerPath) -> Self {
        let gpu = info.kind == DeviceKind::VulkanGpu;
        let cpu = info.kind == DeviceKind::Cpu;
        let processors = Tuning::of(info, native).processors;
        Self {
            maps: MapTuning {
                two_vectors_from: 1 << 23,
                // Software drivers gain nothing from a second pipeline.
                whole_vectors: gpu,
                copy_transposed_from: if cpu { 0 } else { 1 << 20 },
            },
            held_rows: if gpu { held_rows() } else { Vec::new() },
            streamed_rows: streamed_rows(gpu),
            columns: columns(gpu, &[(1023, 8), (usize::MAX, 16)]),
            column_pairs: columns(gpu, &[(1023, 8), (4095, 16), (usize::MAX, 32)]),
            reduction_loads: if gpu { 16 } else { 4 },
            products: ProductTuning {
                integers,
                digits: match integers {
                    IntegerPath::Matrices(shape) if gpu && !shape.is_narrow() => {
                        DigitLayout::Pieces
                    }
                    _ => DigitLayout::Rows,
                },
                ..ProductTuning::of(native, cpu, processors)
            },
            attention: AttentionTuning {
                full_groups: 2 * processors,
                stored_bytes: info.memory_bytes / 32,
                few_queries_up_to: 8,
            },
            // On a CPU a table per shard takes more time than sorting the positions.
            embedding_sum_from: if cpu { 0 } else { 32_768 },
            shards_in_turn_from: 1 << 26,
            integer_patch_bytes: if gpu { 64 << 20 } else { 4 << 20 },
            recompute_from: 1 << 22,
            digest_pairs_up_to: if native { 4096 } else { 0 },
        }
    }

    /// Checks that kernels can be cut so.
    ///
    /// # Errors
    /// [`CoreError::Invalid`], which names the field.
    pub fn check(&self) -> Result<(), CoreError> {
        let mut rows = self.held_rows.iter().chain(&self.streamed_rows);
        let has_threads = rows.clone().all(|cut| matches!(cut.threads, 32 | 128));
        let in_group = |cut: &RowCut| cut.rows > 0 && cut.rows * cut.threads <= 256;
        let fits = rows.clone().all(in_group);
        let loads = rows.all(|cut| (1..=16).contains(&cut.blocks_ahead));
        let held = self.held_rows.iter().all(|cut| cut.up_to <= 16_384);
        let last = self.streamed_rows.last().map(|cut| cut.up_to);
        let mut columns = self.columns.iter().chain(&self.column_pairs);
        let is_width = |cut: &ColumnCut| cut.width.is_power_of_two() && cut.width <= 128;
        let wide = columns.clone().all(is_width);
        let ahead = columns.all(|cut| cut.rows_ahead <= 64);
        let tables = [&self.columns, &self.column_pairs];
        let ends = tables.map(|columns| columns.last().map(|cut| cut.up_to));
        let all = Some(usize::MAX);
        let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let rated = |tile: &ProductTile| !tile.gflops.is_empty() && tile.gflops.iter().all(is_rate);
        let tiles = &self.products.tiles;
        let (own, halves) = (&self.products.integer_tiles, &self.products.half_tiles);
        let tables = [tiles, own, halves];
        let rated = tables
            .iter()
            .all(|table| !table.is_empty() && table.iter().all(rated));
        let reductions = matches!(self.reduction_loads, 4 | 8 | 16 | 32);
        macro_rules! expect {
            ($($holds:expr => $otherwise:literal,)+) => {$(
                if !$holds {
                    return Err(CoreError::invalid("tuning", $otherwise));
                }
            )+};
        }
        expect! {
            has_threads => "a row cut has other threads than 32 or 128",
            fits => "a row cut has no rows, or more than 256 threads a workgroup",
            loads => "a row cut's blocks_ahead is outside of 1 to 16",
            held => "held_rows reaches past 16,384 elements, 128 registers a thread",
            last == all => "streamed_rows does not cover every length",
            wide => "a column cut's width is no power of two up to 128",
            ahead => "a column cut's rows_ahead is above 64",
            ends == [all; 2] => "columns and column_pairs do not cover every number of chains",
            reductions => "reduction_loads is no power of two from 4 to 32",
            rated => "products.tiles, integer_tiles or half_tiles is empty, or a tile has no positive rates",
        }
        Ok(())
    }
}

impl ProductTuning {
    fn of(native: bool, cpu: bool, processors: usize) -> Self {
        let tile = |rows, columns, gflops: &[f64]| ProductTile {
            rows,
            columns,
            short_steps: false,
            gflops: gflops.to_vec(),
        };
        // A large tile reads less memory and less shared memory a product, a small one spreads over
        // more processors.
        let all = [
            tile(128, 128, &[314.0, 350.0]),
            tile(64, 128, &[270.0, 335.0, 372.0]),
            tile(64, 64, &[198.0, 275.0, 287.0, 297.0]),
            tile(32, 64, &[130.0, 165.0, 190.0, 210.0, 220.0]),
        ];
        let halves = [
            tile(128, 128, &[1300.0, 2000.0]),
            tile(128, 64, &[620.0, 1150.0, 1500.0, 1750.0]),
            tile(64, 64, &[600.0, 770.0, 790.0, 800.0]),
            tile(16, 64, &[200.0, 350.0, 450.0, 490.0]),
        ];
        // A device that emulates the arithmetic is bound by it with any tile, and compiles the
        // smallest soonest.
        let first = if native { 0 } else { all.len() - 1 };
        let never = usize::MAX;
        Self {
            tiles: all[first..].to_vec(),
            fused_epilogues: native,
            transpose_b_from_rows: if native && !cpu { 1 << 12 } else { never },
            transpose_b_from_terms: 1 << 31,
            few_rows_up_to: if cpu { 0 } else { 16 },
            few_rows_split_up_to: if cpu { 0 } else { 64 },
            few_rows_split_groups: [8 * processors, 3 * processors],
            few_rows_wide_from: [4 * processors, 12 * processors],
            prologue_up_to: if cpu { 0 } else { 4 },
            integers: IntegerPath::Plain,
            digits: DigitLayout::Rows,
            // From sums of 1,024 to 8,192 on an H100; the last from 512 x 512 x 512 and 512 x 1,024 x 3,072.
            integer_tiles: vec![
                tile(64, 128, &[1150.0, 2500.0]),
                tile(96, 96, &[1090.0, 2580.0]),
                tile(64, 64, &[520.0, 1060.0, 1810.0]),
                tile(32, 64, &[326.0, 650.0, 700.0, 800.0]),
            ],
            half_tiles: match native {
                true => halves.to_vec(),
                false => halves[2..].to_vec(),
            },
        }
    }
}

impl RowCut {
    pub(crate) fn new(up_to: usize, threads: usize, rows: usize, blocks_ahead: usize) -> Self {
        Self {
            up_to,
            threads,
            rows,
            blocks_ahead,
        }
    }
}

/// Rows of up to 16,384 elements: 128 registers a thread.
fn held_rows() -> Vec<RowCut> {
    vec![RowCut::new(1024, 32, 2, 1), RowCut::new(16_384, 128, 1, 1)]
}

fn streamed_rows(gpu: bool) -> Vec<RowCut> {
    if !gpu {
        return vec![RowCut::new(usize::MAX, 32, 8, 1)];
    }
    vec![
        RowCut::new(1023, 32, 2, 2),
        RowCut::new(16_383, 128, 2, 8),
        RowCut::new(usize::MAX, 128, 1, 8),
    ]
}

/// Few columns are cut into narrow groups, so that all cores have one, and many into runs of 128
/// bytes where a tile has two arrays (8 shards of 1,024 columns: 6.4 us with 32, 7.9 with 16). Still more need no
/// tiles: 8 shards of 1,024 rows, us of layer norm's parameters with tiles and without, 57 and 68
/// at 2,048 columns, 83 and 73 at 3,072, 216 and 127 at 8,384. Software drivers would compile the
/// unrolled loads for seconds.
fn columns(gpu: bool, tiled: &[(usize, usize)]) -> Vec<ColumnCut> {
    const TILED_UP_TO: usize = 18_431;
    let limit = if gpu { TILED_UP_TO } else { usize::MAX };
    let tiled = tiled
        .iter()
        .map(|&(up_to, width)| (up_to.min(limit), width, 0));
    let untiled = gpu.then_some((usize::MAX, 32, 32));
    let cut = |(up_to, width, rows_ahead)| ColumnCut {
        up_to,
        width,
        rows_ahead,
    };
    tiled.chain(untiled).map(cut).collect()
}

/// The first entry of a table that covers `size`.
macro_rules! first_covering {
    ($($cut:ident)+) => {$(
        impl $cut {
            /// Returns the first entry of a table that covers `size`.
            pub fn covering(table: &[Self], size: usize) -> Option<Self> {
                table.iter().find(|cut| size <= cut.up_to).copied()
            }
        }
    )+};
}
first_covering!(RowCut ColumnCut);

#[cfg(test)]
mod tests;
