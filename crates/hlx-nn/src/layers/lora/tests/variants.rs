//! Patterns of ranks and alphas, rank-stabilised and weight-decomposed adapters, modules that are trained as a whole.

use super::*;
use crate::{CausalModel as _, TokenStep};

fn with(change: impl FnOnce(&mut LoraConfig)) -> LoraConfig {
    let mut lora = config();
    change(&mut lora);
    lora
}

fn patterns<T: Copy>(entries: &[(&str, T)]) -> NamePatterns<T> {
    let entries = entries.iter().map(|&(key, value)| (key.to_owned(), value));
    entries.collect()
}

/// DoRA with everything else, over the qkv and the feed-forward layers.
fn everything() -> LoraConfig {
    with(|lora| {
        (lora.dora, lora.rslora) = (true, true);
        lora.rank_pattern = patterns(&[("qkv", 3), (r"blocks\.1\.feed_forward\..*", 1)]);
        lora.alpha_pattern = patterns(&[("feed_forward.*", 5.0)]);
        lora.modules_to_save = vec!["*norm*".to_owned(), "*embedding".to_owned()];
    })
}

/// A model over the base's weights, with all else frozen.
fn adapted(device: &Device, base: &Model<CausalLm>, lora: &LoraConfig) -> Result<Model<CausalLm>> {
    let adapted = model(device, Some(lora.clone()))?;
    let weights = adapted.weights();
    weights.load_base_safetensors(&base.weights().to_safetensors()?)?;
    weights.freeze_all_but_lora(lora)?;
    Ok(adapted)
}

#[test]
fn the_first_pattern_that_describes_a_layer_says_its_numbers() {
    let lora = with(|lora| {
        lora.rank_pattern = patterns(&[("a.q", 5), ("q", 3), (r"b\.(k|v)", 1), ("o|u", 7)]);
        lora.alpha_pattern = patterns(&[("q", 6.0)]);
    });
    lora.check().expect("right");
    let rules = LoraRules::new(lora.clone());
    // As PEFT: behind a dot, or the whole name; never a part of a word.
    for (layer, rank) in [
        ("a.q", 5),
        ("x.a.q", 5),
        ("b.q", 3),
        ("q", 3),
        ("b.qq", 2),
        ("xq", 2),
        ("b.v", 1),
        ("b.v.w", 2),
        ("x.o", 7),
        ("x.u", 7),
    ] {
        assert_eq!(rules.rank(layer), rank, "{layer}");
    }
    assert_eq!(rules.scale("a.q"), 6.0 / 5.0);
    assert_eq!(rules.scale("b.v"), 3.0);
    let stable = LoraRules::new(LoraConfig {
        rslora: true,
        ..lora.clone()
    });
    assert_eq!(stable.scale("a.q"), (6.0 / 5.0_f64.sqrt()) as f32);
    // The order is that of the file.
    let text = serde_json::to_string(&lora).expect("JSON");
    assert!(text.contains(r#""rank_pattern":{"a.q":5,"q":3,"#), "{text}");
    let read: LoraConfig = serde_json::from_str(&text).expect("reads");
    assert_eq!(read, lora);
    // What is not said is not written: files of before are what they were.
    let text = serde_json::to_string(&config()).expect("JSON");
    assert!(
        !text.contains("rslora") && !text.contains("pattern"),
        "{text}"
    );
}

#[test]
fn what_names_nothing_or_is_no_expression_is_refused_in_a_line() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let base = model(&device, None)?;
    type Change = fn(&mut LoraConfig);
    let changes: [(Change, &str); 7] = [
        (
            |lora| lora.rank_pattern = patterns(&[("q(", 2)]),
            "lora: rank_pattern: `q(` is no regular expression: ",
        ),
        (
            |lora| lora.alpha_pattern = patterns(&[("[a-", 2.0)]),
            "lora: alpha_pattern: `[a-` is no regular expression: ",
        ),
        (
            |lora| lora.rank_pattern = patterns(&[("qkv", 0)]),
            "lora: rank_pattern: qkv is 0, expected at least 1",
        ),
        (
            |lora| lora.alpha_pattern = patterns(&[("qkv", f64::NAN)]),
            "lora: alpha_pattern: qkv is NaN, expected more than 0 and finite",
        ),
        (
            |lora| lora.rank_pattern = patterns(&[("qkv", 2), ("kv", 2)]),
            "lora: rank_pattern: `kv` names no layer with an adapter",
        ),
        (
            |lora| lora.alpha_pattern = patterns(&[("out", 2.0)]),
            "lora: alpha_pattern: `out` names no layer with an adapter",
        ),
        (
            |lora| lora.modules_to_save = vec!["*norm*".to_owned(), "norm".to_owned()],
            "lora: modules_to_save: `norm` names no module of the model",
        ),
    ];
    for (change, expected) in changes {
        let lora = with(change);
        let refused = lora
            .check()
            .and_then(|()| adapted(&device, &base, &lora).map(|_| ()));
        let line = refused.expect_err("refused").to_string();
        assert!(line.starts_with(expected) && !line.contains('\n'), "{line}");
    }
    Ok(())
}

/// Every kind of adapter changes no bit before it is trained, and merged computes the same as apart, except for rounding.
#[test]
fn every_kind_begins_as_its_base_and_merges_into_it() -> Result<()> {
    let kinds = [
        with(|lora| lora.rslora = true),
        with(|lora| lora.dora = true),
        everything(),
    ];
    for lora in &kinds {
        let mut digests = Vec::new();
        for device in hlx_core::testing::devices() {
            let base = model(device, None)?;
            let model = adapted(device, &base, lora)?;
            assert_eq!(logits(&model)?, logits(&base)?, "{lora:?}");
            train(&model, None)?;
            let trained = logits(&model)?;
            assert_ne!(trained, logits(&base)?);
            let rules = LoraRules::new(lora.clone());
            for one in model.weights().parameters() {
                let Some(before) = base.weights().get(one.name()) else {
                    continue;
                };
                let is_saved = weights::module_of(one).is_some_and(|module| rules.saves(module));
                let same = one.tensor()?.detach().to_vec::<f32>()?
                    == before.tensor()?.detach().to_vec::<f32>()?;
                assert_eq!(same, !is_saved, "{}", one.name());
            }
            digests.push(model.weights().digest()?);
            model.weights().merge_lora(lora)?;
            for (merged, apart) in logits(&model)?.iter().zip(&trained) {
                assert!(
                    (merged - apart).abs() <= 2e-5 * apart.abs().max(1.0),
                    "{merged} {apart}"
                );
            }
        }
        assert!(digests.iter().all(|one| *one == digests[0]), "{digests:?}");
    }
    Ok(())
}

#[test]
fn recomputed_blocks_with_every_kind_have_the_same_bits() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let base = model(&device, None)?;
    let trained = |recompute| -> Result<String> {
        let model = adapted(&device, &base, &everything())?;
        train(&model, recompute)?;
        model.weights().digest()
    };
    assert_eq!(trained(Some(Recompute::All))?, trained(None)?);
    Ok(())
}

