//! Mixtures of experts: rows of tokens through the weights that were chosen for them, and no others.

#[cfg(test)]
mod tests;

use hlx_core::{Arithmetic, Buffer, DType, Device, sizes};
use hlx_kernels::embedding::embedding_forward;
use hlx_kernels::experts::{Choices, ExpertsTable, experts_bounds, experts_sum, experts_table};
use hlx_kernels::product::blocks::BlockRows;
use hlx_kernels::product::{
    ExpertsGradient, ExpertsProduct, Matrices, Operand, Role, experts_block_product,
    experts_product,
};

use crate::graph::tape::wants_gradient;
use crate::samples::Samples;
use crate::{Backward, Batch, Gradient, Input, Result, Tensor};

/// Which experts each token has chosen, for [`Tensor::to_experts`], [`Tensor::experts_linear`] and
/// [`Tensor::from_experts`]. How many tokens are an expert's is known on the device alone, so that a
/// recorded pass can be replayed with other tokens. Clones share the memory.
#[derive(Clone, Debug)]
pub struct ExpertChoices {
    /// What the table was made of; it says in which device that was.
    chosen: Tensor,
    choices: Choices,
    /// The extents of the tokens.
    tokens: Vec<usize>,
    batch: Batch,
    table: ExpertsTable,
    /// Where each expert's rows begin.
    bounds: Buffer,
}

impl ExpertChoices {
    /// Sorts the choices of tokens: `chosen` holds u32 numbers below `experts`, \[.., J\], ascending and
    /// no number twice in each row; its samples are those of the tokens.
    ///
    /// # Errors
    /// [`AutogradError::DType`](crate::AutogradError::DType) unless it holds ids, and a kernel error for
    /// more choices than experts.
    #[doc = example!(
        "// Three tokens, each with two of three experts: expert 1 has the first and the last token.",
        "let chosen = Tensor::from_slice::<u32>(&device, &[0, 1, 0, 2, 1, 2], &[3, 2])?;",
        "let choices = ExpertChoices::new(&chosen, 3)?;",
        "let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0], &[3, 1])?;",
        "let rows = x.to_experts(&choices)?;",
        "assert_eq!(rows.to_vec::<f32>()?, [1.0, 2.0, 1.0, 3.0, 2.0, 3.0]);",
        "let weights = [10.0, 20.0, 30.0].map(|w| Tensor::full(&device, &[1, 1], w, DType::F32));",
        "let weights = weights.into_iter().collect::<Result<Vec<_>>>()?;",
        "let y = rows.experts_linear(&weights, &choices)?;",
        "let halves = Tensor::full(&device, &[3, 2], 0.5, DType::F32)?;",
        "assert_eq!(y.from_experts(&halves, &choices)?.to_vec::<f32>()?, [15.0, 40.0, 75.0]);"
    )]
    pub fn new(chosen: &Tensor, experts: usize) -> Result<Self> {
        const OP: &str = "experts";
        chosen.expect_type(OP, "chosen", DType::U32)?;
        let &[ref tokens @ .., per_token] = chosen.shape() else {
            return Err(chosen.shape_error(OP, "chosen", "[.., choices]"));
        };
        let (device, tokens) = (chosen.device(), tokens.to_vec());
        let choices = Choices {
            tokens: tokens.iter().product(),
            per_token,
            experts,
        };
        let table = experts_table(device, &chosen.buffer()?, &choices)?;
        let bounds = bounds_of(device, &table, 1, &choices)?;
        Ok(Self {
            chosen: chosen.detach(),
            choices,
            tokens,
            batch: chosen.batch(),
            table,
            bounds,
        })
    }

    /// The rows of all experts: the choices of all tokens.
    pub fn rows(&self) -> usize {
        self.choices.rows()
    }

    fn device(&self) -> &Device {
        self.chosen.device()
    }

    fn shape(&self, last: usize) -> Vec<usize> {
        [&self.tokens[..], &[last]].concat()
    }

    /// u32 numbers of the table as a tensor.
    fn ids(&self, buffer: &Buffer, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_buffer(self.device(), buffer.clone(), shape)
    }
}

/// Where the rows of each expert and shard begin.
fn bounds_of(
    device: &Device,
    table: &ExpertsTable,
    shards: usize,
    choices: &Choices,
) -> Result<Buffer> {
    let groups = sizes::product("experts", &[choices.experts, shards])?;
    let bounds = device.alloc_typed(DType::U32, groups + 1)?;
    experts_bounds(device, table, &bounds, shards, choices)?;
    Ok(bounds)
}

