//! Mixtures of experts: rows of tokens through the weights that were chosen for them, and no others.

use hlx_core::{Buffer, Context, DType};
use hlx_kernels::embedding::embedding_forward;
use hlx_kernels::experts::{
    Choices, ExpertsProduct, ExpertsTable, experts_bounds, experts_product, experts_sum,
    experts_table, experts_weight_gradient,
};

use crate::samples::Samples;
use crate::{Batch, Gradient, Result, Tensor};

/// Which experts each token has chosen, for [`Tensor::to_experts`], [`Tensor::experts_linear`] and
/// [`Tensor::from_experts`]. How many tokens are an expert's is known on the device alone, so that a
/// recorded pass can be replayed with other tokens. Clones share the memory.
#[derive(Clone, Debug)]
pub struct ExpertChoices {
    /// What the table was made of; it says in which context that was.
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
        "let chosen = Tensor::ids(&ctx, &[0, 1, 0, 2, 1, 2], &[3, 2])?;",
        "let choices = ExpertChoices::new(&chosen, 3)?;",
        "let x = Tensor::from_slice(&ctx, &[1.0, 2.0, 3.0], &[3, 1])?;",
        "let rows = x.to_experts(&choices)?;",
        "assert_eq!(rows.to_vec()?, [1.0, 2.0, 1.0, 3.0, 2.0, 3.0]);",
        "let weights = [10.0, 20.0, 30.0].map(|w| Tensor::full(&ctx, &[1, 1], w, DType::F32));",
        "let weights = weights.into_iter().collect::<Result<Vec<_>>>()?;",
        "let y = rows.experts_linear(&weights, &choices)?;",
        "let halves = Tensor::full(&ctx, &[3, 2], 0.5, DType::F32)?;",
        "assert_eq!(y.from_experts(&halves, &choices)?.to_vec()?, [15.0, 40.0, 75.0]);"
    )]
    pub fn new(chosen: &Tensor, experts: usize) -> Result<Self> {
        const OP: &str = "experts";
        chosen.expect_type(OP, "chosen", DType::U32)?;
        let &[ref tokens @ .., per_token] = chosen.shape() else {
            return Err(chosen.shape_error(OP, "chosen", "[.., choices]"));
        };
        let (ctx, tokens) = (chosen.context(), tokens.to_vec());
        let choices = Choices {
            tokens: tokens.iter().product(),
            per_token,
            experts,
        };
        let table = experts_table(ctx, &chosen.buffer()?, &choices)?;
        let bounds = bounds_of(ctx, &table, 1, &choices)?;
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

    fn context(&self) -> &Context {
        self.chosen.context()
    }

    fn shape(&self, last: usize) -> Vec<usize> {
        [&self.tokens[..], &[last]].concat()
    }

    /// u32 numbers of the table as a tensor.
    fn ids(&self, buffer: &Buffer, shape: &[usize]) -> Result<Tensor> {
        Tensor::from_buffer(self.context(), buffer.clone(), shape)
    }
}

/// Where the rows of each expert and shard begin.
fn bounds_of(
    ctx: &Context,
    table: &ExpertsTable,
    shards: usize,
    choices: &Choices,
) -> Result<Buffer> {
    let bounds = ctx.alloc_typed(DType::U32, choices.experts * shards + 1)?;
    experts_bounds(ctx, table, &bounds, shards, choices)?;
    Ok(bounds)
}

impl Tensor {
    /// Copies each token's row once for every expert that it has chosen, sorted by expert and token:
    /// \[.., C\] to \[rows, C\]. The gradient of a token is a chain over its choices by expert.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for another number of tokens.
    pub fn to_experts(&self, choices: &ExpertChoices) -> Result<Tensor> {
        const OP: &str = "to_experts";
        self.same_context(OP, [("choices", Some(&choices.chosen))])?;
        self.expect_type(OP, "x", DType::F32)?;
        let &[.., width] = self.shape() else {
            return Err(self.shape_error(OP, "x", "[.., width]"));
        };
        self.expect_shape(OP, "x", &choices.shape(width))?;
        let (ctx, rows, tokens) = (self.context(), choices.rows(), choices.choices.tokens);
        let y = ctx.alloc(rows * width)?;
        embedding_forward(
            ctx,
            &choices.table.rows,
            &self.buffer()?,
            &y,
            rows,
            tokens,
            width,
        )?;
        let (x, choices) = (self.input(), choices.clone());
        let y = Tensor::from_operation(OP, &[self], y, &[rows, width], move |pass, dy| {
            let dx = pass.context().alloc(tokens * width)?;
            let (slots, sizes) = (&choices.table.slots, (&choices.choices, width));
            experts_sum(pass.context(), &dy.buffer()?, None, slots, &dx, sizes)?;
            pass.add(&x, Gradient::owned(dx))
        })?;
        Ok(y.with_samples_of(Samples::Lost))
    }

