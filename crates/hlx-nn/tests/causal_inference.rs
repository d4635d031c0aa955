//! Causal models with weights of 16 bits: the bits of the same model with the rounded weights in f32.

use std::path::PathBuf;

use hlx_autograd::{DType, Tensor, no_grad};
use hlx_core::Device;
use hlx_nn::{
    CausalConfig, CausalInput, CausalLm, CausalModel, ExpertsConfig, InferenceModel, Mode, Model,
    NnError, Result, TokenStep, export_hugging_face, hugging_face_dtype, import_hugging_face,
    import_hugging_face_as,
};

const VOCABULARY: usize = 40;

/// Small sizes in the shape of a preset, with rows of whole 16 bytes for the kernels of few rows, and
/// matrices of whole windows, so that those of one input can be one product.
fn small(preset: &str) -> CausalConfig {
    let base = CausalConfig::preset(preset).expect("a preset");
    let experts = base.experts.clone().map(|experts| ExpertsConfig {
        n_experts: 4,
        width: 64,
        ..experts
    });
    CausalConfig {
        experts,
        vocabulary: VOCABULARY,
        width: 24,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: if preset == "gpt2" { 4 } else { 2 },
        head_width: if preset == "gpt2" { 6 } else { 8 },
        feed_forward_width: 64,
        max_positions: 64,
        window: (preset == "gemma2").then_some(5),
        full_layers: if preset == "gemma2" {
            vec![1]
        } else {
            Vec::new()
        },
        ..base
    }
}

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn of(device: &Device, config: &CausalConfig, name: &str) -> Result<Self> {
        let name = format!("hlx-inference-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        let model = Model::new(device, 7, |b| CausalLm::new(b, config))?;
        export_hugging_face(model.weights(), config, &folder.0)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder's model in f32, with the matrices rounded to a type.
fn rounded(device: &Device, folder: &Folder, dtype: DType) -> Result<Model<CausalLm>> {
    let model = import_hugging_face(device, &folder.0)?;
    for parameter in model.weights().parameters() {
        if parameter.shape().len() == 2 {
            let values = parameter.tensor()?.detach().to_dtype(dtype)?;
            let values = values.to_dtype(DType::F32)?.to_vec::<f32>()?;
            device.upload(&parameter.tensor()?.detach().buffer()?, &values)?;
        }
    }
    Ok(model)
}

fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor
        .to_vec::<f32>()?
        .into_iter()
        .map(f32::to_bits)
        .collect())
}

/// Logits of two whole sequences, and of one of them through a cache, token by token behind a prompt.
fn logits(model: &CausalLm, device: &Device) -> Result<Vec<Vec<u32>>> {
    let ids: Vec<u32> = (0..18).map(|at| (at * 7 + 3) % VOCABULARY as u32).collect();
    no_grad(|| {
        let whole = Tensor::from_slice::<u32>(device, &ids, &[2, 9])?;
        let all = model.logits(&CausalInput::new(&whole), &Mode::eval())?;
        let mut found = vec![bits(&all)?];
        let mut cache = model.cache(device, 1, 16)?;
        for (at, n) in [(0, 7), (7, 1), (8, 1)] {
            let ids = Tensor::from_slice::<u32>(device, &ids[at..at + n], &[1, n])?;
            found.push(bits(&model.logits_cached(&ids, &[n], None, &mut cache)?)?);
        }
        let joined = found[1..].concat();
        assert_eq!(joined, found[0][..joined.len()], "the cache changes bits");
        Ok(found)
    })
}

