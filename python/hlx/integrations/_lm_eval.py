"""The class of models of lm-evaluation-harness."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

import hlx
from hlx import errors
from hlx._hlx import Tensor
from hlx.models import CausalLM, load_model
from hlx.text import Tokenizer

_log = logging.getLogger(__name__)

#: A request of the harness, the tokens before it, and those to score.
Request = tuple[Any, list[int], list[int]]
#: Keywords of generation that mean the same in `CausalLM.generate`.
_DRAWING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
#: What the sampling of transformers has where a task says nothing.
_SAMPLED = {"temperature": 1.0, "top_k": 50}


@register_model("hlx")
class HLX(TemplateLM):  # type: ignore[misc]
    """A language model of HLX for lm-evaluation-harness: `lm_eval.simple_evaluate(HLX("model"), tasks=[..])`.

    `pretrained` is a folder or a run as `hlx.load_model` takes it, with `device`, `dtype` ("float32", "bfloat16",
    "float16"), `arithmetic`, `adapter` and `average`; or a `CausalLM`. The device "cuda:0", which the harness's program
    names by itself, is "auto". `tokenizer` is a folder, if it does not lie beside the model. Up to `batch_size`
    sequences are computed at once: scores have equal bits for any number. Contexts are cut from the left to
    `max_length` tokens. `add_bos_token` says whether texts get the tokens that the tokenizer puts around them (as the
    tokenizer does, if left out), `prefix_token_id` is what an empty context has (the first token, else the end). `date`
    is the day that a chat template finds.
    """

    tokenizer: Tokenizer
    batch_size: int
    max_length: int
    max_gen_toks: int
    add_bos_token: bool | None
    date: str | None

    def __init__(
        self,
        pretrained: str | os.PathLike[str] | CausalLM,
        *,
        tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
        device: str | hlx.device | None = None,
        dtype: str | hlx.dtype | None = None,
        arithmetic: str | None = None,
        adapter: str | None = None,
        average: bool = False,
        batch_size: int | str = 8,
        max_batch_size: int | None = None,
        max_length: int | None = None,
        max_gen_toks: int = 256,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        date: str | None = None,
    ) -> None:
        super().__init__()
        self._lm = (
            pretrained
            if isinstance(pretrained, CausalLM)
            else _loaded(pretrained, device, dtype, arithmetic, adapter, average)
        )
        self._lm.eval()
        if tokenizer is not None:
            found = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.from_file(tokenizer)
            self._lm.tokenizer = found  # type: ignore[misc]
        own = self._lm.tokenizer
        if own is None:
            raise errors.ValueError("HLX: the model has no tokenizer beside it; name one by tokenizer=")
        self.tokenizer = own
        self.batch_size = _batch_size(batch_size)
        positions = self._lm.max_positions
        self.max_length = positions if max_length is None else int(max_length)
        if not 1 <= self.max_length <= positions:
            raise errors.ValueError(
                f"HLX: max_length is {max_length}, expected 1 to {positions}, the model's positions"
            )
        self.max_gen_toks = int(max_gen_toks)
        self.add_bos_token, self.date = add_bos_token, date
        self._prefix = prefix_token_id

    @property
    def model(self) -> CausalLM:
        """The model."""
        return self._lm

    @property
    def device(self) -> hlx.device:
        """The device that it computes on."""
        return self._lm.device

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text."""
        token = self.tokenizer.eos_token_id
        ends = self._lm.end_tokens if token is None else [token]
        if not ends:
            raise errors.ValueError("HLX: neither the tokenizer nor the model states a token that ends a text")
        return ends[0]

    @property
    def prefix_token_id(self) -> int:
        """The context of a text that has none."""
        if self._prefix is not None:
            return int(self._prefix)
        first = self.tokenizer.bos_token_id
        return self.eot_token_id if first is None else first

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer's digest, by which the harness keeps requests apart."""
        return self.tokenizer.digest()

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        """The tokens of a text; one that begins with the first token's text gets no second one."""
        adds = self.add_bos_token if add_special_tokens is None else add_special_tokens
        first = self.tokenizer.decode(self.prefix_token_id)
        if add_special_tokens is None and first and string.startswith(first):
            adds = False
        return self.tokenizer.encode(string, True if adds is None else bool(adds))

    def tok_decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The text of a conversation; without its system message, if the template raises because of one."""
        options: dict[str, Any] = {
            "tokenize": False,
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": not add_generation_prompt,
            "date": self.date,
        }
        try:
            text: str = self.tokenizer.apply_chat_template(chat_history, **options)
        except errors.ValueError as error:
            rest = [message for message in chat_history if message["role"] != "system"]
            if len(rest) == len(chat_history):
                raise
            _log.warning("the chat template is applied without the system message: %s", error)
            text = self.tokenizer.apply_chat_template(rest, **options)
        return text

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes beside the scores: the digests that name the model."""
        return {
            "model_digest": self._lm.digest(),
            "model_num_parameters": sum(parameter.numel() for parameter in self._lm.parameters()),
            "model_dtype": str(self._lm.dtype),
            "model_device": f"{self._lm.device} ({self._lm.device.hardware})",
            "tokenizer_digest": self.tokenizer.digest(),
            "hlx_version": hlx.__version__,
        }

    def _loglikelihood_tokens(
        self, requests: list[Request], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """For each request the sum of its tokens' log-probabilities, and whether each is the likeliest one."""
        # Requests with the same tokens before the last share a row: choices of one token, for example.
        rows: dict[tuple[int, ...], list[int]] = {}
        for place, (_, context, continuation) in enumerate(requests):
            if not context or not 0 < len(continuation) <= self.max_length:
                raise errors.ValueError(
                    f"HLX: request {place} has {len(context)} tokens of context and {len(continuation)} to score, "
                    f"expected at least 1, and 1 to {self.max_length}"
                )
            rows.setdefault(tuple((context + continuation)[-self.max_length - 1 : -1]), []).append(place)
        found: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        order = sorted(rows, key=lambda row: (-len(row), row))
        with tqdm(total=len(requests), disable=disable_tqdm, desc="Running loglikelihood requests") as bar:
            for batch in _batches(order, self.batch_size):
                targets = [[requests[place][2] for place in rows[row]] for row in batch]
                for row, scores in zip(batch, self._scores(batch, targets), strict=True):
                    for place, score in zip(rows[row], scores, strict=True):
                        found[place] = score
                        if requests[place][0] is not None:
                            self.cache_hook.add_partial("loglikelihood", requests[place][0], score)
                        bar.update(1)
        return found

    def _scores(
        self, rows: Sequence[tuple[int, ...]], continuations: list[list[list[int]]]
    ) -> Iterator[list[tuple[float, bool]]]:
        """The scores of continuations, each of which ends at its row's end and one token after."""
        time = max(len(row) for row in rows)
        place = self._lm.device
        ids = hlx.tensor([[*row, *[0] * (time - len(row))] for row in rows], dtype=hlx.int32, device=place)
        lengths = hlx.tensor([len(row) for row in rows], dtype=hlx.int32, device=place)
        with hlx.no_grad():
            logits = self._lm(ids, lengths=lengths)
            greedy = logits.argmax(-1).tolist()
            # The first continuations of all rows at once, then the second ones: mostly there is one.
            most = max(len(several) for several in continuations)
            losses = [self._losses(logits, rows, continuations, number) for number in range(most)]
        for row, several in enumerate(continuations):
            end = len(rows[row])
            scores = []
            for number, continuation in enumerate(several):
                start = end - len(continuation)
                total = -math.fsum(losses[number][row][start:end])
                scores.append((total, greedy[row][start:end] == continuation))
            yield scores

    def _losses(
        self, logits: Tensor, rows: Sequence[tuple[int, ...]], continuations: list[list[list[int]]], number: int
    ) -> list[list[float]]:
        """The losses [B, T] of the continuation of a number of each row; 0 elsewhere."""
        batch, time, width = logits.shape
        targets = [[-100] * time for _ in range(batch)]
        for row, several in enumerate(continuations):
            if number < len(several):
                end = len(rows[row])
                targets[row][end - len(several[number]) : end] = several[number]
        wanted = hlx.tensor(targets, dtype=hlx.int32, device=logits.device).flatten()
        losses = hlx.nn.functional.cross_entropy(logits.reshape(-1, width), wanted, reduction="none")
        found: list[list[float]] = losses.reshape(batch, time).tolist()
        return found

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """The log-probability of each text, in windows of the model's positions."""
        windows: list[Request] = []
        counts = []
        for request in requests:
            cut = get_rolling_token_windows(
                token_list=self.tok_encode(request.args[0]),
                prefix_token=self.prefix_token_id,
                max_seq_len=self.max_length,
                context_len=1,
            )
            found = [(None, *make_disjoint_window(window)) for window in cut]
            windows += found
            counts.append(len(found))
        scores = iter(self._loglikelihood_tokens(windows, disable_tqdm))
        totals = []
        for request, count in zip(requests, counts, strict=True):
            total = math.fsum(next(scores)[0] for _ in range(count))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
            totals.append(total)
        return totals

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text after each context, up to the first of its stops."""
        groups: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items())), []).append(place)
        found = [""] * len(requests)
        with tqdm(total=len(requests), disable=disable_tqdm, desc="Running generate_until requests") as bar:
            for places in groups.values():
                options, stops, room = self._drawing(requests[places[0]].args[1])
                contexts = {place: self.tok_encode(requests[place].args[0])[-room:] for place in places}
                order = sorted(places, key=lambda place: -len(contexts[place]))
                for batch in _batches(order, self.batch_size):
                    stream = self._lm.generate([contexts[place] for place in batch], stop=stops, **options)
                    for place, text in zip(batch, stream.texts, strict=True):
                        found[place] = text
                        self.cache_hook.add_partial("generate_until", requests[place].args, text)
                        bar.update(1)
        return found

    def _drawing(self, given: dict[str, Any]) -> tuple[dict[str, Any], list[str], int]:
        """The keywords of `generate`, the stops, and the tokens that a context may have."""
        settings: dict[str, Any] = dict(normalize_gen_kwargs(given, self.max_gen_toks))
        end = self.tokenizer.decode(self.eot_token_id)
        stops = [stop for stop in handle_stop_sequences(settings.pop("until", None), eos=end) if stop]
        count = int(settings.pop("max_gen_toks"))
        room = self.max_length - count
        if room < 1:
            raise errors.ValueError(
                f"HLX: max_gen_toks is {count}, and max_length {self.max_length}: no token is left for a context"
            )
        options: dict[str, Any] = {"max_new_tokens": count}
        if settings.pop("do_sample", False):
            options |= _SAMPLED
        else:
            settings.pop("temperature", None)
        for name in _DRAWING:
            if settings.get(name) is not None:
                options[name] = settings[name]
            settings.pop(name, None)
        if settings:
            names = ", ".join(sorted(settings))
            raise errors.ValueError(f"HLX: generation_kwargs has {names}, expected {', '.join(_DRAWING)}")
        return options, stops, room


def _loaded(pretrained: Any, device: Any, dtype: Any, arithmetic: Any, adapter: Any, average: Any) -> CausalLM:
    """A model of a folder. The harness writes a type as text, and a device that nobody has named as "cuda:0"."""
    place = "auto" if isinstance(device, str) and device.startswith(("cuda", "mps")) else device
    kind = hlx.dtype(dtype.removeprefix("torch.")) if isinstance(dtype, str) and dtype != "auto" else None
    return load_model(
        pretrained,
        place,
        dtype=dtype if isinstance(dtype, hlx.dtype) else kind,
        arithmetic=arithmetic,
        adapter=adapter,
        average=bool(average),
    )


def _batch_size(given: int | str) -> int:
    """A number of sequences; "auto" is 8, as memory is not tried out."""
    text = str(given)
    if text.startswith("auto"):
        return 8
    if not text.isdecimal() or int(text) < 1:
        raise errors.ValueError(f"HLX: batch_size is {given!r}, expected a number from 1 on")
    return int(text)


def _batches(order: list[Any], size: int) -> Iterator[list[Any]]:
    for first in range(0, len(order), size):
        yield order[first : first + size]
