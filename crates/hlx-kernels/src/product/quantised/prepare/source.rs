//! Where the numbers of an operand come from: memory, or what a kernel would have stored there.

use std::borrow::Cow;

use hlx_core::{Binding, Buffer, DType, multiversion};
use rayon::prelude::*;

use super::check_dtype;
use crate::KernelError;
use crate::activation::{Activation, forward_chunk};
use crate::error::{check_len, check_that};
use crate::lanes::rows_a_task;
use crate::norm::{Gain, normed_rows};

/// The numbers of a matrix \[rows, columns\], with the bits of the kernel that computes them; they are stored nowhere.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Those of a buffer.
    Stored(&'a Buffer),
    /// `f(x)`.
    Activation {
        /// f.
        kind: Activation,
        /// \[rows, columns\].
        x: &'a Buffer,
    },
    /// `f(x) up`, the product rounded.
    Gated {
        /// f.
        kind: Activation,
        /// \[rows, columns\].
        x: &'a Buffer,
        /// \[rows, columns\].
        up: &'a Buffer,
    },
    /// A [layer norm](crate::norm).
    LayerNorm {
        /// \[rows, columns\].
        x: &'a Buffer,
        /// \[rows, 2\], mean and rstd.
        stats: &'a Buffer,
        /// \[columns\].
        weight: &'a Buffer,
        /// \[columns\].
        bias: &'a Buffer,
    },
    /// An [RMS norm](crate::norm).
    RmsNorm {
        /// \[rows, columns\].
        x: &'a Buffer,
        /// \[rows\], rstd.
        stats: &'a Buffer,
        /// \[columns\].
        weight: &'a Buffer,
    },
}

impl<'a> From<&'a Buffer> for Source<'a> {
    fn from(buffer: &'a Buffer) -> Self {
        Self::Stored(buffer)
    }
}

impl<'a> Source<'a> {
    /// The buffer whose elements lie as the numbers do.
    pub(crate) fn first(&self) -> &'a Buffer {
        match *self {
            Self::Stored(x)
            | Self::Activation { x, .. }
            | Self::Gated { x, .. }
            | Self::LayerNorm { x, .. }
            | Self::RmsNorm { x, .. } => x,
        }
    }

    /// What is read besides, in the order in which shaders bind it.
    fn others(&self) -> Vec<(&'static str, &'a Buffer)> {
        match *self {
            Self::Stored(_) | Self::Activation { .. } => vec![],
            Self::Gated { up, .. } => vec![("up", up)],
            Self::LayerNorm {
                stats,
                weight,
                bias,
                ..
            } => vec![("stats", stats), ("weight", weight), ("bias", bias)],
            Self::RmsNorm { stats, weight, .. } => vec![("stats", stats), ("weight", weight)],
        }
    }

    /// The bindings behind a shader's own.
    pub(super) fn bindings(&self) -> impl Iterator<Item = Binding<'a>> {
        let others = self.others().into_iter();
        others.map(|(_, buffer)| Binding::Read(buffer))
    }

    /// The constant KIND.
    pub(super) fn kind(&self) -> Option<(u32, u32)> {
        match self {
            Self::Activation { kind, .. } | Self::Gated { kind, .. } => Some((9, *kind as u32)),
            _ => None,
        }
    }

    /// Checks types and lengths for a matrix of so many rows and columns, which lie in so many elements.
    pub(super) fn check(
        &self,
        name: &'static str,
        reach: usize,
        [rows, columns]: [usize; 2],
    ) -> Result<(), KernelError> {
        check_dtype(name, "x", self.first(), DType::F32)?;
        check_len(name, "x", self.first(), reach)?;
        let is_dense = matches!(self, Self::Stored(_)) || reach == rows * columns;
        check_that(name, is_dense, || {
            "matrices apart from each other are computed from others".to_owned()
        })?;
        for (argument, buffer) in self.others() {
            let extents = match (argument, self) {
                ("up", _) => [rows, columns],
                ("stats", Self::LayerNorm { .. }) => [rows, 2],
                ("stats", _) => [rows, 1],
                _ => [1, columns],
            };
            check_dtype(name, argument, buffer, DType::F32)?;
            check_len(name, argument, buffer, extents)?;
        }
        Ok(())
    }

    /// How the CPU device computes the numbers of rows of so many columns, from x and what is read besides.
    pub(super) fn on_the_cpu(
        &self,
        columns: usize,
    ) -> impl for<'x> Fn(&'x [f32], &[&'x [f32]]) -> Cow<'x, [f32]> + Send + Sync + 'static {
        let form = match *self {
            Self::Stored(_) => Form::Stored,
            Self::Activation { kind, .. } => Form::Activation(kind),
            Self::Gated { kind, .. } => Form::Gated(kind),
            Self::LayerNorm { .. } => Form::LayerNorm,
            Self::RmsNorm { .. } => Form::RmsNorm,
        };
        move |x, others| form.values(x, others, columns)
    }
}

/// The kind of a source.
#[derive(Clone, Copy)]
enum Form {
    Stored,
    Activation(Activation),
    Gated(Activation),
    LayerNorm,
    RmsNorm,
}

impl Form {
    fn values<'x>(self, x: &'x [f32], others: &[&'x [f32]], columns: usize) -> Cow<'x, [f32]> {
        if let Self::Stored = self {
            return Cow::Borrowed(x);
        }
        let mut y = vec![0.0; x.len()];
        let tasks = y.par_chunks_mut(rows_a_task(columns) * columns.max(1));
        let tasks = tasks.zip(x.par_chunks(rows_a_task(columns) * columns.max(1)));
        tasks.enumerate().for_each(|(task, (y, x))| {
            let first = task * rows_a_task(columns);
            let stats = |of_row: usize| &others[0][first * of_row..][..y.len() / columns * of_row];
            match self {
                Self::Stored => {}
                Self::Activation(kind) => forward_chunk(kind, x, y),
                Self::Gated(kind) => {
                    forward_chunk(kind, x, y);
                    multiply(y, &others[0][first * columns..]);
                }
                Self::LayerNorm | Self::RmsNorm => {
                    let gain = Gain {
                        weight: others[1],
                        bias: others.get(2).copied(),
                    };
                    normed_rows(x, stats(others.len() - 1), gain, y);
                }
            }
        });
        Cow::Owned(y)
    }
}

multiversion! {
    /// `y = y up`.
    fn multiply<A>(y: &mut [f32], up: &[f32]) {
        for (y, up) in y.iter_mut().zip(up) {
            *y = A::mul(*y, *up);
        }
    }
}