/// Adds up the gradients of the weights that want one, from dy and x with their widths; `dy_rows` is dy as the operand of
/// another product.
fn add_weight_gradients(
    pass: &mut Backward<'_>,
    places: &[Input],
    values: [&Buffer; 2],
    dy_rows: Option<&Operand>,
    widths: [usize; 2],
    choices: &ExpertChoices,
) -> Result<()> {
    let (device, shards) = (pass.device().clone(), pass.shards());
    let bounds = match shards {
        1 => choices.bounds.clone(),
        shards => bounds_of(&device, &choices.table, shards, &choices.choices)?,
    };
    let shard_tokens = choices.choices.tokens / shards.max(1);
    let gradient = ExpertsGradient::new(&device, values, dy_rows, widths, &bounds, shard_tokens)?;
    let wanted = places.iter().enumerate();
    for (expert, place) in wanted.filter(|(_, place)| place.requires_grad()) {
        pass.parameter(place, choices.batch, |device, target, shards| {
            gradient.of_weight(device, [expert, shards], &target.buffer, target.accumulate)
        })?;
    }
    Ok(())
}

impl Tensor {
    /// Copies each token's row once for every expert that it has chosen, sorted by expert and token:
    /// \[.., C\] to \[rows, C\]. The gradient of a token is a chain over its choices by expert.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for another number of tokens.
    pub fn to_experts(&self, choices: &ExpertChoices) -> Result<Tensor> {
        const OP: &str = "to_experts";
        self.same_device(OP, [("choices", Some(&choices.chosen))])?;
        self.expect_type(OP, "x", DType::F32)?;
        let &[.., width] = self.shape() else {
            return Err(self.shape_error(OP, "x", "[.., width]"));
        };
        self.expect_shape(OP, "x", &choices.shape(width))?;
        let (device, rows, tokens) = (self.device(), choices.rows(), choices.choices.tokens);
        let y = device.alloc_shape(&[rows, width])?;
        embedding_forward(
            device,
            &choices.table.rows,
            &self.buffer()?,
            &y,
            rows,
            tokens,
            width,
        )?;
        let (x, choices) = (self.input(), choices.clone());
        let y = Tensor::from_operation(OP, &[self], y, &[rows, width], move |pass, dy| {
            let dx = pass.device().alloc_shape(&[tokens, width])?;
            let (slots, sizes) = (&choices.table.slots, &choices.choices);
            experts_sum(pass.device(), &dy.buffer()?, None, slots, &dx, sizes, width)?;
            pass.add(&x, Gradient::owned(dx))
        })?;
        Ok(y.with_samples_of(Samples::Lost))
    }

    /// Multiplies the rows of each expert with its weight, y = x Wᵀ: \[rows, K\] to \[rows, N\], each
    /// weight \[N, K\]. The bits are those of [`Tensor::linear`] over an expert's rows alone, and a
    /// weight's gradient is one chain over its tokens in order, by shards, or one sum over quantised operands.
    ///
    /// Weights in blocks are multiplied as they lie where [`Tensor::takes_experts_in_blocks`] says so; elsewhere their values are.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for weights of several shapes, or not one for
    /// each expert.
    pub fn experts_linear(&self, weights: &[Tensor], choices: &ExpertChoices) -> Result<Tensor> {
        const OP: &str = "experts_linear";
        self.same_device(OP, [("choices", Some(&choices.chosen))])?;
        self.expect_type(OP, "x", DType::F32)?;
        let (rows, experts) = (choices.rows(), choices.choices.experts);
        let (&[found, k], Some(first)) = (self.shape(), weights.first()) else {
            return Err(self.shape_error(OP, "x", "[rows, K] and some experts"));
        };
        if found != rows || weights.len() != experts {
            let weights = weights.len();
            let expected = format!("[{rows}, K] and {experts} weights, found {weights}");
            return Err(self.shape_error(OP, "x", expected));
        }
        let n = first.shape().first().copied().unwrap_or(0);
        for weight in weights {
            self.same_device(OP, [("a weight", Some(weight))])?;
            weight.expect_type(OP, "a weight", DType::F32)?;
            weight.expect_shape(OP, "a weight", &[n, k])?;
        }
        let (device, y) = (self.device(), self.device().alloc_shape(&[rows, n])?);
        let blocks = weights.iter().map(|weight| weight.in_blocks().cloned());
        if let Some(blocks) = blocks.collect::<Option<Vec<BlockRows>>>()
            && rows * n > 0
            && self.takes_experts_in_blocks()
        {
            let of = Matrices::rows(1, rows, k);
            let x = self.product_operand(Role::Signal, of, || self.buffer())?;
            experts_block_product(device, &x, &blocks, &choices.bounds, &y)?;
            let y = Self::from_buffer(device, y, &[rows, n])?;
            return Ok(y.with_samples_of(Samples::Lost));
        }
        let values = weights.iter().map(Tensor::buffer);
        let values = values.collect::<Result<Vec<Buffer>>>()?;
        let product = ExpertsProduct {
            rows,
            n,
            k,
            trans_b: true,
        };
        let of = Matrices::rows(1, rows, k);
        let x = Operand::new(device, Role::Signal, &self.buffer()?, of)?;
        experts_product(device, &x, &values, &choices.bounds, &y, &product)?;
        let wants_weights = weights.iter().any(Tensor::requires_grad);
        let saved_x = wants_weights.then(|| self.save()).transpose()?;
        let saved_weights = weights
            .iter()
            .zip(&values)
            .map(|(w, values)| w.save_values(values));
        let saved_weights: Vec<_> = saved_weights.filter(|_| self.requires_grad()).collect();
        let (x, places) = (self.input(), weights.iter().map(Tensor::input));
        let (places, choices): (Vec<_>, _) = (places.collect(), choices.clone());
        let inputs: Vec<&Tensor> = [self].into_iter().chain(weights).collect();
        let y = Tensor::from_operation(OP, &inputs, y, &[rows, n], move |pass, dy| {
            let (device, dy) = (pass.device().clone(), dy.buffer()?);
            let of = Matrices::rows(1, rows, n);
            let dy_rows = x
                .requires_grad()
                .then(|| Operand::new(&device, Role::Gradient, &dy, of))
                .transpose()?;
            if let Some(saved_x) = &saved_x {
                let (values, rows) = ([&dy, &saved_x.values()?], dy_rows.as_ref());
                add_weight_gradients(pass, &places, values, rows, [n, k], &choices)?;
            }
            let Some(dy_rows) = dy_rows else {
                return Ok(());
            };
            let values = saved_weights.iter().map(crate::graph::saved::Saved::values);
            let values = values.collect::<Result<Vec<Buffer>>>()?;
            let dx = device.alloc_shape(&[rows, k])?;
            let product = ExpertsProduct {
                rows,
                n: k,
                k: n,
                trans_b: false,
            };
            experts_product(&device, &dy_rows, &values, &choices.bounds, &dx, &product)?;
            pass.add(&x, Gradient::owned(dx))
        })?;
        Ok(y.with_samples_of(Samples::Lost))
    }

