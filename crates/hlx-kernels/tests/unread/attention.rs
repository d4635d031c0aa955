//! Attention: what a query does not see, and what sees no key, changes no bit of the others.
//!
//! Of each case some queries are collected, and every row that they do not read is filled: keys and values that none of
//! them sees, other queries. Likewise some keys, for the gradients that belong to keys.

use std::ops::Range;

use hlx_core::Buffer;
use hlx_kernels::attention::{
    Attention, AttentionGradients, AttentionOperands, AttentionOutput, Limits, PreparedAttention,
    Schedule, joint_gradients, layouts_of_packed, query_ranges,
};
use hlx_kernels::testing::normal;
use hlx_kernels::{KernelError, Layout, Operand};

use crate::Entry;
use crate::caches::of_cache;
use crate::cases::cases;
use crate::run::{Filler, Run};
use crate::ways::{ATTENTION, INTEGERS, Way};

/// Which kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernels {
    /// Plain causal attention over packed operands; with dropout where its kernels fit, else over ranges.
    Packed,
    Ranged,
    FewQueries,
    Quantised,
    /// Quantised heads of a cache, forward alone.
    Cached,
}

/// An attention with its limits.
#[derive(Clone, Debug)]
pub struct Case {
    pub attention: Attention,
    pub documents: Option<Vec<u32>>,
    pub lengths: Option<Vec<u32>>,
    pub first_positions: Option<Vec<u32>>,
    pub kernels: Kernels,
    /// Queries, and keys, are collected from this one on, and up to it.
    pub cut: usize,
}

impl Case {
    pub fn new(kernels: Kernels, attention: Attention, cut: usize) -> Self {
        Self {
            attention,
            documents: None,
            lengths: None,
            first_positions: None,
            kernels,
            cut,
        }
    }
}

/// The ranges of keys that queries see, `[B, T]`, and the buffers that kernels read them from.
pub struct Seen {
    pub of_queries: Buffer,
    limits: [Option<Buffer>; 3],
    ranges: Vec<Range<usize>>,
    queries: usize,
    keys: usize,
}

impl Seen {
    pub fn new(run: &mut Run<'_>, case: &Case) -> Result<Self, KernelError> {
        let attention = &case.attention;
        let mut ids = |ids: &Option<Vec<u32>>| ids.as_ref().map(|ids| run.ids(ids)).transpose();
        let (documents, lengths) = (ids(&case.documents)?, ids(&case.lengths)?);
        let first_positions = ids(&case.first_positions)?;
        let limits = [documents, lengths, first_positions];
        let of_queries = run.output(4 * attention.batch * attention.queries)?;
        query_ranges(run.device, &limits_of(&limits), &of_queries, attention)?;
        let words = run.device.download_words(&of_queries)?;
        let ranges = words
            .chunks(4)
            .map(|word| word[1] as usize..word[2] as usize);
        Ok(Self {
            ranges: ranges.collect(),
            of_queries,
            limits,
            queries: attention.queries,
            keys: attention.keys,
        })
    }

    fn sees(&self, sample: usize, query: usize, key: usize) -> bool {
        self.ranges[sample * self.queries + query].contains(&key)
    }

    /// Whether one of these queries sees a key.
    pub fn is_seen(&self, sample: usize, mut by: Range<usize>, key: usize) -> bool {
        by.any(|query| self.sees(sample, query, key))
    }

    /// Whether a query sees one of these keys.
    fn sees_any(&self, sample: usize, query: usize, mut keys: Range<usize>) -> bool {
        keys.any(|key| self.sees(sample, query, key))
    }

    fn is_blind(&self, sample: usize, query: usize) -> bool {
        !self.sees_any(sample, query, 0..self.keys)
    }
}

fn limits_of(ids: &[Option<Buffer>; 3]) -> Limits<'_> {
    let [documents, lengths, first_positions] = ids.each_ref().map(Option::as_ref);
    Limits {
        documents,
        lengths,
        first_positions,
    }
}

