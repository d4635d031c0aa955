"""Preparation of texts, token shards, and the rows that language models are trained on."""

import array
import gzip
import hashlib
import json
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hlx
from hlx.text import Batches, Progress, Rows, Shards, Tokenizer, prepare
from hlx.utils.data import DataLoader

KINDS = ["windows", "separate_windows", "packed", "padded"]
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def shards_of(*lengths: int) -> Shards:
    """Documents of these lengths, whose tokens count from 1 on; every third token is not trained on."""
    documents, first = [], 1
    for length in lengths:
        documents.append(list(range(first, first + length)))
        first += length
    masks = [[token % 3 != 0 for token in document] for document in documents]
    return Shards.from_documents(documents, 256, masks)


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Files of all layouts."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("one river\n\ntwo rivers\n", encoding="utf-8")
    with gzip.open(folder / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write('{"text": "a stone"}\n{"input": "2+2", "output": "4"}\n')
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    (folder / "c.jsonl").write_text(json.dumps({"messages": chat}) + "\n")
    return folder


def test_documents_are_those_of_the_program(corpus: Path, tmp_path: Path) -> None:
    """Text, records of all layouts, with masks, the tokenizer, the template and the preparation beside them."""
    shards = prepare(corpus, tmp_path / "tokens", chat_template=CHAT)
    assert (len(shards), shards.vocab_size, shards.has_masks) == (4, 256, True)
    texts = [bytes(shards[number]["ids"].tolist()) for number in range(4)]
    assert texts == [b"one river\n\ntwo rivers\n\x04", b"a stone\x04", b"2+2\x1e4\x04", b"<user>hi\n<assistant>ho\n"]
    trained = [shards[number]["trained"].tolist() for number in range(4)]
    assert all(trained[0]) and all(trained[1])
    assert trained[2] == [False] * 4 + [True] * 2
    assert trained[3] == [False] * len("<user>hi\n<assistant>") + [True] * len("ho\n")
    assert shards[-1]["ids"].tolist() == shards[3]["ids"].tolist() and shards[0]["ids"].dtype == hlx.int32
    assert shards.tokenizer == Tokenizer.bytes()
    assert shards.preparation is not None and shards.preparation["documents"]["chats"] == 1
    assert (tmp_path / "tokens" / "chat_template.jinja").read_text() == CHAT
    again = Shards(tmp_path / "tokens")
    index = (tmp_path / "tokens" / "index.json").read_bytes()
    assert shards.digest() == again.digest() == hashlib.sha256(index).hexdigest()
    assert repr(again).startswith(f"Shards({str(tmp_path / 'tokens')!r}, n_tokens=")
    again.verify()


def test_options_are_those_of_the_program(corpus: Path, tmp_path: Path) -> None:
    """Separators, beginnings, ends, formats, templates in files, and tokenizers by name and by path."""
    text, pairs = corpus / "a.txt", corpus / "b.jsonl.gz"
    two = prepare(text, tmp_path / "1", separator="\n\n", eos=False)
    assert [bytes(two[number]["ids"].tolist()) for number in range(len(two))] == [b"one river", b"two rivers\n"]
    marked = prepare([pairs], tmp_path / "2", pair_separator=" = ")
    assert bytes(marked[1]["ids"].tolist()) == b"2+2 = 4\x04"
    characters = prepare(text, tmp_path / "3", "characters")
    assert characters.vocab_size == len(set(text.read_text()))
    records = prepare(corpus / "c.jsonl", tmp_path / "4", format="text")
    assert b'"messages"' in bytes(records[0]["ids"].tolist())
    tokenizer = Tokenizer.train_from_iterator([text.read_text()] * 3, 270, special_tokens=["<|endoftext|>", "<s>"])
    tokenizer.save(tmp_path / "tokenizer")
    settings = {"bos_token": "<s>", "eos_token": "<|endoftext|>"}
    (tmp_path / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "chat.jinja").write_text(CHAT)
    with pytest.warns(UserWarning, match="bos and eos are not of the 1 chats") as warned:
        begun = prepare(corpus, tmp_path / "5", tmp_path / "tokenizer", bos=True, chat_template=tmp_path / "chat.jinja")
    assert len(warned) == 1
    assert begun[0]["ids"].tolist()[0] == 1 and begun[0]["ids"].tolist()[-1] == 0
    assert json.loads((tmp_path / "5" / "tokenizer_config.json").read_text()) == settings
    assert begun.tokenizer is not None and begun.tokenizer.bos_token == "<s>"
    dated = prepare(corpus / "c.jsonl", tmp_path / "6", chat_template="{{ date_string }}" + CHAT, date="2026-11-26")
    assert bytes(dated[0]["ids"].tolist()).startswith(b"26 Nov 2026<user>")


def test_threads_and_stops_change_no_byte(tmp_path: Path) -> None:
    """A call that an error or Ctrl-C ended goes on after the last whole shard, and leaves the same files."""
    text = "".join(f"line {number} of a river of words\n" for number in range(250_000))
    (tmp_path / "a.txt").write_text(text)
    options: dict[str, Any] = {"separator": "\n", "shard_tokens": 1_500_000}
    seen: list[Progress] = []
    prepare(tmp_path / "a.txt", tmp_path / "whole", progress=seen.append, **options)
    expected = files_of(tmp_path / "whole")
    assert len(expected) > 10 and seen[-1].done == 1.0 and seen[-1].n_bytes == len(text)
    prepare(tmp_path / "a.txt", tmp_path / "one", threads=1, **options)
    prepare(tmp_path / "a.txt", tmp_path / "three", threads=3, **options)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "three") == expected
    out = tmp_path / "stopped"

    def fails(progress: Progress) -> None:
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError):
        prepare(tmp_path / "a.txt", out, progress=fails, threads=1, **options)
    begun = threading.Event()
    thread = threading.Thread(target=lambda: begun.wait() and os.kill(os.getpid(), signal.SIGINT))
    thread.start()
    try:
        prepare(tmp_path / "a.txt", out, progress=lambda _: begun.set(), threads=1, **options)
    except KeyboardInterrupt:
        pass
    begun.set()
    try:
        thread.join()
    except KeyboardInterrupt:
        thread.join()
    prepare(tmp_path / "a.txt", out, **options)
    assert files_of(out) == expected


