"""The notebooks of examples/python run from top to bottom, and print what they have stored."""

import base64
import gzip
import hashlib
import importlib.util
import io
import re
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

for needed in ("nbclient", "nbformat", "ipykernel", "matplotlib"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: the notebooks are not run")

ROOT = Path(__file__).parents[2]
NAMES = ["01_tensors", "02_mnist", "03_small_gpt", "04_lora_and_chat", "05_verify"]


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
def test_the_links_of_a_notebook_lead_somewhere(name: str) -> None:
    """Links to files of the repository."""
    import nbformat

    cells = nbformat.read(tool.FOLDER / f"{name}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert links
    assert [link for link in links if not (tool.FOLDER / link).exists()] == []


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


def test_the_drawn_digits_are_those_of_the_library() -> None:
    """The SHA-256 of 1,000 images that a test of hlx-data names, too, and the labels 0 to 9 in turns."""
    folder = tool.FOLDER / "drawn-digits"
    images = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    digest = "b9261dfb43054489aa92e9973d06f73f6bd2b51fe3983e95d7f74efef0fd13e0"
    assert hashlib.sha256(images[16:]).hexdigest() == digest
    assert list(labels[8:]) == [number % 10 for number in range(1000)]


def picture(size: int) -> str:
    """A PNG in base64 of thousands of colours."""
    from PIL import Image

    image = Image.new("RGBA", (size, size))
    image.putdata([(x * y % 256, x, y, 255) for y in range(size) for x in range(size)])
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_what_is_stored_depends_on_content_alone() -> None:
    """Cut streams are joined, pictures have one small form, and times and this machine's names are left out."""
    from nbformat import v4

    figure = {"image/png": picture(200), "text/plain": "<Figure size 640x480>"}
    outputs = [
        v4.new_output("stream", name="stdout", text="\x1b[31mone"),
        v4.new_output("stream", name="stdout", text=f" line {tempfile.gettempdir()}/tmp_a1/runs\n"),
        v4.new_output("display_data", data=figure, metadata={"image/png": {"width": 640}}),
        v4.new_output("execute_result", data={"text/plain": "3", "text/html": "<b>3</b>"}, execution_count=1),
    ]
    cell = v4.new_code_cell("1 + 2", outputs=outputs, metadata={"execution": {"started": "now"}, "tags": ["varies"]})
    made = tool.normalised(
        v4.new_notebook(cells=[cell], metadata={"language_info": {"name": "python", "version": "3.11.7"}})
    )
    assert made.metadata["language_info"] == {"name": "python"}
    (cell,) = made.cells
    assert cell.metadata == {"tags": ["varies"]}
    assert [output.output_type for output in cell.outputs] == ["stream", "display_data", "execute_result"]
    assert list(cell.outputs[1].data) == ["image/png"] and cell.outputs[1].metadata == {}
    assert tool.printed(cell) == "one line runs\n\n3\n"
    (small,) = tool.pictures(cell)
    assert len(small) == tool.picture_bytes(made) < len(figure["image/png"])
    again = tool.normalised(made)
    assert tool.pictures(again.cells[0]) == [small]
