//! One walk over the elements of a chain: what is loaded, from where, and what each stage takes.

use std::collections::BTreeSet;

use hlx_core::DType;
use hlx_core::fusion::{Source, Stage};

use super::{Cut, StageLaunch, StageOperand};
use crate::convert::Form;
use crate::layout::{Access, access, is_row_major};

/// A chain of stages as one walk.
pub(super) struct Plan<'a> {
    pub stages: Vec<PlannedStage<'a>>,
    pub loads: Vec<Load>,
    /// The extents that all stages walk over, outermost first.
    pub shape: Vec<usize>,
    pub cut: Cut,
}

pub(super) struct PlannedStage<'a> {
    pub launch: &'a StageLaunch,
    pub inputs: Vec<Input>,
    pub is_stored: bool,
}

/// Where a stage's operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Load(usize),
    Stage(usize),
}

/// Elements of a bound window as values of a compute type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub binding: usize,
    pub form: Form,
    pub compute: DType,
    pub strides: Vec<isize>,
    pub offset: usize,
    pub access: Access,
}

impl<'a> Plan<'a> {
    /// The plan of a chain; `None` if its shapes have no common refinement, or a result is read as
    /// elements of another size.
    pub fn of(chain: &'a [Stage]) -> Option<Self> {
        let launch = |stage: &'a Stage| stage.launch.as_any().downcast_ref::<StageLaunch>();
        let launches: Vec<&StageLaunch> = chain.iter().map(launch).collect::<Option<_>>()?;
        let shape = refined(launches.iter().map(|launch| &launch.shape[..]))?;
        let mut plan = Self {
            stages: Vec::with_capacity(launches.len()),
            loads: Vec::new(),
            shape,
            cut: launches.last()?.cut,
        };
        for (stage, launch) in chain.iter().zip(&launches) {
            let operands = launch.operands.iter().zip(&stage.sources);
            let inputs = operands.map(|(operand, &source)| match source {
                Source::Bound(binding) => plan.load(launch, operand, binding),
                Source::Stage(from) => {
                    let stored = launches.get(from)?.out_form.per_word();
                    (stored == operand.form.per_word()).then_some(Input::Stage(from))
                }
            });
            let inputs: Vec<Input> = inputs.collect::<Option<_>>()?;
            plan.stages.push(PlannedStage {
                launch,
                inputs,
                is_stored: stage.is_stored,
            });
        }
        Some(plan)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The load of an operand, which is made if there is none like it.
    fn load(
        &mut self,
        launch: &StageLaunch,
        operand: &StageOperand,
        binding: usize,
    ) -> Option<Input> {
        let strides = spread(&launch.shape, &operand.strides, &self.shape)?;
        let (offset, shape) = (operand.offset, &self.shape[..]);
        let access = match offset == 0 && is_row_major(shape, &strides) {
            true => Access::Dense,
            false => access(shape, &strides, offset),
        };
        let load = Load {
            binding,
            form: operand.form,
            compute: launch.compute,
            strides,
            offset,
            access,
        };
        let found = self.loads.iter().position(|other| *other == load);
        Some(Input::Load(found.unwrap_or_else(|| {
            self.loads.push(load);
            self.loads.len() - 1
        })))
    }

    /// The push constants: the number of elements, the extents but the outermost, innermost first,
    /// the places of each load, the parameters of each stage.
    pub fn push(&self) -> Vec<u32> {
        let mut push = vec![self.len() as u32];
        push.extend(self.shape[1..].iter().rev().map(|&extent| extent as u32));
        for load in &self.loads {
            push.extend(load.push());
        }
        for planned in &self.stages {
            let count = planned.launch.formula.parameters() as usize;
            let words = planned.launch.parameters.iter().copied();
            push.extend(words.chain(std::iter::repeat(0)).take(count));
        }
        push
    }

    /// The number of words of push constants.
    pub fn push_words(&self) -> usize {
        let loads = self.loads.iter().map(|load| load.push().len());
        let stages = self.stages.iter();
        let parameters = stages.map(|planned| planned.launch.formula.parameters() as usize);
        self.shape.len() + loads.sum::<usize>() + parameters.sum::<usize>()
    }
}

impl Load {
    /// The first place and the strides that the shader has to be told, innermost first.
    pub fn push(&self) -> Vec<u32> {
        let known = match self.access {
            Access::Dense => return Vec::new(),
            Access::Vector | Access::Same => 1,
            Access::Apart => 0,
        };
        let mut push = vec![self.offset as u32];
        let strides = self.strides.iter().rev().skip(known);
        push.extend(strides.map(|&stride| stride as u32));
        push
    }
}

/// The extents of a walk whose rows end wherever those of a shape do; `None` if there is none.
fn refined<'a>(shapes: impl Iterator<Item = &'a [usize]>) -> Option<Vec<usize>> {
    let mut cuts = BTreeSet::from([1_usize]);
    for shape in shapes {
        let mut product = 1_usize;
        for extent in shape.iter().rev() {
            product = product.checked_mul(*extent)?;
            cuts.insert(product);
        }
    }
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let mut shape = Vec::with_capacity(cuts.len());
    for pair in cuts.windows(2).rev() {
        if pair[0] == 0 || !pair[1].is_multiple_of(pair[0]) {
            return None;
        }
        shape.push(pair[1] / pair[0]);
    }
    if shape.is_empty() {
        shape.push(1);
    }
    Some(shape)
}

/// The strides of an operand over a finer shape.
fn spread(shape: &[usize], strides: &[isize], finer: &[usize]) -> Option<Vec<isize>> {
    let mut spread = vec![0; finer.len()];
    let mut dimensions = shape.iter().zip(strides).rev();
    // The elements that the dimensions inside of the current one hold, and the stride in it.
    let (mut inside, mut end, mut stride) = (1_usize, 1_usize, 0_isize);
    let mut product = 1_usize;
    for (place, extent) in finer.iter().enumerate().rev() {
        while product >= end && *extent > 1 {
            let (&next, &step) = dimensions.next()?;
            (inside, end, stride) = (end, end * next, step);
        }
        spread[place] = stride * (product / inside) as isize;
        product *= extent;
    }
    Some(spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_refined_and_strides_spread() {
        let shape = refined([&[24_usize][..], &[4, 6], &[2, 12]].into_iter());
        assert_eq!(shape, Some(vec![2, 2, 6]));
        assert_eq!(refined([&[4_usize, 6][..], &[6, 4]].into_iter()), None);
        assert_eq!(refined([&[1_usize][..]].into_iter()), Some(vec![1]));
        let spread = |shape: &[usize], strides: &[isize]| spread(shape, strides, &[2, 2, 6]);
        assert_eq!(spread(&[24], &[1]), Some(vec![12, 6, 1]));
        assert_eq!(spread(&[4, 6], &[1, 4]), Some(vec![2, 1, 4]));
        assert_eq!(spread(&[4, 6], &[-1, 0]), Some(vec![-2, -1, 0]));
        assert_eq!(spread(&[2, 12], &[0, 3]), Some(vec![0, 18, 3]));
    }
}
