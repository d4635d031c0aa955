"""lm-evaluation-harness on a model of HLX. What the harness makes of it beside transformers says judge_lm_eval.py."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest

import hlx

TEXTS = ["The river runs past the stone house.", "A house", "stone by stone by stone", "x"]
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"


@pytest.fixture(scope="module")
def model() -> hlx.models.CausalLM:
    """A model over bytes with decisive random weights."""
    config = hlx.models.preset(
        "llama2",
        vocabulary=256,
        width=32,
        n_layers=1,
        n_heads=2,
        n_kv_heads=2,
        head_width=16,
        feed_forward_width=32,
        max_positions=48,
    )
    made = hlx.models.CausalLM(config, "cpu", seed=1).eval()
    with hlx.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8.0)
    made.tokenizer = hlx.text.Tokenizer.bytes()  # type: ignore[misc]
    return made


def judge_of(model: Any, **options: Any) -> Any:
    """The class of the harness around a model."""
    pytest.importorskip("lm_eval")
    from hlx.integrations.lm_eval import HLX

    return HLX(model, **options)


def request(kind: str, *arguments: Any) -> Any:
    """A request of the harness."""
    from lm_eval.api.instance import Instance

    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


def expected(model: Any, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """The log-probability of tokens after others, computed alone."""
    ids = [*context, *continuation]
    with hlx.no_grad():
        logits = model(hlx.tensor([ids[:-1]]))[0].log_softmax(-1)
    places = range(len(context) - 1, len(ids) - 1)
    numbers = [logits[place, ids[place + 1]].item() for place in places]
    likeliest = [logits[place].argmax().item() for place in places]
    return math.fsum(numbers), likeliest == continuation


def test_scores_are_those_of_the_model_alone(model: hlx.models.CausalLM) -> None:
    """Whatever batch they are computed in, and whichever requests share a row."""
    pairs = [(TEXTS[0], " and"), (TEXTS[0], " or"), (TEXTS[1], "s"), (TEXTS[1], "t"), ("A hous", "es"), ("", "river")]
    found = {}
    for batch_size in (1, 2, 8):
        judge = judge_of(model, batch_size=batch_size)
        requests = [request("loglikelihood", *pair) for pair in pairs]
        found[batch_size] = judge.loglikelihood(requests, disable_tqdm=True)
    assert found[1] == found[2] == found[8]
    for (context, continuation), (score, is_greedy) in zip(pairs, found[1], strict=True):
        given = list(context.encode()) or [4]
        alone = expected(model, given, list(continuation.encode()))
        assert score == pytest.approx(alone[0], rel=1e-5) and is_greedy == alone[1]
    greedy = model.generate_tokens(list(b"A house"), max_new_tokens=3, stop_tokens=[]).tokens[0]
    judge = judge_of(model)
    ((_, is_greedy),) = judge._loglikelihood_tokens([(None, list(b"A house"), greedy)], disable_tqdm=True)
    assert is_greedy


def test_long_texts_are_scored_in_windows(model: hlx.models.CausalLM) -> None:
    """Each token once; a context that is too long is cut from the left."""
    text = "".join(TEXTS) * 2
    tokens = list(text.encode())
    (total,) = judge_of(model, batch_size=3).loglikelihood_rolling([request("loglikelihood_rolling", text)], True)
    ids, parts = [4, *tokens], []
    for first in range(0, len(tokens), 48):
        last = min(first + 48, len(tokens))
        begin = max(0, last - 48)
        parts.append(expected(model, ids[begin : first + 1], ids[first + 1 : last + 1])[0])
    assert total == pytest.approx(math.fsum(parts), rel=1e-5)
    judge = judge_of(model)
    ((score, _),) = judge.loglikelihood([request("loglikelihood", text, "ab")], True)
    assert score == pytest.approx(expected(model, tokens[-47:], list(b"ab"))[0], rel=1e-5)


def test_texts_end_at_their_stops(model: hlx.models.CausalLM) -> None:
    """They are the model's own, up to the first stop, in any batch."""
    pytest.importorskip("lm_eval")
    whole = [model.generate(list(text.encode()), max_new_tokens=12).text for text in TEXTS]
    stop = next(char for char in whole[0][2:] if char.isascii())
    expected = [text.split(stop)[0] for text in whole]
    for batch_size in (1, 3):
        options = {"until": [stop], "max_gen_toks": 12}
        requests = [request("generate_until", text, dict(options)) for text in TEXTS]
        requests.append(
            request("generate_until", TEXTS[0], {"until": [], "max_gen_toks": 3, "do_sample": True, "seed": 5})
        )
        found = judge_of(model, batch_size=batch_size).generate_until(requests, True)
        assert found[:-1] == expected
        drawn = model.generate(list(TEXTS[0].encode()), max_new_tokens=3, temperature=1.0, top_k=50, seed=5)
        assert found[-1] == drawn.text


