"""Tokenizers and chat templates, beside those of `tokenizers` and `transformers` where these are installed."""

import copy
import gzip
import json
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hlx
from hlx.text import Tokenizer

CORPUS = [
    "The river runs past the old stone house, and the house stands by the river.",
    "Rivers, houses and stones: 1, 22, 333 of them! It's theirs; they'll stay.",
    "Öde Flüsse fließen; 川は流れる。 🌊🌊",
    "def run(river):\n    return river.past(house)\n\n\n",
] * 3
TEXTS = [
    "",
    " ",
    "The river",
    "the stone house  stands\n\n by it",
    "It's 2024, they'll say: naïve façade 川 🌊 \u00a0\t!",
    "<|endoftext|>The river<|endoftext|>",
    "x" * 700,
]
TEMPLATE = (
    "{{ bos_token }}{% if tools %}[tools: {% for tool in tools %}{{ tool | tojson }};{% endfor %}]{% endif %}"
    "{% if documents %}{% for d in documents %}[{{ d.title }}]{% endfor %}{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m['content'] | trim }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if thinking %}<think>{% endif %}{% endif %}"
)
CHAT = [
    {"role": "system", "content": "You are kind."},
    {"role": "user", "content": "  The river? "},
    {"role": "assistant", "content": "It runs past the house. "},
]


