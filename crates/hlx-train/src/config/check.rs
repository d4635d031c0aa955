//! What a configuration's values may be.

use hlx_core::{Arithmetic, Half};
use hlx_nn::ClassifierKind;

use super::fault::{Checked, at_least_one, fault, within};
use super::{Config, DataSection, Format, LossScaleKind, ModelSection, TrainSection};

impl Config {
    /// Checks a resolved configuration; the first fault is returned.
    pub(super) fn check(&self) -> Checked {
        self.model.check()?;
        self.data.check()?;
        let reads_images = self.model.classifier_kind().is_some();
        match (reads_images, self.data.format.is_of_texts()) {
            (false, false) => {
                return fault(
                    "model.kind",
                    "a transformer reads no images, expected mlp or cnn",
                );
            }
            (true, true) => {
                return fault(
                    "data.format",
                    "is of text, a classifier reads idx or digits",
                );
            }
            _ => {}
        }
        self.check_row_length()?;
        self.train.check()?;
        self.check_whole_shards()?;
        self.check_router_balance()?;
        self.check_optimizer()?;
        self.check_schedule()?;
        self.check_course()?;
        self.check_lora()
    }
}

impl Config {
    /// A row of tokens must fit into the model's positions.
    fn check_row_length(&self) -> Checked {
        let (length, positions) = (self.row_length(), self.positions());
        if length > positions {
            let reason = format!("{length} is more than the model's {positions} positions");
            return fault("data.length", reason);
        }
        at_least_one("data.length", length as u64)
    }

    /// The balance loss is of a shard's tokens, so that these must be in one pass.
    fn check_router_balance(&self) -> Checked {
        let key = "train.router_balance";
        let Some(coefficient) = self.train.router_balance else {
            return Ok(());
        };
        within(key, coefficient, 0.0, f64::INFINITY)?;
        let experts = match self.model.is_causal() {
            true => self.model.causal(1).ok().and_then(|shape| shape.experts),
            false => None,
        };
        if experts.is_none() {
            return fault(key, "the model has no experts");
        }
        let (micro, shard) = (
            self.micro_batch_size(),
            self.train.batch_size / self.shards(),
        );
        if micro < shard {
            return fault(
                "train.micro_batch_size",
                format!("{micro} is less than a shard of {shard}, which {key} needs whole"),
            );
        }
        Ok(())
    }

    /// Both a batch norm and the gradients of the integer arithmetic have something of a whole shard, statistics
    /// or exponents, so that its samples must be in one pass.
    fn check_whole_shards(&self) -> Checked {
        let (micro, shard) = (
            self.micro_batch_size(),
            self.train.batch_size / self.shards(),
        );
        let is_residual = self.model.classifier_kind() == Some(ClassifierKind::Resnet);
        let of_norms = match (self.model.batch_norm, is_residual) {
            (true, _) => Some("model.batch_norm needs"),
            (false, true) => Some("model.kind resnet needs"),
            (false, false) => None,
        };
        let of_arithmetic = match self.arithmetic {
            Arithmetic::Portable => None,
            Arithmetic::Integer => Some("arithmetic = \"integer\" needs"),
            Arithmetic::Fast(Half::Bf16) => Some("arithmetic = \"fast\" needs"),
            Arithmetic::Fast(Half::F16) => Some("arithmetic = \"fast_f16\" needs"),
        };
        match of_norms.or(of_arithmetic) {
            Some(who) if micro < shard => fault(
                "train.micro_batch_size",
                format!("{micro} is less than a shard of {shard}, which {who} whole"),
            ),
            _ => Ok(()),
        }
    }
}

