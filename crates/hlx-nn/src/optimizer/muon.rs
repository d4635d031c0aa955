//! Muon (Jordan et al. 2024) for matrices, AdamW for the other parameters.

use hlx_core::Buffer;
use hlx_kernels::optimizer::muon::{NewtonSchulz, muon_step};
use hlx_kernels::optimizer::{Groups, Hyper, Update, adamw_step};

use super::adam::check_betas;
use super::checks::{check_epsilon, refused, within};
use super::drive::{Drive, updated};
use super::groups::upload_rows;
use super::{Common, Optimizer};
use crate::{Parameter, ParameterSet, Result, Weights};

/// How a matrix's shape, `M` rows by `N` columns, enters its rate: `adjust_lr_fn` of PyTorch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MuonAdjust {
    /// Times `sqrt(max(1, M / N))`.
    #[default]
    Original,
    /// Times `0.2 sqrt(max(M, N))`: a step's mean square is that of AdamW, so that one rate and
    /// decay serve both.
    MatchRmsAdamw,
    /// Times `sqrt(M / N)`.
    SpectralUnclamped,
}

impl MuonAdjust {
    fn factor(self, [rows, cols]: [usize; 2]) -> f64 {
        let (m, n) = (rows as f64, cols as f64);
        match self {
            Self::Original => (m / n).max(1.0).sqrt(),
            Self::MatchRmsAdamw => 0.2 * m.max(n).sqrt(),
            Self::SpectralUnclamped => (m / n).sqrt(),
        }
    }
}

/// The numbers of [`Muon`].
#[derive(Clone, Debug, PartialEq)]
pub struct MuonConfig {
    /// The decay of the matrices' momentum.
    pub momentum: f64,
    /// Makes the gradient plus `momentum` times its difference to the momentum orthogonal, instead
    /// of the momentum (Nesterov's rule).
    pub nesterov: bool,
    /// Iterations, coefficients and least norm.
    pub newton_schulz: NewtonSchulz,
    /// How a matrix's shape enters its rate.
    pub adjust: MuonAdjust,
    /// Patterns, as of [`Weights::matching`], for matrices that AdamW updates; one may fit none.
    /// Parameters that are no matrices are AdamW's anyway.
    pub adamw_parameters: Vec<String>,
    /// AdamW's decay of the mean and of the square.
    pub adamw_betas: [f64; 2],
    /// AdamW's epsilon; at least 2^-126.
    pub adamw_eps: f64,
    /// AdamW's weight decay.
    pub adamw_weight_decay: f64,
    /// AdamW's rate, as a part of Muon's.
    pub adamw_lr_factor: f64,
    /// Weight decay of the matrices (decoupled: the parameter times decay times rate per step), clips and
    /// groups.
    pub common: Common,
}

impl Default for MuonConfig {
    /// PyTorch's defaults of Muon (momentum 0.95, Nesterov, decay 0.1) and of AdamW; embeddings and
    /// the layer called `output` are AdamW's.
    fn default() -> Self {
        Self {
            momentum: 0.95,
            nesterov: true,
            newton_schulz: NewtonSchulz::default(),
            adjust: MuonAdjust::default(),
            adamw_parameters: vec!["*embedding*".to_owned(), "output.*".to_owned()],
            adamw_betas: [0.9, 0.999],
            adamw_eps: 1e-8,
            adamw_weight_decay: 0.01,
            adamw_lr_factor: 1.0,
            common: Common::with_weight_decay(0.1),
        }
    }
}

/// Muon for parameters of two dimensions, as `torch.optim.Muon` but in f32 throughout, and AdamW
/// for the others in one launch.
///
/// The state is a `mean` of gradients (the matrices' momentum, AdamW's first moment) and AdamW's
/// `square`, which stays zero where a matrix is.
#[derive(Debug)]
pub struct Muon {
    config: MuonConfig,
    drive: Drive,
    matrices: Vec<Matrix>,
    /// The group of each block that is AdamW's.
    rows: Buffer,
    mean: Buffer,
    square: Buffer,
}

/// A matrix and where it lies in the flat buffers.
#[derive(Debug)]
struct Matrix {
    offset: usize,
    shape: [usize; 2],
    group: usize,
}

impl Muon {
    /// Makes the optimizer of a model's weights, with zero momenta.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range or a group
    /// without parameters, and what the device reports.
    pub fn new(weights: &Weights, config: MuonConfig) -> Result<Self> {
        config.check()?;
        let drive = Drive::new(weights, &config.common)?;
        let group_of = drive.assignment.of_parameters();
        let chosen = config.matrices(weights);
        let updated = weights.updated();
        let spans = weights.spans("");
        let matrix = |&parameter_idx: &usize| Matrix {
            offset: spans[parameter_idx].offset,
            shape: [0, 1].map(|axis| spans[parameter_idx].shape[axis]),
            group: group_of[parameter_idx],
        };
        let matrices = chosen.indices().iter().map(matrix);
        let matrices = matrices.filter(|matrix| updated.contains(&matrix.offset));
        let matrices: Vec<Matrix> = matrices.collect();
        let rows = upload_rows(weights, |parameter_idx| {
            let group = group_of[parameter_idx] as u32;
            (!chosen.contains(parameter_idx)).then_some(group)
        })?;
        Ok(Self {
            drive: drive.with_more_rows(matrices.len())?,
            config,
            matrices,
            rows,
            mean: weights.state_zeros()?,
            square: weights.state_zeros()?,
        })
    }

