"""`hlx.audit` and `hlx.check_audit`: audits and certificates as the program's, from Python."""

import hashlib
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

import hlx

FIXTURE = Path(__file__).with_name("fixtures") / "run.toml"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_of(**train: Any) -> hlx.Run:
    """A run of 8 steps with a checkpoint after every second."""
    config = tomllib.loads(FIXTURE.read_text(encoding="utf-8"))
    config["train"].update({"checkpoint_every": 2, "keep": 9, **train})
    return hlx.train(config, device="cpu")


def test_an_audit_and_its_certificate(device: hlx.device) -> None:
    """On every device; anybody checks the certificate against the folder, and the key that must have signed it."""
    run = run_of()
    public = hlx.new_key("auditor.key")
    found = hlx.audit(run, stretches=2, seed=4711, key="auditor.key", micro_batch_size=2, device=device)
    assert found.ok and found and (found.n_checked, found.n_stretches, found.seed) == (2, 4, "4711")
    assert found.difference is None and found.other_state is None
    assert found.statement is not None and found.statement["work"]["stored_states"] == 4
    assert found.statement["run"]["last_record_sha256"] == run.digest
    assert found.certificate is not None and found.certificate["key"] == public
    assert "stretches  2 of 4" in str(found) and "<td>" in found._repr_html_() and "equal" in repr(found)
    # The seed alone chooses.
    assert hlx.audit(run.path, stretches=2, seed="4711", device="cpu").checked == found.checked

    checked = hlx.check_audit(run.path / "audit.json", run, key="auditor.key.pub")
    assert checked.ok and checked.statement == found.statement
    hlx.new_key("other.key")
    other = hlx.check_audit(run.path / "audit.json", run, key="other.key.pub")
    assert not other and other.checks[-1]["name"] == "key" and not other.checks[-1]["ok"]
    text = (run.path / "audit.json").read_text(encoding="utf-8")
    Path("changed.json").write_text(text.replace("A", "B", 1), encoding="utf-8")
    assert not hlx.check_audit("changed.json", run).ok


def test_a_forged_run_gets_no_certificate() -> None:
    """A chain whose last record says other parameters, with a digest that fits, is found where its stretch is checked."""
    run = run_of()
    hlx.new_key("auditor.key")
    shutil.rmtree(run.path / "checkpoints/step-000008")
    path = run.path / "chain.jsonl"
    *lines, last = path.read_text(encoding="utf-8").splitlines(keepends=True)
    record = json.loads(last)
    body = last[: last.index(',"digest":')] + "}"
    changed = body.replace(record["tensors"][2], "0" * 16)
    digest = hashlib.sha256(changed.encode()).hexdigest()
    path.write_text("".join(lines) + f'{changed[:-1]},"digest":"{digest}"}}\n', encoding="utf-8")
    found = hlx.audit(run, stretches=4, seed=1, key="auditor.key", device="cpu")
    assert not found.ok and found.statement is None and found.certificate is None and found.other_state is None
    assert found.difference is not None and found.difference["step"] == 8
    assert "differs    at step 8" in str(found) and "differs" in repr(found)
    assert not (run.path / "audit.json").exists()


def test_errors_of_use() -> None:
    """What cannot be audited or checked is said in a line that names the argument."""
    run = run_of(max_steps=2)
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"stretches": 0}, hlx.errors.ValueError, "stretches"),
        ({"stretches": 9}, hlx.errors.ValueError, "stretches"),
        ({"stretches": 0.5}, hlx.errors.TypeError, r"audit: stretches is 0\.5, expected a whole number"),
        ({"seed": ""}, hlx.errors.ValueError, "seed"),
        ({"out": "a.json"}, hlx.errors.ValueError, "audit: out is given without key"),
        ({"key": "nowhere.key"}, hlx.errors.Error, "nowhere.key"),
    ]
    for arguments, kind, line in cases:
        with pytest.raises(kind, match=line):
            hlx.audit(run, device="cpu", **arguments)
    with pytest.raises(hlx.errors.ValueError, match="nowhere: is no run folder"):
        hlx.audit("nowhere", device="cpu")
    with pytest.raises(hlx.errors.Error, match=r"nowhere\.json"):
        hlx.check_audit("nowhere.json", run)
    hlx.new_key("auditor.key")
    with pytest.raises(hlx.errors.Error, match=r"auditor\.key"):
        hlx.new_key("auditor.key")
    with pytest.raises(hlx.errors.Error, match=r"chain\.jsonl"):
        hlx.audit(run, key="auditor.key", out=run.path / "chain.jsonl", device="cpu")
    Path("none.json").write_text(json.dumps({}), encoding="utf-8")
    assert not hlx.check_audit("none.json", run).ok
