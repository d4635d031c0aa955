"""One model by transformers in f64 and f32 and by HLX: what is compared, and how far apart they are."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

import hlx
from transformers_models.shapes import VOCABULARY

#: HLX's error may be this multiple of transformers' own in f32, and this part of the largest number in any case.
FACTOR, FLOOR = 4.0, 2.0**-22


class Error:
    """The largest errors against f64 of some numbers: of transformers in f32, of HLX, and the limit."""

    def __init__(self) -> None:
        self.ratio, self.relative, self.own, self.passed = 0.0, 0.0, 0.0, True

    def add(self, exact: torch.Tensor, single: torch.Tensor, ours: Any) -> None:
        """Compares numbers of one kind."""
        found = torch.tensor(ours.tolist() if isinstance(ours, hlx.Tensor) else ours, dtype=torch.float64)
        if found.shape != exact.shape or not torch.isfinite(found).all():
            self.passed = False
            return
        scale = exact.abs().max().item() or 1.0
        theirs = (single.double() - exact).abs().max().item() / scale
        error = (found - exact).abs().max().item() / scale
        self.passed &= error <= max(FACTOR * theirs, FLOOR)
        self.ratio = max(self.ratio, error / max(theirs, FLOOR / FACTOR))
        self.relative, self.own = max(self.relative, error), max(self.own, theirs)

    def result(self) -> dict[str, Any]:
        """The numbers."""
        return {"passed": self.passed, "ratio": self.ratio, "error": self.relative, "error of f32": self.own}


def made(config: Any, folder: Path) -> PreTrainedModel:
    """A model whose weights are large enough for its parts to matter, in a folder."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = (
                1.0 if parameter.ndim == 1 and name.endswith("weight") and "gemma" not in config.model_type else 0.0
            )
            parameter.normal_(around, 0.2 if parameter.ndim == 1 else 1.3 / parameter.shape[-1] ** 0.5)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    return read(folder)


def read(folder: Path) -> PreTrainedModel:
    """A folder by transformers.

    HLX takes the long factors of longrope at every length, where transformers takes the short ones up to the original.
    """
    config = AutoConfig.from_pretrained(folder)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        rope["short_factor"] = rope["long_factor"]
    return AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    ).eval()


def doubled(model: PreTrainedModel) -> PreTrainedModel:
    """The model in f64."""
    return copy.deepcopy(model).double()


def drawn(rows: int, width: int) -> torch.Tensor:
    """Token ids."""
    generator = torch.Generator().manual_seed(rows * 100 + width)
    return torch.randint(0, VOCABULARY, (rows, width), generator=generator)


def _of(ids: torch.Tensor, device: str) -> hlx.Tensor:
    return hlx.tensor(ids.tolist(), device=device)


def logits(single: PreTrainedModel, double: PreTrainedModel, ours: Any, device: str) -> dict[str, Any]:
    """Batches of several sizes, and one with rows of several lengths."""
    error = Error()
    with torch.no_grad(), hlx.no_grad():
        for rows, width in ((1, 1), (2, 20), (3, 33)):
            ids = drawn(rows, width)
            error.add(double(ids).logits, single(ids).logits, ours(_of(ids, device)))
        ids, lengths = drawn(3, 17), [17, 4, 11]
        padded = ours(_of(ids, device), lengths=hlx.tensor(lengths, device=device))
        for row, n in enumerate(lengths):
            # Each row alone: padded, transformers has NaN where a window holds nothing else.
            alone = ids[row : row + 1, :n]
            error.add(double(alone).logits[0], single(alone).logits[0], padded[row, :n])
    return error.result()


def cached(single: PreTrainedModel, double: PreTrainedModel, ours: Any, device: str) -> dict[str, Any]:
    """A prompt and then tokens one by one, by a cache: close to f64, and with the bits of the whole sequence."""
    error, ids = Error(), drawn(2, 24)
    with torch.no_grad(), hlx.no_grad():
        exact, f32 = double(ids).logits, single(ids).logits
        whole, cache = ours(_of(ids, device)), ours.cache(2, 24)
        for start, end in ((0, 9), *((t, t + 1) for t in range(9, 20)), (20, 24)):
            part = ours(_of(ids[:, start:end], device), cache=cache)
            error.add(exact[:, start:end], f32[:, start:end], part)
            error.passed &= part.digest() == whole[:, start:end].contiguous().digest()
    return error.result()


