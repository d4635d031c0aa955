//! A chain on the CPU device: its stages one after the other over pieces that stay in a core's cache.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::CpuBody;
use hlx_core::DType;

use super::Chunk;
use super::plan::{Input, Load, Plan};
use crate::convert::{Form, Places, decode, encode, pack};
use crate::layout::Access;
use crate::parallel::{self, write};

/// Elements of a piece: 8 KiB an operand or a result.
const PIECE: usize = 1 << 11;

/// A chain with what it needs at run time.
struct CpuChain {
    count: usize,
    shape: Vec<usize>,
    loads: Vec<Load>,
    stages: Vec<CpuStage>,
}

struct CpuStage {
    chunk: Chunk,
    compute: DType,
    out_form: Form,
    /// Each operand with the form in which it is read.
    inputs: Vec<(Input, Form)>,
    is_stored: bool,
}

/// The CPU body of a chain.
pub(super) fn body(plan: &Plan<'_>) -> CpuBody {
    let stages = plan.stages.iter().map(|planned| {
        let forms = planned.launch.operands.iter().map(|operand| operand.form);
        CpuStage {
            chunk: planned.launch.chunk.clone(),
            compute: planned.launch.compute,
            out_form: planned.launch.out_form,
            inputs: planned.inputs.iter().copied().zip(forms).collect(),
            is_stored: planned.is_stored,
        }
    });
    let chain = CpuChain {
        count: plan.len(),
        shape: plan.shape.clone(),
        loads: plan.loads.clone(),
        stages: stages.collect(),
    };
    Box::new(move |bindings| {
        let (inputs, outs) = bindings.split_all();
        let inputs: Vec<&[u32]> = inputs.into_iter().map(cast_slice).collect();
        chain.run(&inputs, outs.into_iter().map(cast_slice_mut).collect());
    })
}

impl CpuChain {
    fn run(&self, inputs: &[&[u32]], outs: Vec<&mut [u32]>) {
        let mut pieces: Vec<Vec<&mut [u32]>> = Vec::new();
        pieces.resize_with(self.count.div_ceil(PIECE), Vec::new);
        let stored = self.stages.iter().filter(|stage| stage.is_stored);
        for (stage, out) in stored.zip(outs) {
            let words = PIECE / stage.out_form.per_word();
            for (piece, out) in pieces.iter_mut().zip(out.chunks_mut(words)) {
                piece.push(out);
            }
        }
        let slots = self.slots();
        parallel::for_each(write(&mut pieces, 1), |index, outs| {
            let outs = std::mem::take(&mut outs[0]);
            parallel::scratch(slots * PIECE, |slots| {
                self.piece(inputs, index * PIECE, outs, slots);
            });
        });
    }

    /// The most arrays of a piece that are neither operands nor stored results.
    fn slots(&self) -> usize {
        let stages = self.stages.iter();
        self.loads.len() + stages.map(|stage| 1 + stage.inputs.len()).sum::<usize>()
    }

    fn piece(&self, inputs: &[&[u32]], start: usize, outs: Vec<&mut [u32]>, scratch: &mut [u32]) {
        let n = PIECE.min(self.count - start);
        let mut outs = outs.into_iter();
        let mut slots = scratch
            .chunks_mut(PIECE)
            .map(move |slot| slot.split_at_mut(n).0);
        let mut slot = || slots.next().unwrap_or_default();
        let mut loaded: Vec<&[u32]> = Vec::with_capacity(self.loads.len());
        for load in &self.loads {
            let words = inputs[load.binding];
            loaded.push(match self.is_direct(load) {
                true => &words[start..start + n],
                false => self.load(load, words, start, slot()),
            });
        }
        // The bits of the results, an element per word.
        let mut results: Vec<&[u32]> = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            let mut arguments: Vec<&[u32]> = Vec::with_capacity(stage.inputs.len());
            for &(input, form) in &stage.inputs {
                arguments.push(match input {
                    Input::Load(load) => loaded[load],
                    Input::Stage(from) if form.is_word_of(stage.compute) => results[from],
                    Input::Stage(from) => {
                        let values = slot();
                        values.copy_from_slice(results[from]);
                        decode(form, stage.compute, values);
                        values
                    }
                });
            }
            let out = if stage.is_stored { outs.next() } else { None };
            results.push(stage.run(&arguments, out, &mut slot));
        }
    }

    /// Whether the words of a load lie as its values do.
    fn is_direct(&self, load: &Load) -> bool {
        load.access == Access::Dense && load.form.is_word_of(load.compute)
    }

    fn load<'a>(
        &self,
        load: &Load,
        words: &[u32],
        start: usize,
        values: &'a mut [u32],
    ) -> &'a [u32] {
        let places = Places {
            shape: &self.shape,
            strides: &load.strides,
            offset: load.offset,
            start,
        };
        places.load(load.form, load.compute, words, values);
        values
    }
}

impl CpuStage {
    /// Computes a piece; returns the bits of its elements.
    fn run<'a>(
        &self,
        arguments: &[&[u32]],
        out: Option<&'a mut [u32]>,
        slot: &mut impl FnMut() -> &'a mut [u32],
    ) -> &'a [u32] {
        let is_word = self.out_form.is_word_of(self.compute);
        match out {
            Some(out) if is_word => {
                (self.chunk)(arguments, out);
                out
            }
            out => {
                let bits = slot();
                (self.chunk)(arguments, bits);
                if !is_word {
                    self.encode(bits);
                }
                if let Some(out) = out {
                    pack(self.out_form, bits, out);
                }
                bits
            }
        }
    }

    /// The bits that are stored, all others zero.
    fn encode(&self, bits: &mut [u32]) {
        encode(self.out_form, self.compute, bits);
        let mask = match self.out_form.per_word() {
            1 => u32::MAX,
            2 => 0xffff,
            _ => 0xff,
        };
        bits.iter_mut().for_each(|bits| *bits &= mask);
    }
}
