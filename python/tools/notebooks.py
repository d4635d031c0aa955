"""Runs the notebooks of examples/python and stores what they print and draw.

    python python/tools/notebooks.py [NAME ..]      such as 02_mnist; by default all

It needs nbclient, ipykernel and matplotlib. A stored notebook has no times and no names of this machine, so that a
difference between two versions is one of content. `python/tests/test_notebooks.py` runs them, too, and compares.
"""

import base64
import io
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

FOLDER = Path(__file__).parents[2] / "examples" / "python"
#: The tag of a cell whose output depends on the machine or the moment. It is stored, and not compared.
VARIES = "varies"
#: What a picture can be, the one that is stored first.
PICTURES = ("image/svg+xml", "image/png")
#: The most bytes of pictures that a stored notebook has, as they lie in the file.
MOST_PICTURE_BYTES = 100_000
_SECONDS = 600


def notebooks() -> list[Path]:
    """The notebooks, in the order of their numbers."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path) -> NotebookNode:
    """Runs a notebook from top to bottom in its folder; raises nbclient's CellExecutionError for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", resources=resources, record_timing=False)
    client.execute()
    return normalised(notebook)


def normalised(notebook: NotebookNode) -> NotebookNode:
    """The notebook with what depends on its content alone; it is changed in place."""
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    notebook.nbformat_minor = 5
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = NotebookNode({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = [_without_fallbacks(output) for output in _joined(cell.outputs)]
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Consecutive pieces of a stream as one: where it is cut depends on timing."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    for output in joined:
        if "text" in output:
            output.text = _without_places(output.text)
    return joined


def _without_places(text: str) -> str:
    """Without the folders that `tempfile` has made: each run has others."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"[/\\]tmp\w+[/\\]", "", text)


def _without_fallbacks(output: NotebookNode) -> NotebookNode:
    """An output with a picture has it alone: one form, without the text that stands for it."""
    data = output.get("data", {})
    for kind in ("text/plain", "text/html"):
        if kind in data:
            data[kind] = _without_places(data[kind])
    picture = next((kind for kind in PICTURES if kind in data), None)
    if picture is not None:
        small = _with_palette(data[picture]) if picture == "image/png" else data[picture]
        output.data = NotebookNode({picture: small})
        output.metadata = NotebookNode()
    return output


def _with_palette(png: str) -> str:
    """A PNG in base64 with at most 64 colours on white: a third of the bytes."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        if image.mode == "P":
            return png
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
    made = io.BytesIO()
    white.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def printed(cell: NotebookNode) -> str:
    """What a cell prints and returns as text, without colours."""
    texts = [
        output.get("text") if output.output_type == "stream" else output.get("data", {}).get("text/plain")
        for output in cell.get("outputs", [])
    ]
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(f"{text}\n" for text in texts if text))


def pictures(cell: NotebookNode) -> list[str]:
    """The pictures of a cell's outputs, as they lie in the file."""
    found = [output.get("data", {}) for output in cell.get("outputs", [])]
    return [data[kind] for data in found for kind in PICTURES if kind in data]


def picture_bytes(notebook: NotebookNode) -> int:
    """The bytes of all pictures in the notebook's file."""
    return sum(len(picture) for cell in notebook.cells for picture in pictures(cell))


def main(*names: str) -> None:
    """Runs the notebooks that are named, or all, and writes them."""
    chosen = [path for path in notebooks() if not names or path.stem in names]
    unknown = set(names) - {path.stem for path in chosen}
    if unknown:
        sys.exit(f"notebooks: there is no {', '.join(sorted(unknown))} in {FOLDER}")
    for path in chosen:
        started = time.monotonic()
        notebook = execute(path)
        nbformat.write(notebook, path)
        took = time.monotonic() - started
        print(f"{path.name}: {took:.1f} s, {picture_bytes(notebook)} bytes of pictures")


if __name__ == "__main__":
    main(*sys.argv[1:])