    /// Whether [`Tensor::experts_linear`] multiplies these rows by weights in blocks as they lie: in the `integer` arithmetic,
    /// where no gradient of the rows is wanted.
    #[doc = example!(x: "assert!(!x.takes_experts_in_blocks());")]
    pub fn takes_experts_in_blocks(&self) -> bool {
        let is_integer = self.device().product_arithmetic() == Arithmetic::Integer;
        is_integer && !wants_gradient(&mut [self].into_iter())
    }

    /// Adds up, for each token, the rows that its experts have made, times `weights` \[.., J\]: \[rows, C\]
    /// to \[.., C\]. Products are rounded, and added by expert from +0.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for another number of rows or weights.
    pub fn from_experts(&self, weights: &Tensor, choices: &ExpertChoices) -> Result<Tensor> {
        const OP: &str = "from_experts";
        self.same_device(
            OP,
            [
                ("weights", Some(weights)),
                ("choices", Some(&choices.chosen)),
            ],
        )?;
        self.expect_type(OP, "x", DType::F32)?;
        weights.expect_type(OP, "weights", DType::F32)?;
        weights.expect_shape(OP, "weights", &choices.shape(choices.choices.per_token))?;
        let rows = choices.rows();
        let width = match *self.shape() {
            [found, width] if found == rows => width,
            _ => return Err(self.shape_error(OP, "x", format!("[{rows}, width]"))),
        };
        let (device, shape) = (self.device(), choices.shape(width));
        let y = device.alloc_shape(&[choices.choices.tokens, width])?;
        let (slots, sizes) = (&choices.table.slots, &choices.choices);
        experts_sum(
            device,
            &self.buffer()?,
            Some(&weights.buffer()?),
            slots,
            &y,
            sizes,
            width,
        )?;
        let samples = weights.samples().unless_along(shape.len() - 1);
        let (x, factors, choices) = (self.clone(), weights.clone(), choices.clone());
        let places = [self.input(), weights.input()];
        let y = Tensor::of_rule(OP, &[self, weights], (y, &shape), move |pass, dy, _| {
            let tokens = choices.ids(&choices.table.rows, &[rows])?;
            let dy = dy
                .reshape(&[choices.choices.tokens, width])?
                .index_select(0, &tokens)?;
            if places[0].requires_grad() {
                let order = choices.ids(&choices.table.order, &[rows])?;
                let factors = factors.reshape(&[rows])?.index_select(0, &order)?;
                pass.add_tensor(&places[0], &dy.mul(factors.unsqueeze(1)?)?)?;
            }
            if places[1].requires_grad() {
                let slots = choices.ids(&choices.table.slots, &[rows])?;
                let of_rows = dy.mul(&x)?.sum_dim(&[1], false)?;
                let of_choices = of_rows.index_select(0, &slots)?;
                pass.add_tensor(&places[1], &of_choices.reshape(factors.shape())?)?;
            }
            Ok(())
        })?;
        Ok(y.with_samples_of(samples))
    }
}
