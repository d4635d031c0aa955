"""`CausalLM`: a language model as a module, and how it is read from files."""

from __future__ import annotations

import copy
import json
import math
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

from hlx import _hlx, errors
from hlx._hlx import Tensor, device, dtype
from hlx.models._chat import Chat
from hlx.models._generation import (
    Drawing,
    TextStream,
    TokenStream,
    checked,
    ids_of,
    prompts_of,
    stops_of,
    whole,
)
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter
from hlx.text import Tokenizer

__all__ = ["CausalLM", "load_model", "preset", "presets"]


class _Node(Module):
    """A name of the parameters' tree, such as `layers`."""


class _ModelParameter(Parameter):
    """A parameter in the flat memory of a language model, whose layers read it there."""

    #: The model that it belongs to, and its name there.
    _owner: _hlx.LanguageModel
    _full_name: str
    #: The module, as long as it lives.
    _module: weakref.ref[CausalLM]

    def __reduce_ex__(self, protocol: Any) -> Any:
        # By itself it is a parameter as any other.
        return Parameter(_hlx.clone(_hlx.detach(self)), self.requires_grad).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = Parameter(_hlx.clone(_hlx.detach(self)), self.requires_grad)
        memo[id(self)] = made
        return made


class CausalLM(Module):
    """A causal language model: GPT-2, Llama, Mistral, Mixtral, Qwen, Gemma, or a shape of your own.

    `config` is a dict as `preset` returns it, or that of HLX's own transformer (`vocabulary`, `width`, `n_layers`,
    `n_heads`, `feed_forward_width`, `positions`); the weights are drawn by `seed`. `load_model` reads one from files.
    The model is a `Module`: its parameters train by any optimizer of `hlx.optim`. Raises ValueError for a
    configuration that cannot be.

    >>> config = {"vocabulary": 256, "width": 32, "n_layers": 1, "n_heads": 2, "feed_forward_width": 64,
    ...           "positions": 16, "dropout": 0.0, "attention_dropout": 0.0}
    >>> model = hlx.models.CausalLM(config, seed=1)
    >>> optimizer = hlx.optim.AdamW(model.parameters(), lr=1e-3)
    >>> ids = hlx.tensor([[7, 8, 9, 10]])
    >>> loss = hlx.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(self, config: Mapping[str, Any], device: device | str | None = None, *, seed: int = 0) -> None:
        if not isinstance(config, Mapping):
            found = type(config).__name__
            raise errors.TypeError(f"CausalLM: config is a {found}, expected a dict; load_model reads folders")
        place = _hlx.get_default_device() if device is None else device
        self._hold(_hlx.LanguageModel.create(json.dumps(dict(config)), place, _seed(seed)))

    @classmethod
    def _of(cls, native: _hlx.LanguageModel) -> Self:
        """A module around a model of the native layer."""
        made = cls.__new__(cls)
        made._hold(native)
        return made

    def _hold(self, native: _hlx.LanguageModel) -> None:
        super().__init__()
        self._native = native
        self._text: Tokenizer | None = None
        self._flat: list[_ModelParameter] = []
        self._bind()

    def _bind(self) -> None:
        """Builds the tree of parameters over the model's memory anew; those that there were become the new ones."""
        self._modules.clear()
        before = {parameter._full_name: parameter for parameter in self._flat}
        self._flat = []
        for name, tensor, requires_grad in self._native.parameters():
            parameter = before.get(name)
            if parameter is None:
                parameter = _ModelParameter(tensor, requires_grad)
            # The model's own leaf, so that its gradients are found here.
            _hlx.become(parameter, tensor)
            parameter._owner, parameter._full_name, parameter._module = self._native, name, weakref.ref(self)
            *path, last = name.split(".")
            node: Module = self
            for part in path:
                below = node._modules.get(part)
                if below is None:
                    below = _Node()
                    below.training = self.training
                    node.add_module(part, below)
                node = below
            node.register_parameter(last, parameter)
            self._flat.append(parameter)
        self._flags = [parameter.requires_grad for parameter in self._flat]

    def _follow_flags(self) -> None:
        """Tells the native layer which parameters require a gradient now."""
        flags = [parameter.requires_grad for parameter in self._flat]
        if flags == self._flags:
            return
        for place, (parameter, now, before) in enumerate(zip(self._flat, flags, self._flags, strict=True)):
            if now != before:
                _hlx.become(parameter, self._native.set_requires_grad(place, now))
        self._flags = flags

    def forward(
        self,
        ids: Tensor,
        *,
        cache: _hlx.KvCache | None = None,
        new: Sequence[int] | None = None,
        documents: Tensor | None = None,
        positions: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """The logits [B, T, V] of token ids [B, T], or of one row [T].

        With a `cache` the tokens are appended to its sequences (the first `new[b]` of row b if that is given), without
        a gradient, and the logits have the bits of the whole sequences. `documents` [B, T] gives for each token the
        place in its row where its document begins: attention does not cross documents. `positions` [B, T] replaces
        the distance from that place. `lengths` [B] says how many tokens of a row count, where it is padded. Raises
        ValueError for more positions than the model has, and on the CPU for ids that the vocabulary has not.
        """
        rows = ids if ids.ndim != 1 else ids.unsqueeze(0)
        self._follow_flags()
        if cache is not None:
            if documents is not None or positions is not None or lengths is not None:
                raise errors.ValueError("CausalLM: a cache goes with ids and new alone")
            return self._native.forward_cached(rows, None if new is None else list(new), cache)
        if new is not None:
            raise errors.ValueError("CausalLM: new goes with a cache alone")
        made = self._native.forward(
            rows, train=self.training, documents=documents, positions=positions, lengths=lengths
        )
        return made[0]

    def logits_and_balance(self, ids: Tensor, *, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The logits as `forward`, and of a mixture of experts its balance loss [1]; None without experts.

        Training adds the balance loss, times a coefficient such as 0.01, to the loss; it is transformers'
        `load_balancing_loss_func`.
        """
        self._follow_flags()
        return self._native.forward(ids, train=self.training, lengths=lengths, balance=True)

    def cache(self, batch: int = 1, capacity: int | None = None) -> _hlx.KvCache:
        """An empty cache of keys and values for `batch` sequences of at most `capacity` tokens each.

        Without a capacity they may be as long as the model has positions.
        """
        rows = whole("cache", "batch", batch, 1, 1 << 24)
        tokens = self.max_positions if capacity is None else whole("cache", "capacity", capacity, 1, 1 << 32)
        return self._native.cache(rows, tokens)

    def generate(
        self,
        prompt: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]] | Tensor,
        *,
        num_return_sequences: int = 1,
        stop: str | Sequence[str] = (),
        raw: bool = False,
        **drawing: Unpack[Drawing],
    ) -> TextStream:
        """Continues a prompt, or several at once, and returns what comes after as a stream of pieces of text.

        A prompt is a text or a list of token ids. `max_new_tokens` is 256 if left out; without a `temperature` the
        likeliest token is always taken. `top_k`, `top_p`, `min_p` and `repetition_penalty` are those of transformers.
        A text ends at the model's end token, before a text of `stop`, or after `max_new_tokens`. The same `seed` gives
        the same text on every device, whatever other prompts there are. Raises ValueError for a prompt that is empty
        or too long.

        >>> model = hlx.models.CausalLM({"vocabulary": 256, "width": 16, "n_layers": 1, "n_heads": 1,
        ...     "feed_forward_width": 16, "positions": 16, "dropout": 0.0, "attention_dropout": 0.0})
        >>> model.tokenizer = hlx.text.Tokenizer.bytes()
        >>> len(model.generate("a", max_new_tokens=3).text) > 0
        True
        """
        if not isinstance(raw, bool):
            raise errors.TypeError(f"generate: raw is {raw!r}, expected True or False")
        more = {"num_return_sequences": num_return_sequences, "stop": stops_of("generate", stop), "raw": raw}
        options = checked("generate", drawing, **more)
        self._text_tokenizer("generate")
        prompts = prompts_of("generate", prompt, lambda text: self._native.encode_prompt(text, raw))
        return TextStream(self._native.generate(prompts, options), len(prompts) * options["num_return_sequences"])

    def generate_tokens(
        self,
        prompt: Sequence[int] | Sequence[Sequence[int]] | Tensor,
        *,
        num_return_sequences: int = 1,
        stop_tokens: Iterable[int] | None = None,
        **drawing: Unpack[Drawing],
    ) -> TokenStream:
        """As `generate`, of token ids: a stream of the ids after the prompt, or after several.

        `stop_tokens` end a sequence; if left out, those of the model's folder do.
        """
        options = checked("generate_tokens", drawing, num_return_sequences=num_return_sequences)

        def refused(text: str) -> list[int]:
            raise errors.TypeError(f"generate_tokens: the prompt is {text!r}, expected token ids")

        prompts = prompts_of("generate_tokens", prompt, refused)
        stops = None if stop_tokens is None else ids_of("generate_tokens: stop_tokens", stop_tokens)
        native = self._native.generate_tokens(prompts, options, stops)
        return TokenStream(native, len(prompts) * options["num_return_sequences"])

    def chat(
        self,
        system: str | None = None,
        *,
        messages: Sequence[Mapping[str, str]] = (),
        date: str | None = None,
        raw: bool = False,
    ) -> Chat:
        """Begins a conversation: `system` is what the model is told first, `messages` were said before.

        `date` (YYYY-MM-DD) is the one that the chat template finds. Raises ValueError for a model without a chat
        template. A model that was trained on pairs answers without one; `raw` then leaves out the separator.

            chat = model.chat("You are kind.")
            for piece in chat.say("Hello!", temperature=0.7):
                print(piece, end="")
        """
        self._text_tokenizer("chat")
        said = [_message_of(place, message) for place, message in enumerate(messages)]
        return Chat(self._native.chat(system, date, raw, said))

    def _text_tokenizer(self, operation: str) -> None:
        if self._native.tokenizer is None:
            raise errors.ValueError(
                f"{operation}: the model has no tokenizer; give it one (model.tokenizer = ..), or take generate_tokens"
            )

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, or None. One that is assigned takes its place, and is saved with the model."""
        native = self._native.tokenizer
        if self._text is None and native is not None:
            self._text = Tokenizer._of(native)
        return self._text

    @property
    def config(self) -> dict[str, Any]:
        """The shape, as a dict that `CausalLM` takes."""
        found: dict[str, Any] = json.loads(self._native.config)
        return found

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids, V."""
        return self._native.vocabulary_size

    @property
    def max_positions(self) -> int:
        """The longest sequence."""
        return self._native.max_positions

    @property
    def device(self) -> device:
        """The device that it computes on."""
        return self._native.device

    @property
    def dtype(self) -> dtype:
        """The type that its matrices are held in: float16 and bfloat16 are for inference alone."""
        return self._native.dtype

    @property
    def end_tokens(self) -> list[int]:
        """The token ids that end a text."""
        return self._native.end_tokens

    def add_adapter(
        self,
        rank: int = 8,
        alpha: float = 16.0,
        targets: str | Sequence[str] = ("q_proj", "v_proj"),
        *,
        rslora: bool = False,
        dora: bool = False,
        rank_pattern: Mapping[str, int] | None = None,
        alpha_pattern: Mapping[str, float] | None = None,
        modules_to_save: str | Sequence[str] = (),
        seed: int = 0,
    ) -> Self:
        """Adds low-rank adapters (LoRA) to the linear layers that are named, and freezes all other parameters.

        Targets are names as the library PEFT has them for the model's family (`c_attn` of GPT-2, `q_proj` of Llama),
        or patterns of HLX's names (`*.attention.qkv`), or "all-linear". A layer then computes
        `x W^T + alpha / rank * (x A^T) B^T`; B begins with zeros. Make the optimizer afterwards. With

        - `rslora` alpha is over the root of the rank;
        - `dora` each row of such a layer's weight has a magnitude of its own, which is trained too;
        - `rank_pattern` and `alpha_pattern` the layers whose HLX names a regular expression describes, as a whole or
          from a dot on, have other numbers: the first expression that describes one counts;
        - `modules_to_save` whole modules are trained beside the adapters, named as targets are: embeddings, norms, the
          output. They have no adapter.

        Raises ValueError for a target, a module or an expression that names no layer.
        """
        numbers = {"alpha": alpha, **{f"alpha_pattern: {key}": value for key, value in (alpha_pattern or {}).items()}}
        for name, number in numbers.items():
            if not math.isfinite(number):
                raise errors.ValueError(f"add_adapter: {name} is {number}, expected a finite number")
        ranks = {
            key: whole("add_adapter", f"rank_pattern: {key}", value, 1, 1 << 16)
            for key, value in (rank_pattern or {}).items()
        }
        config = {
            "rank": whole("add_adapter", "rank", rank, 1, 1 << 16),
            "alpha": float(alpha),
            "targets": [targets] if isinstance(targets, str) else list(targets),
            "rslora": bool(rslora),
            "dora": bool(dora),
            "rank_pattern": ranks,
            "alpha_pattern": {key: float(value) for key, value in (alpha_pattern or {}).items()},
            "modules_to_save": [modules_to_save] if isinstance(modules_to_save, str) else list(modules_to_save),
        }
        self._native.add_adapter(json.dumps(config), _seed(seed))
        self._bind()
        return self

    def merge_adapter(self) -> Self:
        """Adds the adapters to the weights of their layers: the model has none afterwards."""
        self._native.merge_adapter()
        self._bind()
        return self

    @property
    def adapter_config(self) -> dict[str, Any] | None:
        """The adapters' `rank`, `alpha` and `targets`, and what else was given of them; None without adapters."""
        text = self._native.adapter_config
        return None if text is None else json.loads(text)

    def save(self, folder: str | os.PathLike[str], format: str = "hugging_face") -> None:
        """Writes the model and its tokenizer into a folder, whose files become visible together.

        With `format="hugging_face"` transformers reads it, with `"hlx"` the program `hlx` does without a conversion;
        `load_model` reads both. Raises ValueError for a folder that holds something else, for a model with adapters,
        and for a shape that transformers does not have.
        """
        if format not in ("hugging_face", "hlx"):
            raise errors.ValueError(f"save: format is {format!r}, expected hugging_face or hlx")
        self._native.save(folder, format == "hugging_face")

    def save_adapter(self, folder: str | os.PathLike[str]) -> None:
        """Writes the adapters alone, as the library PEFT does: `load_model(base, adapter=folder)` reads them."""
        self._native.save_adapter(folder)

    def hugging_face_state_dict(self) -> dict[str, Tensor]:
        """The parameters under the names, and in the shapes, that transformers has for the model's family: copies."""
        return dict(self._native.hugging_face_tensors(False))

    def hugging_face_gradients(self) -> dict[str, Tensor]:
        """The gradients as `hugging_face_state_dict`; raises RuntimeError where no backward pass was run."""
        return dict(self._native.hugging_face_tensors(True))

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves the model to a device; gradients are left behind, and optimizers are to be made anew.

        Its type does not change: load it with another `dtype`.
        """
        values = [*args, *kwargs.values()]
        types = [value for value in values if isinstance(value, dtype)]
        if any(kind != self.dtype for kind in types):
            raise errors.ValueError(
                f"to: the model holds {self.dtype}; load_model(.., dtype=..) reads it in another type"
            )
        for value in values:
            place = value.device if isinstance(value, Tensor) else value
            if isinstance(place, str | device) and device(place) != self.device:
                self._native.move_to(place)
                self._bind()
        return self

    def _apply(self, fn: Any) -> Self:
        raise errors.NotImplementedError("CausalLM: its parameters lie in one piece of memory; use to(device)")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As `Module.load_state_dict`; the values are always copied into the model's memory."""
        return super().load_state_dict(state_dict, strict, assign=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        self._follow_flags()
        made = type(self)._of(self._native.copy(self.device))
        made.train(self.training)
        made._text = copy.copy(self._text)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise errors.TypeError("CausalLM: a model is not pickled; save(folder) writes it, load_model reads it")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tokenizer":
            if not isinstance(value, Tokenizer):
                raise errors.TypeError(f"tokenizer: is a {type(value).__name__}, expected hlx.text.Tokenizer")
            self._native.set_tokenizer(value._native)
            self._text = value
            return
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """The shape in a line."""
        config = self.config
        family = config.get("architecture", "transformer")
        sizes = f"vocabulary={self.vocabulary_size}, width={config['width']}, n_layers={config['n_layers']}"
        return f"{family}, {sizes}, dtype={self.dtype}, device={self.device}"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


def _message_of(place: int, message: Any) -> tuple[str, str]:
    """The role and the text of a message."""
    if isinstance(message, Mapping):
        role, content = message.get("role"), message.get("content")
        if isinstance(role, str) and isinstance(content, str):
            return role, content
    raise errors.TypeError(f"chat: message {place} is {message!r}, expected a dict with role and content, texts")


def _seed(seed: Any) -> int:
    if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise errors.ValueError(f"CausalLM: seed is {seed!r}, expected 0 to 2**64 - 1")
    return seed


def load_model(
    folder: str | os.PathLike[str],
    device: device | str | None = None,
    *,
    dtype: dtype | None = None,
    arithmetic: str | None = None,
    adapter: str | os.PathLike[str] | None = None,
    average: bool = False,
) -> CausalLM:
    """Reads a language model: a run of HLX, one of its checkpoints, `RUN/best`, a folder of HLX or Hugging Face, or a
    GGUF file.

    The model is in `eval()`. With `dtype=hlx.float16` or `hlx.bfloat16` its matrices are held in that type, for
    inference alone; if it is left out, in the 16-bit type in which a Hugging Face folder or a GGUF file stores all of
    them, else in float32 (to train such a model, say `dtype=hlx.float32`). `arithmetic` is "portable", "integer",
    "fast" or "fast_f16"; if left out, "integer" for a GGUF file with quantised weights, "portable" for another file
    or folder, and that of the run. `adapter` is the folder of an adapter of the library PEFT, and all other
    parameters are frozen then; those of a GGUF file stay in its blocks, and the adapter's alone are the model's
    parameters; `average` takes the moving average of a run's weights. Raises ValueError for a path that is none of
    these, and for a model that HLX cannot compute exactly as it is meant.

    >>> config = hlx.models.preset("llama3", vocabulary=64, width=32, n_layers=1, n_heads=4, n_kv_heads=2, head_width=8,
    ...                            feed_forward_width=64, max_positions=16)
    >>> hlx.models.CausalLM(config).save("folder")
    >>> hlx.load_model("folder").vocabulary_size
    64
    """
    place = _hlx.get_default_device() if device is None else device
    native = _hlx.LanguageModel.open(folder, place, dtype, arithmetic, adapter, average)
    # With an adapter, as by `add_adapter`, what is trained from here on is the adapter.
    return CausalLM._of(native).eval()


def preset(name: str, **changes: Any) -> dict[str, Any]:
    """The configuration of a family at its usual sizes, with changes: what `CausalLM` takes.

    Sizes that are left out follow from the others: the heads' width is the width over the heads, widths within the
    feed-forward layers and the experts stay in proportion, lists of layers are cut to those that exist. `tiny`,
    `small` and `medium` are the program's own transformers over bytes. Raises ValueError for a name or key that is
    not known, and for a shape that cannot be.

    >>> hlx.models.preset("qwen3", n_layers=2)["n_layers"]
    2
    >>> hlx.models.preset("tiny")["width"]
    256
    """
    if name not in presets() and name not in _OWN:
        known = ", ".join([*presets(), *_OWN])
        raise errors.ValueError(f"preset: there is none of the name {name!r}, expected one of {known}")
    try:
        text = json.dumps(changes)
    except (TypeError, ValueError) as error:
        raise errors.TypeError(f"preset: {error}") from None
    config: dict[str, Any] = json.loads(_hlx.LanguageModel.preset(name, text))
    return config


#: The transformers of the program's own.
_OWN = ("tiny", "small", "medium")


def presets() -> list[str]:
    """The names of the families that `preset` knows.

    >>> "llama3" in hlx.models.presets()
    True
    """
    return _hlx.LanguageModel.presets()