def test_a_damaged_shard_is_found(corpus: Path, tmp_path: Path) -> None:
    """By its digest, or by its size when it is opened."""
    prepare(corpus / "a.txt", tmp_path / "tokens")
    file = tmp_path / "tokens" / "shard-00000.bin"
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(hlx.errors.ValueError, match="shard-00000.bin: has the SHA-256"):
        Shards(tmp_path / "tokens").verify()
    file.write_bytes(content[:-2])
    with pytest.raises(hlx.errors.ValueError, match="shard-00000.bin: has .* bytes"):
        Shards(tmp_path / "tokens")
    file.write_bytes(content)
    Tokenizer.characters("ab").save(tmp_path / "tokens")
    with pytest.raises(hlx.errors.ValueError, match="is not the one that made the tokens"):
        _ = Shards(tmp_path / "tokens").tokenizer


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    """nanoGPT's: u16 from the first byte on, one document."""
    tokens = [token * 7 % 50_257 for token in range(1000)]
    (tmp_path / "train.bin").write_bytes(array.array("H", tokens).tobytes())
    shards = Shards(tmp_path / "train.bin")
    assert (len(shards), shards.n_tokens, shards.vocab_size) == (1, 1000, 65_536)
    assert shards.tokens().tolist() == tokens and shards.tokens(3, 5).tolist() == tokens[3:5]
    assert shards.tokenizer is None and shards.preparation is None
    first = shards.rows(8)[0]
    assert (first["ids"].tolist(), first["targets"].tolist()) == (tokens[:8], tokens[1:9])


def target(token: int) -> int:
    """What is predicted of a token of `shards_of`."""
    return -100 if token % 3 == 0 else token


def test_windows_are_every_token_once() -> None:
    """In order, each token but the first is predicted once, across documents; the last row is padded."""
    rows = shards_of(5, 9, 6).rows(4)
    assert (len(rows), rows.kind, rows.length) == (5, "windows", 4)
    ids = [token for row in range(5) for token in rows[row]["ids"].tolist()]
    targets = [token for row in range(5) for token in rows[row]["targets"].tolist()]
    assert ids == [*range(1, 20), 0]
    assert targets == [*(target(token) for token in range(2, 21)), -100]
    assert set(rows[0]) == {"ids", "targets"}
    separate = shards_of(5, 9, 6).rows(4, "separate_windows")
    starts = [separate[row]["documents"].tolist() for row in range(5)]
    assert starts == [[0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 2, 2], [0, 0, 0, 3]]


