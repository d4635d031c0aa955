"""`hlx.train`, `hlx.Run` and `hlx.verify`: the bits of the program `hlx`, from Python."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

import hlx
from hlx.callbacks import STOP

FIXTURE = Path(__file__).with_name("fixtures") / "run.toml"
#: The digest of the chain's last record, which `crates/hlx-cli/tests/trained_in_python.rs` names, too.
DIGEST = "23aaaccdf5f2b7f36f5b8587ed21bce90c469609c65071356c33224f4d3aecf9"


def fixture(**train: Any) -> dict[str, Any]:
    """The fixture's values, with others of `[train]`."""
    config = tomllib.loads(FIXTURE.read_text(encoding="utf-8"))
    config["train"].update(train)
    return config


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_has_the_chain_that_the_program_writes(device: hlx.device) -> None:
    """On every device, of the file and of its values."""
    run = hlx.train(FIXTURE, device=device)
    assert run.path == Path("runs/run").resolve() and run.finished
    assert run.digest == DIGEST
    again = hlx.train(fixture(), run="again", device=device)
    assert (again.path / "chain.jsonl").read_bytes() == (run.path / "chain.jsonl").read_bytes()
    assert again.config == run.config


def test_what_a_run_folder_holds() -> None:
    """Metrics, evaluations, samples, checkpoints and the chain, by their steps."""
    run = hlx.train(fixture(), device="cpu")
    assert (run.name, run.step, run.status) == ("run", 8, "finished")
    assert run.config["train"]["weight_decay"] == 0.01
    assert run.metrics["step"] == list(range(1, 9))
    assert run.metrics.columns[:5] == ["step", "epoch", "loss", "grad_norm", "learning_rate"]
    assert run.metrics[-1]["loss"] < run.metrics[0]["loss"]
    assert [(row["step"], row["split"]) for row in run.evaluations] == [(4, "held_out"), (8, "held_out"), (8, "train")]
    assert run.samples["step"] == [4, 8] and set(run.samples["prompt"]) == {"a circle"}
    assert run.checkpoints["step"] == [4, 8]
    best = run.best
    assert best is not None and best["loss"] == min(run.checkpoints["loss"])
    chain = run.chain
    assert chain["step"] == list(range(9)) and chain["previous"][1:] == chain["digest"][:-1]
    assert chain[-1]["digest"] == run.digest == run.checkpoints[-1]["record"]
    # The chain's losses are sums, the metrics' are means over the same bytes.
    ratios = [row["loss"] / sum(record["losses"]) for row, record in zip(run.metrics, chain[1:], strict=True)]
    assert all(0 < ratio < 1 for ratio in ratios)
    assert run.stretches["from_step"] == [0] and run.stretches["selector"] == ["cpu"]
    assert "finished, saved at step 8" in str(run) and "<svg" in run._repr_html_()
    assert repr(run) == f"hlx.Run({os.fspath(run.path)!r})"


def test_a_damaged_chain_is_an_error() -> None:
    """Also where the steps are not computed again."""
    run = hlx.train(fixture(max_steps=2), device="cpu")
    path = run.path / "chain.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"epoch":0', b'"epoch":1', 1))
    with pytest.raises(hlx.errors.ValueError, match="is damaged: its SHA-256 is"):
        _ = run.chain


def test_the_model_of_a_checkpoint() -> None:
    """By name and by step, with the digest that the run has for it."""
    run = hlx.train(fixture(max_steps=4, checkpoint_every=2), device="cpu")
    latest, second = run.model(device="cpu"), run.model(2, device="cpu")
    assert latest.digest() == run.checkpoints[-1]["parameters"]
    assert second.digest() == run.checkpoints[0]["parameters"] != latest.digest()
    best = run.best
    assert best is not None and run.model("best", device="cpu").digest() == best["parameters"]
    assert (
        run.model(device="cpu").generate("a circle", max_new_tokens=3).text
        == latest.generate("a circle", max_new_tokens=3).text
    )
    with pytest.raises(hlx.errors.ValueError, match=r"no checkpoint 3, expected latest, best or a step of 2, 4"):
        run.model(3)