def trained(**settings: Any) -> Tokenizer:
    """A tokenizer of 320 tokens."""
    return Tokenizer.train_from_iterator(CORPUS, 320, **settings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a tokenizer that puts tokens around texts, its settings and its chat template."""
    specials = ["<|endoftext|>", "<s>", "<|user|>", "<|assistant|>", "<pad>"]
    place = tmp_path / "tokenizer"
    trained(special_tokens=specials).save(place)
    file = place / "tokenizer.json"
    parts = json.loads(file.read_text())
    parts["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    file.write_text(json.dumps(parts))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<|endoftext|>",
        "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False,
    }
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    (place / "chat_template.jinja").write_text(TEMPLATE)
    return place


def theirs(folder: Path) -> Any:
    """The tokenizer of transformers."""
    transformers = pytest.importorskip("transformers")
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


def test_bytes_and_characters() -> None:
    """One token per byte or character; special tokens are left out if that is wanted."""
    tokenizer = Tokenizer.bytes()
    assert (len(tokenizer), tokenizer.vocab_size, tokenizer.eos_token_id, tokenizer.separator_token_id) == (
        256,
        256,
        4,
        30,
    )
    ids = tokenizer.encode("é川")
    assert ids == list("é川".encode())
    assert tokenizer.decode([*ids, 4]) == "é川\x04" and tokenizer.decode([*ids, 4], skip_special_tokens=True) == "é川"
    assert tokenizer.decode([0xC3]) == "\ufffd"
    characters = Tokenizer.characters("hello")
    assert characters.get_vocab() == {"e": 0, "h": 1, "l": 2, "o": 3}
    assert characters.eos_token_id is None and characters.eos_token is None and characters.all_special_ids == []


def test_training_gives_the_tokenizer_of_tokenizers(tmp_path: Path) -> None:
    """With the same settings: the same vocabulary and merges."""
    tokenizers = pytest.importorskip("tokenizers")
    other = tokenizers.ByteLevelBPETokenizer()
    settings = {"vocab_size": 320, "min_frequency": 2, "special_tokens": ["<|endoftext|>"]}
    other.train_from_iterator(CORPUS, show_progress=False, **settings)
    own = trained()
    assert own.get_vocab() == other.get_vocab()
    for text in TEXTS:
        assert own.encode(text) == other.encode(text).ids


def test_training_depends_on_the_texts_alone(tmp_path: Path) -> None:
    """Files, compressed files, records, texts in memory and any number of threads give the same digest."""
    text = "\n".join(CORPUS)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": text}) + "\n")
    expected = Tokenizer.train_from_iterator([text], 320).digest()
    for name in ("a.txt", "b.txt.gz", "c.jsonl"):
        assert Tokenizer.train(tmp_path / name, 320, progress=False).digest() == expected, name
    assert Tokenizer.train([tmp_path / "a.txt"], 320, threads=3, format="text").digest() == expected
    assert Tokenizer.train_from_iterator((one for one in [text]), 320).digest() == expected
    assert trained(special_tokens=["<|a|>", "<|b|>"]).all_special_ids == [0, 1]
    assert len(trained(min_frequency=10**6)) == 257


def test_tokens_and_texts_are_those_of_transformers(folder: Path) -> None:
    """With what the post-processor adds, with the settings beside the file, one by one and in batches."""
    own, other = Tokenizer.from_file(folder), theirs(folder)
    assert own == Tokenizer.from_file(folder / "tokenizer.json")
    for text in TEXTS:
        for adds in (True, False):
            ids = other.encode(text, add_special_tokens=adds)
            assert own.encode(text, add_special_tokens=adds) == ids
            for skips in (True, False):
                assert own.decode(ids, skip_special_tokens=skips) == other.decode(ids, skip_special_tokens=skips)
    assert own.encode_batch(TEXTS) == other(TEXTS)["input_ids"]
    assert own.batch_decode(own.encode_batch(TEXTS)) == other.batch_decode(other(TEXTS)["input_ids"])
    assert len(own) == len(other) == own.vocab_size and own.get_vocab() == other.get_vocab()
    for name in ("bos_token", "eos_token", "pad_token", "bos_token_id", "eos_token_id", "pad_token_id"):
        assert getattr(own, name) == getattr(other, name), name
    assert set(own.all_special_ids) >= set(other.all_special_ids)
    assert own.special_tokens_map == {key: str(token) for key, token in other.special_tokens_map.items()}


@pytest.mark.parametrize("adds", [False, True])
def test_conversations_are_those_of_transformers(folder: Path, adds: bool) -> None:
    """Texts, tokens, tools, documents, variables, batches, and a message that is continued."""
    own, other = Tokenizer.from_file(folder), theirs(folder)
    assert own.chat_template == other.chat_template
    tool = {"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}
    for more in (
        {},
        {"tools": [tool]},
        {"documents": [{"title": "A", "text": "B"}]},
        {"thinking": True},
        {"chat_template": "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"},
    ):
        options: dict[str, Any] = {"add_generation_prompt": adds, **more}
        text = other.apply_chat_template(CHAT, tokenize=False, **options)
        assert own.apply_chat_template(CHAT, tokenize=False, **options) == text
        ids = other.apply_chat_template(CHAT, tokenize=True, return_dict=False, **options)
        assert own.apply_chat_template(CHAT, **options) == ids
        both = other.apply_chat_template([CHAT, CHAT[:2]], tokenize=True, return_dict=True, **options)
        assert own.apply_chat_template([CHAT, CHAT[:2]], return_dict=True, **options)["input_ids"] == both["input_ids"]
    plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    for template in (None, plain):
        for end in ("It runs past the house. ", "It runs"):
            chat = [*CHAT[:2], {"role": "assistant", "content": end}]
            options = {"tokenize": False, "continue_final_message": True, "chat_template": template}
            assert own.apply_chat_template(chat, **options) == other.apply_chat_template(chat, **options)


def test_answers_are_masked(folder: Path) -> None:
    """1 for what the template marks, or without marks for what it adds to a prompt."""
    own = Tokenizer.from_file(folder)
    options: dict[str, Any] = {"return_dict": True, "return_assistant_tokens_mask": True}
    made = own.apply_chat_template(CHAT, **options)
    answer = [id for id, is_answer in zip(made["input_ids"], made["assistant_masks"], strict=True) if is_answer]
    assert own.decode(answer) == "It runs past the house.<|endoftext|>"
    assert own.decode(made["input_ids"]) == own.apply_chat_template(CHAT, tokenize=False)
    assert made["attention_mask"] == [1] * len(made["input_ids"])
    unmarked = TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    assert own.apply_chat_template(CHAT, chat_template=unmarked, **options) == made
    two = own.apply_chat_template([CHAT, CHAT[:2]], **options)
    assert two["assistant_masks"] == [made["assistant_masks"], [0] * len(two["input_ids"][1])]


@pytest.mark.filterwarnings("ignore:the chat template writes a date")
def test_a_template_finds_the_date_that_is_stated() -> None:
    """And 2024-07-26 without one, so that a text does not depend on the day."""
    tokenizer = Tokenizer.bytes()
    template = "{{ strftime_now('%d %B %Y') }}{% if date_string is defined %} {{ date_string }}{% endif %}"
    options: dict[str, Any] = {"chat_template": template, "tokenize": False}
    assert tokenizer.apply_chat_template(CHAT, **options) == "26 July 2024"
    assert tokenizer.apply_chat_template(CHAT, date="2026-11-26", **options) == "26 November 2026 26 Nov 2026"
    assert tokenizer.apply_chat_template(CHAT, **options) == "26 July 2024"


def test_a_stream_has_the_text_of_all_tokens(folder: Path) -> None:
    """Whatever a piece is: of characters of several tokens, and after a prompt."""
    for tokenizer in (Tokenizer.from_file(folder), Tokenizer.bytes()):
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False)
            whole = tokenizer.decode(ids, skip_special_tokens=True)
            for cut in (0, len(ids) // 2):
                stream = tokenizer.stream(ids[:cut])
                pieces = [stream.push(id) for id in ids[cut:]]
                given = tokenizer.decode(ids[:cut], skip_special_tokens=True)
                written = "".join(pieces) + stream.finish()
                assert given.rstrip("\ufffd") + written == whole or given + written == whole
                with pytest.raises(hlx.errors.RuntimeError, match="stream: it has ended"):
                    stream.push(0)
    stream = Tokenizer.bytes().stream()
    assert [stream.push(byte) for byte in "川".encode()] == ["", "", "川"]


def test_tokens_may_be_a_list_an_array_or_a_tensor() -> None:
    """Of [T], [1, T], or a single one."""
    numpy = pytest.importorskip("numpy")
    tokenizer = Tokenizer.bytes()
    for ids in (
        [104, 105],
        (104, 105),
        range(104, 106),
        hlx.tensor([104, 105]),
        hlx.tensor([[104, 105]]),
        numpy.array([104, 105]),
        numpy.array([[104, 105]], dtype=numpy.uint16),
        [numpy.int64(104), hlx.tensor(105)],
    ):
        assert tokenizer.decode(ids) == "hi", ids
    assert tokenizer.decode(104) == tokenizer.decode(hlx.tensor(104)) == "h"
    assert tokenizer.batch_decode(hlx.tensor([[104], [105]])) == ["h", "i"]


@pytest.mark.parametrize("kind", ["bytes", "characters", "trained", "folder"])
def test_a_tokenizer_is_written_and_read(kind: str, folder: Path, tmp_path: Path) -> None:
    """As a folder and as a file, with the same digest; pickled and copied it is the same."""
    made = {
        "bytes": Tokenizer.bytes,
        "characters": lambda: Tokenizer.characters("The river 川"),
        "trained": trained,
        "folder": lambda: Tokenizer.from_file(folder),
    }[kind]()
    made.save(tmp_path / "saved")
    read = Tokenizer.from_file(tmp_path / "saved")
    assert read == made and read.digest() == made.digest() and hash(read) == hash(made)
    made.save(tmp_path / "alone.json")
    assert Tokenizer.from_file(tmp_path / "alone.json").digest() == made.digest()
    pickled = pickle.loads(pickle.dumps(made))
    assert pickled == made and pickled.chat_template == made.chat_template
    assert copy.copy(made) is made and copy.deepcopy(made) is made
    assert (read.eos_token_id, read.special_tokens_map) == (made.eos_token_id, made.special_tokens_map)
    other = Tokenizer.bytes() if kind != "bytes" else trained()
    assert made != other and made != "a tokenizer"
    made.save(tmp_path / "hugging", format="hugging_face")
    exported = Tokenizer.from_file(tmp_path / "hugging")
    assert exported.encode("The river") == made.encode("The river")


def test_other_programs_read_a_tokenizer_of_bytes(tmp_path: Path) -> None:
    """As `tokenizers` does, with the same tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    Tokenizer.bytes().save(tmp_path / "bytes.json", format="hugging_face")
    other = tokenizers.Tokenizer.from_file(str(tmp_path / "bytes.json"))
    for text in TEXTS:
        assert other.encode(text).ids == Tokenizer.bytes().encode(text)


def test_a_model_takes_its_tokenizers_files_along(folder: Path, tmp_path: Path) -> None:
    """The chat template and the settings of a tokenizer that is assigned are written with the model."""
    tokenizer = Tokenizer.from_file(folder)
    model = hlx.models.CausalLM(
        hlx.models.preset("llama2", vocabulary=len(tokenizer), width=16, n_layers=1, n_heads=1, n_kv_heads=1,
                          head_width=16, feed_forward_width=16, max_positions=64)
    )  # fmt: skip
    model.tokenizer = tokenizer  # type: ignore[misc]
    for form in ("hugging_face", "hlx"):
        model.save(tmp_path / form, format=form)
        read = hlx.load_model(tmp_path / form).tokenizer
        assert read is not None and read.chat_template == TEMPLATE and read.bos_token == "<s>"
        assert read.apply_chat_template(CHAT) == tokenizer.apply_chat_template(CHAT)


def test_threads_share_a_tokenizer(folder: Path) -> None:
    """They encode, decode and lay out at the same time, with the same results."""
    tokenizer = Tokenizer.from_file(folder)
    text = " ".join(CORPUS)

    def work(number: int) -> tuple[list[int], str, str]:
        ids = tokenizer.encode(text * (number % 3 + 1))
        template = None if number % 2 else "{{ messages[0].content }}"
        laid_out = tokenizer.apply_chat_template(CHAT, tokenize=False, chat_template=template)
        return ids, tokenizer.decode(ids), laid_out

    expected = [work(number) for number in range(6)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, [*range(6)] * 5)) == expected * 5
    many = [f"{text} {number}" for number in range(300)]
    assert tokenizer.encode_batch(many) == [tokenizer.encode(one) for one in many]


