//! Configurations that say a thing twice, leave keys out, or have keys of other classes: the shape that
//! `transformers` makes of each (`fixtures/configs.json`, by `fixtures/make_configs.py`), and the lines about them.

use hlx_nn::{Architecture, CausalConfig, FeedForwardKind, hugging_face_notes};
use serde::Deserialize;
use serde_json::Value;

use super::*;

#[derive(Deserialize)]
struct Case {
    config: Value,
    /// Null where `transformers` fails.
    model: Option<Shape>,
}

#[derive(Deserialize)]
struct Shape {
    class: String,
    vocabulary: usize,
    tied: bool,
    eps: f64,
    layers: Layers,
    #[serde(flatten)]
    other: Value,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Layers {
    Count(usize),
    Each(Vec<Layer>),
}

#[derive(Deserialize)]
struct Layer {
    window: Option<usize>,
    frequencies: Vec<f32>,
    experts: usize,
    biases: [bool; 2],
}

fn cases() -> Result<BTreeMap<String, Case>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/configs.json");
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn class_of(config: &CausalConfig) -> &'static str {
    match config.architecture {
        Architecture::Gpt2 => "GPT2LMHeadModel",
        Architecture::Llama => "LlamaForCausalLM",
        Architecture::Mistral => "MistralForCausalLM",
        Architecture::Mixtral => "MixtralForCausalLM",
        Architecture::Qwen2 => "Qwen2ForCausalLM",
        Architecture::Qwen3 => "Qwen3ForCausalLM",
        Architecture::Qwen3Moe => "Qwen3MoeForCausalLM",
        Architecture::Gemma2 => "Gemma2ForCausalLM",
        Architecture::Gemma3 => "Gemma3ForCausalLM",
    }
}

fn assert_shape(name: &str, config: &CausalConfig, shape: &Shape) {
    assert_eq!(class_of(config), shape.class, "{name}");
    assert_eq!(config.vocabulary, shape.vocabulary, "{name}");
    assert_eq!(config.tied_output, shape.tied, "{name}: tied");
    assert_eq!(config.norm_eps, shape.eps as f32, "{name}: eps");
    let layers = match &shape.layers {
        Layers::Count(count) => {
            let sizes = [
                config.n_layers,
                config.n_heads,
                config.width,
                config.max_positions,
            ];
            let expected = ["heads", "width", "positions"].map(|key| shape.other[key].as_u64());
            let expected = [Some(*count as u64), expected[0], expected[1], expected[2]];
            return assert_eq!(sizes.map(|size| Some(size as u64)), expected, "{name}");
        }
        Layers::Each(layers) => layers,
    };
    assert_eq!(config.n_layers, layers.len(), "{name}");
    let rows = |heads: usize| serde_json::json!([heads * config.head_width, config.width]);
    assert_eq!(rows(config.n_heads), shape.other["query"], "{name}");
    assert_eq!(rows(config.n_kv_heads), shape.other["key"], "{name}");
    let scale = config.attention_scale.map(f64::from);
    let scale = scale.unwrap_or(1.0 / (config.head_width as f64).sqrt());
    assert_close(name, scale, &shape.other["scale"]);
    let caps = [config.attention_soft_cap, config.logit_soft_cap].map(|cap| cap.map(f64::from));
    assert_eq!(serde_json::json!(caps), shape.other["caps"], "{name}: caps");
    let is_gelu = config.feed_forward == FeedForwardKind::GeGlu;
    let has_dense = layers.iter().any(|layer| layer.experts == 0);
    assert_eq!(
        is_gelu && has_dense,
        shape.other["gelu"],
        "{name}: activation"
    );
    assert_eq!(config.feed_forward_bias, shape.other["mlp_bias"], "{name}");
    for (index, layer) in layers.iter().enumerate() {
        let label = format!("{name}, layer {index}");
        assert_eq!(config.window_of(index), layer.window, "{label}: window");
        assert_eq!(
            [config.qkv_bias, config.attention_out_bias],
            layer.biases,
            "{label}"
        );
        let experts = config.experts_of(index).map_or(0, |one| one.n_experts);
        assert_eq!(experts, layer.experts, "{label}: experts");
        let rotary = config.rotary_of(index).expect("rotary");
        let found = rotary.frequencies(config.head_width, config.max_positions);
        // LongRoPE's are those of the model's positions here, and of a pass's in transformers.
        if !name.starts_with("longrope") {
            assert_near(&label, &found, &layer.frequencies, 1e-6);
        }
        if index == 0 {
            let factor = f64::from(rotary.attention_factor());
            assert_close(&label, factor, &shape.other["attention_factor"]);
        }
    }
}

