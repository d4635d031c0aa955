"""`hlx.models`: passes, training, generation, adapters and files of language models."""

import copy
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hlx
from hlx import _hlx
from hlx.nn import functional as F

#: The SHA-256 over the parameters that `crates/hlx/tests/language_model_trained_in_python.rs` names, too.
DIGEST = "ad4de2b7336d9a7d27388ced59f3f35dd237ef9d0a8069b119eb566fc21845d3"

SIZES = {
    "vocabulary": 64,
    "width": 32,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_width": 8,
    "feed_forward_width": 64,
    "max_positions": 16,
}


def model_of(family: str = "llama3", device: Any = "cpu", seed: int = 7, **changes: Any) -> hlx.models.CausalLM:
    """A small model of a family."""
    sizes = {**SIZES, "n_kv_heads": 4} if family == "gpt2" else dict(SIZES)
    if family == "mixtral":
        # That of the experts follows from the width, and transformers has one number for both.
        del sizes["feed_forward_width"]
    return hlx.models.CausalLM(hlx.models.preset(family, **{**sizes, **changes}), device, seed=seed)


def loss_of(model: hlx.models.CausalLM, ids: hlx.Tensor) -> hlx.Tensor:
    """The mean cross-entropy of the next tokens."""
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def ids_on(device: Any, seed: int = 100) -> hlx.Tensor:
    """Three rows of nine token ids."""
    return _hlx.randint(hlx.device(device), 0, 64, [3, 9], seed)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_has_the_digest_of_the_one_that_rust_trains(device: hlx.device, compiled: bool) -> None:
    """Eager and recorded steps, on every device, with an output tied to the embedding."""
    model = model_of("qwen3", device, tied_output=True)
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.01)

    def step(ids: hlx.Tensor) -> hlx.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        optimizer.step()
        return loss

    run = hlx.compile(step) if compiled else step
    for i in range(10):
        run(ids_on(device, 100 + i))
    assert model.digest() == DIGEST
    assert optimizer.parameters_digest() == DIGEST


@pytest.mark.parametrize("family", hlx.models.presets())
def test_a_cache_has_the_bits_of_the_whole_sequences(family: str) -> None:
    """Of every family: appended in three parts of unequal lengths."""
    model = model_of(family).eval()
    ids = ids_on("cpu")
    whole = model(ids)
    cache = model.cache(3, 12)
    parts = [model(ids[:, :4], cache=cache), model(ids[:, 4:5], cache=cache), model(ids[:, 5:], cache=cache)]
    assert cache.lengths == [9, 9, 9] and cache.capacity == 12
    assert hlx.cat(parts, 1).digest() == whole.detach().digest()
    cache.truncate([4, 4, 4])
    cache.retain([2, 0])
    again = model(ids[[2, 0], 4:], cache=cache)
    assert again.digest() == whole.detach()[[2, 0], 4:].digest()
    with pytest.raises(hlx.errors.ValueError, match="gets 13 tokens, room is for 12"):
        model(ids[:2, :4], cache=cache)


def test_rows_of_several_documents() -> None:
    """Attention does not cross documents: each has the logits that it has alone."""
    model = model_of("llama3").eval()
    ids = ids_on("cpu")[:1]
    starts = hlx.tensor([[0, 0, 0, 0, 4, 4, 4, 4, 4]])
    packed = model(ids, documents=starts)
    assert packed[:, :4].detach().digest() == model(ids[:, :4]).detach().digest()
    assert packed[:, 4:].detach().digest() == model(ids[:, 4:]).detach().digest()


def test_a_single_row_is_a_batch_of_one() -> None:
    """Ids [T] are ids [1, T]."""
    model = model_of().eval()
    assert model(hlx.tensor([1, 2])).shape == (1, 2, 64)


def test_what_is_generated_is_what_the_logits_say(device: hlx.device) -> None:
    """Greedy tokens are the largest logits, one pass for each."""
    model = model_of(device=device).eval()
    expected = [5, 6, 7]
    for _ in range(6):
        logits = model(hlx.tensor([expected], device=device))
        expected.append(int(logits[0, -1].argmax().item()))
    stream = model.generate_tokens([5, 6, 7], max_new_tokens=6)
    assert next(stream) == expected[3]
    assert list(stream) == expected[4:]
    assert stream.tokens == [expected[3:]]


