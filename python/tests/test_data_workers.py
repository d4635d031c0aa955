"""The loader's worker processes: order, errors, ends. Each test starts processes, so that there are few."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from pathlib import Path
from typing import Any

import data_sets
import pytest
from data_sets import Draws, Fails, Squares, Stream, Who

import hlx
from hlx.utils.data import DataLoader

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")


def seeded(seed: int) -> hlx.Generator:
    """A generator of a seed."""
    return hlx.Generator().manual_seed(seed)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_batches_come_in_their_order_with_any_number_of_workers() -> None:
    """Though later ones are ready first; shuffled by the generator's seed alone."""
    expected = [batch["index"].tolist() for batch in DataLoader(Squares(), 4, True, generator=seeded(3))]
    for workers, prefetch in ((1, 1), (3, 2)):
        dataset = Squares(pause=0.002)
        loader = DataLoader(
            dataset, 4, True, generator=seeded(3), num_workers=workers, prefetch_factor=prefetch, timeout=60
        )
        found = list(loader)
        assert [batch["index"].tolist() for batch in found] == expected
        assert all((batch["square"] == batch["index"].float() ** 2).all() for batch in found)


def test_draws_do_not_depend_on_the_number_of_workers() -> None:
    """Of hlx, random and numpy.random: a batch's number seeds them."""
    epochs = []
    for workers in (1, 2):
        loader = DataLoader(Draws(6), 2, generator=seeded(1), num_workers=workers, persistent_workers=True)
        epochs.append([[[x.tolist() for x in batch] for batch in loader] for _ in range(2)])
    assert epochs[0] == epochs[1]
    assert epochs[0][0] != epochs[0][1] and epochs[0][0][0] != epochs[0][0][1]


def test_workers_know_who_they_are_and_persist() -> None:
    """The same processes in each epoch, after `worker_init_fn`; they share the machine's threads."""
    arguments: dict[str, Any] = {"num_workers": 2, "worker_init_fn": data_sets.set_who, "collate_fn": list}
    loader = DataLoader(Who(4), 1, persistent_workers=True, **arguments)
    epochs = [[batch[0] for batch in loader] for _ in range(2)]
    assert epochs[0] == epochs[1]
    threads = os.environ.get("HLX_THREADS", "1")
    for place, (number, n_workers, pid, who, n_threads) in enumerate(epochs[0]):
        assert (number, n_workers, who, n_threads) == (place % 2, 2, f"worker {place % 2}", threads)
        assert is_running(pid)
    iterator = iter(loader)
    next(iterator)
    list(loader)
    with pytest.raises(hlx.errors.RuntimeError, match="have begun another epoch"):
        next(iterator)
    pids = {sample[2] for sample in epochs[0]}
    del iterator, loader
    assert len(pids) == 2 and not any(map(is_running, pids))


def test_an_iterable_data_set_is_divided() -> None:
    """The workers take turns until each has no more."""
    batches = [batch.tolist() for batch in DataLoader(Stream(11), 2, num_workers=2)]
    assert batches == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("value", ValueError, "sample 5 is gone"),
        ("custom", hlx.errors.RuntimeError, "DataLoader: worker 0 raised Custom: 1 and 2"),
        ("stop", hlx.errors.RuntimeError, "DataLoader: worker 0 raised StopIteration"),
        ("exit", hlx.errors.RuntimeError, "ended with exit code 3"),
        ("sleep", hlx.errors.RuntimeError, "DataLoader: worker 0 made no batch within 1 s"),
    ],
)
def test_an_error_of_a_worker_is_raised(how: str, kind: type[Exception], message: str) -> None:
    """In its turn, with the worker's traceback, and its process is ended."""
    timeout = 1.0 if how == "sleep" else 60.0
    iterator: Any = iter(DataLoader(Fails(how), 2, num_workers=1, timeout=60.0))
    iterator._timeout = 60.0
    pids = [process.pid for process in iterator._pool.processes]
    # A process that ends takes along what it has not sent yet.
    before = [] if how == "exit" else [next(iterator).tolist() for _ in range(2)]
    assert before in ([], [[0, 1], [2, 3]])
    iterator._timeout = timeout
    with pytest.raises(kind) as caught:
        list(iterator)
    assert message in str(caught.value)
    if how in ("value", "custom"):
        text = "".join(traceback.format_exception(caught.value))
        assert "data_sets.py" in text and "in end" in text
    if how == "value":
        assert "(in worker 0 of the DataLoader)" in text
    assert not any(map(is_running, pids))
    with pytest.raises(StopIteration):
        next(iterator)


def test_what_cannot_be_sent_and_what_does_not_start() -> None:
    """One line each."""
    with pytest.raises(hlx.errors.TypeError, match="cannot be sent to workers .*; define them in a module, or use"):
        iter(DataLoader(Squares(), 2, num_workers=1, collate_fn=lambda samples: samples))
    with pytest.raises(OSError, match="no file for 0"):
        list(DataLoader(Squares(), 2, num_workers=1, worker_init_fn=data_sets.fail_to_start))
    assert next(iter(DataLoader(Squares(), 2, num_workers=1, collate_fn=data_sets.joined))) == "0,1"


def started(script: str, **options: Any) -> subprocess.Popen[str]:
    """Runs a script of a file, as workers import it, in a group of processes of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *map(os.path.abspath, sys.path)])}
    return subprocess.Popen(
        [sys.executable, script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


LOOP = """
    import signal
    import hlx
    from data_sets import Squares
    from hlx.utils.data import DataLoader

    if __name__ == "__main__":
        # A shell that runs the tests in the background has its children ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        loader = DataLoader(Squares(1000, 0.0001), 2, num_workers=2{more})
        iterator = iter(loader)
        next(iterator)
        print(*(process.pid for process in iterator._pool.processes), flush=True)
        for batch in iterator:
            {body}
"""


@pytest.mark.parametrize("how", ["interrupt", "kill", "break"])
def test_no_process_is_left_behind(how: str, tmp_path: Path) -> None:
    """After Ctrl-C in a terminal, after the loader's process was killed, after a loop that was left."""
    script = tmp_path / "loop.py"
    body = "break" if how == "break" else "pass"
    more = ", persistent_workers=True" if how == "break" else ""
    script.write_text(textwrap.dedent(LOOP.format(body=body, more=more)))
    process = started(str(script))
    assert process.stdout is not None and process.stderr is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2, process.stderr.read()
    if how == "interrupt":
        os.killpg(process.pid, signal.SIGINT)
    elif how == "kill":
        process.kill()
    _, printed = process.communicate(timeout=20)
    until = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, pids))
    if how == "break":
        assert (process.returncode, printed) == (0, "")
    if how == "interrupt":
        # The workers say nothing.
        assert printed.count("Traceback") == 1 and printed.rstrip().endswith("KeyboardInterrupt")


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """Its workers would begin the script again."""
    script = tmp_path / "unguarded.py"
    lines = [
        "from data_sets import Squares",
        "from hlx.utils.data import DataLoader",
        "list(DataLoader(Squares(), num_workers=1))",
    ]
    script.write_text("\n".join(lines))
    process = started(str(script))
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 1
    assert printed.rstrip().endswith("a script that uses workers needs `if __name__ == '__main__':`")
