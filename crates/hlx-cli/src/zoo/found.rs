//! What a run's end and its weights are beside the published ones.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::index::{Recipe, Trained, Zoo};
use super::shown;
use super::weights::{self, Weights};
use crate::golden::Verdict;
use crate::print::say;

/// What a comparison with the published results has found.
pub struct Found {
    /// The digests of the run's end, where a run was compared.
    run: Option<OfEnd>,
    /// Files of weights, or what a run makes of them.
    pub weights: Vec<Weights>,
}

/// The digests of a run's end beside those that are published for its data, if some are.
struct OfEnd {
    trained: Trained,
    published: Option<[String; 2]>,
}

/// Compares a run's end, and the weights of 16 bits that it makes, with the published ones.
///
/// # Errors
/// Weights that cannot be made.
pub fn compare(zoo: &Zoo, recipe: &Recipe, run: &Path, trained: &Trained) -> Result<Found> {
    let results = zoo.results_of(&recipe.name);
    let same_data = results.iter().find(|one| one.data == trained.data);
    let published = same_data.map(|one| [one.parameters.clone(), one.record.clone()]);
    let end = OfEnd {
        trained: trained.clone(),
        published,
    };
    let weights = match end.is_equal() {
        Some(true) => weights::check_run(zoo, recipe, run, trained)?,
        Some(false) | None => None,
    };
    Ok(Found {
        run: Some(end),
        weights: weights.into_iter().collect(),
    })
}

impl OfEnd {
    /// Whether they are the published ones; none where nothing is published.
    fn is_equal(&self) -> Option<bool> {
        let Trained {
            parameters, record, ..
        } = &self.trained;
        let published = self.published.as_ref();
        published.map(|published| published[0] == *parameters && published[1] == *record)
    }
}

impl Found {
    /// That of weights without a run.
    pub fn of_weights(weights: Weights) -> Self {
        Self {
            run: None,
            weights: vec![weights],
        }
    }

    /// Equal, if all is that is published.
    pub fn verdict(&self) -> Verdict {
        let of_run = self.run.as_ref().map(OfEnd::is_equal);
        let differs = self.weights.iter().any(|one| !one.is_equal());
        match of_run {
            _ if differs => Verdict::Differs,
            Some(Some(false)) => Verdict::Differs,
            Some(None) => Verdict::CannotCheck,
            Some(Some(true)) | None => Verdict::Equal,
        }
    }

    /// Says it in lines, or in one of JSON.
    pub fn print(&self, recipe: &Recipe, run: &Path, as_json: bool) -> Result<()> {
        if as_json {
            return say!("{}", self.to_json(recipe, run));
        }
        let (of_file, of_run) = match (&self.run, &self.weights[..]) {
            (Some(_), [file, rest @ ..]) if !file.is_of_run => (Some(file), rest),
            (_, all) => (None, all),
        };
        of_file.map_or(Ok(()), Weights::print)?;
        if let Some(end) = &self.run {
            end.print()?;
        }
        of_run.iter().try_for_each(Weights::print)
    }

    fn to_json(&self, recipe: &Recipe, run: &Path) -> serde_json::Value {
        let verdict = match self.verdict() {
            Verdict::Equal => "equal",
            Verdict::Differs => "differs",
            Verdict::CannotCheck => "cannot_check",
        };
        let digests = |[parameters, record]: [&String; 2]| json!({ "parameters": parameters, "record": record });
        let end = self.run.as_ref();
        let published = end.and_then(|end| end.published.as_ref());
        let weights: Vec<_> = self.weights.iter().map(Weights::to_json).collect();
        json!({
            "kind": "zoo_verify", "name": recipe.name, "run": shown(run), "verdict": verdict,
            "data": end.map(|end| &end.trained.data),
            "published": published.map(|[parameters, record]| digests([parameters, record])),
            "found": end.map(|end| digests([&end.trained.parameters, &end.trained.record])),
            "weights": weights,
        })
    }
}

impl OfEnd {
    fn print(&self) -> Result<()> {
        let Trained {
            parameters,
            record,
            data,
            ..
        } = &self.trained;
        let Some([published, of_record]) = &self.published else {
            say!("published  nothing for these data, {data}")?;
            return say!("found      tree {parameters}, record {record}");
        };
        if self.is_equal() == Some(true) {
            return say!("published  tree {published}, record {of_record}: equal");
        }
        say!("published  tree {published}, record {of_record}")?;
        say!("differs    tree {parameters}, record {record}")
    }
}