/// Sample and position of an element of `[batch, positions, ...]`.
pub fn place(at: usize, positions: usize, of_position: usize) -> (usize, usize) {
    (at / of_position / positions, at / of_position % positions)
}

/// Sample and query of an element of `[B, H, T, n]`.
fn place_by_head(at: usize, attention: &Attention, n: usize) -> (usize, usize) {
    let (row, queries) = (at / n, attention.queries);
    (row / queries / attention.heads, row % queries)
}

/// q, k and v on the device.
pub struct Operands {
    pub buffers: [Buffer; 3],
    layouts: [Layout; 3],
}

impl Operands {
    /// Of ordinary numbers; `hidden` are the rows of queries and of keys that are not read.
    pub fn new(
        run: &mut Run<'_>,
        case: &Case,
        hidden: [&dyn Fn(usize, usize) -> bool; 2],
    ) -> Result<Self, KernelError> {
        let a = &case.attention;
        let sizes = [
            (a.queries, a.heads),
            (a.keys, a.key_heads),
            (a.keys, a.key_heads),
        ];
        let hides = [hidden[0], hidden[1], hidden[1]];
        let data: Vec<Vec<f32>> = (1..)
            .zip(sizes)
            .map(|(seed, (positions, heads))| {
                normal(seed, a.batch * positions * heads * a.head_width)
            })
            .collect();
        if case.kernels != Kernels::Packed {
            let mut buffers = Vec::new();
            let mut layouts = Vec::new();
            for ((data, (positions, heads)), hidden) in data.iter().zip(sizes).zip(hides) {
                let of_position = heads * a.head_width;
                buffers.push(run.input_hiding(data, |at| {
                    let (sample, position) = place(at, positions, of_position);
                    hidden(sample, position)
                })?);
                layouts.push(Layout::contiguous(&[
                    a.batch,
                    positions,
                    heads,
                    a.head_width,
                ])?);
            }
            let [q, k, v] = [0, 1, 2].map(|n| buffers[n].clone());
            let [lq, lk, lv] = [0, 1, 2].map(|n| layouts[n].clone());
            return Ok(Self {
                buffers: [q, k, v],
                layouts: [lq, lk, lv],
            });
        }
        let row = a.heads * a.head_width;
        let packed: Vec<f32> = (0..3 * data[0].len())
            .map(|at| data[at / row % 3][at / (3 * row) * row + at % row])
            .collect();
        let qkv = run.input_hiding(&packed, |at| {
            let (sample, position) = place(at, a.queries, 3 * row);
            hides[at / row % 3](sample, position)
        })?;
        Ok(Self {
            buffers: [qkv.clone(), qkv.clone(), qkv],
            layouts: layouts_of_packed(a)?,
        })
    }

    fn of<'a>(&'a self, case: &Case, seen: &'a Seen, counter: &'a Buffer) -> AttentionOperands<'a> {
        let operand = |n: usize| Operand {
            buffer: &self.buffers[n],
            layout: &self.layouts[n],
        };
        AttentionOperands {
            heads: [0, 1, 2].map(operand),
            packed: (case.kernels == Kernels::Packed).then_some(&self.buffers[0]),
            limits: limits_of(&seen.limits),
            counter: case.attention.dropout.map(|_| counter),
        }
    }
}

/// The kernels of a case on a device.
fn schedule(run: &Run<'_>, case: &Case, operands: &AttentionOperands<'_>) -> Schedule {
    let chosen = Schedule::of(run.device, operands, &case.attention);
    match case.kernels {
        Kernels::Packed if chosen == Schedule::Packed => chosen,
        Kernels::FewQueries if chosen == Schedule::Few || run.device.is_cpu() => Schedule::Few,
        Kernels::Packed | Kernels::FewQueries | Kernels::Ranged => Schedule::Rows,
        Kernels::Quantised | Kernels::Cached => Schedule::Quantised,
    }
}