def test_padded_rows_are_documents() -> None:
    """Cut to the length, padded to the longest of a batch, which is a multiple of 8 within the length."""
    shards = shards_of(3, 12, 30)
    rows = shards.rows(20, "padded")
    assert [rows[number]["ids"].shape[0] for number in range(3)] == [8, 16, 20]
    batch = rows.collated([0, 1])
    assert batch["ids"].shape == (2, 16) and batch["lengths"].tolist() == [2, 11]
    assert batch["ids"].tolist()[0] == [1, 2] + [0] * 14
    assert batch["targets"].tolist()[0] == [2, -100] + [-100] * 14
    assert batch["ids"].tolist()[1] == [*range(4, 15), 0, 0, 0, 0, 0]
    assert rows.collated([2])["lengths"].tolist() == [20]


def test_packed_rows_hold_documents_that_do_not_see_each_other() -> None:
    """As many as fit, one after another; padding is a document of its own at each position."""
    rows = shards_of(3, 4, 2, 9).rows(6, "packed")
    assert len(rows) == 3
    first = rows[0]
    assert first["ids"].tolist() == [1, 2, 4, 5, 6, 8] and first["documents"].tolist() == [0, 0, 2, 2, 2, 5]
    assert first["targets"].tolist() == [target(token) for token in (2, 3, 5, 6, 7, 9)]
    assert first["lengths"].item() == 6
    assert rows[1]["ids"].tolist() == [*range(10, 16)]
    assert rows[2]["ids"].tolist() == [16, 17, 0, 0, 0, 0] and rows[2]["documents"].tolist() == [0, 0, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_depend_on_the_seed_the_epoch_and_their_number(kind: str) -> None:
    """Equal seeds give equal rows, another seed or epoch others; without a seed rows are in order."""
    shards = shards_of(*[7, 13, 4, 22, 9] * 3)

    def content(rows: Rows) -> list[Any]:
        return [[rows[place]["ids"].tolist(), rows[place]["targets"].tolist()] for place in range(len(rows))]

    drawn = shards.rows(8, kind, seed=7)
    assert content(drawn) == content(shards.rows(8, kind, seed=7)) != content(shards.rows(8, kind, seed=8))
    before = content(drawn)
    drawn.set_epoch(1)
    after = content(drawn)
    assert after != before
    drawn.set_epoch(0)
    assert content(drawn) == before
    if kind in ("packed", "padded"):
        assert sorted(before) == sorted(after) == sorted(content(shards.rows(8, kind)))
    in_order = shards.rows(8, kind)
    in_order.set_epoch(3)
    assert content(in_order) == content(shards.rows(8, kind))
    assert content(pickle.loads(pickle.dumps(drawn))) == before


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_takes_rows(kind: str, workers: int, tmp_path: Path) -> None:
    """A batch that is read at once has the bits of its samples, with workers too."""
    rows = shards_of(*[7, 13, 4, 22, 9] * 2).rows(8, kind, seed=3)
    found = list(DataLoader(rows, batch_size=3, num_workers=workers))
    assert sum(len(batch["ids"]) for batch in found) == len(rows)
    for number, batch in enumerate(found):
        samples = [rows[place] for place in range(number * 3, min(number * 3 + 3, len(rows)))]
        for name, tensor in batch.items():
            assert tensor.dtype == hlx.int32
            for row, sample in enumerate(samples):
                width = sample[name].numel()
                assert tensor[row].reshape(-1)[:width].tolist() == sample[name].reshape(-1).tolist()
    apart = list(DataLoader(rows, batch_size=3, collate_fn=hlx.utils.data.default_collate, num_workers=workers))
    for one, other in zip(found, apart, strict=True):
        assert {name: tensor.digest() for name, tensor in one.items()} == {
            name: tensor.digest() for name, tensor in other.items()
        }


@pytest.mark.filterwarnings("ignore:.*lose a part of their labels")
@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_a_run(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same seed: a run that hardly learns has their losses, step by step."""
    monkeypatch.chdir(tmp_path)
    words = ["river", "stone", "house", "tree"]
    texts = [" ".join(words[(one * 7 + place * 3) % 4] for place in range(3 + one % 7)) for one in range(40)]
    Path("texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    shards = prepare("texts.jsonl", "tokens")
    sizes = {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 24, "dropout": 0.0}
    data = {"path": "tokens", "format": "shards", "rows": kind, "length": 24, "eval_fraction": 0.1}
    train = {"max_steps": 18, "batch_size": 4, "learning_rate": 1e-12, "log_every": 1, "optimizer": "sgd"}
    config = {"seed": 7, "model": sizes, "data": data, "train": train}
    run = hlx.train(config, run="run", device="cpu", progress=False)
    model = hlx.models.CausalLM(hlx.load_model("run").config, "cpu", seed=7)
    batches = shards.split(0.1)[0].rows(24, kind, seed=7).batches(4)
    assert len(batches.rows) < 4 * 18
    losses = []
    for number in range(18):
        batch = batches.batch(number)
        with hlx.no_grad():
            logits = model(batch["ids"], documents=batch.get("documents"))
            losses.append(hlx.nn.functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten()).item())
    assert losses == pytest.approx(run.metrics["loss"], rel=1e-6)
    assert len({round(loss, 5) for loss in losses}) > 14


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_go_on_from_a_number(workers: int) -> None:
    """Those of training: without end, and the same wherever a loop begins."""
    rows = shards_of(*[7, 13, 4, 22, 9] * 2).rows(8, "packed", seed=3)
    whole = rows.batches(4)
    expected = [whole.batch(number)["ids"].tolist() for number in range(9)]

    def taken(batches: Batches, count: int) -> list[Any]:
        loader: Iterator[Any] = iter(DataLoader(batches, batch_size=None, num_workers=workers))
        return [next(loader)["ids"].tolist() for _ in range(count)]

    assert taken(whole, 9) == expected
    assert taken(rows.batches(4, first=5), 4) == expected[5:]
    assert all(len(batch) == 4 for batch in expected)


def test_the_end_is_held_out() -> None:
    """As whole documents; each part has its own rows."""
    shards = shards_of(10, 10, 10, 10)
    train, held_out = shards.split(0.3)
    assert (len(train), len(held_out), train.n_tokens, held_out.n_tokens) == (3, 1, 30, 10)
    assert held_out[0]["ids"].tolist() == [*range(31, 41)] and train.tokens(25).tolist() == [*range(26, 31)]
    assert held_out.rows(4)[0]["ids"].tolist() == [31, 32, 33, 34]
    assert sorted(row["ids"].tolist()[0] for row in map(train.rows(9, "padded", seed=1).__getitem__, range(3))) == [
        1,
        11,
        21,
    ]
    copied = pickle.loads(pickle.dumps(held_out))
    assert copied[0]["ids"].tolist() == held_out[0]["ids"].tolist() and len(copied) == 1
    with pytest.raises(hlx.errors.ValueError, match="a part of a split already"):
        train.split(0.1)
    one, rest = shards_of(20).split(0.5)
    assert (one.n_tokens, rest.n_tokens, len(rest)) == (10, 10, 0)


def test_shards_are_pickled(corpus: Path, tmp_path: Path) -> None:
    """By their path, or with their documents."""
    for shards in (prepare(corpus, tmp_path / "tokens", chat_template=CHAT), shards_of(4, 3)):
        copied = pickle.loads(pickle.dumps(shards))
        assert len(copied) == len(shards) and copied.path == shards.path and copied.digest() == shards.digest()
        for number in range(len(shards)):
            assert copied[number]["ids"].tolist() == shards[number]["ids"].tolist()
            assert copied[number]["trained"].tolist() == shards[number]["trained"].tolist()


def fitted(device: Any, kind: str) -> tuple[list[float], str]:
    """The losses of a model that is trained on rows, and its digest."""
    shards = Shards.from_documents([[(3 * place + first) % 50 for place in range(20)] for first in range(6)], 50)
    model = hlx.models.CausalLM(
        {
            "vocabulary": 50,
            "width": 16,
            "n_layers": 1,
            "n_heads": 1,
            "feed_forward_width": 32,
            "positions": 16,
            "dropout": 0.0,
            "attention_dropout": 0.0,
        },
        device,
        seed=1,
    )
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.02)
    losses = []
    for number in range(12):
        batch = {
            name: tensor.to(device) for name, tensor in shards.rows(16, kind, seed=1).batches(4).batch(number).items()
        }
        logits = model(batch["ids"], documents=batch.get("documents"))
        loss = hlx.nn.functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.digest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_trains_on_rows(kind: str, device: hlx.device) -> None:
    """With equal bits on every device."""
    losses, digest = fitted(device, kind)
    assert losses[-1] < 0.7 * losses[0]
    assert (losses, digest) == fitted("cpu", kind)


Refused = Callable[[Path], Any]

REFUSED: list[tuple[Refused, type[Exception], str]] = [
    (lambda p: Shards(p / "nowhere"), hlx.errors.ValueError, "nowhere"),
    (lambda p: Shards(p), hlx.errors.ValueError, "a folder of token shards has an index"),
    (lambda p: Shards.from_documents([[9]], 8), hlx.errors.ValueError, "the token 9 is out of range"),
    (lambda p: Shards.from_documents([[-1]], 8), hlx.errors.ValueError, "a token is -1"),
    (lambda p: Shards.from_documents([["a"]], 8), hlx.errors.TypeError, "a token is 'a'"),
    (lambda p: Shards.from_documents([[1]], 0), hlx.errors.ValueError, "vocab_size is 0"),
    (lambda p: Shards.from_documents([[1]], 8, []), hlx.errors.ValueError, "trained has 0 masks, expected 1"),
    (lambda p: Shards.from_documents([[1]], 8, [[True, False]]), hlx.errors.ValueError, "the mask has 2 flags"),
    (lambda p: shards_of(4)[1], hlx.errors.IndexError, "document 1 is out of range of 1"),
    (lambda p: shards_of(4).tokens(5), hlx.errors.ValueError, "start is 5, expected 0 to 4"),
    (lambda p: shards_of(4).split(1.0), hlx.errors.ValueError, "fraction is 1.0, expected 0 to below 1"),
    (lambda p: shards_of(4).rows(0), hlx.errors.ValueError, "length is 0, expected 1 to"),
    (lambda p: shards_of(4).rows(4, "x"), hlx.errors.ValueError, "kind is 'x', expected one of windows"),
    (lambda p: shards_of(4).rows(4, seed=-1), hlx.errors.ValueError, "seed is -1"),
    (lambda p: shards_of(4).rows(4, seed=1), hlx.errors.ValueError, "a window takes 5 tokens"),
    (lambda p: Shards.from_documents([], 8).rows(4, "packed"), hlx.errors.ValueError, "there are no documents"),
    (lambda p: shards_of(9).rows(4)[2], hlx.errors.IndexError, "row 2 is out of range of 2"),
    (lambda p: shards_of(9).rows(4).collated([]), hlx.errors.ValueError, "a batch of no row"),
    (lambda p: shards_of(9).rows(4).set_epoch(-1), hlx.errors.ValueError, "epoch is -1"),
    (lambda p: shards_of(9).rows(4).batches(0), hlx.errors.ValueError, "batch_size is 0"),
    (lambda p: prepare([], p / "o"), hlx.errors.ValueError, "there are no files"),
    (lambda p: prepare(p / "no.txt", p / "o"), hlx.errors.ValueError, "no.txt: is not there"),
    (lambda p: prepare(p / "a.txt", p / "o", 3), hlx.errors.TypeError, "tokenizer is a int"),
    (lambda p: prepare(p / "a.txt", p / "o", format="csv"), hlx.errors.ValueError, "format is"),
    (lambda p: prepare(p / "a.txt", p / "o", threads=0), hlx.errors.ValueError, "threads is 0, expected 1 to"),
    (lambda p: prepare(p / "a.txt", p / "o", separator=1), hlx.errors.TypeError, "separator is a int"),
    (
        lambda p: prepare(p / "a.txt", p / "o", separator=""),
        hlx.errors.ValueError,
        "the separator of documents is empty",
    ),
    (
        lambda p: prepare(p / "a.txt", p / "o", bos=True),
        hlx.errors.ValueError,
        r"no token that begins a document \(bos=True\)",
    ),
    (lambda p: prepare(p / "a.txt", p / "o", chat_template=p / "no"), hlx.errors.ValueError, "chat_template: .*no"),
    (lambda p: prepare(p / "bad.jsonl", p / "o"), hlx.errors.ValueError, "bad.jsonl: 2: "),
    (lambda p: prepare(p / "a.txt", p), hlx.errors.ValueError, "a.txt|holds"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_cannot_be_is_one_line(place: int, tmp_path: Path) -> None:
    """With the function or the argument that is wrong, or the file and the line."""
    (tmp_path / "a.txt").write_text("a river\n")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 3}\n')
    call, kind, expected = REFUSED[place]
    with pytest.raises(kind, match=expected) as refused:
        call(tmp_path)
    assert "\n" not in str(refused.value)
