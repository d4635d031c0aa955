"""`hlx.callbacks`: what a run calls, how a callback ends it, the trackers, and what terminals and notebooks show."""

import contextlib
import io
import json
import math
import sqlite3
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import hlx
from hlx.callbacks import STOP, Callback, MLflow, StopTraining, TensorBoard, Trackio, WandB
from hlx.runs._display import Silent, Terminal, display_of, duration
from hlx.runs._notebook import Notebook


def small(**train: Any) -> dict[str, Any]:
    """A run of milliseconds."""
    numbers = {"max_steps": 4, "batch_size": 8, "log_every": 2, "eval_every": 2, "checkpoint_every": 2, **train}
    return {
        "seed": 3,
        "model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
        "data": {"format": "ascii_pairs", "count": 40, "eval_fraction": 0.2},
        "train": numbers,
        "sample": {"prompts": ["a circle", "a square"], "max_tokens": 3},
    }


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Notes(Callback):
    """Notes what it is called with."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._answers = answers or {}

    def _note(self, name: str, argument: Any) -> Any:
        self.calls.append((name, argument))
        answer = self._answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def on_start(self, run: hlx.Run) -> Any:
        """Notes the status and the step."""
        return self._note("start", (run.status, run.step))

    def on_step(self, metrics: dict[str, Any]) -> Any:
        """Notes the step."""
        return self._note("step", metrics["step"])

    def on_evaluation(self, metrics: dict[str, Any]) -> Any:
        """Notes the step and the samples."""
        return self._note("evaluation", (metrics["step"], metrics["split"]))

    def on_samples(self, samples: list[dict[str, Any]]) -> Any:
        """Notes steps and prompts."""
        return self._note("samples", [(sample["step"], sample["prompt"]) for sample in samples])

    def on_checkpoint(self, path: Path) -> Any:
        """Notes the folder."""
        return self._note("checkpoint", path.name)

    def on_end(self, run: hlx.Run) -> Any:
        """Notes the status."""
        return self._note("end", run.status)

    @property
    def names(self) -> list[str]:
        """The methods that were called."""
        return [name for name, _ in self.calls]


def test_the_order_of_calls() -> None:
    """Of a whole run, and of one that is resumed."""
    notes = Notes()
    hlx.train(small(), device="cpu", callbacks=[notes])
    texts = ["a circle", "a square"]
    assert notes.calls == [
        ("start", ("training", 0)),
        ("step", 2),
        ("evaluation", (2, "held_out")),
        ("samples", [(2, text) for text in texts]),
        ("checkpoint", "step-000002"),
        ("step", 4),
        ("evaluation", (4, "held_out")),
        ("samples", [(4, text) for text in texts]),
        ("checkpoint", "step-000004"),
        ("evaluation", (4, "train")),
        ("end", "finished"),
    ]


@pytest.mark.parametrize("answer", [STOP, StopTraining("enough")])
@pytest.mark.parametrize("method", ["start", "step", "evaluation", "samples", "checkpoint"])
def test_any_method_ends_a_run(method: str, answer: Any) -> None:
    """With a checkpoint of the step that it was at; `hlx.train` returns."""
    notes = Notes({method: answer})
    run = hlx.train(small(max_steps=40), device="cpu", callbacks=[notes])
    assert run.status == "stopped" and 0 < run.step < 40
    assert notes.names[-1] == "end" and "checkpoint" in notes.names
    resumed, step = Notes(), run.step
    run.resume(device="cpu", callbacks=[resumed])
    assert resumed.calls[0] == ("start", ("training", step))
    assert run.finished and run.step == 40


@pytest.mark.parametrize("method", ["start", "step", "evaluation", "samples", "checkpoint"])
def test_an_exception_ends_a_run_and_is_raised(method: str) -> None:
    """After a checkpoint; other callbacks get no more of the run, but its end."""
    notes, other = Notes({method: RuntimeError("of a user")}), Notes()
    with pytest.raises(RuntimeError, match="of a user"):
        hlx.train(small(max_steps=40), run="run", device="cpu", callbacks=[notes, other])
    assert notes.names[-2:] == [method, "end"] and other.names[-1:] in (["end"], [])
    run = hlx.Run("run")
    assert run.status == "stopped" and run.step > 0


def test_an_exception_of_the_end() -> None:
    """Is raised when all callbacks have had theirs."""
    notes, other = Notes({"end": RuntimeError("of a user")}), Notes()
    with pytest.raises(RuntimeError, match="of a user"):
        hlx.train(small(), device="cpu", callbacks=[notes, other])
    assert other.names[-1] == "end"


def test_plain_functions() -> None:
    """Get log periods and evaluations, and end a run by what they return."""
    seen: list[tuple[int, bool]] = []
    run = hlx.train(small(), device="cpu", callbacks=lambda metrics: seen.append((metrics["step"], "split" in metrics)))
    assert seen == [(2, False), (2, True), (4, False), (4, True), (4, True)] and run.finished
    assert hlx.train(small(), device="cpu", callbacks=[lambda metrics: STOP]).status == "stopped"


def test_what_is_no_callback() -> None:
    """Is refused before anything begins."""
    with pytest.raises(hlx.errors.TypeError, match=r"holds the class Notes, expected an object: Notes\(\)"):
        hlx.train(small(), callbacks=[Notes])
    with pytest.raises(hlx.errors.TypeError, match=r"holds a str, expected hlx\.callbacks\.Callback or a function"):
        hlx.train(small(), callbacks=["loss"])  # type: ignore[list-item]
    assert not Path("runs").exists()


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves in a folder, as TensorBoard reads them."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = loader.EventAccumulator(str(folder)).Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_tensorboard() -> None:
    """Its reader finds the losses; a resumed run has a second file."""
    run = hlx.train(small(), device="cpu", callbacks=[TensorBoard("logs"), lambda metrics: STOP])
    run.resume(device="cpu", callbacks=[TensorBoard("logs")])
    assert len(list(Path("logs/run").glob("events.out.tfevents.*"))) == 2
    found = scalars(Path("logs/run"))
    expected = [(row["step"], row["loss"]) for row in run.metrics]
    assert [step for step, _ in found["train/loss"]] == [step for step, _ in expected]
    assert all(math.isclose(a[1], b[1], rel_tol=1e-6) for a, b in zip(found["train/loss"], expected, strict=True))
    own = scalars(run.path)
    assert own.keys() == found.keys() and own["train/loss"] == found["train/loss"]


def test_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: a file of its own format, with the run's configuration."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged: list[tuple[dict[str, Any], int]] = []
    tracker = WandB("hlx-tests", mode="offline", dir=".")
    begin = tracker.on_start

    def on_start(run: hlx.Run) -> None:
        begin(run)
        log = tracker._run.log

        def noting(numbers: dict[str, Any], step: int) -> None:
            logged.append((numbers, step))
            log(numbers, step=step)

        tracker._run.log = noting
        assert tracker._run.config["train"]["batch_size"] == 8 and tracker._run.name == run.name

    monkeypatch.setattr(tracker, "on_start", on_start)
    run = hlx.train(small(), device="cpu", callbacks=[tracker])
    assert [step for _, step in logged] == [2, 2, 2, 4, 4, 4, 4]
    assert logged[0][0]["train/loss"] == run.metrics[0]["loss"]
    assert logged[1][0]["eval/loss"] == run.evaluations[0]["loss"] and "samples" in logged[2][0]
    (file,) = Path("wandb").glob("offline-run-*/*.wandb")
    assert file.stat().st_size > 0


def test_trackio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Local: what its store holds."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    run = hlx.train(small(), device="cpu", callbacks=[Trackio("hlx-tests")])
    with contextlib.closing(sqlite3.connect(tmp_path / "trackio/hlx-tests.db")) as store:
        rows = store.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        ((config,),) = store.execute("SELECT config FROM configs").fetchall()
    assert {name for name, _, _ in rows} == {"run"} and json.loads(config)["train.batch_size"] == 8
    logged = [(step, json.loads(numbers)) for _, step, numbers in rows]
    losses = [(step, numbers["train/loss"]) for step, numbers in logged if "train/loss" in numbers]
    assert losses == [(row["step"], row["loss"]) for row in run.metrics]
    assert [step for step, numbers in logged if "samples/1" in numbers] == [2, 4]


def test_mlflow(tmp_path: Path) -> None:
    """In a store of SQLite: metrics, parameters, the samples and how it ended."""
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    tracker = MLflow("hlx-tests", tracking_uri=uri, tags={"of": "a test"})
    run = hlx.train(small(), device="cpu", callbacks=[tracker])
    client = mlflow.MlflowClient(uri)
    assert tracker.run_id is not None
    found = client.get_run(tracker.run_id)
    assert found.info.status == "FINISHED" and found.info.run_name == "run"
    assert found.data.params["train.batch_size"] == "8" and found.data.tags["of"] == "a test"
    assert found.data.tags["hlx.digest"] == run.digest
    history = [(one.step, one.value) for one in client.get_metric_history(tracker.run_id, "train/loss")]
    assert history == [(row["step"], row["loss"]) for row in run.metrics]
    assert [one.path for one in client.list_artifacts(tracker.run_id)] == ["samples.txt"]
    stopped = MLflow("hlx-tests", tracking_uri=uri)
    hlx.train(small(), device="cpu", callbacks=[stopped, lambda metrics: STOP])
    assert stopped.run_id is not None and client.get_run(stopped.run_id).info.status == "KILLED"
    lost = MLflow("hlx-tests", tracking_uri=uri)
    with pytest.raises(RuntimeError, match="of a user"):
        hlx.train(small(), device="cpu", callbacks=[lost, Notes({"step": RuntimeError("of a user")})])
    assert lost.run_id is not None and client.get_run(lost.run_id).info.status == "FAILED"


@pytest.mark.parametrize(
    ("make", "module", "package"),
    [
        (lambda: WandB("p"), "wandb", "wandb"),
        (lambda: Trackio("p"), "trackio", "trackio"),
        (lambda: MLflow("p"), "mlflow", "mlflow"),
    ],
)
def test_a_missing_library_is_named(make: Any, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a run begins, with what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=f"the library {module} is missing: pip install {package}"):
        make()


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def test_a_terminal_shows_a_bar_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing with `progress=False`; without a terminal only where it is wished for."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    hlx.train(small(), device="cpu")
    shown = screen.getvalue()
    assert "step 4/4" in shown and "held-out samples: loss" in shown and "trained 4 of 4 steps" in shown
    assert shown.rstrip().splitlines()[-1].count("█") == 0
    for progress, stream, expected in (
        (False, Screen(), False),
        (None, io.StringIO(), False),
        (True, io.StringIO(), True),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        hlx.verify(hlx.train(small(), device="cpu", progress=progress), device="cpu", progress=progress)
        assert bool(stream.getvalue()) is expected and "\r" not in stream.getvalue()
    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(display_of(True), Silent)


def test_a_terminal_of_another_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows what it can; a closed one is no error."""
    written = io.BytesIO()
    narrow = io.TextIOWrapper(written, encoding="ascii")
    terminal = Terminal(narrow, True)
    terminal.start("a run", 0, 2)
    terminal.at(2, 2)
    terminal.note("\x1b[2Jtwo\nlines")
    narrow.flush()
    assert b"step 2/2" in written.getvalue() and b"\\x1b[2Jtwo\nlines\n" in written.getvalue()
    narrow.close()
    terminal.note("nobody sees this")


def test_durations() -> None:
    """As people write them."""
    assert [duration(seconds) for seconds in (0.4, 61, 3661)] == ["0:00", "1:01", "1:01:01"]


def test_a_notebook_shows_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bar, a table and the samples; texts are escaped."""
    pytest.importorskip("IPython")
    import IPython.display

    updates: list[str] = []

    def display(output: Any, display_id: bool = False) -> Any:
        assert display_id and not updates
        updates.append(output.data)
        return types.SimpleNamespace(update=lambda output: updates.append(output.data))

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr("IPython.get_ipython", lambda: types.SimpleNamespace(kernel=object()))
    assert isinstance(display_of(None), Notebook) and isinstance(display_of(False), Silent)
    config = small()
    config["sample"]["prompts"] = ["<b>"]
    run = hlx.train(config, device="cpu")
    last = updates[-1]
    assert len(updates) >= 2 and "step 4 of 4" in last and "width: 100.0%" in last
    assert f"{run.metrics[-1]['loss']:.6g}" in last and f"{run.evaluations[-1]['loss']:.5f}" in last
    assert "&lt;b&gt;" in last and "<b>" not in last