#[test]
fn weights_of_16_bits_have_the_bits_of_the_rounded_model() -> Result<()> {
    let mut of_devices = Vec::new();
    for (device_idx, device) in hlx_core::testing::devices().iter().enumerate() {
        let mut found = Vec::new();
        for (preset, dtype) in [
            ("qwen3", DType::BF16),
            ("qwen3", DType::F16),
            ("gpt2", DType::BF16),
            ("gemma2", DType::BF16),
        ] {
            let name = format!("{device_idx}-{preset}-{dtype}");
            let folder = Folder::of(device, &small(preset), &name)?;
            let half = import_hugging_face_as(device, &folder.0, dtype)?;
            let ours = logits(&half, device)?;
            let rounded = rounded(device, &folder, dtype)?;
            assert_eq!(ours, logits(&rounded, device)?, "{name}");
            found.push(ours);
        }
        of_devices.push(found);
    }
    assert!(of_devices.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}

/// A model rounded when it is taken over, and one rounded in place, are those of the file.
#[test]
fn a_model_in_memory_is_rounded_as_its_file_is() -> Result<()> {
    let device = &hlx_core::testing::cpu()?;
    for (preset, dtype) in [("mixtral", DType::BF16), ("gpt2", DType::F16)] {
        let config = small(preset);
        let folder = Folder::of(device, &config, &format!("memory-{preset}"))?;
        let from_file = rounded(device, &folder, dtype)?;
        let expected = logits(&from_file, device)?;
        let whole = import_hugging_face(device, &folder.0)?;
        let half = InferenceModel::rounded(device, dtype, whole.weights(), |b| {
            CausalLm::new(b, &config)
        })?;
        assert_eq!(logits(&half, device)?, expected, "{preset}");
        assert_ne!(logits(&whole, device)?, expected, "{preset}");
        whole.weights().round_matrices(dtype)?;
        assert_eq!(logits(&whole, device)?, expected, "{preset} in place");
        assert_eq!(hugging_face_dtype(&folder.0)?, DType::F32);
    }
    Ok(())
}

/// The norm, queries, keys and values are one product; their norms, rotations and places in the cache one launch;
/// then come scores, values, the product back with the residual, norm, gate and up, and the product back with gate
/// and residual. What each query sees is computed once for all layers.
#[test]
fn a_layer_of_a_token_is_seven_launches_on_a_gpu() -> Result<()> {
    for device in hlx_core::testing::vulkan_devices() {
        let launches = |n_layers| {
            let config = CausalConfig {
                n_layers,
                ..small("qwen3")
            };
            let model =
                InferenceModel::zeroed(&device, DType::BF16, |b| CausalLm::new(b, &config))?;
            let mut cache = model.cache(&device, 1, 16)?;
            let mut step = TokenStep::new(&*model);
            step.logits(&[1], &mut cache)?;
            Ok::<_, NnError>(step.n_launches())
        };
        assert_eq!(launches(3)? - launches(2)?, 7, "{}", device.info());
    }
    Ok(())
}

#[test]
fn matrices_take_half_the_memory() -> Result<()> {
    let device = &hlx_core::testing::cpu()?;
    let config = small("llama3");
    let bytes = |dtype| {
        let model = InferenceModel::zeroed(device, dtype, |b| CausalLm::new(b, &config))?;
        let matrices = model.parameters().iter();
        let matrices = matrices.filter(|parameter| parameter.shape().len() == 2);
        let n_elements: usize = matrices.map(hlx_nn::Parameter::n_elements).sum();
        Ok::<_, NnError>((model.n_bytes(), n_elements))
    };
    let ((halves, n_elements), (whole, _)) = (bytes(DType::BF16)?, bytes(DType::F32)?);
    assert_eq!(whole - halves, 2 * n_elements);
    Ok(())
}

#[test]
fn unfitting_types_and_values_are_refused() -> Result<()> {
    let device = &hlx_core::testing::cpu()?;
    let config = small("llama3");
    let refused = InferenceModel::zeroed(device, DType::I8, |b| CausalLm::new(b, &config));
    let text = refused.expect_err("it is refused").to_string();
    assert_eq!(text, "inference: weights of i8, expected f32, f16 or bf16");
    let model = InferenceModel::zeroed(device, DType::F16, |b| CausalLm::new(b, &config))?;
    let parameter = &model.parameters()[0];
    let refused = model.load(parameter, &[0.0; 3]).expect_err("it is refused");
    let expected = "inference: model.embed_tokens.weight has 3 elements, expected 960";
    assert_eq!(refused.to_string(), expected);
    let mut values = vec![65_519.0; 960];
    model.load(parameter, &values)?;
    assert_eq!(
        parameter.tensor()?.to_dtype(DType::F32)?.to_vec::<f32>()?[0],
        65_504.0
    );
    values[7] = -65_520.0;
    let refused = model.load(parameter, &values).expect_err("it is refused");
    let expected = "inference: model.embed_tokens.weight holds -6.552e4, which f16 does not reach";
    assert_eq!(refused.to_string(), expected);
    Ok(())
}
