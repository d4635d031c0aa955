"""The code of the pages runs and prints what they say."""

import contextlib
import io
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