def encoded(job: tuple[Tokenizer, str]) -> list[int]:
    """What a process encodes."""
    return job[0].encode(job[1])


def test_processes_get_a_tokenizer(folder: Path) -> None:
    """Pickled for one that is spawned, inherited by one that is forked."""
    tokenizer = Tokenizer.from_file(folder)
    for method in {"spawn", "fork"} & set(multiprocessing.get_all_start_methods()):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.map(encoded, [(tokenizer, "The river")]) == [tokenizer.encode("The river")]


def test_training_says_how_far_it_is_and_can_be_stopped() -> None:
    """An error of the function that is told ends the training, and so does Ctrl-C."""
    seen: list[hlx.text.Progress] = []
    Tokenizer.train_from_iterator(CORPUS, 320, progress=seen.append)
    assert seen and seen[-1].done == pytest.approx(1.0) and seen[-1].n_tokens == 320
    words = [" ".join(f"{number * 7919 % 999_983:x}{number:x}" for number in range(150_000))]

    def fails(progress: hlx.text.Progress) -> None:
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        Tokenizer.train_from_iterator(words, 200_000, min_frequency=1, progress=fails)
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        Tokenizer.train_from_iterator(words, 200_000, min_frequency=1, progress=lambda _: begun.set())
    thread.join()


