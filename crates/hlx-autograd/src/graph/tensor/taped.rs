//! How the output of an operation gets its place on the tape.

use std::sync::Arc;

use hlx_core::{Buffer, Device};

use super::check_count;
use crate::graph::backward::{Backward, Gradient};
use crate::graph::input::Input;
use crate::graph::tape::{Node, Rule, gradients_enabled, note};
use crate::samples::Samples;
use crate::{Result, Tensor};

impl Tensor {
    /// Makes the output of an operation and puts on the tape how to differentiate it.
    ///
    /// `backward` takes the output's gradient and hands each input's to the pass (see
    /// [`Backward`]). It goes on the tape, with all it captures, only if one of `inputs` requires a
    /// gradient and this thread is not within [`no_grad`](crate::no_grad). Capture the tensors that
    /// the derivative reads and [`Tensor::input`] of the others: captured tensors hold their memory, and
    /// reading one in `backward` that was changed in place since is an error
    /// ([`AutogradError::Changed`](crate::AutogradError::Changed)); of a captured buffer nobody would know. To save the output itself,
    /// capture a tensor made of its buffer: the output would hold itself.
    ///
    /// The output's samples are those of the inputs, if they agree; an operation that moves them
    /// says so with [`Tensor::with_samples_of`].
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if the shape's product is not the buffer's length,
    /// [`AutogradError::Device`](crate::AutogradError::Device) if the inputs are not of one device.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "let (place, copy) = (x.input(), device.alloc(6)?);",
        "device.copy(&x.buffer()?, &copy)?;",
        "let y = Tensor::from_operation(\"mine\", &[&x], copy, x.shape(), move |pass, dy| pass.add(&place, dy))?;",
        "y.sum()?.backward()?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0; 6]);"
    )]
    pub fn from_operation(
        op: &'static str,
        inputs: &[&Tensor],
        buffer: Buffer,
        shape: &[usize],
        backward: impl FnOnce(&mut Backward<'_>, Gradient) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        check_count(op, buffer.len(), shape)?;
        let rule = || Rule::Once(Box::new(backward));
        let input = Self::place(op, inputs, (shape, buffer.len()), rule)?;
        let samples = Samples::join(inputs.iter().map(|input| input.samples()));
        let samples = samples.moved(|axis| Some(axis).filter(|&axis| axis < shape.len()));
        Self::dense_over(inputs[0].device(), buffer, shape, samples, input)
    }

    /// As [`Tensor::from_operation`], of an operation whose derivative is made of operations on tensors, which a
    /// recorded pass can differentiate again: `backward` takes the gradient of the output and returns those of
    /// `inputs`, in order, and `None` for what has none.
    ///
    /// # Errors
    /// As [`Tensor::from_operation`].
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "let twice = x.detach().mul(2.0)?.buffer()?;",
        "let y = Tensor::from_tensors(\"twice\", &[&x], twice, &[2, 3], |dy| Ok(vec![Some(dy.mul(2.0)?)]))?;",
        "assert_eq!(y.sum()?.gradients(&[&x], true)?[0].as_ref().unwrap().to_vec::<f32>()?, [2.0; 6]);"
    )]
    pub fn from_tensors(
        op: &'static str,
        inputs: &[&Tensor],
        buffer: Buffer,
        shape: &[usize],
        backward: impl Fn(&Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let places: Vec<Input> = inputs.iter().map(|input| input.input()).collect();
        Self::of_rule(op, inputs, (buffer, shape), move |pass, dy, _| {
            for (place, gradient) in places.iter().zip(backward(dy)?) {
                if let Some(gradient) = gradient.filter(|_| place.requires_grad()) {
                    pass.add_tensor(place, &gradient)?;
                }
            }
            Ok(())
        })
    }

    /// The output of an operation whose derivative is made of operations: `rule(pass, dy, None)` hands
    /// the gradients of the inputs to the pass.
    pub(crate) fn of_rule(
        op: &'static str,
        inputs: &[&Tensor],
        output: (Buffer, &[usize]),
        rule: impl Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::of_saving_rule(op, inputs, output, false, rule)
    }

    /// As [`Tensor::of_rule`], of a rule that gets the output too: `rule(pass, dy, Some(y))`.
    pub(crate) fn of_output_rule(
        op: &'static str,
        inputs: &[&Tensor],
        output: (Buffer, &[usize]),
        rule: impl Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::of_saving_rule(op, inputs, output, true, rule)
    }

    fn of_saving_rule(
        op: &'static str,
        inputs: &[&Tensor],
        output: (Buffer, &[usize]),
        saves_output: bool,
        rule: impl Fn(&mut Backward<'_>, &Tensor, Option<&Tensor>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let (buffer, shape) = output;
        check_count(op, buffer.len(), shape)?;
        let samples = Samples::join(inputs.iter().map(|input| input.samples()));
        let samples = samples.moved(|axis| Some(axis).filter(|&axis| axis < shape.len()));
        let (device, len) = (inputs[0].device(), buffer.len());
        let constant = Input::constant(len);
        let values = Self::dense_over(device, buffer, shape, samples, constant)?;
        let output = saves_output.then(|| values.clone());
        let rule = Arc::new(rule);
        let input = Self::place(op, inputs, (shape, len), || Rule::Tensors { rule, output })?;
        Ok(values.at(input))
    }

    /// The place on the tape of an operation's output: a node if a gradient is wanted.
    pub(crate) fn place(
        op: &'static str,
        inputs: &[&Tensor],
        output: (&[usize], usize),
        rule: impl FnOnce() -> Rule,
    ) -> Result<Input> {
        let others = inputs.iter().map(|input| ("an input", Some(*input)));
        inputs[0].same_device(op, others)?;
        Self::place_on(inputs[0].device(), op, inputs, output, rule)
    }

    /// As [`Tensor::place`], of an output in a device of its own.
    pub(crate) fn place_on(
        device: &Device,
        op: &'static str,
        inputs: &[&Tensor],
        output: (&[usize], usize),
        rule: impl FnOnce() -> Rule,
    ) -> Result<Input> {
        let (shape, n_elements) = output;
        inputs.iter().for_each(|input| note(input));
        if gradients_enabled() {
            inputs
                .iter()
                .try_for_each(|input| input.check_history(op))?;
        }
        let tracked = gradients_enabled() && inputs.iter().any(|input| input.requires_grad());
        if !tracked {
            return Ok(Input::constant(n_elements));
        }
        let producers = inputs.iter().filter_map(|input| input.0.input.node());
        let node = Node::new(
            op,
            device.clone(),
            shape,
            producers.cloned().collect(),
            rule(),
        );
        Ok(Input::operation(node, n_elements))
    }
}
