//! The adapters of one module of a family, joined for a file and taken apart again.

use safetensors::tensor::SafeTensors;

use super::names::{PREFIX, expect, of_parts, read};
use crate::error::NnError;
use crate::files::hugging_face::NamedTensor;
use crate::layers::lora::{self, Adapter, LoraRules};
use crate::{Parameter, Result};

/// The adapters of one module of a family.
pub(super) struct ModuleAdapter<'a> {
    /// The module's name, without PEFT's prefix.
    pub name: String,
    /// The layers that are a part of it and have an adapter, each with the part's number.
    pub layers: Vec<(usize, Adapter<'a>)>,
    /// The parts that the module has.
    pub n_parts: usize,
}

/// The rank of each layer's adapter of a module, and what it reads and writes.
struct Extents {
    rank: usize,
    input: usize,
    output: usize,
}

impl ModuleAdapter<'_> {
    /// The names of its factors.
    fn factors(&self) -> [String; 2] {
        [lora::A, lora::B].map(|end| format!("{}{end}", self.name))
    }

    fn magnitude(&self) -> String {
        format!("{}{}", self.name, lora::MAGNITUDE)
    }

    /// Whether the adapters are weight-decomposed.
    fn is_decomposed(&self) -> bool {
        self.layers.iter().any(|(_, one)| one.magnitude.is_some())
    }

    /// Whether a tensor of a file is one of its own.
    pub fn has(&self, name: &str) -> bool {
        let is_magnitude = self.is_decomposed() && self.magnitude() == name;
        is_magnitude || self.factors().iter().any(|one| one == name)
    }

    fn extents(&self) -> Result<Extents> {
        let of = |(_, one): &(usize, Adapter<'_>)| {
            [one.a.shape()[0], one.a.shape()[1], one.b.shape()[0]]
        };
        let mut all = self.layers.iter().map(of);
        let first = all.next().unwrap_or_default();
        match all.all(|one| one == first) {
            true => {
                let [rank, input, output] = first;
                Ok(Extents {
                    rank,
                    input,
                    output,
                })
            }
            false => {
                let reason = format!(
                    "the parts of {} have different extents, which PEFT's file cannot hold",
                    self.name
                );
                Err(NnError::mismatch("adapter", reason))
            }
        }
    }

    /// The rank and the alpha of the module in PEFT's configuration.
    ///
    /// # Errors
    /// Parts whose adapters have different numbers.
    pub fn numbers(&self, rules: &LoraRules) -> Result<(usize, f64)> {
        let of = |layer: &str| (rules.rank(layer), rules.alpha(layer));
        let mut all = self.layers.iter().map(|(_, one)| of(one.layer));
        let (rank, alpha) = all.next().unwrap_or_default();
        match all.all(|one| one == (rank, alpha)) {
            true => {
                let parts = self.layers.len();
                Ok((rank * parts, alpha * of_parts(parts, rules.config.rslora)))
            }
            false => {
                let reason = format!(
                    "the parts of {} have different ranks or alphas, which PEFT's file cannot hold; merge the \
                     adapters instead",
                    self.name
                );
                Err(NnError::mismatch("adapter", reason))
            }
        }
    }

    /// The rank of the module's adapter in files that are written.
    fn rank(&self, rank: usize) -> usize {
        rank * self.layers.len()
    }

    /// The module's factors.
    pub fn joined(&self) -> Result<[NamedTensor; 2]> {
        let Extents {
            rank,
            input,
            output,
        } = self.extents()?;
        let whole = self.rank(rank);
        let mut joined_a = Vec::with_capacity(whole * input);
        let mut joined_b = vec![0.0; self.n_parts * output * whole];
        for (place, (part, one)) in self.layers.iter().enumerate() {
            joined_a.extend(one.a.tensor()?.detach().to_vec::<f32>()?);
            let rows = one.b.tensor()?.detach().to_vec::<f32>()?;
            let into = joined_b[part * output * whole..].chunks_mut(whole);
            for (row, own) in into.zip(rows.chunks(rank)) {
                row[place * rank..(place + 1) * rank].copy_from_slice(own);
            }
        }
        let [a, b] = self.factors().map(|name| format!("{PREFIX}{name}"));
        Ok([
            (a, vec![whole, input], joined_a),
            (b, vec![self.n_parts * output, whole], joined_b),
        ])
    }

    /// The module's magnitudes, if its adapters are weight-decomposed.
    pub fn joined_magnitude(&self) -> Result<Option<NamedTensor>> {
        if !self.is_decomposed() {
            return Ok(None);
        }
        let mut rows = Vec::new();
        for part in 0..self.n_parts {
            let own = self.layers.iter().find(|(of, _)| *of == part);
            let Some(magnitude) = own.and_then(|(_, one)| one.magnitude) else {
                let reason = format!(
                    "some parts of {} have no adapter, whose magnitudes PEFT's file needs",
                    self.name
                );
                return Err(NnError::mismatch("adapter", reason));
            };
            rows.extend(magnitude.tensor()?.detach().to_vec::<f32>()?);
        }
        let name = format!("{PREFIX}{}", self.magnitude());
        Ok(Some((name, vec![rows.len()], rows)))
    }

    /// Each layer's parameters out of a file's.
    pub fn parts(&self, file: &SafeTensors<'_>) -> Result<Vec<(&Parameter, Vec<f32>)>> {
        let Extents {
            rank,
            input,
            output,
        } = self.extents()?;
        let [name_a, name_b] = self.factors();
        let (a, a_shape) = read(file, &name_a)?;
        let (mut left, b_shape) = read(file, &name_b)?;
        let whole = match a_shape[..] {
            [whole, _] if whole == self.rank(rank) => whole,
            _ => rank,
        };
        let rows = self.n_parts * output;
        expect(&name_a, &a_shape, &[whole, input])?;
        expect(&name_b, &b_shape, &[rows, whole])?;
        let mut parts = Vec::with_capacity(3 * self.layers.len());
        for (place, &(part, one)) in self.layers.iter().enumerate() {
            let first = if whole == rank { 0 } else { place * rank };
            parts.push((one.a, a[first * input..(first + rank) * input].to_vec()));
            let mut block = Vec::with_capacity(output * rank);
            for row in left[part * output * whole..].chunks_mut(whole).take(output) {
                let own = &mut row[first..first + rank];
                block.extend_from_slice(own);
                own.fill(0.0);
            }
            parts.push((one.b, block));
        }
        if left.iter().any(|&value| value != 0.0) {
            let reason = format!(
                "{PREFIX}{} of rank {whole} is not made of {} adapters of rank {rank}",
                self.name,
                self.layers.len()
            );
            return Err(NnError::mismatch("adapter", reason));
        }
        if self.is_decomposed() {
            let name = self.magnitude();
            let (values, shape) = read(file, &name)?;
            expect(&name, &shape, &[rows])?;
            for &(part, one) in &self.layers {
                let own = values[part * output..(part + 1) * output].to_vec();
                parts.extend(one.magnitude.map(|magnitude| (magnitude, own)));
            }
        }
        Ok(parts)
    }
}
