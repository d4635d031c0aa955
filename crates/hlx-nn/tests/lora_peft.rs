//! Adapters against the library PEFT: its file is read, and outputs, gradients and merged weights are its own
//! (`tests/fixtures/make_lora.py`).

use hlx_autograd::Tensor;
use hlx_nn::{Linear, LoraConfig, Mode, Model, Module, ParameterBuilder, Result};
use safetensors::SafeTensors;

const ADAPTER: &[u8] = include_bytes!("fixtures/lora_adapter.safetensors");
const OUTPUTS: &[u8] = include_bytes!("fixtures/lora_outputs.safetensors");

struct Net {
    fc1: Linear,
    fc2: Linear,
}

impl Module for Net {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let x = self.fc1.forward(x, mode)?.relu()?;
        self.fc2.forward(&x, mode)
    }
}

fn fixture(name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(OUTPUTS).expect("reads");
    let view = file.tensor(name).expect(name);
    let words = view.data().as_chunks::<4>().0.iter();
    words.map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let tolerance = 1e-5 * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}: {found} {expected}"
        );
    }
}

#[test]
fn pefts_adapter_computes_what_peft_computes() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let config = LoraConfig {
            rank: 2,
            alpha: 5.0,
            targets: vec!["fc1".to_owned(), "fc2".to_owned()],
            ..LoraConfig::default()
        };
        let net = Model::new(device, 0, |b: &mut ParameterBuilder| {
            b.with_lora(config.clone());
            Ok(Net {
                fc1: Linear::new(&mut b.child("fc1"), 5, 7),
                fc2: Linear::new(&mut b.child("fc2"), 7, 3),
            })
        })?;
        let weights = net.weights();
        let base = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"];
        let values = |name: &str| -> Result<Tensor> {
            Ok(weights.get(name).expect(name).tensor()?.detach())
        };
        for name in base {
            device.upload(&values(name)?.buffer()?, &fixture(&format!("base.{name}")))?;
        }
        weights.load_lora(ADAPTER, &config, None)?;
        weights.freeze_all_but_lora(&config)?;
        let x = Tensor::from_slice(device, &fixture("x"), &[4, 5])?;
        let y = net.forward(&x, &Mode::eval())?;
        assert_close("y", &y.to_vec::<f32>()?, &fixture("y"));
        y.square()?.sum()?.backward()?;
        for parameter in weights
            .parameters()
            .iter()
            .filter(|one| one.requires_grad())
        {
            let gradient = parameter
                .tensor()?
                .grad()
                .expect("a gradient")
                .to_vec::<f32>()?;
            let name = format!("gradient.{}", parameter.name());
            assert_close(&name, &gradient, &fixture(&name));
        }
        let file = weights.lora_to_safetensors(&config, None)?;
        let (ours, pefts) = (
            SafeTensors::deserialize(&file),
            SafeTensors::deserialize(ADAPTER),
        );
        let (ours, pefts) = (ours.expect("reads"), pefts.expect("reads"));
        assert_eq!(ours.len(), pefts.len());
        for (name, view) in pefts.tensors() {
            assert_eq!(
                ours.tensor(&name).expect("the same name").data(),
                view.data()
            );
        }
        weights.merge_lora(&config)?;
        for name in base {
            let merged = values(name)?.to_vec::<f32>()?;
            assert_close(name, &merged, &fixture(&format!("merged.{name}")));
        }
    }
    Ok(())
}
