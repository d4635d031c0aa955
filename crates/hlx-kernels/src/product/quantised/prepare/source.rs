//! Where the numbers of an operand come from: memory, or what a kernel would have stored there.

use std::borrow::Cow;

use hlx_core::{Binding, Buffer, DType, multiversion};

use crate::Result;
use crate::activation::{Activation, forward_chunk};
use crate::error::{check_dtype, check_len};
use crate::lanes::rows_a_task;
use crate::norm::{Gain, normed_rows};
use crate::parallel::{for_each, read, write};

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
    /// A [norm](crate::norm).
    Norm {
        /// \[rows, columns\].
        x: &'a Buffer,
        /// \[rows, 2\], mean and rstd, or of an RMS norm \[rows\], rstd.
        stats: &'a Buffer,
        /// \[columns\].
        weight: &'a Buffer,
        /// \[columns\], of a layer norm.
        bias: Option<&'a Buffer>,
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
            | Self::Norm { x, .. } => x,
        }
    }

    /// What is read besides, in the order in which shaders bind it.
    fn others(&self) -> Vec<(&'static str, &'a Buffer)> {
        match *self {
            Self::Stored(_) | Self::Activation { .. } => vec![],
            Self::Gated { up, .. } => vec![("up", up)],
            Self::Norm {
                stats,
                weight,
                bias,
                ..
            } => {
                let bias = bias.map(|bias| ("bias", bias));
                let others = [("stats", stats), ("weight", weight)].into_iter();
                others.chain(bias).collect()
            }
        }
    }

    /// The bindings behind a shader's own.
    pub(in crate::product) fn bindings(&self) -> impl Iterator<Item = Binding<'a>> {
        let others = self.others().into_iter();
        others.map(|(_, buffer)| Binding::Read(buffer))
    }

    /// The place of its shader in a table of them.
    pub(in crate::product) fn index(&self) -> usize {
        match self {
            Self::Stored(_) => 0,
            Self::Activation { .. } => 1,
            Self::Gated { .. } => 2,
            Self::Norm { bias: Some(_), .. } => 3,
            Self::Norm { bias: None, .. } => 4,
        }
    }

    fn kind_of_activation(&self) -> Option<Activation> {
        match self {
            Self::Activation { kind, .. } | Self::Gated { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// The constant KIND.
    pub(in crate::product) fn kind(&self) -> Option<(u32, u32)> {
        self.kind_of_activation().map(|kind| (9, kind as u32))
    }

    /// Checks types and lengths for a matrix of this many rows and columns, which lie in this many elements.
    pub(in crate::product) fn check(
        &self,
        name: &'static str,
        reach: usize,
        [rows, columns]: [usize; 2],
    ) -> Result<()> {
        check_dtype(name, "x", self.first(), DType::F32)?;
        check_len(name, "x", self.first(), reach)?;
        let is_dense = matches!(self, Self::Stored(_)) || reach == rows * columns;
        check_that!(name, is_dense => "matrices apart from each other are computed from others")?;
        for (argument, buffer) in self.others() {
            let extents = match (argument, self) {
                ("up", _) => [rows, columns],
                ("stats", Self::Norm { bias: Some(_), .. }) => [rows, 2],
                ("stats", _) => [rows, 1],
                _ => [1, columns],
            };
            check_dtype(name, argument, buffer, DType::F32)?;
            check_len(name, argument, buffer, extents)?;
        }
        Ok(())
    }

    /// How the CPU device computes the numbers of rows of this many columns, from x and what is read besides.
    pub(in crate::product) fn on_the_cpu(
        &self,
        columns: usize,
    ) -> impl for<'x> Fn(&'x [f32], &[&'x [f32]]) -> Cow<'x, [f32]> + Send + Sync + use<> {
        let (kind, is_stored) = (self.kind_of_activation(), matches!(self, Self::Stored(_)));
        move |x, others| {
            if is_stored {
                return Cow::Borrowed(x);
            }
            let (mut y, rows) = (vec![0.0; x.len()], rows_a_task(columns));
            let tasks = (write(&mut y, rows * columns), read(x, rows * columns));
            for_each(tasks, |task, (y, x)| match (kind, others) {
                (Some(kind), []) => forward_chunk(kind, x, y),
                (Some(kind), others) => {
                    forward_chunk(kind, x, y);
                    multiply(y, &others[0][task * rows * columns..]);
                }
                (None, others) => {
                    let of_row = others.len() - 1;
                    let gain = Gain {
                        weight: others[1],
                        bias: others.get(2).copied(),
                    };
                    let stats = &others[0][task * rows * of_row..][..y.len() / columns * of_row];
                    normed_rows(x, stats, gain, y);
                }
            });
            Cow::Owned(y)
        }
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
