//! Adafactor (Shazeer and Stern 2018).

use hlx_core::arith::pow;
use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::adafactor::{self as kernel, Squares, adafactor_step};
use hlx_kernels::optimizer::{Groups, Hyper, Update};

use super::checks::{check_epsilon, refused, within};
use super::drive::{Drive, updated};
use super::layout::{OwnLayout, zeros};
use super::{Common, Optimizer, state_spans};
use crate::{Parameter, ParameterSet, Result, Weights};

/// The numbers of [`Adafactor`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdafactorConfig {
    /// The power of the step's number that is the weight of its squares in their running mean.
    pub beta2_decay: f64,
    /// The least root of a mean square, at least 2^-126, and the least root mean square of a parameter that its
    /// step is in proportion to.
    pub eps: [f64; 2],
    /// The largest root mean square of a direction, at least 1; longer ones are scaled down.
    pub d: f64,
    /// Weight decay (decoupled: the parameter times decay times rate per step), clips and groups.
    pub common: Common,
}

impl Default for AdafactorConfig {
    /// PyTorch's defaults: decay -0.8, eps 2^-23 and 1e-3, threshold 1, no weight decay; no clip.
    fn default() -> Self {
        Self {
            beta2_decay: -0.8,
            eps: [f64::from(f32::EPSILON), 1e-3],
            d: 1.0,
            common: Common::default(),
        }
    }
}

impl AdafactorConfig {
    /// Fails for numbers out of range.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) with the number and what was expected.
    pub fn check(&self) -> Result<()> {
        self.common.check()?;
        if !(self.beta2_decay <= 0.0 && self.beta2_decay.is_finite()) {
            let found = self.beta2_decay;
            let reason = format!("beta2_decay is {found}, expected at most 0 and finite");
            return Err(refused(reason));
        }
        check_epsilon("eps", self.eps[0])?;
        within("eps[1]", self.eps[1], 0.0, f64::INFINITY)?;
        within("d", self.d, 1.0, f64::INFINITY)
    }

    /// The numbers of the kernels.
    fn numbers(&self) -> kernel::Adafactor {
        kernel::Adafactor {
            epsilon: self.eps[0] as f32,
            least_scale: self.eps[1] as f32,
            threshold: self.d as f32,
        }
    }
}

/// Adafactor as `torch.optim.Adafactor`: of a parameter of two or more dimensions the state has the mean squares of rows
/// and columns, `row/NAME` and `col/NAME`, of any other the mean squares of elements, `square/NAME`. A step is in
/// proportion to the parameter's root mean square, and the learning rate is its largest share.
///
/// A parameter is updated whole, so that no two processes share one. Frozen parameters have no state. A step
/// takes memory for its largest parameter once more.
///
/// ```
/// use hlx_core::Device;
/// use hlx_nn::{Adafactor, AdafactorConfig, Init, Optimizer, ParameterBuilder};
///
/// let device = Device::open("cpu")?;
/// let mut builder = ParameterBuilder::new();
/// let weight = builder.parameter("weight", &[64, 128], Init::Ones);
/// let weights = builder.build(&device, 0)?;
/// let mut optimizer = Adafactor::new(&weights, AdafactorConfig::default())?;
/// weight.tensor()?.sum()?.backward()?;
/// optimizer.step(&weights, 0.01)?;
/// let shapes: Vec<_> = optimizer.state(&weights)?.tensors.into_iter().map(|one| one.shape).collect();
/// assert_eq!(shapes, [[1, 128], [64, 1]]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct Adafactor {
    config: AdafactorConfig,
    drive: Drive,
    layouts: [OwnLayout; 3],
    state: [Buffer; 3],
    parameters: Vec<Updated>,
}

/// A parameter that this process updates.
#[derive(Debug)]
struct Updated {
    /// Where it lies among what this process updates.
    offset: usize,
    shape: Vec<usize>,
    group: usize,
    /// Where its tensors lie in the state's buffers.
    places: [Option<(usize, usize)>; 3],
}

const BUFFERS: [&str; 3] = ["row", "col", "square"];

/// `B`, `R` and `C` of a parameter that is factored.
fn factors(shape: &[usize]) -> Option<[usize; 3]> {
    let (&cols, rest) = shape.split_last()?;
    let (&rows, batches) = rest.split_last()?;
    Some([batches.iter().product(), rows, cols])
}

/// PyTorch's extents of the mean squares: 1 along the axis that is left out.
pub(super) fn reduced(shape: &[usize], axis_from_last: usize) -> Option<Vec<usize>> {
    factors(shape)?;
    let mut reduced = shape.to_vec();
    let axis = shape.len() - 1 - axis_from_last;
    reduced[axis] = 1;
    Some(reduced)
}

