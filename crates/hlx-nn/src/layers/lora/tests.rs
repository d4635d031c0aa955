//! Adapters of linear layers: what they compute, what is trained, merging, files.

mod variants;

use super::*;
use crate::{
    AdamW, AdamWConfig, CausalLm, Mode, Model, Module, Optimizer, TransformerConfig, peft_config,
};
use crate::{NnError, Weights};
use hlx_autograd::Recompute;
use hlx_core::Device;
use safetensors::SafeTensors;

fn config() -> LoraConfig {
    LoraConfig {
        rank: 2,
        alpha: 3.0,
        targets: vec!["*.attention.qkv".to_owned(), "*.feed_forward.*".to_owned()],
        ..LoraConfig::default()
    }
}

fn sizes() -> TransformerConfig {
    TransformerConfig {
        vocabulary: 13,
        width: 8,
        n_layers: 2,
        n_heads: 2,
        feed_forward_width: 12,
        positions: 6,
        dropout: 0.0,
        attention_dropout: 0.0,
    }
}

fn model(device: &Device, lora: Option<LoraConfig>) -> Result<Model<CausalLm>> {
    Model::new(device, 5, |b| {
        if let Some(config) = lora {
            b.with_lora(config);
        }
        CausalLm::new(b, &sizes().into())
    })
}

fn logits(model: &Model<CausalLm>) -> Result<Vec<f32>> {
    let ids: Vec<u32> = (0..12).map(|i| i * 5 % 13).collect();
    let ids = Tensor::from_slice::<u32>(model.weights().device(), &ids, &[2, 6])?;
    let logits = no_grad(|| model.forward(&ids, &Mode::eval()))?;
    Ok(logits.to_vec::<f32>()?)
}

/// Trains a few steps towards fixed targets.
fn train(model: &Model<CausalLm>, recompute: Option<Recompute>) -> Result<()> {
    let weights = model.weights();
    let device = weights.device();
    let mut adamw = AdamW::new(weights, AdamWConfig::default())?;
    let ids = Tensor::from_slice::<u32>(device, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &[2, 6])?
        .with_samples(0)?;
    let one = Tensor::from_slice(device, &[1.0 / 12.0], &[1])?;
    let mode = Mode::train(device, 0)?.with_recomputation(recompute);
    for _ in 0..3 {
        let loss = model
            .forward(&ids, &mode)?
            .cross_entropy_scaled(&ids, &one, 0.0)?;
        weights.zero_grad()?;
        loss.backward()?;
        adamw.step(weights, 0.05)?;
    }
    Ok(())
}

#[test]
fn an_adapter_changes_nothing_at_first_and_alone_is_trained() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let adapted = model(device, Some(config()))?;
        let names: Vec<&str> = adapted
            .weights()
            .parameters()
            .iter()
            .map(Parameter::name)
            .collect();
        assert_eq!(names.iter().filter(|name| is_of_adapter(name)).count(), 12);
        let base = model(device, None)?;
        for parameter in base.weights().parameters() {
            let own = adapted
                .weights()
                .get(parameter.name())
                .expect("the base's parameter");
            let values = parameter.tensor()?.detach().to_vec::<f32>()?;
            device.upload(&own.tensor()?.buffer()?, &values)?;
        }
        assert_eq!(logits(&adapted)?, logits(&base)?);
        adapted.weights().freeze_all_but_lora(&config())?;
        train(&adapted, None)?;
        for parameter in base.weights().parameters() {
            let own = adapted
                .weights()
                .get(parameter.name())
                .expect("the base's parameter");
            assert_eq!(
                own.tensor()?.to_vec::<f32>()?,
                parameter.tensor()?.detach().to_vec::<f32>()?
            );
        }
        let trained = logits(&adapted)?;
        assert_ne!(trained, logits(&base)?);

        adapted.weights().merge_lora(&config())?;
        for (merged, apart) in logits(&adapted)?.iter().zip(&trained) {
            assert!(
                (merged - apart).abs() <= 1e-5 * apart.abs().max(1.0),
                "{merged} {apart}"
            );
        }
    }
    Ok(())
}