/// o and stats.
fn forward(
    run: &mut Run<'_>,
    case: &Case,
    operands: &Operands,
    seen: &Seen,
) -> Result<[Buffer; 2], KernelError> {
    let (device, a) = (run.device, &case.attention);
    let o = run.output(a.batch * a.queries * a.heads * a.head_width)?;
    let stats = run.output(2 * a.batch * a.queries * a.heads)?;
    let counter = run.ids(&[3, 5])?;
    let operands = operands.of(case, seen, &counter);
    let (schedule, ranges) = (schedule(run, case, &operands), Some(&seen.of_queries));
    PreparedAttention::by(schedule, device, &operands, ranges, a, false)?.forward_to(
        device,
        &operands,
        [&o, &stats],
    )?;
    Ok([o, stats])
}

/// dq, dk and dv; of packed operands one buffer of all three.
fn backward(
    run: &mut Run<'_>,
    case: &Case,
    operands: &Operands,
    seen: &Seen,
    [o, stats, d_o]: [&Buffer; 3],
) -> Result<Vec<Buffer>, KernelError> {
    let (device, a) = (run.device, &case.attention);
    let delta = &run.output(a.batch * a.queries * a.heads)?;
    let counter = run.ids(&[3, 5])?;
    let operands = operands.of(case, seen, &counter);
    let (schedule, ranges) = (schedule(run, case, &operands), Some(&seen.of_queries));
    let output = AttentionOutput { o, stats, d_o };
    let prepared = PreparedAttention::by(schedule, device, &operands, ranges, a, true)?;
    let (len, layouts) = joint_gradients(a)?;
    let joint = match schedule {
        Schedule::Packed => run.output(3 * o.len())?,
        Schedule::Quantised | Schedule::Halves => run.output(len)?,
        Schedule::Few | Schedule::Rows => {
            let contiguous = |layout: &Layout| Layout::contiguous(layout.shape());
            let layouts = layouts.iter().map(contiguous);
            let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
            let buffers = layouts.iter().map(|layout| run.output(layout.n_elements()));
            let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
            let heads = [0, 1, 2].map(|n| Operand {
                buffer: &buffers[n],
                layout: &layouts[n],
            });
            let gradients = AttentionGradients { delta, heads };
            prepared.backward_to(device, &operands, &output, &gradients)?;
            return Ok(buffers);
        }
    };
    let heads = layouts.each_ref().map(|layout| Operand {
        buffer: &joint,
        layout,
    });
    let gradients = AttentionGradients { delta, heads };
    prepared.backward_to(device, &operands, &output, &gradients)?;
    match schedule {
        Schedule::Packed => split(run, &joint, a),
        _ => {
            let parts = layouts.iter();
            let parts = parts.map(|part| joint.slice(part.offset(), part.n_elements()));
            Ok(parts.collect::<Result<_, _>>()?)
        }
    }
}

/// The three parts of packed gradients, apart.
fn split(run: &mut Run<'_>, packed: &Buffer, a: &Attention) -> Result<Vec<Buffer>, KernelError> {
    let (words, row) = (run.device.download_words(packed)?, a.heads * a.head_width);
    let part = |n: usize| -> Vec<u32> {
        let rows = words.chunks(row).skip(n).step_by(3);
        rows.flatten().copied().collect()
    };
    (0..3)
        .map(|n| Ok(run.memory.input_u32(run.device, &part(n))?))
        .collect()
}

/// Both halves of the positions.
fn halves(n: usize, cut: usize) -> [Range<usize>; 2] {
    let cut = cut.min(n);
    [0..cut, cut..n]
}

/// Keeps o and stats of some queries at a time, of which the rest is hidden.
pub fn forward_of_some_queries(run: &mut Run<'_>, case: &Case) -> Result<(), KernelError> {
    let (a, seen) = (case.attention, Seen::new(run, case)?);
    for chosen in halves(a.queries, case.cut) {
        let no_query = |sample, query| !chosen.contains(&query) || seen.is_blind(sample, query);
        let no_key = |sample, key| !seen.is_seen(sample, chosen.clone(), key);
        let operands = Operands::new(run, case, [&no_query, &no_key])?;
        let [o, stats] = forward(run, case, &operands, &seen)?;
        run.collect_where(&o, |at| {
            chosen.contains(&place(at, a.queries, a.heads * a.head_width).1)
        })?;
        run.collect_where(&stats, |at| chosen.contains(&place_by_head(at, &a, 2).1))?;
    }
    Ok(())
}

