//! The layers of language models as modules: a block is its parts, one after the other.

use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{
    Attention, Block, CausalConfig, FeedForward, LayerNorm, Mode, Model, Module, ParameterBuilder,
    RMSNorm, Result, TransformerConfig,
};

/// The parts of a block, declared in its order, so that they begin with its values.
struct Parts {
    attention_norm: Box<dyn Module>,
    attention: Attention,
    network_norm: Box<dyn Module>,
    network: FeedForward,
}

impl Parts {
    fn new(b: &mut ParameterBuilder, config: &CausalConfig, is_rms: bool) -> Result<Self> {
        let (width, eps) = (config.width, config.norm_eps);
        let norm = |b: &mut ParameterBuilder| -> Box<dyn Module> {
            match is_rms {
                true => Box::new(RMSNorm::new(b, &[width]).with_eps(eps)),
                false => Box::new(LayerNorm::new(b, width).with_eps(eps)),
            }
        };
        Ok(Self {
            attention_norm: norm(&mut b.child("one")),
            attention: Attention::new(&mut b.child("attention"), config, 0)?,
            network_norm: norm(&mut b.child("two")),
            network: FeedForward::new(&mut b.child("network"), config)?,
        })
    }
}

impl Module for Parts {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let normed = self.attention_norm.forward(x, mode)?;
        let x = x.add(&self.attention.forward(&normed, mode)?)?;
        let normed = self.network_norm.forward(&x, mode)?;
        Ok(x.add(&self.network.forward(&normed, mode)?)?)
    }
}

/// Two shapes, and whether their norms are RMS norms.
fn configs() -> [(CausalConfig, bool); 2] {
    let packed = TransformerConfig {
        width: 24,
        n_heads: 3,
        feed_forward_width: 40,
        ..TransformerConfig::tiny()
    };
    let rotary = CausalConfig {
        width: 24,
        n_heads: 3,
        n_kv_heads: 1,
        head_width: 8,
        feed_forward_width: 40,
        max_positions: 16,
        ..CausalConfig::preset("llama3").expect("a preset")
    };
    [(packed.into(), false), (rotary, true)]
}

/// The output of a module, and the gradient of what it reads.
fn outcome<M: Module>(device: &Device, model: &Model<M>) -> Result<(Vec<f32>, Vec<f32>)> {
    let x = Tensor::randn(device, &[2, 9, 24], 5)?.with_gradient();
    let y = model.forward(&x, &Mode::train(device, 1)?)?;
    y.square()?.sum()?.backward()?;
    let dx = x.grad().expect("a gradient").to_vec::<f32>()?;
    Ok((y.to_vec::<f32>()?, dx))
}

#[test]
fn a_block_is_its_parts_one_after_the_other() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        for (config, is_rms) in configs() {
            let block = Model::new(&device, 3, |b| Block::new(b, &config, 0))?;
            let parts = Model::new(&device, 3, |b| Parts::new(b, &config, is_rms))?;
            assert_eq!(outcome(&device, &block)?, outcome(&device, &parts)?);
        }
    }
    Ok(())
}

#[test]
fn shapes_and_sizes_that_do_not_fit_are_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    for (config, _) in configs() {
        let block = Model::new(&device, 3, |b| Block::new(b, &config, 0))?;
        let flat = Tensor::randn(&device, &[9, 24], 5)?;
        let error = block.forward(&flat, &Mode::eval()).expect_err("refused");
        let expected = "causal model: x has shape [9, 24], expected [batch, time, width]";
        assert_eq!(error.to_string(), expected);
        let none = CausalConfig {
            n_layers: 0,
            ..config
        };
        let refused = Block::new(&mut ParameterBuilder::new(), &none, 0);
        let line = refused.expect_err("refused").to_string();
        assert!(
            line.ends_with("n_layers is 0, expected at least 1"),
            "{line}"
        );
    }
    Ok(())
}