def test_a_prompt_is_continued_alike_alone_and_among_others(device: hlx.device) -> None:
    """The seed decides, not the neighbours; several sequences of a prompt differ."""
    model = model_of(device=device)
    drawing: dict[str, Any] = {"max_new_tokens": 6, "temperature": 1.0, "seed": 3}
    alone = model.generate_tokens([1, 2], **drawing).tokens[0]
    among = model.generate_tokens([[9], [1, 2], [3, 4, 5]], num_return_sequences=2, **drawing).tokens
    assert len(among) == 6
    assert among[2] == alone and among[3] != alone
    assert model.generate_tokens([1, 2], **{**drawing, "seed": 4}).tokens[0] != alone
    pairs = list(model.generate_tokens([[9], [1, 2]], **drawing))
    assert [token for number, token in pairs if number == 1] == alone


def test_streams_share_a_device_and_a_thread() -> None:
    """Two streams taken in turn, four threads, and other work between."""
    model = model_of(max_positions=64)
    drawing: dict[str, Any] = {"max_new_tokens": 40, "temperature": 1.0, "seed": 5}
    expected = list(model.generate_tokens([1, 2, 3], **drawing))
    one, two = (model.generate_tokens([1, 2, 3], **drawing) for _ in range(2))
    x = hlx.zeros(4)
    taken = []
    for first, second in zip(one, two, strict=True):
        x = x + 1
        taken.append((first, second))
    assert taken == list(zip(expected, expected, strict=True)) and x[0].item() == len(expected)
    found: dict[int, list[int]] = {}

    def generate(number: int) -> None:
        found[number] = list(model.generate_tokens([1, 2, 3], **drawing))

    threads = [threading.Thread(target=generate, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(4)] == [expected] * 4


def test_a_stream_is_closed() -> None:
    """By `close`, by a `with` block, and when it is dropped."""
    model = model_of()
    stream = model.generate_tokens([1], max_new_tokens=10)
    next(stream)
    stream.close()
    assert list(stream) == []
    with model.generate_tokens([1], max_new_tokens=10) as other:
        next(other)
    assert list(other) == []
    dropped = model.generate_tokens([1], max_new_tokens=10)
    next(dropped)
    del dropped
    assert len(model.generate_tokens([1], max_new_tokens=3).tokens[0]) == 3


INTERRUPTED = """
import os, signal, threading, time
import hlx
signal.signal(signal.SIGINT, signal.default_int_handler)
sizes = {"vocabulary": 64, "width": 64, "n_layers": 4, "n_heads": 4, "feed_forward_width": 256, "positions": 8192}
model = hlx.models.CausalLM({**sizes, "dropout": 0.0, "attention_dropout": 0.0})
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for token in model.generate_tokens([1], max_new_tokens=8000):
        pass
except KeyboardInterrupt:
    print("interrupted", (hlx.ones(3) + 1).sum().item())
"""


def test_ctrl_c_ends_a_stream() -> None:
    """And the device works afterwards."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.stdout == "interrupted 6.0\n", done.stderr


def test_dropout_draws_in_training_alone() -> None:
    """By the generator in eager passes; a recorded step has another mask in every replay."""
    sizes = {"vocabulary": 64, "width": 32, "n_layers": 1, "n_heads": 2, "feed_forward_width": 32, "positions": 16}
    model = hlx.models.CausalLM({**sizes, "dropout": 0.5, "attention_dropout": 0.0})
    ids = ids_on("cpu")
    assert model.training
    hlx.manual_seed(1)
    first, second = (model(ids).detach().digest() for _ in range(2))
    hlx.manual_seed(1)
    assert model(ids).detach().digest() == first != second
    recorded = hlx.compile(lambda ids: model(ids))
    replayed = {recorded(ids).digest() for _ in range(4)}
    assert len(replayed) == 4
    model.eval()
    assert model(ids).detach().digest() == model(ids).detach().digest()


def test_parameters_are_the_models_own_memory() -> None:
    """Values that are written to them change the logits; a state goes there and back."""
    model, other = (model_of(tied_output=False, seed=seed) for seed in (1, 2))
    ids = ids_on("cpu")
    assert model.digest() != other.digest()
    assert str(other.load_state_dict(model.state_dict())) == "<All keys matched successfully>"
    assert other.digest() == model.digest()
    assert other(ids).detach().digest() == model(ids).detach().digest()
    with hlx.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    assert other(ids).detach().digest() != model(ids).detach().digest()
    hlx.nn.init.zeros_(other.get_parameter("lm_head.weight"))
    assert other(ids).abs().sum().item() == 0.0


def test_frozen_parameters_get_no_gradient() -> None:
    """Flags of Python are followed; a parameter that is trained again has its place in the flat memory."""
    model = model_of(tied_output=False)
    ids = ids_on("cpu")
    model.requires_grad_(False)
    assert not model(ids).requires_grad
    head = model.get_parameter("lm_head.weight")
    head.requires_grad_(True)
    loss_of(model, ids).backward()
    assert head.grad is not None
    assert [name for name, parameter in model.named_parameters() if parameter.grad is not None] == ["lm_head.weight"]
    before = model.get_parameter("model.norm.weight").detach().clone()
    optimizer = hlx.optim.SGD([head], lr=1.0)
    kept = head.detach().clone()
    optimizer.step()
    assert head.detach().digest() != kept.digest()
    assert model.get_parameter("model.norm.weight").detach().digest() == before.digest()
    model.requires_grad_(True)
    model.zero_grad()
    loss_of(model, ids).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    hlx.optim.SGD(model.parameters(), lr=0.1).step()


def test_gradients_are_summed_until_they_are_removed() -> None:
    """As PyTorch's: two passes double them, of tied matrices too."""
    model = model_of("gpt2", tied_output=True)
    ids = ids_on("cpu")
    loss_of(model, ids).backward()
    once = {name: gradient.clone() for name, gradient in model.hugging_face_gradients().items()}
    loss_of(model, ids).backward()
    for name, gradient in model.hugging_face_gradients().items():
        assert (gradient - 2 * once[name]).abs().max().item() <= 1e-6 * gradient.abs().max().item(), name


def test_copies_are_apart() -> None:
    """`deepcopy` and `to` have memory of their own."""
    model = model_of(tied_output=False)
    copied = copy.deepcopy(model)
    assert copied.digest() == model.digest() and copied.training == model.training
    with hlx.no_grad():
        copied.get_parameter("lm_head.weight").zero_()
    assert copied.digest() != model.digest()


def test_a_model_moves(vulkan: hlx.device) -> None:
    """Between devices, with equal bits; an optimizer of before says that it is to be made anew."""
    model = model_of().eval()
    ids = ids_on("cpu")
    here = model(ids).detach().digest()
    optimizer = hlx.optim.SGD(model.parameters(), lr=0.1)
    assert model.to(vulkan) is model and model.device == vulkan
    assert model(ids).detach().digest() == here
    assert all(parameter.device == vulkan for parameter in model.parameters())
    loss_of(model, ids_on(vulkan)).backward()
    with pytest.raises(hlx.errors.RuntimeError, match="make a new optimizer"):
        optimizer.step()
    assert model.cpu().device.type == "cpu"


def test_every_kind_of_adapter_is_trained_written_and_read(device: hlx.device, tmp_path: Path) -> None:
    """DoRA, rsLoRA, patterns of ranks and alphas, and modules that are trained as a whole."""
    model = model_of(device=device).eval()
    model.save(tmp_path / "base")
    ids = ids_on(device)
    before = model(ids).detach().digest()
    model.add_adapter(
        4,
        8.0,
        ["q_proj", "v_proj"],
        rslora=True,
        dora=True,
        rank_pattern={"v_proj": 2, r"layers\.[01]\..*": 3},
        alpha_pattern={"q_proj": 5},
        modules_to_save=["norm"],
        seed=1,
    )
    assert model(ids).detach().digest() == before
    shapes = {
        name.split("self_attn.")[1]: list(one.shape) for name, one in model.named_parameters() if "lora_A" in name
    }
    assert shapes == {"q_proj.lora_A.weight": [3, 32], "v_proj.lora_A.weight": [2, 32]}
    trained = {name.rsplit(".", 1)[0] for name, one in model.named_parameters() if one.requires_grad}
    assert {"model.norm", "model.layers.0.input_layernorm"} < trained
    assert "model.embed_tokens" not in trained and "model.layers.0.mlp.up_proj" not in trained
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    adapted = model(ids).detach()
    model.save_adapter(tmp_path / "adapter")
    read = hlx.load_model(tmp_path / "base", device, adapter=tmp_path / "adapter")
    assert read(ids).detach().digest() == adapted.digest()
    wanted = {name for name, one in model.named_parameters() if one.requires_grad}
    assert {name for name, one in read.named_parameters() if one.requires_grad} == wanted
    model.merge_adapter()
    assert hlx.allclose(model(ids).detach(), adapted, rtol=1e-4, atol=1e-5)


def test_adapters_change_nothing_before_they_are_trained(device: hlx.device, tmp_path: Path) -> None:
    """Then they alone are trained; merged, written and read back they compute the same."""
    model = model_of(device=device).eval()
    model.save(tmp_path / "base")
    ids = ids_on(device)
    before = model(ids).detach().digest()
    base = model.get_parameter("model.layers.0.self_attn.q_proj.weight").detach().digest()
    model.add_adapter(4, 8.0, ["q_proj", "v_proj"], seed=1)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert len(trained) == 8 and all(".lora_" in name for name in trained)
    assert model.adapter_config is not None and model.adapter_config["rank"] == 4
    assert model(ids).detach().digest() == before
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert model.get_parameter("model.layers.0.self_attn.q_proj.weight").detach().digest() == base
    adapted = model(ids).detach()
    model.save_adapter(tmp_path / "adapter")
    read = hlx.load_model(tmp_path / "base", device, adapter=tmp_path / "adapter")
    assert read(ids).detach().digest() == adapted.digest()
    assert all((".lora_" in name) == parameter.requires_grad for name, parameter in read.named_parameters())
    with pytest.raises(hlx.errors.ValueError, match="the model has adapters"):
        model.save(tmp_path / "whole")
    model.merge_adapter()
    assert model.adapter_config is None
    assert (model(ids).detach() - adapted).abs().max().item() < 1e-5
    model.save(tmp_path / "whole")
    assert hlx.load_model(tmp_path / "whole", device)(ids).detach().digest() == model(ids).detach().digest()


@pytest.mark.parametrize("form", ["hugging_face", "hlx"])
@pytest.mark.parametrize("family", hlx.models.presets())
def test_a_model_is_written_and_read(family: str, form: str, tmp_path: Path) -> None:
    """Of every family, in both forms, with the same digest."""
    model = model_of(family)
    model.save(tmp_path / "model", format=form)
    read = hlx.load_model(tmp_path / "model")
    assert not read.training
    assert read.digest() == model.digest()
    assert read.config == model.config
    model.save(tmp_path / "model", format=form)
    with pytest.raises(hlx.errors.ValueError, match="holds files"):
        model.save(tmp_path, format=form)


TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture
def talking(tmp_path: Path) -> hlx.models.CausalLM:
    """A model with a tokenizer and a chat template."""
    texts = ["user: the cat sat on the mat. assistant: the dog sat on the log. "] * 20
    tokenizer = hlx.text.Tokenizer.train_from_iterator(texts, vocab_size=300, special_tokens=["<|end|>"])
    tokenizer.save(tmp_path / "tokenizer")
    (tmp_path / "tokenizer" / "chat_template.jinja").write_text(TEMPLATE)
    model = model_of(vocabulary=len(tokenizer), max_positions=128)
    model.tokenizer = hlx.text.Tokenizer.from_file(tmp_path / "tokenizer")
    return model


def test_texts_are_written_with_a_tokenizer(talking: hlx.models.CausalLM, tmp_path: Path) -> None:
    """The tokens are those of the ids; the tokenizer and its template are saved with the model."""
    drawing: dict[str, Any] = {"max_new_tokens": 8, "temperature": 1.0, "seed": 3}
    tokenizer = talking.tokenizer
    assert tokenizer is not None
    tokens = talking.generate_tokens(tokenizer.encode("the cat"), **drawing).tokens[0]
    stream = talking.generate("the cat", **drawing)
    pieces = list(stream)
    assert len(pieces) > 1 and "".join(pieces) == stream.text == tokenizer.decode(tokens)
    assert talking.generate(["the dog", "the cat"], **drawing).texts[1] == stream.text
    ended = talking.generate("the cat", stop=stream.text[3], **drawing)
    assert ended.text == stream.text[: stream.text.index(stream.text[3])]
    talking.save(tmp_path / "model")
    read = hlx.load_model(tmp_path / "model")
    assert read.tokenizer is not None and read.tokenizer.digest() == tokenizer.digest()
    assert read.generate("the cat", **drawing).text == stream.text
    assert read.chat().say("the cat", **drawing).text == talking.chat().say("the cat", **drawing).text


def test_a_conversation_is_what_its_template_says(talking: hlx.models.CausalLM, device: hlx.device) -> None:
    """An answer is the continuation of the laid-out messages, told once or bit by bit, on every device."""
    model = talking.to(device)
    drawing: dict[str, Any] = {"max_new_tokens": 8, "temperature": 1.0, "seed": 3}
    chat = model.chat("be kind")
    first = chat.say("the cat", **drawing).text
    second = chat.say("the dog", **drawing).text
    roles = [message["role"] for message in chat.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert [chat.messages[2]["content"], chat.messages[4]["content"]] == [first, second]
    tokenizer = model.tokenizer
    assert tokenizer is not None
    prompt = tokenizer.apply_chat_template(chat.messages[:4], tokenize=False, add_generation_prompt=True)
    assert model.generate(prompt, **drawing).text == second
    again = model.chat(messages=chat.messages[:3])
    assert again.say("the dog", **drawing).text == second
    chat.clear()
    assert chat.messages == [{"role": "system", "content": "be kind"}]
    assert chat.say("the cat", **drawing).text == first
    closed = chat.say("the dog", **drawing)
    next(closed)
    with pytest.raises(hlx.errors.RuntimeError, match="an answer is being given"):
        chat.say("more")
    closed.close()
    assert len(chat.messages) == 3


def test_conversations_that_cannot_be(talking: hlx.models.CausalLM) -> None:
    """Each is one line."""
    for call, kind, expected in [
        (lambda: talking.chat(date="x"), hlx.errors.ValueError, "date: `x` is no date"),
        (lambda: talking.chat(messages=[{"role": "user"}]), hlx.errors.TypeError, "message 0 is"),
        (lambda: talking.chat(raw=True), hlx.errors.ValueError, "^raw: "),
        (lambda: talking.chat().say("the cat " * 100).text, hlx.errors.ValueError, "^say: the conversation takes"),
        (lambda: talking.generate("the cat", stop=""), hlx.errors.TypeError, "stop holds ''"),
        (lambda: talking.generate(""), hlx.errors.ValueError, "prompt"),
    ]:
        with pytest.raises(kind, match=expected) as refused:
            call()
        assert "\n" not in str(refused.value)


def test_16_bit_weights_have_the_bits_of_rounded_ones(device: hlx.device, tmp_path: Path) -> None:
    """The matrices are held in the type, and cannot be trained."""
    model = model_of(device=device).eval()
    model.save(tmp_path / "model")
    half = hlx.load_model(tmp_path / "model", device, dtype=hlx.bfloat16)
    assert half.dtype == hlx.bfloat16
    with hlx.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(parameter.to(hlx.bfloat16).to(hlx.float32))
    ids = ids_on(device)
    assert half(ids).digest() == model(ids).detach().digest()
    assert (
        half.generate_tokens([1, 2], max_new_tokens=4).tokens == model.generate_tokens([1, 2], max_new_tokens=4).tokens
    )
    with pytest.raises(hlx.errors.ValueError, match="held in 16 bits"):
        half.train()(ids)
    with pytest.raises(hlx.errors.ValueError, match="held in 16 bits"):
        half.save(tmp_path / "other")


def test_a_mixture_of_experts_has_a_balance_loss() -> None:
    """Its gradient reaches the routers; models without experts have none."""
    experts = {"n_experts": 4, "per_token": 2, "width": 32, "renormalised": True, "balance_coefficient": 0.01}
    model = model_of("mixtral", experts=experts)
    ids = ids_on("cpu")
    logits, balance = model.logits_and_balance(ids)
    assert logits.detach().digest() == model(ids).detach().digest()
    assert balance is not None and 1.9 < balance.sum().item() < 8.1
    balance.sum().backward()
    gates = [p for name, p in model.named_parameters() if name.endswith("gate.weight") and "experts" not in name]
    assert gates and all(gate.grad is not None for gate in gates)
    assert model_of().logits_and_balance(ids)[1] is None


def test_the_integer_arithmetic_is_the_devices() -> None:
    """A model on a device of that arithmetic has other bits, and says so."""
    portable, integer = model_of(), model_of(device=hlx.device("cpu", arithmetic="integer"))
    assert integer.digest() == portable.digest()
    assert integer.device.arithmetic == "integer"
    exact, chains = (model(ids_on(model.device)).detach() for model in (integer, portable))
    assert exact.digest() != chains.digest()
    assert (exact.cpu() - chains).abs().max().item() < 1e-2
    with pytest.raises(hlx.errors.ValueError, match="integer arithmetic"):
        integer(ids_on("cpu"))


Refused = Callable[[hlx.models.CausalLM, Path], Any]

REFUSED: list[tuple[Refused, type[Exception], str]] = [
    (lambda m, t: m.generate("x"), hlx.errors.ValueError, "the model has no tokenizer"),
    (lambda m, t: m.generate_tokens("x"), hlx.errors.TypeError, "expected token ids"),
    (lambda m, t: m.generate_tokens([]), hlx.errors.ValueError, "there is no prompt"),
    (lambda m, t: m.generate_tokens([[]]).tokens, hlx.errors.ValueError, "the prompt is empty"),
    (lambda m, t: m.generate_tokens([64]).tokens, hlx.errors.ValueError, "outside of the vocabulary of 64"),
    (lambda m, t: m.generate_tokens([-1]), hlx.errors.ValueError, "ids hold -1"),
    (lambda m, t: m.generate_tokens([1.5]), hlx.errors.TypeError, "ids hold 1.5"),
    (lambda m, t: m.generate_tokens([1] * 17).tokens, hlx.errors.ValueError, "takes 17 positions"),
    (lambda m, t: m.generate_tokens([1], temperature=-1), hlx.errors.ValueError, "temperature: -1 is not at least 0"),
    (lambda m, t: m.generate_tokens([1], temperature="hot"), hlx.errors.TypeError, "temperature is 'hot'"),
    (lambda m, t: m.generate_tokens([1], top_p=0), hlx.errors.ValueError, "top_p: 0 is not above 0"),
    (lambda m, t: m.generate_tokens([1], top_k=-1), hlx.errors.ValueError, "top_k is -1, expected 0 to"),
    (lambda m, t: m.generate_tokens([1], seed=2**64), hlx.errors.ValueError, "seed is 18446744073709551616"),
    (lambda m, t: m.generate_tokens([1], num_return_sequences=0), hlx.errors.ValueError, "expected 1 to"),
    (lambda m, t: m.generate_tokens([1], temprature=1), hlx.errors.TypeError, "temprature is no argument"),
    (lambda m, t: m.chat(), hlx.errors.ValueError, "the model has no tokenizer"),
    (lambda m, t: m(hlx.tensor([[64]])), hlx.errors.ValueError, "number 0 is outside of the vocabulary of 64"),
    (lambda m, t: m(hlx.tensor([[-1]])), hlx.errors.ValueError, "number 0 is outside of the vocabulary of 64"),
    (lambda m, t: m(hlx.ones(1, 2)), hlx.errors.ValueError, "expected whole numbers of \\[batch, time\\]"),
    (lambda m, t: m(hlx.ones(1, 17).int()), hlx.errors.ValueError, "at most 16 positions"),
    (lambda m, t: m(hlx.tensor([[1]]), new=[1]), hlx.errors.ValueError, "new goes with a cache"),
    (lambda m, t: m.cache(0), hlx.errors.ValueError, "batch is 0, expected 1 to"),
    (lambda m, t: m.add_adapter(targets="nothing"), hlx.errors.ValueError, "nothing"),
    (lambda m, t: m.add_adapter(0), hlx.errors.ValueError, "rank is 0"),
    (lambda m, t: m.add_adapter(alpha=float("nan")), hlx.errors.ValueError, "alpha is nan"),
    (lambda m, t: m.add_adapter(rank_pattern={"k_proj": 2}), hlx.errors.ValueError, "`k_proj` names no layer with"),
    (lambda m, t: m.add_adapter(alpha_pattern={"q(": 2}), hlx.errors.ValueError, "`q\\(` is no regular expression"),
    (lambda m, t: m.add_adapter(rank_pattern={"q_proj": 0}), hlx.errors.ValueError, "rank_pattern: q_proj is 0"),
    (lambda m, t: m.add_adapter(modules_to_save="score"), hlx.errors.ValueError, "names score, which the model does"),
    (lambda m, t: m.merge_adapter(), hlx.errors.ValueError, "the model has no adapters"),
    (lambda m, t: m.save_adapter(t), hlx.errors.ValueError, "the model has no adapters"),
    (lambda m, t: m.save(t / "x", format="y"), hlx.errors.ValueError, "expected hugging_face or hlx"),
    (lambda m, t: m.half(), hlx.errors.ValueError, "load_model"),
    (lambda m, t: m.hugging_face_gradients(), hlx.errors.RuntimeError, "call backward first"),
    (
        lambda m, t: hlx.optim.SGD(list(m.parameters())[:2], lr=1),
        hlx.errors.ValueError,
        "requires a gradient and is not",
    ),
    (
        lambda m, t: hlx.optim.SGD([*m.parameters(), hlx.nn.Parameter(hlx.ones(2))], lr=1),
        hlx.errors.ValueError,
        "make an optimizer for each",
    ),
    (lambda m, t: setattr(m, "tokenizer", 3), hlx.errors.TypeError, "expected hlx.text.Tokenizer"),
    (lambda m, t: hlx.load_model(t / "nowhere"), hlx.errors.ValueError, "is no run folder .*and no model's folder"),
    (lambda m, t: hlx.load_model(t, arithmetic="quick"), hlx.errors.ValueError, "arithmetic"),
    (lambda m, t: hlx.load_model(t, dtype=hlx.float64), hlx.errors.Error, "float64"),
    (lambda m, t: hlx.models.CausalLM({}), hlx.errors.ValueError, "missing field `vocabulary`"),
    (lambda m, t: hlx.models.CausalLM(3), hlx.errors.TypeError, "config is a int"),
    (lambda m, t: hlx.models.preset("llama9"), hlx.errors.ValueError, "expected one of gpt2, llama2"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_cannot_be_is_one_line(place: int, tmp_path: Path) -> None:
    """With the function or the argument that is wrong."""
    call, kind, expected = REFUSED[place]
    with pytest.raises(kind, match=expected) as refused:
        call(model_of(), tmp_path)
    assert "\n" not in str(refused.value)


def test_a_damaged_folder_is_one_line(tmp_path: Path) -> None:
    """Weights that are cut off, and a configuration that names an unknown class."""
    model_of().save(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(hlx.errors.ValueError, match="model.safetensors"):
        hlx.load_model(tmp_path / "model")
    weights.write_bytes(whole)
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": ["Other"], "model_type": "other"}))
    with pytest.raises(hlx.errors.ValueError, match="config.json"):
        hlx.load_model(tmp_path / "model")


def test_a_model_is_shown_in_a_line() -> None:
    """With its family and sizes."""
    expected = "CausalLM(llama, vocabulary=64, width=32, n_layers=2, dtype=hlx.float32, device=cpu)"
    assert repr(model_of()) == expected