/// The outputs of a forward pass of which nothing is hidden.
fn saved(run: &mut Run<'_>, case: &Case, seen: &Seen) -> Result<[Vec<f32>; 2], KernelError> {
    let given = run.given;
    run.given.filler = Filler::Ordinary;
    run.restart();
    let operands = Operands::new(run, case, [&|_, _| false, &|_, _| false])?;
    let [o, stats] = forward(run, case, &operands, seen)?;
    run.given = given;
    Ok([
        run.device.download::<f32>(&o)?,
        run.device.download::<f32>(&stats)?,
    ])
}

/// Keeps dq of some queries at a time, then dk and dv of some keys.
pub fn backward_of_some_queries(run: &mut Run<'_>, case: &Case) -> Result<(), KernelError> {
    let (a, seen) = (case.attention, Seen::new(run, case)?);
    let [o, stats] = saved(run, case, &seen)?;
    let d_o = normal(4, o.len());
    let of_query = a.heads * a.head_width;
    let pass = |run: &mut Run<'_>,
                no_query: &dyn Fn(usize, usize) -> bool,
                no_key: &dyn Fn(usize, usize) -> bool| {
        run.restart();
        let operands = Operands::new(run, case, [no_query, no_key])?;
        let of_row = |at| {
            let (sample, query) = place(at, a.queries, of_query);
            no_query(sample, query)
        };
        let of_stats = |at| {
            let (sample, query) = place_by_head(at, &a, 2);
            no_query(sample, query)
        };
        let o = run.input_hiding(&o, of_row)?;
        // No forward pass leaves other specials in them than those of its inputs.
        let specials = run.given.specials.take();
        let stats = run.input_hiding(&stats, of_stats)?;
        run.given.specials = specials;
        let d_o = run.input_hiding(&d_o, of_row)?;
        backward(run, case, &operands, &seen, [&o, &stats, &d_o])
    };
    for chosen in halves(a.queries, case.cut) {
        let gradients = pass(
            run,
            &|sample, query| !chosen.contains(&query) || seen.is_blind(sample, query),
            &|sample, key| !seen.is_seen(sample, chosen.clone(), key),
        )?;
        run.collect_where(&gradients[0], |at| {
            chosen.contains(&place(at, a.queries, of_query).1)
        })?;
    }
    for chosen in halves(a.keys, case.cut) {
        let gradients = pass(
            run,
            &|sample, query| !seen.sees_any(sample, query, chosen.clone()),
            &|sample, key| !chosen.contains(&key) || !seen.is_seen(sample, 0..a.queries, key),
        )?;
        for gradient in &gradients[1..] {
            run.collect_where(gradient, |at| {
                chosen.contains(&place(at, a.keys, a.key_heads * a.head_width).1)
            })?;
        }
    }
    Ok(())
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for (name, case) in cases() {
        let (kernels, ways): (_, &'static [Way]) = match case.kernels {
            Kernels::Quantised | Kernels::Cached => ("quantised", INTEGERS),
            _ => ("portable", ATTENTION),
        };
        let name = format!("attention, {kernels}, {:?}, {name}", case.kernels);
        if case.kernels == Kernels::Cached {
            entries.push(Entry::new(&name, ways, move |run| of_cache(run, &case)));
            continue;
        }
        let again = case.clone();
        entries.push(Entry::new(&format!("{name}, forward"), ways, move |run| {
            forward_of_some_queries(run, &case)
        }));
        if again.kernels != Kernels::FewQueries {
            entries.push(Entry::new(&format!("{name}, backward"), ways, move |run| {
                backward_of_some_queries(run, &again)
            }));
        }
    }
    entries
}