Refused = Callable[[Tokenizer, Path], Any]

REFUSED: list[tuple[Refused, type[Exception], str]] = [
    (lambda t, p: Tokenizer(), hlx.errors.TypeError, "Tokenizer: made by from_file"),
    (lambda t, p: Tokenizer.from_file(p / "nowhere"), hlx.errors.ValueError, "nowhere: No such file"),
    (lambda t, p: Tokenizer.from_file(p / "wrong.json"), hlx.errors.ValueError, "wrong.json: is no tokenizer"),
    (lambda t, p: Tokenizer.characters(""), hlx.errors.ValueError, "characters"),
    (lambda t, p: t.encode(3), hlx.errors.TypeError, "encode: text is a int, expected a str"),
    (lambda t, p: t.encode("a\ud800"), hlx.errors.ValueError, "text has a lone surrogate at character 1"),
    (lambda t, p: Tokenizer.characters("a").encode("b"), hlx.errors.ValueError, "b"),
    (lambda t, p: t.encode_batch("a"), hlx.errors.TypeError, "texts is a str, expected several texts"),
    (lambda t, p: t.encode_batch(["a", None]), hlx.errors.TypeError, r"texts\[1\] is a NoneType"),
    (lambda t, p: t(3), hlx.errors.TypeError, "text is a int, expected a text or several"),
    (lambda t, p: t("a", padding=True), hlx.errors.ValueError, "no padding token"),
    (lambda t, p: t("a", padding="most"), hlx.errors.ValueError, "padding is 'most'"),
    (lambda t, p: t("a", truncation=True), hlx.errors.ValueError, "truncation needs max_length"),
    (lambda t, p: t("a", padding_side="top"), hlx.errors.ValueError, "padding_side is 'top'"),
    (lambda t, p: t("a", return_tensors="pt"), hlx.errors.ValueError, "return_tensors is 'pt'"),
    (lambda t, p: t(["a", "bc"], return_tensors="hlx"), hlx.errors.ValueError, "of different lengths"),
    (lambda t, p: t.decode("a"), hlx.errors.TypeError, "decode: ids are a text"),
    (lambda t, p: t.decode([1.5]), hlx.errors.TypeError, "decode: ids hold 1.5, expected whole"),
    (lambda t, p: t.decode([-1]), hlx.errors.ValueError, "decode: ids hold -1, expected 0 to"),
    (lambda t, p: t.decode([2**32]), hlx.errors.ValueError, "decode: ids hold 4294967296"),
    (lambda t, p: t.decode(None), hlx.errors.TypeError, "ids are a NoneType"),
    (lambda t, p: t.id_to_token(-1), hlx.errors.ValueError, "token_id is -1, expected 0 to"),
    (lambda t, p: t.token_to_id(1), hlx.errors.TypeError, "token is a int"),
    (lambda t, p: t.apply_chat_template(CHAT), hlx.errors.ValueError, "no chat template beside it"),
    (lambda t, p: t.apply_chat_template("hi"), hlx.errors.TypeError, "conversation is a str"),
    (lambda t, p: t.apply_chat_template([3]), hlx.errors.TypeError, "message 0 is a int"),
    (lambda t, p: t.apply_chat_template(CHAT, chat_template="{% if %}"), hlx.errors.ValueError, "chat_template"),
    (
        lambda t, p: t.apply_chat_template(CHAT, chat_template="{{ raise_exception('no system') }}"),
        hlx.errors.ValueError,
        "no system",
    ),
    (
        lambda t, p: t.apply_chat_template(CHAT, tools=[encoded]),
        hlx.errors.TypeError,
        "tools hold the function encoded",
    ),
    (lambda t, p: t.apply_chat_template(CHAT, tools=[3], chat_template="x"), hlx.errors.ValueError, "must be objects"),
    (lambda t, p: t.apply_chat_template(CHAT, x={1, 2}), hlx.errors.TypeError, "a set is no plain data"),
    (lambda t, p: t.apply_chat_template(CHAT, x=float("nan")), hlx.errors.TypeError, "apply_chat_template"),
    (
        lambda t, p: t.apply_chat_template(CHAT, add_generation_prompt=True, continue_final_message=True),
        hlx.errors.ValueError,
        "continue_final_message continues one",
    ),
    (
        lambda t, p: t.apply_chat_template(CHAT, continue_final_message=True, chat_template="x"),
        hlx.errors.ValueError,
        "the template leaves the last message out",
    ),
    (
        lambda t, p: t.apply_chat_template(CHAT, return_assistant_tokens_mask=True),
        hlx.errors.ValueError,
        "needs tokenize and return_dict",
    ),
    (
        lambda t, p: t.apply_chat_template(CHAT, chat_template="x", date="soon"),
        hlx.errors.ValueError,
        "`soon` is no date",
    ),
    (lambda t, p: Tokenizer.train(p / "none.txt", 300), hlx.errors.ValueError, "none.txt: is not there"),
    (lambda t, p: Tokenizer.train([], 300), hlx.errors.ValueError, "there are no files"),
    (lambda t, p: Tokenizer.train(3, 300), hlx.errors.TypeError, "files is a int"),
    (lambda t, p: Tokenizer.train(p / "wrong.json", 300, format="csv"), hlx.errors.ValueError, 'format is "csv"'),
    (
        lambda t, p: Tokenizer.train_from_iterator(["a"], 3),
        hlx.errors.ValueError,
        "a vocabulary of 3 tokens is too small",
    ),
    (lambda t, p: Tokenizer.train_from_iterator([], 300), hlx.errors.ValueError, "the texts hold no words"),
    (lambda t, p: Tokenizer.train_from_iterator("a", 300), hlx.errors.TypeError, "texts is a str"),
    (lambda t, p: Tokenizer.train_from_iterator(["a", 1], 300), hlx.errors.TypeError, r"texts\[1\] is a int"),
    (lambda t, p: Tokenizer.train_from_iterator(["a"], 0), hlx.errors.ValueError, "vocab_size is 0, expected 1 to"),
    (lambda t, p: Tokenizer.train_from_iterator(["a"], "9"), hlx.errors.TypeError, "vocab_size is '9'"),
    (
        lambda t, p: Tokenizer.train_from_iterator(["a"], 300, special_tokens=["<a>", "<a>"]),
        hlx.errors.ValueError,
        "`<a>` is listed twice",
    ),
    (lambda t, p: t.save(p / "x", format="y"), hlx.errors.ValueError, "format is 'y'"),
    (lambda t, p: t.save(p / "wrong.json" / "x"), hlx.errors.ValueError, "save: .*x"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_cannot_be_is_one_line(place: int, tmp_path: Path) -> None:
    """With the function or the argument that is wrong."""
    call, kind, expected = REFUSED[place]
    (tmp_path / "wrong.json").write_text('{"version": "1.0"}')
    with pytest.raises(kind, match=expected) as refused:
        call(Tokenizer.bytes(), tmp_path)
    assert "\n" not in str(refused.value)


def test_what_is_decided_between_files_is_a_warning(folder: Path) -> None:
    """What the library logs, such as a setting that tokenizer.json contradicts, and a date that nobody has stated."""
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "add_eos_token": True}))
    with pytest.warns(UserWarning, match="`add_eos_token` is true; tokenizer.json, which counts") as warned:
        tokenizer = Tokenizer.from_file(folder)
    assert warned[0].filename.endswith("_tokenizer.py") or warned[0].filename == __file__
    with pytest.warns(
        UserWarning, match=r"the chat template writes a date: 2024-07-26, as none is stated \(date=\"YYYY-MM-DD\"\)"
    ):
        tokenizer.apply_chat_template(CHAT, chat_template="{{ strftime_now('%d') }}.", tokenize=False)


