//! A row of the tables: a call with the text of its arguments, and the shapes of its inputs.

use hlx_autograd::{DType, Result, Tensor};
use hlx_core::Bool;

/// What a row calls, with its inputs.
pub type Call = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

/// A call of a method.
pub struct Row {
    pub method: &'static str,
    /// The arguments as the source has them, without white space.
    pub arguments: Vec<String>,
    pub shapes: Vec<&'static [usize]>,
    /// The shards by which the backward pass sums.
    pub shards: usize,
    pub call: Call,
}

impl Row {
    pub fn new(
        method: &'static str,
        arguments: &[&str],
        shapes: &[&'static [usize]],
        call: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + 'static,
    ) -> Self {
        let without_space = |text: &&str| text.split_whitespace().collect();
        Self {
            method,
            arguments: arguments.iter().map(without_space).collect(),
            shapes: shapes.to_vec(),
            shards: 1,
            call: Box::new(call),
        }
    }

    /// The call, for messages.
    pub fn text(&self) -> String {
        format!("{}({})", self.method, self.arguments.join(", "))
    }
}

/// What methods return, as a list.
pub trait Outcome {
    fn tensors(self) -> Vec<Tensor>;
}

impl Outcome for Tensor {
    fn tensors(self) -> Vec<Tensor> {
        vec![self]
    }
}

impl Outcome for (Tensor, Tensor) {
    fn tensors(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}

impl Outcome for Vec<Tensor> {
    fn tensors(self) -> Vec<Tensor> {
        self
    }
}

/// Rows of methods: the shapes of the inputs `x`, the receiver and the call.
macro_rules! rows {
    ($x:ident: $([$($shape:expr),*] ($($receiver:tt)+).$method:ident($($argument:expr),* $(,)?);)+) => {
        vec![$(crate::row::Row::new(
            stringify!($method),
            &[$(stringify!($argument)),*],
            &[$(&$shape),*],
            |$x: &[hlx_autograd::Tensor]| {
                let value = $($receiver)+.$method($($argument),*)?;
                Ok(crate::row::Outcome::tensors(value))
            },
        )),+]
    };
}

/// Rows of functions of a list of tensors.
macro_rules! functions {
    ($x:ident: $([$($shape:expr),*] $method:ident($($argument:expr),* $(,)?);)+) => {
        vec![$(crate::row::Row::new(
            stringify!($method),
            &[$(stringify!($argument)),*],
            &[$(&$shape),*],
            |$x: &[hlx_autograd::Tensor]| {
                let value = hlx_autograd::Tensor::$method($($argument),*)?;
                Ok(crate::row::Outcome::tensors(value))
            },
        )),+]
    };
}

/// Rows of operations in place, on the sum of the first input and 0.
macro_rules! in_place {
    ($x:ident: $([$($shape:expr),*] $method:ident($($argument:expr),* $(,)?);)+) => {
        vec![$(crate::row::Row::new(
            stringify!($method),
            &[$(stringify!($argument)),*],
            &[$(&$shape),*],
            |$x: &[hlx_autograd::Tensor]| {
                let mut written = $x[0].add(0.0)?;
                written.$method($($argument),*)?;
                Ok(vec![written])
            },
        )),+]
    };
}

pub(crate) use {functions, in_place, rows};

/// Ids beside a tensor.
pub fn ids(x: &Tensor, ids: &[u32], shape: &[usize]) -> Tensor {
    Tensor::from_slice::<u32>(x.device(), ids, shape).expect("uploads")
}

/// A mask that holds at every second element.
pub fn mask(x: &Tensor, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let held = (0..n).map(|at| Bool::from(at % 2 == 0)).collect::<Vec<_>>();
    Tensor::from_slice(x.device(), &held, shape).expect("uploads")
}

/// Ones of f32, as factors of a loss.
pub fn ones(x: &Tensor, shape: &[usize]) -> Tensor {
    Tensor::ones(x.device(), shape, DType::F32).expect("memory")
}
