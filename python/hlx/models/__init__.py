"""Language models: read from files or made anew, trained, continued, talked to, and written.

>>> config = hlx.models.preset("llama3", vocabulary=64, width=32, n_layers=1, n_heads=4, n_kv_heads=2, head_width=8,
...                            feed_forward_width=64, max_positions=16)
>>> model = hlx.models.CausalLM(config, seed=1)
>>> ids = hlx.tensor([[1, 2, 3]])
>>> model(ids).shape
hlx.Size([1, 3, 64])
>>> list(model.generate_tokens([1, 2, 3], max_new_tokens=2))
[39, 39]
"""

from hlx.models._causal_lm import CausalLM, load_model, preset, presets
from hlx.models._chat import Chat
from hlx.models._generation import TextStream, TokenStream

__all__ = ["CausalLM", "Chat", "TextStream", "TokenStream", "load_model", "preset", "presets"]