@pytest.mark.parametrize("side", ["right", "left"])
def test_texts_are_padded_and_cut_as_by_transformers(folder: Path, side: str) -> None:
    """One or several, to the longest or to a length, as lists and as tensors."""
    own, other = Tokenizer.from_file(folder), theirs(folder)
    other.padding_side = other.truncation_side = side
    sides: dict[str, Any] = {"padding_side": side, "truncation_side": side}
    for options in (
        {},
        {"padding": True},
        {"padding": "max_length", "max_length": 40},
        {"padding": "longest", "pad_to_multiple_of": 8},
        {"truncation": True, "max_length": 5, "padding": True},
        {"truncation": True, "max_length": 3, "add_special_tokens": False},
    ):
        for texts in (TEXTS[:5], TEXTS[2]):
            found = other(texts, **options)
            assert own(texts, **options, **sides) == {
                "input_ids": found["input_ids"],
                "attention_mask": found["attention_mask"],
            }
    tensors = own(TEXTS[:5], padding=True, return_tensors="hlx")
    assert tensors["input_ids"].dtype == hlx.int32
    assert tensors["input_ids"].tolist() == other(TEXTS[:5], padding=True, padding_side="right")["input_ids"]
    assert own(TEXTS[2], return_tensors="hlx")["input_ids"].shape[0] == 1


def test_a_tokenizer_is_shown_in_a_line() -> None:
    """With its size and the beginning of its digest."""
    tokenizer = Tokenizer.bytes()
    assert repr(tokenizer) == f"Tokenizer(vocab_size=256, digest={tokenizer.digest()[:12]}..)"