impl DataSection {
    fn check(&self) -> Checked {
        if self.path.is_empty() && self.format.has_path() {
            return fault("data.path", "names no file");
        }
        within("data.eval_fraction", self.eval_fraction, 0.0, 1.0)?;
        let of_some = [
            (
                "data.windows",
                self.windows.is_some() && self.format != Format::Text,
            ),
            (
                "data.rows",
                self.rows.is_some() && self.format != Format::Shards,
            ),
            (
                "data.length",
                self.length.is_some() && self.format != Format::Shards,
            ),
            ("data.part", self.part.is_some() && !self.format.has_parts()),
            (
                "data.count",
                self.count.is_some() && !self.format.is_drawn(),
            ),
            (
                "data.mean",
                self.mean.is_some() && self.format.is_of_texts(),
            ),
            ("data.std", self.std.is_some() && self.format.is_of_texts()),
            (
                "data.crop_padding",
                self.crop_padding.is_some() && self.format.is_of_texts(),
            ),
            (
                "data.flip",
                self.flip.is_some() && self.format.is_of_texts(),
            ),
            (
                "data.noise",
                self.noise.is_some() && self.format.is_of_texts(),
            ),
            (
                "data.workers",
                self.workers.is_some()
                    && self.format.is_of_texts()
                    && self.format != Format::Shards,
            ),
        ];
        if let Some((key, _)) = of_some.into_iter().find(|(_, wrong)| *wrong) {
            return fault(key, "is no key of this data.format");
        }
        at_least_one("data.count", self.count.unwrap_or(1) as u64)?;
        let (mean, std) = (self.mean.unwrap_or(0.0), self.std.unwrap_or(1.0));
        if !mean.is_finite() {
            return fault("data.mean", format!("{mean} is not finite"));
        }
        if !(std.is_finite() && std as f32 > 0.0) {
            return fault("data.std", format!("{std} is not above 0"));
        }
        if self.crop_padding.unwrap_or(0) > 1 << 16 {
            return fault("data.crop_padding", "is more than 65536");
        }
        if self.workers() > 64 {
            return fault(
                "data.workers",
                format!("{} is more than 64", self.workers()),
            );
        }
        let flip = self.flip.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&flip) {
            return fault("data.flip", format!("{flip} is not from 0 to 1"));
        }
        within("data.noise", self.noise.unwrap_or(0.0), 0.0, f64::INFINITY)
    }
}

impl ModelSection {
    fn check(&self) -> Checked {
        within("model.dropout", self.dropout, 0.0, 1.0)?;
        within("model.attention_dropout", self.attention_dropout, 0.0, 1.0)?;
        if self.is_causal() && self.preset.is_none() && self.classifier_kind().is_none() {
            return self.check_keys_of_causal();
        }
        let of_causal = [
            ("model.architecture", self.architecture.is_some()),
            ("model.config", self.config.is_some()),
            ("model.vocabulary", self.vocabulary.is_some()),
            ("model.n_kv_heads", self.n_kv_heads.is_some()),
            ("model.head_width", self.head_width.is_some()),
            ("model.shape", !self.shape.is_empty()),
        ];
        let of_transformers = [
            ("model.preset", self.preset.is_some()),
            ("model.width", self.width.is_some()),
            ("model.n_layers", self.n_layers.is_some()),
            ("model.n_heads", self.n_heads.is_some()),
            (
                "model.feed_forward_width",
                self.feed_forward_width.is_some(),
            ),
            ("model.positions", self.positions.is_some()),
            ("model.attention_dropout", self.attention_dropout > 0.0),
        ];
        let of_classifiers = [("model.hidden", self.hidden.is_some())];
        let of_cnns = [
            ("model.channels", self.channels.is_some()),
            ("model.batch_norm", self.batch_norm),
        ];
        let (wrong, expected) = match self.classifier_kind() {
            None => (
                [&of_classifiers[..], &of_cnns, &of_causal].concat(),
                "the sizes of a transformer, a model.kind or a model.architecture",
            ),
            Some(ClassifierKind::Mlp) => (
                [&of_transformers[..], &of_cnns, &of_causal].concat(),
                "hidden and dropout with kind mlp",
            ),
            Some(ClassifierKind::Cnn) => (
                [&of_transformers[..], &of_causal].concat(),
                "channels, batch_norm, hidden and dropout with kind cnn",
            ),
            Some(ClassifierKind::Resnet) => (
                [&of_transformers[..], &of_causal, &of_cnns[1..]].concat(),
                "channels, hidden and dropout with kind resnet",
            ),
        };
        if let Some((key, _)) = wrong.into_iter().find(|(_, is_set)| *is_set) {
            return fault(key, format!("is no key of this model, expected {expected}"));
        }
        match self.classifier_kind() {
            None => self.check_transformer(),
            // The sizes are checked with the images' ([`hlx_nn::ClassifierConfig::validate`]).
            Some(_) => Ok(()),
        }
    }

