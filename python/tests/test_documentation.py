"""The code of the pages runs as it stands: docs/python.md and the package's own page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["docs/python.md", "python/README.md"]


def blocks(page: Path) -> list[tuple[int, str]]:
    """The page's Python blocks, each with its line."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_the_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's blocks run in order, in one namespace and in an empty folder."""
    found = blocks(ROOT / page)
    assert found, f"{page} has no ```python block"
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in found:
        # Empty lines in front, so that an error names the page's line.
        exec(compile("\n" * (line - 1) + code, page, "exec"), namespace)