    /// Gives the steps other numbers from the next one on; groups and matrices stay.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) for numbers out of range.
    pub fn set_config(&mut self, config: MuonConfig) -> Result<()> {
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// The row of AdamW's numbers of a group.
    fn adamw_row(&self, group: usize, learning_rate: f64) -> Hyper {
        let config = &self.config;
        let (lr_factor, weight_decay) = self
            .drive
            .assignment
            .numbers(group, config.adamw_weight_decay);
        let [beta1, beta2] = config.adamw_betas;
        Hyper {
            learning_rate: learning_rate * config.adamw_lr_factor * lr_factor,
            weight_decay,
            beta1,
            beta2,
            epsilon: config.adamw_eps,
            ..Hyper::default()
        }
    }

    /// The row of a matrix's numbers.
    fn matrix_row(&self, matrix: &Matrix, learning_rate: f64) -> Hyper {
        let config = &self.config;
        let assignment = &self.drive.assignment;
        let (lr_factor, weight_decay) =
            assignment.numbers(matrix.group, config.common.weight_decay);
        Hyper {
            learning_rate: learning_rate * lr_factor,
            step_factor: config.adjust.factor(matrix.shape),
            momentum: config.momentum,
            beta1: config.momentum,
            weight_decay,
            ..Hyper::default()
        }
    }
}

impl MuonConfig {
    /// The matrices that are made orthogonal: trained parameters of two dimensions that AdamW does not
    /// update. Each is updated as a whole, so that no two processes may share one.
    pub fn matrices(&self, weights: &Weights) -> ParameterSet {
        let patterns = self.adamw_parameters.iter();
        let excepted = patterns
            .filter_map(|pattern| weights.matching(pattern).ok())
            .fold(ParameterSet::default(), |all, set| all.or(&set));
        let is_trained = |one: &Parameter| one.shape().len() == 2 && one.requires_grad();
        weights.select(is_trained).without(&excepted)
    }

    /// Fails for numbers out of range.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) with the number and what was expected.
    pub fn check(&self) -> Result<()> {
        let unlimited = f64::INFINITY;
        within("momentum", self.momentum, 0.0, 1.0)?;
        self.common.check()?;
        within(
            "adamw_weight_decay",
            self.adamw_weight_decay,
            0.0,
            unlimited,
        )?;
        within("adamw_lr_factor", self.adamw_lr_factor, 0.0, unlimited)?;
        check_betas(self.adamw_betas)?;
        check_epsilon("adamw_eps", self.adamw_eps)?;
        check_epsilon("eps", f64::from(self.newton_schulz.epsilon))?;
        let finite = self
            .newton_schulz
            .coefficients
            .iter()
            .all(|c| c.is_finite());
        if !finite || self.newton_schulz.steps >= 100 {
            let found = self.newton_schulz;
            return Err(refused(format!(
                "newton_schulz is {found:?}, expected finite coefficients and fewer than 100 steps"
            )));
        }
        Ok(())
    }
}

impl Optimizer for Muon {
    fn name(&self) -> &'static str {
        "muon"
    }

    fn drive(&self) -> &Drive {
        &self.drive
    }

    fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    fn prepare(&mut self, learning_rate: f64) -> Result<()> {
        let others =
            (0..self.drive.assignment.len()).map(|group| self.adamw_row(group, learning_rate));
        let matrices = self.matrices.iter();
        let matrices = matrices.map(|matrix| self.matrix_row(matrix, learning_rate));
        let rows: Vec<Hyper> = others.chain(matrices).collect();
        self.drive.upload(rows)
    }

    fn update(&self, weights: &Weights) -> Result<()> {
        self.drive.measure(weights)?;
        let device = weights.device();
        let updated = updated(weights)?;
        let all = self.drive.update(&updated);
        if all.params.is_empty() {
            return Ok(());
        }
        let others = Update {
            groups: Groups::ByBlock(&self.rows),
            ..all
        };
        adamw_step(device, &others, &self.mean, &self.square)?;
        for (place, matrix) in self.matrices.iter().enumerate() {
            let n = matrix.shape.iter().product();
            let offset = matrix.offset - weights.updated().start;
            let window = |flat: &Buffer| flat.slice(offset, n);
            let (params, grads) = (window(all.params)?, window(all.grads)?);
            let update = Update {
                params: &params,
                grads: &grads,
                groups: Groups::One((self.drive.assignment.len() + place) as u32),
                ..all
            };
            let MuonConfig {
                nesterov,
                newton_schulz,
                ..
            } = &self.config;
            let momentum = window(&self.mean)?;
            muon_step(
                device,
                &update,
                &momentum,
                matrix.shape,
                *nesterov,
                newton_schulz,
            )?;
        }
        self.drive.changed(weights);
        Ok(())
    }

    fn buffers(&self) -> Vec<(&'static str, &Buffer)> {
        vec![("mean", &self.mean), ("square", &self.square)]
    }
}
