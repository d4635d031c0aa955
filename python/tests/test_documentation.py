"""The code of the pages runs and prints what they say."""

import contextlib
import io
import itertools
import re
import shutil
from pathlib import Path

import pytest

import hlx

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/python.md", "docs/optimizers.md", "docs/data.md", "python/README.md"]
#: The first line of a block that is left out where there is no Vulkan device.
NEEDS_VULKAN = "# Needs a Vulkan device."


def blocks(page: Path) -> list[tuple[int, str]]:
    """The page's Python blocks, each with its line."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def expected(code: str) -> list[str]:
    """What a block says that it prints: the comments that begin a line."""
    lines = [line.removeprefix("#").removeprefix(" ") for line in code.splitlines() if line.startswith("#")]
    return lines[1:] if code.startswith(NEEDS_VULKAN) else lines


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's blocks run in order, in one namespace and a folder of their own."""
    found = blocks(ROOT / page)
    assert found, f"{page} has no ```python block"
    shutil.copytree(ROOT / "examples/python", tmp_path / "examples/python")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in found:
        if code.startswith(NEEDS_VULKAN) and not hlx.vulkan.is_available():
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # Empty lines in front, so that an error names the page's line.
            exec(compile("\n" * (line - 1) + code, page, "exec"), namespace)
        assert printed.getvalue().splitlines() == expected(code), f"the block in line {line} of {page}"


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the rows below a table's heading."""
    lines = page[page.index(heading) :].splitlines()
    rows = [line.strip("|").split("|") for line in itertools.takewhile(lambda line: line.startswith("|"), lines)]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_package_has_the_layers_of_the_page() -> None:
    """Those of the library, under PyTorch's names, and those that the page lists for Python."""
    page = (ROOT / "docs/layers.md").read_text(encoding="utf-8")
    cells = [
        own if theirs.startswith("the same") else theirs for own, theirs, *_ in table(page, "| here | PyTorch | p")
    ]
    of_python = table(page[page.index("## From Python") :], "| | |")
    # Paddings are listed without their dimensions.
    cells += [cell.split(";")[0] for _, cell in of_python]
    names = [name for cell in cells for name in re.findall(r"`(?:Activation::)?([A-Z]\w+)", cell)]
    assert len(names) > 100
    assert [name for name in names if not hasattr(hlx.nn, name)] == []
