//! Where the tensors of an optimizer's state lie in its buffers.

use std::ops::Range;

use hlx_core::{Buffer, align_words};
use hlx_kernels::optimizer::eight_bit::{LEAST_PACKED, state_words};

use crate::{Result, Weights};

/// A tensor of an optimizer's state, and the piece of it that a buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSpan {
    /// The buffer's name, a slash and the parameter's name.
    pub name: String,
    /// The tensor's extents. Of bytes: the number of its words.
    pub shape: Vec<usize>,
    /// Where in the tensor the piece begins.
    pub first: usize,
    /// Where in the buffer it lies.
    pub at: usize,
    /// Its words; 0 if another process has the tensor.
    pub len: usize,
    /// What bytes stand for; `None` for floats.
    pub packed: Option<Packed>,
}

/// A moment in bytes, as [`hlx_kernels::optimizer::eight_bit`] has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The parameter's extents.
    pub shape: Vec<usize>,
    /// Whether it is the first moment, with signs.
    pub is_first: bool,
}

/// The layout of a state's buffer that is not that of the weights' values: one tensor after another, each from a
/// multiple of 64 words on, and of a process that updates a part only what it updates.
#[derive(Clone, Debug)]
pub struct OwnLayout {
    tensors: Vec<Planned>,
    /// The buffer is one number, which every process has.
    is_one_word: bool,
}

/// The tensor of a parameter.
#[derive(Clone, Debug)]
struct Planned {
    parameter_idx: usize,
    form: Form,
}

/// What a tensor holds.
#[derive(Clone, Debug)]
enum Form {
    /// A float of each element.
    Floats,
    /// A byte of each element.
    Bytes { is_first: bool },
    /// Floats of another shape, which one process has whole.
    Whole(Vec<usize>),
}

impl OwnLayout {
    /// One number of the whole state, named as its buffer.
    pub(super) const fn of_one_word() -> Self {
        Self {
            tensors: Vec::new(),
            is_one_word: true,
        }
    }

    /// A first or second moment of each trained parameter: bytes of those that are large enough.
    pub(super) fn of_bytes(weights: &Weights, is_first: bool) -> Self {
        let parameters = weights.parameters().iter().enumerate();
        let trained = parameters.filter(|(_, parameter)| parameter.requires_grad());
        let tensors = trained.map(|(parameter_idx, parameter)| Planned {
            parameter_idx,
            form: match parameter.n_elements() >= LEAST_PACKED {
                true => Form::Bytes { is_first },
                false => Form::Floats,
            },
        });
        Self {
            tensors: tensors.collect(),
            is_one_word: false,
        }
    }

    /// A tensor of each trained parameter that has a shape for it, which lies whole where the parameter is updated.
    pub(super) fn of_shapes(
        weights: &Weights,
        shape_of: impl Fn(&[usize]) -> Option<Vec<usize>>,
    ) -> Self {
        let parameters = weights.parameters().iter().enumerate();
        let trained = parameters.filter(|(_, parameter)| parameter.requires_grad());
        let tensors = trained.filter_map(|(parameter_idx, parameter)| {
            let form = Form::Whole(shape_of(parameter.shape())?);
            Some(Planned {
                parameter_idx,
                form,
            })
        });
        Self {
            tensors: tensors.collect(),
            is_one_word: false,
        }
    }

    /// The layout of the buffer of a name, where buffers and layouts are in the same order.
    pub(super) fn named<'a>(names: &[&str], layouts: &'a [Self], buffer: &str) -> Option<&'a Self> {
        layouts.get(names.iter().position(|name| *name == buffer)?)
    }

    /// The places of the parameters that have tensors.
    pub(super) fn parameters(&self) -> impl Iterator<Item = usize> {
        self.tensors.iter().map(|one| one.parameter_idx)
    }

    fn spans(&self, weights: &Weights, buffer: &str, words: &Range<usize>) -> Vec<StateSpan> {
        if self.is_one_word {
            return vec![StateSpan {
                name: buffer.to_owned(),
                shape: vec![1],
                first: 0,
                at: 0,
                len: 1,
                packed: None,
            }];
        }
        let (places, mut at) = (weights.spans(""), 0);
        let span = |one: &Planned| {
            let place = &places[one.parameter_idx];
            let n: usize = place.shape.iter().product();
            let [start, end] = elements(place.offset, n, words);
            let is_packed = matches!(one.form, Form::Bytes { .. });
            let word = |element: usize| state_words(element, is_packed);
            let (shape, [first, end]) = match &one.form {
                Form::Floats => (place.shape.clone(), [start, end]),
                Form::Bytes { .. } => (vec![word(n)], [word(start), word(end)]),
                Form::Whole(shape) => {
                    let len = shape.iter().product();
                    (shape.clone(), [0, if start < end { len } else { 0 }])
                }
            };
            let span = StateSpan {
                name: format!("{buffer}/{}", place.name),
                shape,
                first,
                at,
                len: end - first,
                packed: match one.form {
                    Form::Bytes { is_first } => Some(Packed {
                        shape: place.shape.clone(),
                        is_first,
                    }),
                    _ => None,
                },
            };
            at += align_words(span.len);
            span
        };
        self.tensors.iter().map(span).collect()
    }
}

/// The first and the end of the elements of a parameter at `offset` that lie in `words`; equal if none does.
pub(super) fn elements(offset: usize, n: usize, words: &Range<usize>) -> [usize; 2] {
    let inside = |word: usize| word.clamp(offset, offset + n) - offset;
    [inside(words.start), inside(words.end)]
}

/// Where the tensors of a state's buffer lie, in the order of its parameters: in a buffer of a layout that holds what
/// belongs to `words` of the weights' flat buffers, such as [`Weights::updated`] or all.
pub fn state_spans(
    layout: Option<&OwnLayout>,
    weights: &Weights,
    buffer: &str,
    words: Range<usize>,
) -> Vec<StateSpan> {
    if let Some(layout) = layout {
        return layout.spans(weights, buffer, &words);
    }
    let places = weights.spans(&format!("{buffer}/")).into_iter();
    let span = |place: hlx_kernels::tree_digest::TensorSpan| {
        let n = place.shape.iter().product();
        let [start, end] = elements(place.offset, n, &words);
        StateSpan {
            name: place.name,
            shape: place.shape,
            first: start,
            at: (place.offset + start).saturating_sub(words.start),
            len: end - start,
            packed: None,
        }
    };
    places.map(span).collect()
}

/// Makes a buffer of zeros of a layout, for what this process updates.
///
/// # Errors
/// What the device reports.
pub(super) fn zeros(layout: &OwnLayout, weights: &Weights) -> Result<Buffer> {
    let spans = layout.spans(weights, "", &weights.updated());
    let words = spans
        .last()
        .map_or(0, |last| last.at + align_words(last.len));
    weights.zeros(words)
}