@pytest.mark.parametrize("stop_at", [1, 3, 4])
def test_a_stopped_run_goes_on_with_the_bits_of_one_that_was_not(stop_at: int, device: hlx.device) -> None:
    """The chain is the same, byte for byte: this run has a record of every step."""
    stopped = hlx.train(
        fixture(), device=device, callbacks=lambda metrics: STOP if metrics["step"] >= stop_at else None
    )
    assert stopped.status == "stopped" and 0 < stopped.step < 8
    with pytest.raises(hlx.errors.ValueError, match="already holds a run; resume=True goes on with it"):
        hlx.train(fixture(), run=stopped.path, device=device)
    stop_step = stopped.step
    resumed = stopped.resume(device=device)
    assert resumed.finished and resumed.digest == DIGEST
    assert resumed.stretches["from_step"] == [0, stop_step]
    assert resumed.metrics["step"] == list(range(1, 9))


def test_a_finished_run_goes_on_when_it_is_made_longer() -> None:
    """Where no step depends on the number of steps."""
    short = hlx.train(fixture(schedule="constant", max_steps=4), device="cpu")
    assert short.finished
    longer = short.resume(set={"train.max_steps": 8}, device="cpu")
    whole = hlx.train(fixture(schedule="constant"), run="whole", device="cpu")
    assert longer.path == short.path and longer.digest == whole.digest
    with pytest.raises(hlx.errors.ValueError, match="is of another run: train.learning_rate is"):
        longer.resume(set={"train.learning_rate": 0.1}, device="cpu")


def test_runs_without_a_folder_are_numbered() -> None:
    """The last one is resumed."""
    paths = [hlx.train(fixture(max_steps=1), device="cpu").path for _ in range(3)]
    assert [path.name for path in paths] == ["run", "run-2", "run-3"]
    last = hlx.train(fixture(max_steps=1), resume=True, device="cpu")
    assert last.path == paths[-1] and len(last.stretches) == 2


INTERRUPTED = """
import os, signal, sys, threading
import hlx
signal.signal(signal.SIGINT, signal.default_int_handler)
number, times = getattr(signal, sys.argv[2]), int(sys.argv[3])
class Kill(hlx.callbacks.Callback):
    def on_step(self, metrics):
        if metrics["step"] == 3:
            os.kill(os.getpid(), number)
            if times == 2:
                threading.Event().wait(0.2)
                os.kill(os.getpid(), number)
try:
    hlx.train(sys.argv[1], run="run", device="cpu", callbacks=[Kill()])
except hlx.errors.Interrupted as error:
    print(f"{error}|{error.run.status}|{error.run.step}")
    assert error.run.error is error
except KeyboardInterrupt:
    print("at once")
"""


def interrupted(name: str, times: int) -> str:
    """What a program prints that trains the fixture and gets a signal at step 3."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, os.fspath(FIXTURE), name, str(times)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no os.kill of this kind")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_a_run_with_a_checkpoint(name: str) -> None:
    """The error says how to go on; what goes on has the bits of a run that was not interrupted."""
    text, status, step = interrupted(name, 1).split("|")
    assert text.startswith(f"train: interrupted after step {step} of 8; its checkpoint is in ")
    assert text.endswith(".resume()") and status == "stopped" and 3 <= int(step) < 8
    run = hlx.Run("run")
    assert run.step == int(step)
    assert run.resume(device="cpu").digest == DIGEST


@pytest.mark.skipif(os.name == "nt", reason="Windows has no os.kill of this kind")
def test_a_second_signal_ends_a_run_at_once() -> None:
    """And leaves a folder that is not locked, and can be resumed."""
    assert interrupted("SIGINT", 2) == "at once"
    run = hlx.Run("run")
    assert run.status == "stopped"
    assert run.resume(device="cpu").digest == DIGEST


LEFT = """
import sys, threading
import hlx
ready = threading.Event()
config = {"train.max_steps": 10**6}
work = lambda: hlx.train(sys.argv[1], run="run", set=config, device="cpu", callbacks=lambda metrics: ready.set())
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""


def test_a_process_that_ends_leaves_a_checkpoint() -> None:
    """Though a thread of it still trained."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", LEFT, os.fspath(FIXTURE)]
    assert subprocess.run(command, timeout=120, env=environment).returncode == 0
    run = hlx.Run("run")
    assert run.status == "stopped" and run.step > 0


def test_signals_are_the_users_again_after_a_run() -> None:
    """Handlers of before are set again; one of a user's own stays during the run, too."""
    signals = (signal.SIGINT, signal.SIGTERM)
    usual = [signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)]

    def own(number: int, frame: Any) -> None:
        """Does nothing."""

    seen = []
    try:
        hlx.train(fixture(max_steps=1), device="cpu")
        assert [signal.getsignal(one) for one in signals] == [signal.default_int_handler, signal.SIG_DFL]
        signal.signal(signal.SIGTERM, own)
        hlx.train(
            fixture(max_steps=1), device="cpu", callbacks=lambda metrics: seen.append(signal.getsignal(signal.SIGTERM))
        )
    finally:
        for one, handler in zip(signals, usual, strict=True):
            signal.signal(one, handler)
    assert set(seen) == {own}