impl Adafactor {
    /// Makes the optimizer of a model's weights, with mean squares of zero.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range, a group without parameters, or a parameter
    /// of which this process updates a part; what the device reports.
    pub fn new(weights: &Weights, config: AdafactorConfig) -> Result<Self> {
        config.check()?;
        let drive = Drive::new(weights, &config.common)?;
        let layouts = [
            OwnLayout::of_shapes(weights, |shape| reduced(shape, 0)),
            OwnLayout::of_shapes(weights, |shape| reduced(shape, 1)),
            OwnLayout::of_shapes(weights, |shape| (shape.len() < 2).then(|| shape.to_vec())),
        ];
        let updated = weights.updated();
        let spans = BUFFERS.map(|name| name).into_iter().zip(&layouts);
        let spans: Vec<_> = spans
            .map(|(name, layout)| state_spans(Some(layout), weights, name, updated.clone()))
            .collect();
        let mut parameters = Vec::new();
        for (parameter_idx, place) in weights.spans("").into_iter().enumerate() {
            let n: usize = place.shape.iter().product();
            let trained = weights.parameters()[parameter_idx].requires_grad();
            if !trained
                || n == 0
                || place.offset >= updated.end
                || place.offset + n <= updated.start
            {
                continue;
            }
            if place.offset < updated.start || place.offset + n > updated.end {
                let reason = format!("{} is updated by several processes", place.name);
                return Err(refused(reason));
            }
            let of_buffer = |(name, spans): (&str, &Vec<super::StateSpan>)| {
                let name = format!("{name}/{}", place.name);
                let span = spans.iter().find(|span| span.name == name)?;
                Some((span.at, span.len))
            };
            let mut places = BUFFERS.into_iter().zip(&spans).map(of_buffer);
            parameters.push(Updated {
                offset: place.offset - updated.start,
                group: drive.assignment.of_parameters()[parameter_idx],
                places: std::array::from_fn(|_| places.next().flatten()),
                shape: place.shape,
            });
        }
        let [row, col, square] = &layouts;
        let state = [
            zeros(row, weights)?,
            zeros(col, weights)?,
            zeros(square, weights)?,
        ];
        Ok(Self {
            drive,
            config,
            layouts,
            state,
            parameters,
        })
    }

    /// The numbers.
    pub fn config(&self) -> &AdafactorConfig {
        &self.config
    }

    /// Gives the steps other numbers from the next one on; groups stay.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range.
    pub fn set_rule(&mut self, config: AdafactorConfig) -> Result<()> {
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// The parameters that are updated whole: all that are trained.
    pub fn undivided(weights: &Weights) -> ParameterSet {
        weights.select(Parameter::requires_grad)
    }

    fn update_one(&self, device: &Device, one: &Updated, all: &Update<'_>) -> Result<()> {
        let n = one.shape.iter().product();
        let (params, grads) = (
            all.params.slice(one.offset, n)?,
            all.grads.slice(one.offset, n)?,
        );
        let update = Update {
            params: &params,
            grads: &grads,
            groups: Groups::One(one.group as u32),
            ..*all
        };
        let window = |buffer: usize| {
            let (at, len) = one.places[buffer].unwrap_or_default();
            self.state[buffer].slice(at, len)
        };
        let windows = [0, 1, 2].map(window);
        let [row, col, square] = windows;
        let numbers = self.config.numbers();
        match factors(&one.shape) {
            Some(shape) => {
                let (row, col) = (&row?, &col?);
                let squares = Squares::Factored { shape, row, col };
                Ok(adafactor_step(device, &update, squares, &numbers)?)
            }
            None => {
                let squares = Squares::Whole(&square?);
                Ok(adafactor_step(device, &update, squares, &numbers)?)
            }
        }
    }
}

impl Optimizer for Adafactor {
    fn name(&self) -> &'static str {
        "adafactor"
    }

    fn drive(&self) -> &Drive {
        &self.drive
    }

    fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        let step = self.drive.steps + 1;
        // Exact up to 2^24 steps, and then so near 0 that no step is told from the next.
        let weight = pow(step as f32, self.config.beta2_decay as f32);
        let row_of = |lr_factor: f64, weight_decay: f64| {
            let rate = learning_rate * lr_factor;
            let largest = rate.min(1.0 / (step as f64).sqrt());
            Hyper {
                learning_rate: rate,
                step_factor: if rate > 0.0 { largest / rate } else { 0.0 },
                weight_decay,
                beta1: 0.0,
                beta2: 1.0 - f64::from(weight),
                ..Hyper::default()
            }
        };
        self.drive.upload_groups(&self.config.common, row_of)
    }

    fn update(&self, weights: &Weights) -> Result<()> {
        self.drive.measure(weights)?;
        let updated = updated(weights)?;
        let all = self.drive.update(&updated);
        for one in &self.parameters {
            self.update_one(weights.device(), one, &all)?;
        }
        self.drive.changed(weights);
        Ok(())
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        BUFFERS.into_iter().zip(&self.state).collect()
    }

    fn layout(&self, buffer: &str) -> Option<&OwnLayout> {
        OwnLayout::named(&BUFFERS, &self.layouts, buffer)
    }
}