    /// Multiplies the rows of each expert with its weight, y = x Wᵀ: \[rows, K\] to \[rows, N\], each
    /// weight \[N, K\]. The bits are those of [`Tensor::linear`] over an expert's rows alone, and a
    /// weight's gradient is one chain over its tokens in order, by shards.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for weights of several shapes, or not one for
    /// each expert.
    pub fn experts_linear(&self, weights: &[Tensor], choices: &ExpertChoices) -> Result<Tensor> {
        const OP: &str = "experts_linear";
        self.same_context(OP, [("choices", Some(&choices.chosen))])?;
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
            self.same_context(OP, [("a weight", Some(weight))])?;
            weight.expect_type(OP, "a weight", DType::F32)?;
            weight.expect_shape(OP, "a weight", &[n, k])?;
        }
        let (ctx, y) = (self.context(), self.context().alloc(rows * n)?);
        let values = weights.iter().map(Tensor::buffer);
        let values = values.collect::<Result<Vec<Buffer>>>()?;
        let product = ExpertsProduct {
            rows,
            n,
            k,
            trans_b: true,
        };
        experts_product(ctx, &self.buffer()?, &values, &choices.bounds, &y, &product)?;
        let wants_weights = weights.iter().any(Tensor::requires_grad);
        let saved_x = wants_weights.then(|| self.save()).transpose()?;
        let kept = weights
            .iter()
            .zip(&values)
            .map(|(w, values)| w.keep(values));
        let kept: Vec<_> = kept.filter(|_| self.requires_grad()).collect();
        let (x, places) = (self.input(), weights.iter().map(Tensor::input));
        let (places, choices): (Vec<_>, _) = (places.collect(), choices.clone());
        let inputs: Vec<&Tensor> = [self].into_iter().chain(weights).collect();
        let y = Tensor::from_operation(OP, &inputs, y, &[rows, n], move |pass, dy| {
            let (ctx, dy) = (pass.context().clone(), dy.buffer()?);
            if let Some(saved_x) = &saved_x {
                let saved_x = saved_x.values()?;
                let bounds = match pass.shards() {
                    1 => choices.bounds.clone(),
                    shards => bounds_of(&ctx, &choices.table, shards, &choices.choices)?,
                };
                let wanted = places.iter().enumerate();
                for (expert, place) in wanted.filter(|(_, place)| place.requires_grad()) {
                    pass.parameter(place, choices.batch, |ctx, target, shards| {
                        let target = (&target.buffer, target.accumulate);
                        let of = (&bounds, expert, shards);
                        experts_weight_gradient(ctx, (&dy, n), (&saved_x, k), of, target)
                    })?;
                }
            }
            if !x.requires_grad() {
                return Ok(());
            }
            let values = kept.iter().map(crate::saved::Saved::values);
            let values = values.collect::<Result<Vec<Buffer>>>()?;
            let dx = ctx.alloc(rows * k)?;
            let product = ExpertsProduct {
                rows,
                n: k,
                k: n,
                trans_b: false,
            };
            experts_product(&ctx, &dy, &values, &choices.bounds, &dx, &product)?;
            pass.add(&x, Gradient::owned(dx))
        })?;
        Ok(y.with_samples_of(Samples::Lost))
    }

    /// Adds up, for each token, the rows that its experts have made, times `weights` \[.., J\]: \[rows, C\]
    /// to \[.., C\]. Products are rounded, and added by expert from +0.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for another number of rows or weights.
    pub fn from_experts(&self, weights: &Tensor, choices: &ExpertChoices) -> Result<Tensor> {
        const OP: &str = "from_experts";
        self.same_context(
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
        let (ctx, shape) = (self.context(), choices.shape(width));
        let y = ctx.alloc(choices.choices.tokens * width)?;
        let (slots, sizes) = (&choices.table.slots, (&choices.choices, width));
        experts_sum(
            ctx,
            &self.buffer()?,
            Some(&weights.buffer()?),
            slots,
            &y,
            sizes,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackwardPlan;
    use crate::ops::test_support::{check, input, message};

    /// 6 tokens of 2 samples; expert 2 of 4 has none.
    fn chosen(ctx: &Context) -> Result<Tensor> {
        let ids = [0, 1, 0, 3, 1, 3, 0, 1, 0, 3, 0, 1];
        Tensor::ids(ctx, &ids, &[2, 3, 2])?.with_samples(0)
    }

    /// Experts of two layers.
    fn mixture(x: &Tensor, weights: &[Tensor], factors: &Tensor) -> Result<Tensor> {
        let choices = ExpertChoices::new(&chosen(x.context())?, 4)?;
        let (up, down) = weights.split_at(4);
        let hidden = x
            .to_experts(&choices)?
            .experts_linear(up, &choices)?
            .silu()?;
        hidden
            .experts_linear(down, &choices)?
            .from_experts(factors, &choices)
    }

    fn weights() -> Vec<Tensor> {
        let ups = (0..4).map(|e| input(10 + e, &[5, 3]));
        ups.chain((0..4).map(|e| input(20 + e, &[3, 5]))).collect()
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let mut inputs = vec![input(1, &[2, 3, 3]), input(2, &[2, 3, 2])];
        inputs.extend(weights());
        check("experts", &inputs, |x| mixture(&x[0], &x[2..], &x[1]));
    }

    /// The same values by operations over every token, those that were not chosen left out.
    #[test]
    fn values_and_weight_gradients_have_the_bits_of_experts_over_all_tokens() -> Result<()> {
        for ctx in hlx_core::testing::contexts() {
            let here = |x: &Tensor| Tensor::from_slice(ctx, &x.to_vec()?, x.shape());
            for shards in [1, 2] {
                let leaf = |x: &Tensor| Ok(here(x)?.with_gradient());
                let x = leaf(&input(1, &[2, 3, 3]))?.with_samples(0)?;
                let factors = leaf(&input(2, &[2, 3, 2]))?;
                let both: Vec<Vec<Tensor>> = (0..2)
                    .map(|_| weights().iter().map(leaf).collect())
                    .collect::<Result<_>>()?;
                let upstream = here(&input(3, &[2, 3, 3]))?;
                let plan = BackwardPlan {
                    shards,
                    ..BackwardPlan::default()
                };
                let sparse = mixture(&x, &both[0], &factors)?;
                sparse.mul(&upstream)?.sum()?.backward_with(&plan)?;
                let of_choices = factors.grad().expect("a gradient").to_vec()?;
                factors.zero_grad();
                let spread = Tensor::zeros(ctx, &[2, 3, 4], DType::F32)?
                    .with_samples(0)?
                    .scatter(-1, &chosen(ctx)?, &factors)?;
                let mut dense = x.zeros_like()?;
                for expert in 0..4 {
                    let hidden = x.linear(&both[1][expert], None)?.silu()?;
                    let y = hidden.linear(&both[1][4 + expert], None)?;
                    let factor = spread.narrow(-1, expert, 1)?;
                    let left_out = factor.detach().eq(0.0)?;
                    dense = dense.add(y.mul(&factor)?.masked_fill(&left_out, 0.0)?)?;
                }
                assert_eq!(sparse.to_vec()?, dense.to_vec()?);
                dense.mul(&upstream)?.sum()?.backward_with(&plan)?;
                for (one, two) in both[0].iter().zip(&both[1]) {
                    let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec();
                    assert_eq!(gradient(one)?, gradient(two)?, "{shards} {}", ctx.info());
                }
                let of_all = factors.grad().expect("a gradient").to_vec()?;
                assert_eq!(of_choices, of_all);
            }
        }
        Ok(())
    }

    #[test]
    fn unfitting_arguments_are_named() -> Result<()> {
        let x = input(1, &[2, 3, 3]);
        let choices = ExpertChoices::new(&chosen(x.context())?, 4)?;
        let error = message(input(1, &[3, 3]).to_experts(&choices));
        let expected = "to_experts: x has shape [3, 3], expected [2, 3, 3]";
        assert_eq!(error, expected);
        let rows = x.to_experts(&choices)?;
        let error = message(rows.experts_linear(&weights()[..3], &choices));
        let expected =
            "experts_linear: x has shape [12, 3], expected [12, K] and 4 weights, found 3";
        assert_eq!(error, expected);
        let mixed = [&weights()[..3], &[input(1, &[5, 4])]].concat();
        let error = message(rows.experts_linear(&mixed, &choices));
        let expected = "experts_linear: a weight has shape [5, 4], expected [5, 3]";
        assert_eq!(error, expected);
        let error = message(rows.from_experts(&input(1, &[6, 2]), &choices));
        let expected = "from_experts: weights has shape [6, 2], expected [2, 3, 2]";
        assert_eq!(error, expected);
        Ok(())
    }
}