fn assert_close(name: &str, found: f64, expected: &Value) {
    let expected = expected.as_f64().expect("a number");
    assert!(
        (found / expected - 1.0).abs() < 1e-6,
        "{name}: {found}, expected {expected}"
    );
}

/// A folder with nothing but a configuration.
fn config_folder(config: &Value) -> Result<PathBuf> {
    let folder = folder("config")?;
    fs::write(folder.join("config.json"), config.to_string())?;
    Ok(folder)
}

#[test]
fn a_configuration_has_the_shape_that_transformers_makes_of_it() -> Result {
    let cases = cases()?;
    assert!(cases.len() > 90);
    for (name, case) in cases {
        let folder = config_folder(&case.config)?;
        let found = read_hugging_face_config(&folder);
        match (found, case.model) {
            (Ok(config), Some(shape)) => assert_shape(&name, &config, &shape),
            (Err(error), None) => assert_eq!(error.to_string().lines().count(), 1, "{name}"),
            (Ok(_), None) => return Err(format!("{name}: transformers does not read it").into()),
            (Err(error), Some(_)) => return Err(format!("{name}: {error}").into()),
        }
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// What the lines about a case begin with; no other case has a line.
const LINES: [(&str, &[&str]); 35] = [
    (
        "scaling beside parameters",
        &["`rope_scaling` is taken and `rope_parameters`, which"],
    ),
    ("and the base beside both", &["`rope_scaling` is taken"]),
    (
        "a base in parameters and beside",
        &["`rope_parameters.rope_theta` is taken and `rope_theta`, which"],
    ),
    (
        "a base in the scaling and beside",
        &["`rope_scaling.rope_theta` is taken"],
    ),
    (
        "two types",
        &["`rope_scaling.rope_type` is taken and `rope_scaling.type`, which"],
    ),
    (
        "two types, one default",
        &[
            "`rope_scaling.rope_type` is taken",
            "`rope_scaling.factor` is left out",
        ],
    ),
    ("no type", &["`rope_scaling.factor` is left out"]),
    (
        "a default with a factor",
        &[
            "`rope_parameters.factor` is left out",
            "`rope_parameters.mrope_section` is",
        ],
    ),
    (
        "llama3, positions beside",
        &["`original_max_position_embeddings` is taken and `rope_scaling.orig"],
    ),
    (
        "yarn, positions beside",
        &["`original_max_position_embeddings` is taken"],
    ),
    (
        "a part of the head",
        &["`partial_rotary_factor` is 0.5 and left out"],
    ),
    (
        "a part of the head, inside",
        &["`partial_rotary_factor` is 0.5 and left out"],
    ),
    (
        "gemma3, flat parameters",
        &[
            "`rope_parameters.factor` is left out",
            "`rope_parameters.rope_theta`",
            "`rope_parameters.rope_type`",
        ],
    ),
    (
        "gemma3, flat parameters and a base",
        &[
            "`rope_parameters.rope_theta`",
            "`rope_parameters.rope_type`",
        ],
    ),
    (
        "gemma3, both forms",
        &[
            "`rope_scaling.rope_type` is taken and `rope_parameters.full_attention.rope_type`",
            "`rope_parameters.full_attention.rope_theta` is taken",
            "`rope_parameters.sliding_attention.rope_theta` is taken and `rope_local_base_freq`",
        ],
    ),
    (
        "a window of llama",
        &[
            "`layer_types` is left out: it is no key of LlamaForCausalLM",
            "`sliding_window` is left out",
            "`use_sliding_window` is left out",
        ],
    ),
    (
        "a window switched off for mistral",
        &["`use_sliding_window` is false and left out"],
    ),
    (
        "qwen2, a list and a first layer",
        &["`layer_types` is taken and `max_window_layers`"],
    ),
    ("qwen3_moe, a list", &["`layer_types` is left out"]),
    (
        "gemma2, a pattern",
        &["`sliding_window_pattern` is left out"],
    ),
    (
        "gemma3, the noted pattern",
        &["`sliding_window_pattern` is taken and `_sliding_window_pattern`"],
    ),
    (
        "gemma3, a pattern and a list",
        &["`layer_types` is taken and `sliding_window_pattern`"],
    ),
    (
        "biases of mistral",
        &["`attention_bias` is left out", "`mlp_bias` is left out"],
    ),
    ("biases of qwen2", &["`attention_bias` is left out"]),
    ("biases of qwen3", &["`mlp_bias` is left out"]),
    ("caps of gemma3", &["`attn_logit_softcapping` is left out"]),
    (
        "caps and a scale of llama",
        &[
            "`attn_logit_softcapping` is left out",
            "`final_logit_softcapping` is",
            "`query_pre_attn_scalar` is",
        ],
    ),
    (
        "another activation of llama",
        &["`hidden_activation` is gelu_pytorch_tanh and left out"],
    ),
    (
        "another activation of gemma2",
        &["`hidden_act` is silu and left out"],
    ),
    (
        "experts of llama",
        &[
            "`num_experts` is left out",
            "`num_experts_per_tok` is",
            "`num_local_experts` is",
        ],
    ),
    (
        "mixtral, two counts",
        &["`num_experts` is taken and `num_local_experts`"],
    ),
    (
        "qwen3_moe, two counts",
        &["`num_local_experts` is taken and `num_experts`"],
    ),
    (
        "another architecture",
        &["`model_type` is taken and `architectures`"],
    ),
    (
        "gpt2 by general names",
        &[
            "`hidden_size` is taken and `n_embd`",
            "`num_attention_heads` is taken and `n_head`",
            "`max_position_embeddings` is taken and `n_positions`",
            "`num_hidden_layers` is taken and `n_layer`",
        ],
    ),
    ("gpt2, a context", &["`n_positions` is taken and `n_ctx`"]),
];

#[test]
fn what_a_configuration_says_in_vain_or_twice_is_named_once() -> Result {
    let lines: BTreeMap<&str, &[&str]> = LINES.into_iter().collect();
    let cases = cases()?;
    for name in lines.keys() {
        assert!(cases.contains_key(*name), "{name}");
    }
    for (name, case) in cases {
        let folder = config_folder(&case.config)?;
        if let Ok(found) = hugging_face_notes(&folder) {
            let expected = lines.get(name.as_str()).copied().unwrap_or_default();
            assert_eq!(found.len(), expected.len(), "{name}: {found:#?}");
            for (found, start) in found.iter().zip(expected) {
                assert!(
                    found.starts_with(start),
                    "{name}: {found}, expected {start}"
                );
            }
        }
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// The lines, or the refusal, of a small Llama with further keys.
fn answer(keys: &str) -> Result<std::result::Result<Vec<String>, String>> {
    let folder = folder("answer")?;
    let sizes = r#""model_type": "llama", "vocab_size": 43, "hidden_size": 24, "intermediate_size": 36,
        "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 64"#;
    fs::write(folder.join("config.json"), format!("{{{sizes}, {keys}}}"))?;
    let answer = hugging_face_notes(&folder).map_err(|error| {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        let (_, reason) = text.split_once("config.json: ").expect("a path");
        reason.to_owned()
    });
    fs::remove_dir_all(&folder)?;
    Ok(answer)
}

#[test]
fn keys_that_change_nothing_pass_and_unknown_ones_are_refused() -> Result {
    for keys in [
        r#""use_mrope": false, "is_llama_config": true, "rope_interleaved": false"#,
        r#""unsloth_fixed": true, "unsloth_version": "2025.3", "_attn_implementation_autoset": true"#,
        r#""transformers.js_config": {"dtype": "q4"}, "pretraining_tp": 2, "num_labels": 2"#,
        r#""use_sliding_window": false, "sliding_window": 8, "max_window_layers": 1"#,
        r#""attention_bias": false, "mlp_bias": false, "quantization_config": null, "auto_map": {}"#,
        r#""torch_dtype": "bfloat16", "dtype": "bfloat16", "router_jitter_noise": 0.0"#,
        r#""max_sequence_length": 64, "model_name": "a", "_num_labels": 1"#,
        r#""hidden_act": "silu", "hidden_act": "silu", "partial_rotary_factor": 1.0"#,
    ] {
        assert_eq!(answer(keys)?, Ok(Vec::new()), "{keys}");
    }
    for (keys, start) in [
        (
            r#""auto_map": {"AutoConfig": "a.B"}"#,
            "`auto_map` names code of the folder, which is not run",
        ),
        (
            r#""temperature": 0.6"#,
            "`temperature` is a setting of generation, which is read from",
        ),
        (
            r#""dtype": "float16", "torch_dtype": "float32""#,
            "`dtype` is float16 and `torch_dtype` float32",
        ),
        (
            r#""max_sequence_length": 32"#,
            "`max_position_embeddings` is taken and `max_sequence_length`",
        ),
        (
            r#""rope_theta": 5.0, "rope_theta": 6.0"#,
            "`rope_theta` is there twice with different values",
        ),
        (
            r#""rope_scaling": {"type": "linear", "factor": 2, "factor": 3}"#,
            "`factor` is there twice",
        ),
    ] {
        let lines = answer(keys)?.expect("read");
        assert_eq!(lines.len(), 1, "{keys}: {lines:#?}");
        assert!(lines[0].starts_with(start), "{lines:#?}");
    }
    for (keys, start) in [
        (
            r#""use_mrope": true"#,
            "the key `use_mrope` is not known, and may change the result",
        ),
        (
            r#""rope_interleaved": true"#,
            "the key `rope_interleaved` is not known",
        ),
        (
            r#""quantization_config": {"bits": 4}"#,
            "`quantization_config` says that the weights are quantized",
        ),
        (
            r#""text_config": {"hidden_size": 8}"#,
            "`text_config` is of a model of text and images",
        ),
        (
            r#""embedding_multiplier": 2.0"#,
            "the key `embedding_multiplier` is not known",
        ),
        (
            r#""partial_rotary_factor": "half""#,
            "`partial_rotary_factor` is \"half\", expected a number",
        ),
        (
            r#""rope_scaling": {"type": "linear", "factor": 2, "spread": 1}"#,
            "the key `rope_scaling.spread` is not",
        ),
    ] {
        let refused = answer(keys)?.expect_err("refused");
        assert!(refused.starts_with(start), "{refused}");
    }
    Ok(())
}

#[test]
fn a_byte_order_mark_before_a_configuration_is_left_out() -> Result {
    let fixture = Fixture::read("llama3")?;
    let folder = folder("mark")?;
    fs::write(folder.join("config.json"), &fixture.config)?;
    let plain = read_hugging_face_config(&folder)?;
    fs::write(
        folder.join("config.json"),
        format!("\u{feff}{}", fixture.config),
    )?;
    assert_eq!(read_hugging_face_config(&folder)?, plain);
    assert!(hlx_nn::is_hugging_face_folder(&folder)?);
    fs::remove_dir_all(&folder)?;
    Ok(())
}