/// Gradients of both factors by finite differences of the loss in the layer itself.
#[test]
fn an_adapter_is_the_product_of_its_factors() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let mut b = ParameterBuilder::new();
    b.with_lora(LoraConfig {
        targets: vec!["fc".to_owned()],
        ..config()
    });
    let linear = crate::Linear::new(&mut b.child("fc"), 3, 4);
    let other = crate::Linear::new(&mut b.child("other"), 3, 4);
    assert!(other.lora.is_none());
    let weights = b.build(&device, 1)?;
    let lora = linear.lora.as_ref().expect("an adapter");
    let values = |n: usize| -> Vec<f32> { (0..n).map(|i| (i as f32 * 0.7).cos()).collect() };
    device.upload(&lora.b.tensor()?.buffer()?, &values(8))?;
    let x = Tensor::from_slice(&device, &values(6), &[2, 3])?;
    let y = linear.forward(&x, &Mode::eval())?.to_vec::<f32>()?;
    let host = |parameter: &Parameter| {
        parameter
            .tensor()?
            .detach()
            .to_vec::<f32>()
            .map_err(NnError::from)
    };
    let (w, bias) = (
        host(&linear.weight)?,
        host(linear.bias.as_ref().expect("a bias"))?,
    );
    let (fa, fb) = (host(&lora.a)?, host(&lora.b)?);
    for (row, x) in values(6).chunks(3).enumerate() {
        for out in 0..4 {
            let mut want = f64::from(bias[out]);
            for k in 0..3 {
                let product: f64 = (0..2)
                    .map(|r| f64::from(fb[2 * out + r]) * f64::from(fa[3 * r + k]))
                    .sum();
                want += f64::from(x[k]) * (f64::from(w[3 * out + k]) + 1.5 * product);
            }
            assert!((f64::from(y[4 * row + out]) - want).abs() < 1e-5);
        }
    }
    drop(weights);
    Ok(())
}

#[test]
fn recomputed_blocks_with_adapters_have_the_same_bits() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let trained = |recompute| -> Result<String> {
        let model = model(&device, Some(config()))?;
        model.weights().freeze_all_but_lora(&config())?;
        train(&model, recompute)?;
        model.weights().digest()
    };
    let saved = trained(None)?;
    assert_eq!(trained(Some(Recompute::All))?, saved);
    assert_eq!(trained(Some(Recompute::AllButAttention))?, saved);
    Ok(())
}

#[test]
fn adapters_come_back_from_pefts_files_or_name_the_fault() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let first = model(&device, Some(config()))?;
    first.weights().freeze_all_but_lora(&config())?;
    train(&first, None)?;
    let file = first.weights().lora_to_safetensors(&config(), None)?;
    let names = SafeTensors::deserialize(&file).expect("reads");
    let name = "base_model.model.blocks.0.attention.qkv.lora_A.weight";
    assert_eq!(names.tensor(name).expect("it is there").shape(), [2, 8]);
    let second = model(&device, Some(config()))?;
    assert_ne!(second.weights().digest()?, first.weights().digest()?);
    second.weights().load_lora(&file, &config(), None)?;
    assert_eq!(second.weights().digest()?, first.weights().digest()?);

    let wider = LoraConfig {
        rank: 3,
        ..config()
    };
    let refused = |lora: LoraConfig| -> Result<String> {
        let model = model(&device, Some(lora))?;
        Ok(model
            .weights()
            .load_lora(&file, &config(), None)
            .expect_err("refused")
            .to_string())
    };
    let expected = format!("adapter: {name} has shape [2, 8], expected [3, 8]");
    assert_eq!(refused(wider)?, expected);
    let fewer = LoraConfig {
        targets: vec!["*.attention.qkv".to_owned()],
        ..config()
    };
    assert!(refused(fewer)?.contains("is of no adapter of the model"));
    let more = LoraConfig {
        targets: vec!["*".to_owned()],
        ..config()
    };
    assert!(refused(more)?.ends_with("is missing"));
    let none = model(&device, None)?;
    let message = none
        .weights()
        .freeze_all_but_lora(&config())
        .expect_err("refused")
        .to_string();
    assert_eq!(message, "lora: targets name no linear layer of the model");
    let peft: serde_json::Value =
        serde_json::from_str(&peft_config(&config(), first.weights(), None).expect("JSON"))
            .expect("JSON");
    assert_eq!((&peft["r"], &peft["lora_alpha"]), (&2.into(), &3.0.into()));
    assert_eq!(peft["target_modules"].as_array().expect("a list").len(), 6);
    Ok(())
}
