"""The notebooks of examples/python run from top to bottom, and print what they have stored."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

for needed in ("nbclient", "nbformat", "ipykernel", "matplotlib"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: the notebooks are not run")

ROOT = Path(__file__).parents[2]
NAMES = ["01_tensors", "02_mnist", "03_small_gpt", "04_lora_and_chat"]


def _tool() -> ModuleType:
    """`python/tools/notebooks.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("notebooks_tool", ROOT / "python/tools/notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _tool()


def test_every_notebook_is_in_the_list() -> None:
    """A new notebook is run, too."""
    assert [path.stem for path in tool.notebooks()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_prints_what_it_has_stored(name: str) -> None:
    """Cell by cell, except for cells tagged as varying; pictures are drawn where pictures are stored."""
    import nbformat

    path = tool.FOLDER / f"{name}.ipynb"
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    found = tool.execute(path)
    for number, (before, now) in enumerate(zip(stored.cells, found.cells, strict=True)):
        if before.cell_type != "code" or tool.VARIES in before.metadata.get("tags", []):
            continue
        where = f"{path.name}, cell {number}: run `python python/tools/notebooks.py {name}` if the new output is right"
        assert tool.printed(now) == tool.printed(before), where
        assert len(tool.pictures(now)) == len(tool.pictures(before)), where


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_notebook_is_whole_and_small(name: str) -> None:
    """Every cell was run, in order and without an error, and what is stored is normalised."""
    import nbformat

    path = tool.FOLDER / f"{name}.ipynb"
    stored = nbformat.read(path, as_version=4)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(output.output_type != "error" for cell in code for output in cell.outputs)
    assert any(tool.pictures(cell) for cell in code)
    assert tool.picture_bytes(stored) <= tool.MOST_PICTURE_BYTES
    assert nbformat.writes(tool.normalised(stored)) + "\n" == path.read_text(encoding="utf-8")
