//! The kernels of rows of queries over ranges: of floats and of quantised operands, which differ in what they bind.

use hlx_core::{Buffer, Device};

use super::cpu::{self, Inputs, Operands, QuantisedRows, Tiles};
use super::heads::Heads;
use super::pages::{self, Pages, Table};
use super::pass::Saved;
use super::shaders::{Chosen, FORWARD_PASS, KEY_VALUE_PASS, PassShaders, QUERY_PASS};
use super::sizes::Placed;
use crate::Result;
use crate::kernel::{Kernel, PushConstants};

/// How operands are stored.
#[derive(Clone, Copy)]
pub enum Kind {
    Floats,
    /// Of [`RowOperands::words`].
    Quantised([Heads; 5]),
}

/// What launches read.
#[derive(Clone, Copy)]
pub struct RowOperands<'a> {
    pub device: &'a Device,
    pub kind: Kind,
    /// q, k, v, the gradient of the output, and q as its sums over queries read it; a forward pass reads three.
    pub words: [&'a Buffer; 5],
    pub ranges: &'a Buffer,
    pub counter: Option<&'a Buffer>,
    /// Where keys and values lie in pages; a forward pass alone takes them.
    pub pages: Option<Pages<'a>>,
    /// Where operands lie; for quantised ones, where their gradients do.
    pub placed: Placed,
}

impl Kind {
    fn operands<'w>(&self, placed: &Placed, words: [&'w [f32]; 5]) -> Operands<'w> {
        match self {
            Self::Floats => Operands::floats([words[0], words[1], words[2]], placed, words[3]),
            Self::Quantised(of) => {
                Operands::Quantised([0, 1, 2, 3, 4].map(|i| QuantisedRows::new(words[i], of[i])))
            }
        }
    }

    /// Two things in the order of floats; quantised operands have the second first.
    fn ordered<T>(&self, first: T, second: T) -> [T; 2] {
        match self {
            Self::Floats => [first, second],
            Self::Quantised(_) => [second, first],
        }
    }
}

impl<'a> RowOperands<'a> {
    fn choose(&self, pass: &PassShaders) -> Chosen {
        match self.kind {
            Kind::Floats => pass.of_floats(&self.placed),
            Kind::Quantised(_) => pass.of_quantised(self.device, &self.placed),
        }
    }

    /// A kernel that reads operands and ranges, floats or quantised.
    fn kernel(&self, names: [&'static str; 2], chosen: &'a Chosen) -> Kernel<'a> {
        let ([name, _], [q, k, v, ..]) = (self.kind.ordered(names[0], names[1]), self.words);
        Kernel::new(name, chosen.shader)
            .constants(&chosen.constants)
            .reads([q, k, v, self.ranges])
    }

    /// Computes `o` and `stats`.
    pub fn forward(&self, [o, stats]: [&Buffer; 2]) -> Result<()> {
        let (placed, kind, of) = (self.placed, self.kind, &self.placed.attention);
        let chosen = self.choose(&FORWARD_PASS);
        let groups = chosen.groups(of.queries, of.all_heads());
        let names = ["ranged_attention_forward", "integer_attention_forward"];
        let push = PushConstants::of(&placed.push());
        let (pages, keys) = (self.pages.as_ref(), of.keys);
        let is_paged = pages.is_some();
        self.kernel(names, &chosen)
            .constants(pages::constants(pages))
            .reads_if(self.counter)
            .write("o", o, of.output_len())?
            .write("stats", stats, [2, of.all_queries()])?
            .reads_if(pages.map(|pages| pages.table))
            .flops(of.flops(2))
            .launch(self.device, push, groups, move |read, [o, stats]| {
                let [q, k, v, ranges, counter, table] = read;
                let table = Table::new(table, is_paged, keys);
                let operands = kind.operands(&placed, [q, k, v, q, q]).in_pages(table);
                cpu::forward(Inputs::new(operands, ranges, counter, &placed), o, stats);
            })
    }

    /// Computes the gradient of queries, which lies in `dq` as `gradients` says.
    pub fn query(&self, saved: &Saved<'_>, dq: &Buffer, gradients: &Placed) -> Result<()> {
        let (placed, kind, of) = (self.placed, self.kind, &self.placed.attention);
        let (chosen, place) = (self.choose(&QUERY_PASS), gradients.places[0]);
        let groups = chosen.groups(of.queries, of.all_heads());
        let names = [
            "ranged_attention_backward_query",
            "integer_attention_backward_query",
        ];
        let push = PushConstants::of(&placed.push());
        self.kernel(names, &chosen)
            .reads_if(self.counter)
            .reads(kind.ordered(saved.output.stats, self.words[3]))
            .reads([saved.delta])
            .writes([dq])
            .flops(of.flops(3))
            .launch(self.device, push, groups, move |read, [dq]| {
                let [q, k, v, ranges, counter, one, other, delta] = read;
                let [stats, d_o] = kind.ordered(one, other);
                let operands = kind.operands(&placed, [q, k, v, d_o, q]);
                let inputs = Inputs::new(operands, ranges, counter, &placed);
                let dq = Tiles::of_queries(&placed.attention, dq, place);
                cpu::backward_query(inputs, [stats, delta], dq);
            })
    }

    /// Computes the gradients of keys and values, of floats each in its own buffer.
    pub fn key_value(
        &self,
        saved: &Saved<'_>,
        [dk, dv]: [&Buffer; 2],
        gradients: &Placed,
    ) -> Result<()> {
        let (placed, kind, of) = (self.placed, self.kind, &self.placed.attention);
        let (chosen, [_, of_k, of_v]) = (self.choose(&KEY_VALUE_PASS), gradients.places);
        let groups = chosen.groups(of.keys, of.all_key_heads());
        let names = [
            "ranged_attention_backward_key_value",
            "integer_attention_backward_key_value",
        ];
        let (output, key_ranges, delta) = (saved.output, saved.key_ranges, saved.delta);
        let kernel = self.kernel(names, &chosen).flops(of.flops(4));
        let [.., d_o, q_in_sums] = self.words;
        let kernel = match kind {
            Kind::Floats => kernel
                .reads([key_ranges])
                .reads_if(self.counter)
                .reads([output.stats, d_o, delta])
                .writes([dk, dv]),
            Kind::Quantised(_) => kernel
                .reads_if(self.counter)
                .reads([d_o, output.stats, delta, key_ranges, q_in_sums])
                .writes([dk]),
        };
        let push = PushConstants::of(&placed.push());
        kernel.launch_bound(self.device, push, groups, move |bindings| {
            let (read, mut written) = bindings.split_all();
            // The key ranges, the counter, the statistics, the output's gradient, delta, and q.
            let order = match kind {
                Kind::Floats => [4, 5, 6, 7, 8, 0],
                Kind::Quantised(_) => [8, 4, 6, 5, 7, 9],
            };
            let [key_ranges, counter, stats, d_o, delta, q_in_sums] = order.map(|at| read[at]);
            let operands = kind.operands(&placed, [read[0], read[1], read[2], d_o, q_in_sums]);
            let inputs = Inputs::new(operands, read[3], counter, &placed);
            let of = &placed.attention;
            let to = match &mut written[..] {
                [dk, dv] => {
                    let [dk] = Tiles::of_keys(of, dk, [of_k]);
                    let [dv] = Tiles::of_keys(of, dv, [of_v]);
                    [dk, dv]
                }
                all => Tiles::of_keys(of, all[0], [of_k, of_v]),
            };
            cpu::backward_key_value(inputs, key_ranges, [stats, delta], to);
        })
    }
}
