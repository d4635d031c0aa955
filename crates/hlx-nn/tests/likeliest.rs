//! The likeliest tokens, found on the device: those that a search on the host finds in the same logits.

use hlx_autograd::{Tensor, no_grad};
use hlx_nn::{CausalConfig, CausalLm, CausalModel, Model, Result, TokenStep, likeliest};

/// The place of the first of the largest, from the first to the last.
fn searched(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (place, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = place;
        }
    }
    best as u32
}

/// Rows with many equal logits, at the ends of the pieces and lanes of a reduction too.
fn rows(vocabulary: usize) -> Vec<Vec<f32>> {
    let spread = |row: usize, place: usize| {
        let word = ((row * 40_503 + place) as u32).wrapping_mul(2_654_435_761) >> 24;
        word as f32 / 16.0 - 12.0
    };
    let mut rows: Vec<Vec<f32>> = (0..6)
        .map(|row| (0..vocabulary).map(|place| spread(row, place)).collect())
        .collect();
    rows.push(vec![-3.0; vocabulary]);
    rows.push(vec![f32::NEG_INFINITY; vocabulary]);
    let zeros = (0..vocabulary).map(|place| if place % 2 == 0 { -0.0 } else { 0.0 });
    rows.push(zeros.collect());
    let places = [0, 127, 128, 4095, 4096, vocabulary / 2, vocabulary - 1];
    for (number, &place) in places.iter().enumerate() {
        let mut row = vec![1.0; vocabulary];
        for &other in &places[number..] {
            if let Some(logit) = row.get_mut(other) {
                *logit = 2.0;
            }
        }
        if let Some(logit) = row.get_mut(place) {
            *logit = f32::INFINITY;
        }
        rows.push(row);
    }
    rows
}

#[test]
fn ids_are_those_of_a_search_of_equal_ones_the_first() -> Result<()> {
    for device in hlx_core::testing::devices() {
        for vocabulary in [1, 5, 128, 129, 4097, 10_007] {
            let rows = rows(vocabulary);
            let logits = Tensor::from_slice(device, &rows.concat(), &[rows.len(), vocabulary])?;
            let found = likeliest(&logits)?.to_vec::<u32>()?;
            let expected: Vec<u32> = rows.iter().map(|row| searched(row)).collect();
            assert_eq!(found, expected, "{vocabulary} {}", device.info());
        }
        // A NaN anywhere is told by an id that the vocabulary does not have.
        for place in [0, 77, 299] {
            let mut row = vec![f32::INFINITY; 300];
            row[place] = f32::NAN;
            let logits = Tensor::from_slice(device, &[row, vec![1.0; 300]].concat(), &[2, 300])?;
            let found = likeliest(&logits)?.to_vec::<u32>()?;
            assert!(found[0] >= 300 && found[1] == 0, "{found:?}");
        }
    }
    Ok(())
}

/// A step gives either result, recorded anew where the other was asked for.
#[test]
fn a_recorded_step_gives_logits_or_the_likeliest_tokens() -> Result<()> {
    let mut config = CausalConfig::preset("llama3").expect("a preset");
    (config.vocabulary, config.width, config.n_layers) = (300, 32, 1);
    (config.n_heads, config.n_kv_heads, config.head_width) = (4, 2, 8);
    (config.feed_forward_width, config.max_positions) = (64, 16);
    for device in &hlx_core::testing::own_devices() {
        let model = Model::new(device, 42, |b| CausalLm::new(b, &config))?;
        no_grad(|| -> Result<()> {
            let mut caches = [model.cache(device, 2, 16)?, model.cache(device, 2, 16)?];
            let mut steps = [TokenStep::new(&*model), TokenStep::new(&*model)];
            for ids in [[7, 8], [9, 7], [8, 7], [1, 2]] {
                let logits = steps[0].logits(&ids, &mut caches[0])?.to_vec::<f32>()?;
                let expected: Vec<u32> = logits.chunks(300).map(searched).collect();
                let found = match ids {
                    [8, 7] => likeliest(&steps[1].logits(&ids, &mut caches[1])?)?,
                    _ => steps[1].likeliest(&ids, &mut caches[1])?,
                };
                assert_eq!(found.shape(), [2]);
                assert_eq!(found.to_vec::<u32>()?, expected, "{}", device.info());
            }
            Ok(())
        })?;
    }
    Ok(())
}
