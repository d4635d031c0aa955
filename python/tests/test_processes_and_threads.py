"""Threads, forks and interrupts; what may end a process runs in one of its own."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import hlx


def run(script: str, *arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Runs a script in a fresh process."""
    # From 3.12 on Python warns of forks beside threads, which is what is tested.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def test_a_thousand_threads_on_one_tensor(device: hlx.device) -> None:
    """Reading, adding in place and going backward at once; every addition counts."""
    total = hlx.zeros(4, device=device)
    weight = hlx.ones(4, device=device, requires_grad=True)
    failures: list[BaseException] = []
    lock = threading.Lock()

    def work() -> None:
        try:
            loss = (weight * 2).sum()
            slope = hlx.autograd.grad(loss, weight)[0]
            with lock:
                total.add_(slope)
            total.numel(), repr(weight.shape), total[1:].sum()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert total.tolist() == [2000.0] * 4


def test_threads_without_a_lock_do_not_crash() -> None:
    """Changes in place by many threads at once: any of the results, but no crash."""
    x = hlx.zeros(1000)

    def work() -> None:
        for _ in range(50):
            x.add_(1)
            x[3:7] = 0
            x[0].item()

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.isfinite().all()


def test_the_interpreter_is_free_while_the_device_works(device: hlx.device) -> None:
    """Another thread counts on while this one computes and waits."""
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    def counted_meanwhile() -> bool:
        before = counted[0]
        (x @ x @ x).sum().item()
        return counted[0] > before

    x = hlx.rand(384, 384, device=device)
    usual = sys.getswitchinterval()
    # The interpreter takes the lock from no thread, so that the other one counts only where this one gives it up.
    sys.setswitchinterval(60)
    counter = threading.Thread(target=count)
    counter.start()
    try:
        # On a busy machine the other thread may not get a processor at once.
        assert any(counted_meanwhile() for _ in range(100))
    finally:
        stop.set()
        counter.join()
        sys.setswitchinterval(usual)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_after_a_device_is_open_gets_an_error() -> None:
    """The child would wait for threads that it does not have."""
    script = """
        import os, hlx
        x = hlx.ones(3)
        first = x[0]
        child = os.fork()
        if child == 0:
            for call in (lambda: x + 1, lambda: hlx.zeros(2), first.item, lambda: hlx.tensor([1])):
                try:
                    call()
                    os._exit(1)
                except hlx.Error as error:
                    assert "was forked after a device was opened" in str(error), error
            os._exit(0)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    result = run(script)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_before_the_first_tensor_works() -> None:
    """Importing the package opens nothing."""
    script = """
        import os, hlx
        child = os.fork()
        if child == 0:
            os._exit(0 if hlx.ones(3).sum().item() == 3 else 1)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(script).returncode == 0


def _doubled(x: hlx.Tensor) -> hlx.Tensor:
    return x * 2


def test_spawned_processes_exchange_tensors() -> None:
    """`multiprocessing` with `spawn` pickles tensors there and back."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_doubled, (hlx.arange(3),)).tolist() == [0, 2, 4]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent another way")
def test_an_interrupt_ends_a_wait(device: hlx.device) -> None:
    """Ctrl-C while the device works raises KeyboardInterrupt, and the process ends."""
    script = """
        import signal, sys, time, hlx
        # A shell that runs the tests in the background has its children ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = hlx.rand(256, 256, device=sys.argv[1])
        print("ready", flush=True)
        began = time.time()
        try:
            while time.time() - began < 60:
                x = (x @ x).softmax(-1)
                x.sum().item()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(device)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=45)
    assert (output, errors, process.returncode) == ("interrupted\n", "", 0)


def test_a_process_may_end_before_its_work(device: hlx.device) -> None:
    """What was launched and not waited for is finished at the end."""
    script = """
        import sys, hlx
        x = hlx.rand(256, 256, device=sys.argv[1])
        for _ in range(20):
            x = (x @ x).softmax(-1)
    """
    result = run(script, str(device))
    assert (result.returncode, result.stderr) == (0, "")