/// Passes of one cache share the norms: the bits are those of a whole pass, which computes them.
#[test]
fn cached_passes_of_a_weight_decomposed_model_have_the_bits_of_a_whole_one() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let model = adapted(device, &model(device, None)?, &everything())?;
        train(&model, None)?;
        let words = [3_u32, 1, 4, 1, 5, 9];
        let ids = |words: &[u32]| Tensor::from_slice::<u32>(device, words, &[1, words.len()]);
        let bits = |logits: Tensor| -> Result<Vec<u32>> {
            let values = logits.to_vec::<f32>()?.into_iter();
            Ok(values.map(f32::to_bits).collect())
        };
        let whole = no_grad(|| model.forward(&ids(&words)?, &Mode::eval()))?;
        let whole = bits(whole)?;
        let mut cache = model.cache(device, 1, 6)?;
        let first = no_grad(|| model.logits_cached(&ids(&words[..2])?, &[2], None, &mut cache))?;
        let mut found = bits(first)?;
        let mut step = TokenStep::new(&*model);
        for word in &words[2..] {
            found.extend(bits(step.logits(&[*word], &mut cache)?)?);
        }
        assert!(found == whole, "{}", device.info());
    }
    Ok(())
}

/// The layer of a weight-decomposed adapter in f64, with a bias and a residual, and a row of zeros.
#[test]
fn a_weight_decomposed_layer_has_rows_of_its_magnitudes() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let mut b = ParameterBuilder::new();
        b.with_lora(with(|lora| {
            lora.targets = vec!["fc".to_owned()];
            lora.dora = true;
        }));
        let linear = crate::Linear::new(&mut b.child("fc"), 3, 4);
        let _weights: Weights = b.build(device, 1)?;
        let lora = linear.lora.as_ref().expect("an adapter");
        let magnitude = lora.magnitude.as_ref().expect("magnitudes");
        let values =
            |n: usize, by: f32| -> Vec<f32> { (0..n).map(|i| (i as f32 * by).cos()).collect() };
        let set = |parameter: &Parameter, values: &[f32]| -> Result<()> {
            Ok(device.upload(&parameter.tensor()?.detach().buffer()?, values)?)
        };
        let (mut w, mut fb, m) = (values(12, 0.9), values(8, 0.7), values(4, 0.3));
        w[9..].fill(0.0);
        fb[6..].fill(0.0);
        set(&linear.weight, &w)?;
        set(&lora.b, &fb)?;
        set(magnitude, &m)?;
        let x = Tensor::from_slice(device, &values(6, 1.1), &[2, 3])?;
        let residual = Tensor::from_slice(device, &values(8, 0.2), &[2, 4])?;
        let y = linear
            .forward_add(&x, &residual, &Mode::eval())?
            .to_vec::<f32>()?;
        let host =
            |one: &Parameter| -> Result<Vec<f32>> { Ok(one.tensor()?.detach().to_vec::<f32>()?) };
        let (fa, bias) = (host(&lora.a)?, host(linear.bias.as_ref().expect("a bias"))?);
        for (row, x) in values(6, 1.1).chunks(3).enumerate() {
            for out in 0..4 {
                let v: Vec<f64> = (0..3)
                    .map(|k| {
                        let of = |r: usize| f64::from(fb[2 * out + r]) * f64::from(fa[3 * r + k]);
                        f64::from(w[3 * out + k]) + 1.5 * (of(0) + of(1))
                    })
                    .collect();
                let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
                let product: f64 = (0..3).map(|k| f64::from(x[k]) * v[k]).sum();
                let scaled = match norm > 0.0 {
                    true => product * f64::from(m[out]) / norm,
                    false => 0.0,
                };
                let want = scaled + f64::from(bias[out]) + f64::from(values(8, 0.2)[4 * row + out]);
                let found = f64::from(y[4 * row + out]);
                assert!((found - want).abs() < 1e-5, "{found} {want}");
            }
        }
    }
    Ok(())
}