def test_a_run_is_read_while_it_trains() -> None:
    """Its status and its metrics; nobody else can train it."""
    seen = []

    def look(metrics: dict[str, Any]) -> None:
        run = hlx.Run("live")
        seen.append((run.status, len(run.metrics) + len(run.evaluations)))
        with pytest.raises(hlx.errors.ValueError, match=f"live: is in use by process {os.getpid()} on "):
            hlx.train(fixture(), run="live", resume=True, device="cpu")

    run = hlx.train(fixture(), run="live", device="cpu", callbacks=look)
    assert [status for status, _ in seen] == ["training"] * 11 and run.status == "finished"
    assert [number for _, number in seen] == list(range(1, 12))


def test_other_threads_compute_while_a_run_trains(device: hlx.device) -> None:
    """On the same device; and two runs train side by side."""
    runs: list[hlx.Run] = []

    def train(name: str) -> None:
        runs.append(hlx.train(fixture(), run=name, device=device))

    threads = [threading.Thread(target=train, args=(f"run-{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    x = hlx.zeros(8, device=device)
    step = hlx.compile(lambda x: x + 1)
    count = 0
    while any(thread.is_alive() for thread in threads):
        x = step(x)
        count += 1
        time.sleep(0.001)
    assert x[0].item() == count > 0
    assert [run.digest for run in runs] == [DIGEST] * 2


def test_a_callback_computes_on_the_devices() -> None:
    """With the model of the checkpoint that was just written."""
    losses = []

    class Look(hlx.callbacks.Callback):
        def on_checkpoint(self, path: Path) -> None:
            model = hlx.load_model(path, "cpu")
            losses.append(model(hlx.tensor([[1, 2, 3]])).sum().item())

    hlx.train(fixture(), device="cpu", callbacks=[Look()])
    assert len(losses) == 2 and losses[0] != losses[1]


def test_a_verified_run(device: hlx.device) -> None:
    """On every device: all of it, and a part."""
    run = hlx.train(fixture(), device="cpu")
    found = hlx.verify(run, device=device)
    assert found.ok and found and found.difference is None
    assert (found.from_step, found.to_step, found.records, found.checkpoints) == (0, 8, 9, 2)
    assert found.digest == DIGEST and found.equal_to == 8
    assert f"equal     up to step 8, record {DIGEST}" in str(found)
    part = hlx.verify(run.path, from_step=5, to_step=6, micro_batch_size=2, device=device)
    assert part.ok and (part.from_step, part.to_step, part.records, part.checkpoints) == (4, 6, 2, 0)


def test_a_difference_is_found_and_no_error() -> None:
    """A chain whose last record says other parameters, with a digest that fits."""
    run = hlx.train(fixture(), device="cpu")
    shutil.rmtree(run.path / "checkpoints/step-000008")
    path = run.path / "chain.jsonl"
    *lines, last = path.read_text(encoding="utf-8").splitlines(keepends=True)
    record = json.loads(last)
    body = last[: last.index(',"digest":')] + "}"
    changed = body.replace(record["tensors"][2], "0" * 16)
    digest = hashlib.sha256(changed.encode()).hexdigest()
    path.write_text("".join(lines) + f'{changed[:-1]},"digest":"{digest}"}}\n', encoding="utf-8")
    found = hlx.verify(run, device="cpu")
    assert not found.ok and not found
    assert found.difference is not None and found.equal_to == 7
    assert (found.difference["step"], found.difference["source"]) == (8, "chain")
    assert found.difference["tensor"]["recorded"] == "0" * 16
    assert "differs   at step 8, in the record of step 8" in str(found)
    assert "differs at step 8" in repr(found) and "<td>" in found._repr_html_()


def test_errors_of_use_of_a_verification() -> None:
    """Steps that the chain does not reach, another corpus, and what is no run."""
    run = hlx.train(fixture(max_steps=2), device="cpu")
    with pytest.raises(hlx.errors.ValueError, match=r"^verify: to_step 9: .* goes from step 0 to 2"):
        hlx.verify(run, to_step=9, device="cpu")
    with pytest.raises(hlx.errors.ValueError, match=r"^verify: micro_batch_size: "):
        hlx.verify(run, micro_batch_size=3, device="cpu")
    with pytest.raises(hlx.errors.TypeError, match=r"from_step is 0\.5, expected a whole number"):
        hlx.verify(run, from_step=0.5)  # type: ignore[arg-type]
    with pytest.raises(hlx.errors.ValueError, match="nowhere: is no run folder"):
        hlx.verify("nowhere", device="cpu")


def test_errors_name_the_key() -> None:
    """Of a file with its line, of values without; nothing is left behind."""
    with pytest.raises(hlx.errors.ValueError, match=r"^train: config: train\.colour: unknown field"):
        hlx.train(fixture(colour=3))
    with pytest.raises(hlx.errors.ValueError, match=r"^train: config: train\.batch_size: invalid type: string"):
        hlx.train(fixture(batch_size="many"))
    with pytest.raises(hlx.errors.ValueError, match=r"^train: config: train\.target_loss: has no value"):
        hlx.train(fixture(target_loss=None))
    with pytest.raises(hlx.errors.ValueError, match=r"^train: set: train\.steps=4: unknown field"):
        hlx.train(FIXTURE, set={"train.steps": 4})
    Path("wrong.toml").write_text("[model]\nwidth = 16\ncolour = 3\n", encoding="utf-8")
    with pytest.raises(hlx.errors.ValueError, match=r"^train: wrong\.toml:3: model\.colour: unknown field"):
        hlx.train("wrong.toml")
    with pytest.raises(hlx.errors.ValueError, match=r"^train: nowhere\.toml: "):
        hlx.train("nowhere.toml")
    with pytest.raises(hlx.errors.TypeError, match="config is a int, expected a TOML file or a dict"):
        hlx.train(3)  # type: ignore[arg-type]
    with pytest.raises(hlx.errors.TypeError, match="config holds a set, expected numbers, texts, lists and dicts"):
        hlx.train(fixture(freeze={"a"}))
    with pytest.raises(hlx.errors.ValueError, match="config holds a number that is not finite"):
        hlx.train(fixture(learning_rate=float("nan")))
    with pytest.raises(hlx.errors.ValueError, match="runs/run: there is no run"):
        hlx.train(fixture(), resume=True)
    with pytest.raises(hlx.errors.ValueError, match="the device is of arithmetic integer"):
        hlx.train(fixture(), device=hlx.device("cpu", arithmetic="integer"))
    missing = fixture()
    missing["data"] = {"format": "text", "path": "nowhere.txt"}
    with pytest.raises(hlx.errors.ValueError, match=r"nowhere\.txt"):
        hlx.train(missing, device="cpu")
    assert not Path("runs").exists()
    with pytest.raises(hlx.errors.ValueError, match="is no run folder"):
        hlx.Run("nowhere")


def test_values_of_other_libraries_are_taken() -> None:
    """Numbers of NumPy and paths."""
    numpy = pytest.importorskip("numpy")
    Path("text.txt").write_text("the river of light\n" * 40, encoding="utf-8")
    config = fixture(learning_rate=numpy.float64(0.01), max_steps=numpy.int64(2), eval_every=0)
    config["data"] = {"format": "text", "path": Path("text.txt")}
    run = hlx.train(config, device="cpu")
    assert run.config["data"]["path"] == os.fspath(Path("text.txt").resolve()) and run.step == 2
    moved = hlx.train(config, data=Path("text.txt"), run="moved", set={"seed": 2**64 - 1}, device="cpu")
    assert moved.config["seed"] == 2**64 - 1


def test_the_integer_arithmetic(device: hlx.device) -> None:
    """Has other bits, the same on all devices, and is verified in it."""
    run = hlx.train({**fixture(max_steps=2, shards=2), "arithmetic": "integer"}, device=device)
    assert run.digest not in (None, DIGEST)
    assert hlx.verify(run, device="cpu").ok


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    """One line says what to do; callbacks are told that the run has ended."""
    ended = []

    class End(hlx.callbacks.Callback):
        def on_end(self, run: hlx.Run) -> None:
            ended.append((run.status, type(run.error)))

    config = fixture(learning_rate=1e30, warmup_steps=0, clip_norm=0.0, optimizer="sgd")
    with pytest.raises(hlx.errors.RuntimeError, match=r"^train: .*the loss of step \d is ") as raised:
        hlx.train(config, device="cpu", callbacks=[End()])
    assert "\n" not in str(raised.value) and "--set" not in str(raised.value)
    assert ended == [("stopped", hlx.errors.RuntimeError)]


def test_warnings_of_a_run_are_pythons() -> None:
    """A target that the smoothed loss cannot reach."""
    config = fixture(max_steps=1, label_smoothing=0.1, target_loss=0.5)
    with pytest.warns(UserWarning, match=r"train\.target_loss: 0\.5 is below"):
        hlx.train(config, device="cpu")


def test_runs_that_end_early_are_finished() -> None:
    """By their target, by patience, and by epochs."""
    by_target = hlx.train(fixture(target_loss=100.0, max_steps=100), run="target", device="cpu")
    assert by_target.finished and by_target.step < 100
    by_patience = hlx.train(
        fixture(patience=1, min_delta=100.0, eval_every=1, max_steps=100), run="patience", device="cpu"
    )
    assert by_patience.finished and by_patience.step == 2
    config = fixture(epochs=1)
    del config["train"]["max_steps"]
    by_epochs = hlx.train(config, run="epochs", device="cpu")
    assert by_epochs.finished and by_epochs.metrics[-1]["epoch"] == 1.0
    assert not hlx.train(config, run="stopped", device="cpu", callbacks=lambda metrics: STOP).finished


def test_a_classifier() -> None:
    """Its accuracy is in the evaluations, and the confusion matrix in the folder, as the program writes it."""
    config = {
        "model": {"kind": "mlp", "hidden": [16]},
        "data": {"format": "digits", "count": 60, "eval_fraction": 0.2},
        "train": {"max_steps": 2, "batch_size": 8, "log_every": 1},
    }
    run = hlx.train(config, device="cpu")
    assert 0 <= run.evaluations[-1]["accuracy"] <= 1 and "images_per_second" in run.metrics.columns
    assert (run.path / "confusion.txt").is_file() and (run.path / "misread.png").is_file()
    with pytest.raises(hlx.errors.ValueError, match="classifies images, expected a language model"):
        run.model(device="cpu")


def test_pictures() -> None:
    """Of one run and of two, as SVG that an XML parser reads."""
    run = hlx.train(fixture(), device="cpu")
    other = hlx.train(fixture(learning_rate=0.02), device="cpu")
    picture = run.curves(title="a <run>", target=5.0)
    assert "a &lt;run&gt;" in picture.svg and "target 5" in picture.svg
    both = run.curves(other)
    for one in (picture, both, run.plot()):
        assert xml.etree.ElementTree.fromstring(one.svg).tag.rpartition("}")[2] == "svg"
    assert ">run<" in both.svg and ">run-2<" in both.svg
    assert picture.save("curves.svg").read_text(encoding="utf-8") == str(picture) == picture._repr_svg_()
    with pytest.raises(hlx.errors.ValueError, match=r"curves\.png does not end in \.svg"):
        picture.save("curves.png")
    with pytest.raises(hlx.errors.ValueError, match="target belongs to the picture of one run"):
        run.curves(other, target=1.0)
    quiet = hlx.train(fixture(log_every=100), run="quiet", device="cpu", callbacks=[Stopping()])
    assert not len(quiet.metrics) and "<svg" not in quiet._repr_html_()
    with pytest.raises(hlx.errors.ValueError, match="has measured no loss yet"):
        quiet.curves()


class Stopping(hlx.callbacks.Callback):
    """Ends a run after its first step."""

    def on_start(self, run: hlx.Run) -> Any:
        """Stops it."""
        return STOP


def test_tables() -> None:
    """Rows, columns, slices, and what other libraries get."""
    table = hlx.train(fixture(), device="cpu").evaluations
    assert len(table) == 3 and table[0]["step"] == 4 and table[-1]["split"] == "train"
    assert table["step"] == [4, 8, 8] and table[1:]["step"] == [8, 8]
    assert [row["step"] for row in table] == [4, 8, 8]
    assert repr(table).splitlines()[0].split()[:3] == ["step", "split", "loss"]
    assert table._repr_html_().count("<tr>") == 4
    with pytest.raises(hlx.errors.KeyError, match="there is no column 'colour', expected one of step, split"):
        table["colour"]
    long = type(table)({"step": step} for step in range(100))
    assert "... (80 rows)" in repr(long) and "... (80 rows)" in long._repr_html_()
    assert repr(type(table)([])) == "(no rows)"


def test_tables_for_pandas_and_numpy() -> None:
    """A number that a row lacks is NaN."""
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    table = type(hlx.train(fixture(max_steps=1), device="cpu").metrics)([{"step": 1, "loss": 2.0}, {"step": 2}])
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == ["step", "loss"]
    arrays = table.to_numpy()
    assert arrays["step"].tolist() == [1, 2] and numpy.isnan(arrays["loss"][1])