def test_the_class_says_what_it_is(model: hlx.models.CausalLM, tmp_path: Path) -> None:
    """Sizes, digests, special tokens and chat templates; it opens folders too."""
    judge = judge_of(model, date="2026-11-26")
    assert (judge.max_length, judge.eot_token_id, judge.prefix_token_id, judge.batch_size) == (48, 4, 4, 8)
    assert judge.get_model_info()["model_digest"] == model.digest()
    assert judge.tokenizer_name == hlx.text.Tokenizer.bytes().digest()
    assert judge.tok_decode(judge.tok_encode("hi")) == "hi"
    model.save(tmp_path / "model")
    (tmp_path / "model" / "chat_template.jinja").write_text(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHAT
    )
    read = judge_of(tmp_path / "model", device="cpu", batch_size="auto:4", max_length=32, prefix_token_id=7)
    assert (read.max_length, read.prefix_token_id, read.model.digest()) == (32, 7, model.digest())
    assert judge_of(tmp_path / "model", device="cuda:0").device.hardware == hlx.device("auto").hardware
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi "}]
    assert read.apply_chat_template(chat) == "<user>Hi<a>"
    assert read.apply_chat_template(chat, add_generation_prompt=False) == "<user>Hi"
    assert read.chat_template(True).endswith(CHAT)


def test_what_cannot_be_is_one_line(model: hlx.models.CausalLM) -> None:
    """With the argument that is wrong."""
    bare = hlx.models.CausalLM(model.config, "cpu")
    for call, expected in [
        (lambda: judge_of(bare), "the model has no tokenizer"),
        (lambda: judge_of(model, batch_size=0), "batch_size is 0"),
        (lambda: judge_of(model, max_length=49), "max_length is 49, expected 1 to 48"),
        (
            lambda: judge_of(model).loglikelihood([request("loglikelihood", "a", "b" * 49)], True),
            "request 0 has 1 tokens",
        ),
        (
            lambda: judge_of(model).generate_until([request("generate_until", "a", {"max_gen_toks": 48})], True),
            "max_gen_toks is 48, and max_length 48",
        ),
        (
            lambda: judge_of(model).generate_until([request("generate_until", "a", {"max_gen_toks": 4, "n": 2})], True),
            "generation_kwargs has n, expected temperature",
        ),
    ]:
        with pytest.raises(hlx.errors.ValueError, match=expected) as refused:
            call()
        assert "\n" not in str(refused.value)


def test_the_judge_sees_a_wrong_answer() -> None:
    """A log-probability beyond rounding, another greediness, another text, and a text for a number."""
    from judge_lm_eval import agrees, differences

    assert agrees((-10.0, True), [-10.001, True]) and agrees(-3.0, -3.0001) and agrees("a", "a")
    for ours, theirs in [
        ((-10.0, True), (-10.01, True)),
        ((-10.0, True), (-10.0, False)),
        (-3.0, -3.01),
        (float("nan"), -3.0),
        ("a", "b"),
        ("a ", "a"),
    ]:
        assert not agrees(ours, theirs), (ours, theirs)
    assert differences([((-1.0, True), (-1.5, True)), ("a", "b"), (2.0, 2.25)]) == [0.5, 0.25]


def test_without_the_harness_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the package can be imported."""
    import hlx.integrations.lm_eval as module

    monkeypatch.setitem(sys.modules, "hlx.integrations._lm_eval", None)
    with pytest.raises(ImportError, match="HLX: needs lm-evaluation-harness"):
        _ = module.HLX
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = module.Other
