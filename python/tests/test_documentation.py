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
#: A block: its marks, which tools/pages describes, and its lines.
FENCE = re.compile(r"^```python(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: docs/contracts.md runs in a folder of its own: test_contracts.py.
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "python").glob("*.md"),
        *(ROOT / "examples/python").glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "zoo").rglob("*.md"),
    ]
    if FENCE.search(path.read_text(encoding="utf-8")) and path.name != "contracts.md"
)


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """The page's Python blocks, each with its line and its mark."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match.group(1).removeprefix(","), match.group(2))
        for match in FENCE.finditer(text)
    ]


def is_run(mark: str) -> bool:
    """Whether a block with this mark is run here."""
    return mark == "" or (mark == "needs=vulkan" and hlx.vulkan.is_available())


def expected(code: str) -> list[str]:
    """What a block says that it prints: the comments that begin a line."""
    return [line.removeprefix("#").removeprefix(" ") for line in code.splitlines() if line.startswith("#")]


def test_pages_are_found() -> None:
    """Those with the most blocks are among them."""
    assert {"README.md", "docs/python.md", "docs/dispatch.md", "docs/optimizers.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's blocks run in order, in one namespace and a folder of their own."""
    found = blocks(ROOT / page)
    if not any(is_run(mark) for _, mark, _ in found):
        pytest.skip(f"{len(found)} blocks: {', '.join(sorted({mark for _, mark, _ in found}))}")
    shutil.copytree(ROOT / "examples/python", tmp_path / "examples/python")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, mark, code in found:
        if not is_run(mark):
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
