//! A model's files, and its tensors under the names of `transformers`.

use std::path::PathBuf;

use hlx_autograd::Tensor;
use hlx_nn::hugging_face_tensors;
use hlx_train::model_folder::{Beside, FolderKind, folders_of, save};
use pyo3::prelude::*;

use super::held::PyLanguageModel;
use crate::error::{Kind, of_anyhow, of_nn, raised};
use crate::tensor::PyTensor;
use crate::wait::run_as;

#[pymethods]
impl PyLanguageModel {
    /// Writes the model with its tokenizer: as a Hugging Face folder, or as one of HLX.
    fn save(&self, py: Python<'_>, folder: PathBuf, hugging_face: bool) -> PyResult<()> {
        let held = self.held();
        let model = held.whole("save")?;
        let kind = match hugging_face {
            true => FolderKind::Exported,
            false => FolderKind::Imported,
        };
        run_as(py, of_anyhow, || {
            let tokenizer = held.source.tokenizer();
            let read = held.folder.as_deref().map(folders_of).transpose()?;
            let read = read.unwrap_or_default();
            let beside = match (read.first(), &tokenizer) {
                (Some(folder), _) => Beside::Folder(folder),
                (None, Some(tokenizer)) => Beside::Tokenizer(tokenizer),
                (None, None) => Beside::Nothing,
            };
            save(model, kind, &beside, &read, &folder)
        })
    }

    /// The parameters, or their gradients, under the names that `transformers` has for the model's family.
    fn hugging_face_tensors(
        &self,
        py: Python<'_>,
        gradients: bool,
    ) -> PyResult<Vec<(String, PyTensor)>> {
        let held = self.held();
        let model = held.whole("hugging_face_tensors")?;
        let weights = model.weights();
        if gradients && !weights.has_gradients() {
            let text = "hugging_face_gradients: there are no gradients; call backward first";
            return Err(raised(Kind::Runtime, text));
        }
        let found = run_as(py, of_nn, || {
            let flat = match gradients {
                true => weights.gradients()?,
                false => weights.values(),
            };
            let family = model.config().family();
            let tensors = hugging_face_tensors(weights, flat, family)?.into_iter();
            let tensors = tensors.map(|(name, shape, values)| {
                Ok((name, Tensor::from_slice(weights.device(), &values, &shape)?))
            });
            tensors.collect::<hlx_nn::Result<Vec<_>>>()
        })?;
        let found = found.into_iter();
        Ok(found.map(|(name, tensor)| (name, tensor.into())).collect())
    }
}