    /// Fails for keys of a classifier beside an architecture; its sizes were checked when they were
    /// filled in.
    fn check_keys_of_causal(&self) -> Checked {
        let wrong = [
            ("model.hidden", self.hidden.is_some()),
            ("model.channels", self.channels.is_some()),
            ("model.batch_norm", self.batch_norm),
        ];
        match wrong.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => fault(key, "is no key of this model, expected sizes of it"),
            None => Ok(()),
        }
    }

    fn check_transformer(&self) -> Checked {
        let sizes = [
            ("model.width", self.width),
            ("model.n_layers", self.n_layers),
            ("model.n_heads", self.n_heads),
            ("model.feed_forward_width", self.feed_forward_width),
            ("model.positions", self.positions),
        ];
        for (key, size) in sizes {
            match size {
                None => return fault(key, "is missing, and there is no model.preset to give it"),
                Some(0) => return fault(key, "0 is not at least 1"),
                Some(_) => {}
            }
        }
        if let (Some(width), Some(n_heads)) = (self.width, self.n_heads) {
            if !width.is_multiple_of(n_heads) {
                return fault(
                    "model.n_heads",
                    format!("{n_heads} does not divide width {width}"),
                );
            }
            if width / n_heads > 128 {
                return fault(
                    "model.n_heads",
                    format!("{n_heads} heads of {} are wider than 128", width / n_heads),
                );
            }
        }
        Ok(())
    }
}

impl TrainSection {
    fn check(&self) -> Checked {
        if self.epochs.is_none() && self.max_steps.is_none() {
            return fault(
                "train.epochs",
                "is missing: it or train.max_steps ends the run",
            );
        }
        at_least_one("train.epochs", self.epochs.unwrap_or(1))?;
        at_least_one("train.max_steps", self.max_steps.unwrap_or(1))?;
        at_least_one("train.log_every", self.log_every)?;
        at_least_one("train.keep", self.keep as u64)?;
        self.check_batches()?;
        let unlimited = f64::INFINITY;
        within("train.learning_rate", self.learning_rate, 0.0, unlimited)?;
        within("train.weight_decay", self.weight_decay(), 0.0, unlimited)?;
        within("train.clip_norm", self.clip_norm, 0.0, unlimited)?;
        if let Some(value) = self.clip_value {
            within("train.clip_value", value, f64::MIN_POSITIVE, unlimited)?;
        }
        self.loss_scale.map_or(Ok(()), LossScaleKind::check)?;
        within("train.label_smoothing", self.label_smoothing, 0.0, 1.0)?;
        within(
            "train.target_loss",
            self.target_loss.unwrap_or(0.0),
            0.0,
            unlimited,
        )
    }

    /// A micro-batch is a whole part of a shard, or holds whole shards, so that the gradient's
    /// tree over the shards stays what it is.
    fn check_batches(&self) -> Checked {
        let batch = self.batch_size;
        at_least_one("train.batch_size", batch as u64)?;
        let shards = self.shards.unwrap_or(1);
        if !shards.is_power_of_two() || shards > 64 || !batch.is_multiple_of(shards) {
            return fault(
                "train.shards",
                format!("{shards} is not a power of two up to 64 that divides batch_size {batch}"),
            );
        }
        let micro = self.micro_batch_size.unwrap_or(batch);
        if micro == 0 || !batch.is_multiple_of(micro) {
            return fault(
                "train.micro_batch_size",
                format!("{micro} does not divide batch_size {batch}"),
            );
        }
        let shard = batch / shards;
        if !shard.is_multiple_of(micro) && !micro.is_multiple_of(shard) {
            return fault(
                "train.micro_batch_size",
                format!(
                    "{micro} neither divides a shard of {shard} samples nor holds whole shards"
                ),
            );
        }
        Ok(())
    }
}