@contextmanager
def _written(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    """The gradients under the names, and in the form, in which transformers or PEFT writes the parameters."""
    with tempfile.TemporaryDirectory() as folder:
        copied = copy.deepcopy(model)
        with torch.no_grad():
            for written, parameter in zip(copied.parameters(), model.parameters(), strict=True):
                written.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
        copied.save_pretrained(folder)
        yield load_file(next(Path(folder).glob("*model.safetensors")))


def _loss(model: Any, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(ids).logits.flatten(0, 1), targets.flatten())


def _ours_backward(ours: Any, ids: torch.Tensor, targets: torch.Tensor, device: str) -> hlx.Tensor:
    loss = hlx.nn.functional.cross_entropy(ours(_of(ids, device)).flatten(0, 1), _of(targets, device).flatten())
    loss.backward()
    return loss


def _targets(ids: torch.Tensor) -> torch.Tensor:
    targets = torch.cat([ids[:, 1:], torch.full((len(ids), 1), -100)], dim=1)
    targets[0, 3] = -100
    return targets


def gradients(single: PreTrainedModel, double: PreTrainedModel, ours: Any, device: str) -> dict[str, Any]:
    """The cross-entropy of some targets, and its gradients by all parameters."""
    error, ids = Error(), drawn(2, 20)
    targets, losses = _targets(ids), []
    for model in (double, single):
        losses.append(_loss(model, ids, targets))
        losses[-1].backward()
    loss = _ours_backward(ours, ids, targets, device)
    error.add(losses[0].detach(), losses[1].detach(), loss.item())
    found = ours.hugging_face_gradients()
    with _written(double) as exact, _written(single) as f32:
        error.passed &= set(exact) == set(found)
        for name in exact:
            error.add(exact[name], f32[name], found[name])
    for model in (double, single, ours):
        model.zero_grad()
    return error.result() | {"parameters": len(found)}


def generated(double: PreTrainedModel, ours: Any) -> dict[str, Any]:
    """The likeliest tokens after prompts of several lengths, one by one and together."""
    prompts, expected = [drawn(1, width)[0].tolist() for width in (1, 6, 15)], []
    for prompt in prompts:
        with torch.no_grad():
            mask, options = torch.ones(1, len(prompt)), {"do_sample": False, "max_new_tokens": 24}
            tokens = double.generate(torch.tensor([prompt]), attention_mask=mask, **options)
        expected.append(tokens[0, len(prompt) :].tolist())
    singly = [ours.generate_tokens(prompt, max_new_tokens=24, stop_tokens=[]).tokens[0] for prompt in prompts]
    together = ours.generate_tokens(prompts, max_new_tokens=24, stop_tokens=[]).tokens
    return {"passed": singly == together == expected, "tokens": sum(map(len, expected))}


def saved(single: PreTrainedModel, ours: Any, device: str) -> dict[str, Any]:
    """Written for transformers and for HLX, and read again: no bit changes."""
    with tempfile.TemporaryDirectory() as folder:
        ours.save(f"{folder}/theirs")
        ours.save(f"{folder}/own", format="hlx")
        again, before = read(Path(folder, "theirs")).state_dict(), single.state_dict()
        passed = again.keys() == before.keys() and all(torch.equal(again[name], before[name]) for name in before)
        for form in ("theirs", "own"):
            passed &= hlx.load_model(f"{folder}/{form}", device, dtype=hlx.float32).digest() == ours.digest()
    return {"passed": passed}


def adapted(single: PreTrainedModel, folder: Path, device: str) -> dict[str, Any]:
    """An adapter that PEFT has written: logits, and gradients of its matrices; HLX writes it as it was."""
    is_gpt2 = single.config.model_type == "gpt2"
    targets = ["c_attn", "c_fc"] if is_gpt2 else ["q_proj", "v_proj", "o_proj"]
    config = LoraConfig(r=3, lora_alpha=7, target_modules=targets, fan_in_fan_out=is_gpt2)
    model = get_peft_model(copy.deepcopy(single), config).eval()
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0.0, 0.2)
    model.save_pretrained(str(folder / "adapter"))
    double = copy.deepcopy(model).double()
    ours = hlx.load_model(folder, device, dtype=hlx.float32, adapter=folder / "adapter")
    error, ids = Error(), drawn(2, 20)
    with torch.no_grad(), hlx.no_grad():
        error.add(double(ids).logits, model(ids).logits, ours(_of(ids, device)))
    for one in (double, model):
        _loss(one, ids, _targets(ids)).backward()
    _ours_backward(ours, ids, _targets(ids), device)
    error.passed &= all((".lora_" in name) == p.requires_grad for name, p in ours.named_parameters())
    with tempfile.TemporaryDirectory() as out:
        ours.save_adapter(f"{out}/again")
        again = load_file(f"{out}/again/adapter_model.safetensors")
        before = load_file(folder / "adapter/adapter_model.safetensors")
        if is_gpt2:
            # HLX's queries, keys and values are three layers, whose adapters are written as one of three times the rank.
            theirs = PeftModel.from_pretrained(copy.deepcopy(single), f"{out}/again").eval()
            with torch.no_grad():
                error.add(double(ids).logits, model(ids).logits, theirs(ids).logits)
        else:
            error.passed &= again.keys() == before.keys() and all(torch.equal(again[n], before[n]) for n in before)
        with hlx.no_grad():
            for parameter in ours.parameters():
                if parameter.requires_grad:
                    parameter.copy_(parameter.grad)
        ours.save_adapter(f"{out}/gradients")
        found = load_file(f"{out}/gradients/adapter_model.safetensors")
    with _written(double) as exact, _written(model) as f32:
        error.passed &= set(exact) == set(found)
        for name in exact:
            error.add(exact[name], f32[name], _joined(found[name], exact[name].shape))
    return error.result() | {"parameters": len(found)}


def _joined(gradient: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The gradient of one adapter from those of three with the same A, and with the parts of its B."""
    if gradient.shape == shape:
        return gradient
    rank = min(shape)
    if gradient.shape[0] == 3 * rank:
        return gradient.reshape(3, rank, -1).sum(0)
    rows = gradient.reshape(3, shape[0] // 3, 3, rank)
    return torch.cat([rows[part, :, part] for part in range(3)])
