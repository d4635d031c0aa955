//! Keys of a `config.json` that change neither logits nor gradients, whatever class reads it.

use serde_json::{Value, json};

/// Keys without effect, whatever they say.
const ALWAYS: [&str; 73] = [
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_commit_hash",
    "_experts_implementation_internal",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_num_labels",
    "_sliding_window_pattern",
    "architectures",
    "attn_implementation",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "dtype",
    "eos_token_id",
    "experts_implementation",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "ignore_keys_at_rope_validation",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "mask_token_id",
    "max_seq_len",
    "max_sequence_length",
    "model_max_length",
    "model_name",
    "model_type",
    "n_ctx",
    "n_special",
    "name_or_path",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "predict_special_tokens",
    "prefix",
    // Older versions cut products into as many pieces, with the same sums.
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "reorder_and_upcast_attn",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "sep_token_id",
    "seq_length",
    "task_specific_params",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_last_hidden_states",
    "tokenizer_class",
    "tokenizer_model_max_length",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    "use_return_dict",
    "vocab_file",
];

/// Settings of generation, which `transformers` reads from `generation_config.json`.
const GENERATION: [&str; 24] = [
    "bad_words_ids",
    "begin_suppress_tokens",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "remove_invalid_values",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
];

/// Whether a key with this value changes nothing.
pub(super) fn is_harmless(name: &str, value: &Value) -> bool {
    let is_off = || match name {
        "rope_interleaved" | "use_mrope" => value == &json!(false),
        "partial_rotary_factor" => value.as_f64() == Some(1.0),
        "router_jitter_noise" => value.as_f64() == Some(0.0),
        "auto_map" => value == &json!({}),
        // A key of another class that switches off what this class does not have.
        _ => super::classes::is_known(name) && value == &json!(false),
    };
    ALWAYS.contains(&name) || name.starts_with("summary_") || is_off()
}

/// The warning about a key that asks for something and is ignored.
pub(super) fn left_out(name: &str, class: &str) -> Option<String> {
    if GENERATION.contains(&name) {
        return Some(format!(
            "`{name}` is a setting of generation, which is read from generation_config.json alone"
        ));
    }
    if name == "auto_map" {
        return Some(format!(
            "`auto_map` names code of the folder, which is not run: the model is {class}"
        ));
    }
    super::classes::is_known(name).then(|| {
        format!("`{name}` is left out: it is no key of {class}, and changes nothing there")
    })
}

/// Why a key is refused.
pub(super) fn refusal(name: &str) -> String {
    match name {
        "quantization_config" | "compression_config" => format!(
            "`{name}` says that the weights are quantized, and only those in f32, f16 and bf16 are \
             read; take the folder of the model before it was quantized"
        ),
        "text_config" | "vision_config" => format!(
            "`{name}` is of a model of text and images, and only models of text alone are read"
        ),
        _ => format!("the key `{name}` is not known, and may change the result"),
    }
}
