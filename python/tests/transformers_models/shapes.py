"""The configurations: families with grouped queries, tied weights, biases, windows, softcaps and scaled positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VOCABULARY = 97


def _common(**changes: Any) -> dict[str, Any]:
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 48,
        "intermediate_size": 72,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        # nn.Embedding keeps the row of a padding token without gradient.
        "pad_token_id": None,
        "bos_token_id": 0,
        "eos_token_id": None,
    }
    return {**sizes, **changes}


def _rope(kind: str = "default", theta: float = 10000.0, **more: Any) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": theta, **more}


def _scaled() -> dict[str, dict[str, Any]]:
    """Every kind of scaled positions; the shortest original length is below the sequences'."""
    return {
        "linear": _rope("linear", factor=4.0),
        "dynamic": _rope("dynamic", factor=2.0),
        "yarn": _rope("yarn", factor=4.0, original_max_position_embeddings=16),
        "llama3": _rope(
            "llama3", 5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
        ),
        "longrope": _rope(
            "longrope",
            factor=4.0,
            original_max_position_embeddings=16,
            short_factor=[1.0, 1.1, 1.2, 1.3],
            long_factor=[1.0, 2.0, 4.0, 8.0],
        ),
    }


def configs() -> Iterator[tuple[str, Any]]:
    """Names and configurations."""
    import transformers as t

    gpt2 = {"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 48, "n_layer": 2, "n_head": 3}
    gpt2 |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": None}
    yield "gpt2", t.GPT2Config(**gpt2)
    yield "gpt2, untied", t.GPT2Config(**gpt2, tie_word_embeddings=False, n_inner=80, activation_function="gelu")
    whole = {"num_key_value_heads": 6, "rope_parameters": _rope()}
    yield "llama", t.LlamaConfig(**_common(**whole))
    yield (
        "llama, tied, with biases",
        t.LlamaConfig(**_common(tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rope_parameters=_rope())),
    )
    for kind, parameters in _scaled().items():
        yield f"llama, {kind}", t.LlamaConfig(**_common(rope_parameters=parameters, rms_norm_eps=1e-5))
    yield "mistral", t.MistralConfig(**_common(sliding_window=7, rope_parameters=_rope()))
    yield (
        "mistral, one key",
        t.MistralConfig(**_common(sliding_window=None, num_key_value_heads=1, rope_parameters=_rope())),
    )
    yield (
        "mixtral",
        t.MixtralConfig(
            **_common(num_local_experts=5, num_experts_per_tok=2, sliding_window=9, rope_parameters=_rope(theta=1e6))
        ),
    )
    windows = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
    yield "qwen2", t.Qwen2Config(**_common(rope_parameters=_rope(theta=1e6)))
    yield (
        "qwen2, tied, yarn, windows",
        t.Qwen2Config(**_common(tie_word_embeddings=True, rope_parameters=_scaled()["yarn"], **windows)),
    )
    yield "qwen3", t.Qwen3Config(**_common(head_dim=16, rope_parameters=_rope(theta=1e6)))
    yield (
        "qwen3, tied, with biases",
        t.Qwen3Config(
            **_common(tie_word_embeddings=True, head_dim=16, attention_bias=True, rope_parameters=_rope(theta=1e6))
        ),
    )
    experts = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24}
    yield (
        "qwen3_moe",
        t.Qwen3MoeConfig(
            **_common(norm_topk_prob=True, num_hidden_layers=3, mlp_only_layers=[0], rope_parameters=_rope(), **experts)
        ),
    )
    yield (
        "qwen3_moe, weights as they are",
        t.Qwen3MoeConfig(**_common(norm_topk_prob=False, rope_parameters=_rope(), **experts)),
    )
    gemma = {"tie_word_embeddings": True, "sliding_window": 7, "query_pre_attn_scalar": 12}
    yield (
        "gemma2",
        t.Gemma2Config(
            **_common(attn_logit_softcapping=3.0, final_logit_softcapping=10.0, rope_parameters=_rope(), **gemma)
        ),
    )
    yield (
        "gemma3",
        t.Gemma3TextConfig(
            **_common(
                num_hidden_layers=3,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                rope_parameters={
                    "sliding_attention": _rope(),
                    "full_attention": _rope("linear", 1e5, factor=8.0),
                },
                **gemma,
            )
        ),
    )
