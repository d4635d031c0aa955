//! What every optimizer shares: the numbers of a step on the device, and the clip.

use hlx_core::{Buffer, Device};
use hlx_kernels::optimizer::{HYPER_LEN, Hyper, Update, Watched, clip_factor, guarded_factor};
use hlx_kernels::reduce::{global_norm, norm_of_rows};

use super::checks::refused;
use super::common::Common;
use super::groups::Assignment;
use super::loss_scale::LossScale;
use crate::{Result, Weights};

/// The bits of 1.0: the clip's factor when nothing is clipped.
const ONE: u32 = 0x3f80_0000;

/// The groups of the parameters, the step's numbers, its gradient norm and its clip factor.
#[derive(Debug)]
pub struct Drive {
    device: Device,
    pub assignment: Assignment,
    pub hyper: Buffer,
    pub norm: Buffer,
    pub factor: Buffer,
    clip_norm: Option<f32>,
    clip_value: Option<f32>,
    skips_norm: bool,
    /// What a step must find finite; nothing is looked at without it.
    pub guard: Option<Watched>,
    /// What the gradients are divided by.
    pub loss_scale: Option<LossScale>,
    pub steps: u64,
}

impl Drive {
    /// Finds the group of each parameter, and makes the buffers of a row of numbers for each group.
    ///
    /// # Errors
    /// [`NnError::Config`] for a limit that is not positive or a group without parameters, and what the device reports.
    pub fn new(weights: &Weights, common: &Common) -> Result<Self> {
        let assignment = Assignment::new(weights, &common.groups)?;
        for (what, limit) in [
            ("clip_norm", common.clip_norm),
            ("clip_value", common.clip_value),
        ] {
            if let Some(limit) = limit.filter(|limit| limit.is_nan() || *limit <= 0.0) {
                return Err(refused(format!("{what} is {limit}, expected more than 0")));
            }
        }
        // Here rather than in an update that is being recorded.
        weights.gradients()?;
        let device = weights.device().clone();
        let (norm, factor) = (device.alloc(1)?, device.alloc(1)?);
        device.fill(&factor, ONE)?;
        device.fill(&norm, 0)?;
        Ok(Self {
            hyper: device.alloc_shape(&[assignment.len(), HYPER_LEN])?,
            device,
            assignment,
            norm,
            factor,
            clip_norm: common.clip_norm,
            clip_value: common.clip_value,
            skips_norm: common.skips_norm,
            guard: None,
            loss_scale: None,
            steps: 0,
        })
    }

    /// Makes room for rows of numbers behind those of the groups.
    ///
    /// # Errors
    /// What the device reports.
    pub fn with_more_rows(self, n_rows: usize) -> Result<Self> {
        let rows = self.assignment.len() + n_rows;
        Ok(Self {
            hyper: self.device.alloc_shape(&[rows, HYPER_LEN])?,
            ..self
        })
    }

    /// Counts the step and uploads a row for each group, of the factor of its rate and its weight decay: by default the
    /// decay of `common`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn upload_groups(
        &mut self,
        common: &Common,
        row_of: impl Fn(f64, f64) -> Hyper,
    ) -> Result<()> {
        let groups = 0..self.assignment.len();
        let numbers = groups.map(|group| self.assignment.numbers(group, common.weight_decay));
        let rows = numbers.map(|(lr_factor, weight_decay)| row_of(lr_factor, weight_decay));
        let rows: Vec<Hyper> = rows.collect();
        self.upload(rows)
    }

    /// Counts the step and uploads its rows, whose step and limit are filled in here.
    ///
    /// # Errors
    /// What the device reports.
    pub fn upload(&mut self, rows: Vec<Hyper>) -> Result<()> {
        let (step, limit) = (self.steps + 1, self.clip_value);
        let fill_in = |hyper| Hyper {
            step,
            clip_value: limit.map_or(f64::INFINITY, f64::from),
            ..hyper
        };
        let words: Vec<u32> = rows
            .into_iter()
            .flat_map(|row| fill_in(row).to_words())
            .collect();
        self.device.upload_words(&self.hyper, &words)?;
        self.steps += 1;
        Ok(())
    }

    /// Launches the norm of all gradients and the factor that clips it. Where other processes hold
    /// gradients, the norm is that of the rows that all have gathered.
    pub fn measure(&self, weights: &Weights) -> Result<()> {
        weights.check_gradients()?;
        let scale = self.loss_scale.as_ref();
        let reads_norm = self.guard.is_some() || self.clip_norm.is_some() || scale.is_some();
        if self.skips_norm && !reads_norm {
            return Ok(());
        }
        match weights.part() {
            None => global_norm(&self.device, weights.gradients()?, &self.norm)?,
            Some(part) => norm_of_rows(&self.device, &part.norm_rows, &self.norm)?,
        }
        let (device, norm, factor) = (&self.device, &self.norm, &self.factor);
        if let Some(scale) = scale {
            scale.unscale(norm)?;
        }
        let guard = self.guard.clone().or(scale.map(LossScale::quiet));
        match (&guard, self.clip_norm) {
            (Some(watched), limit) => {
                let limit = limit.unwrap_or(f32::INFINITY);
                guarded_factor(device, norm, watched, factor, limit)?;
            }
            (None, Some(limit)) => clip_factor(device, norm, factor, limit)?,
            (None, None) => {}
        }
        match scale {
            Some(scale) => scale.follow(factor),
            None => Ok(()),
        }
    }

    /// Notes that the step has changed all values, so that a backward pass of an operation that saved
    /// them before is refused. A graph notes it again at each replay.
    pub fn changed(&self, weights: &Weights) {
        let values = weights.values();
        self.device.note_change(values, 0..values.len(), false);
    }

    /// The update of values by their gradients and the numbers of the first row.
    pub fn update<'a>(&'a self, [values, gradients]: &'a [Buffer; 2]) -> Update<'a> {
        Update::new(values, gradients, &self.hyper, &self.factor)
    }
}

/// The values that this process updates, and their gradients.
///
/// # Errors
/// What the device reports.
pub(super) fn updated(weights: &Weights) -> Result<[Buffer; 2]> {
    Ok([
        weights.updated_of(weights.values())?,
        weights.updated_of(weights.gradients()?)?,
    ])
}
