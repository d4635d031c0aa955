"""The examples in the docstrings of everything public, one test per docstring."""

import doctest
import inspect
import pkgutil
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import hlx


def public_modules() -> Iterator[types.ModuleType]:
    """The package and its modules whose names have no underscore."""
    yield hlx
    for info in pkgutil.walk_packages(hlx.__path__, "hlx."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            yield __import__(info.name, fromlist=["_"])


def public_objects() -> dict[str, object]:
    """Functions and classes of the public modules, and the methods of classes, once each, by name."""
    found: dict[int, tuple[str, object]] = {}
    for module in public_modules():
        for name in getattr(module, "__all__", list(vars(module))):
            value = getattr(module, name)
            if name.startswith("_") or not (inspect.isroutine(value) or inspect.isclass(value)):
                continue
            if not str(getattr(value, "__module__", "")).startswith("hlx"):
                continue
            found.setdefault(id(value), (f"{module.__name__}.{name}", value))
            if inspect.isclass(value):
                for member_name, member in vars(value).items():
                    if not member_name.startswith("_") and is_documented(member):
                        found.setdefault(id(member), (f"{module.__name__}.{name}.{member_name}", member))
    return dict(found.values())


def is_documented(member: object) -> bool:
    """Whether a member of a class has a docstring of its own."""
    is_member = inspect.isroutine(member) or isinstance(member, property | staticmethod | classmethod)
    return (is_member or inspect.isgetsetdescriptor(member)) and bool(inspect.getdoc(member))


OBJECTS = public_objects()


class Runner(doctest.DocTestRunner):
    """Skips a test whose example needs a library that is not installed."""

    def report_unexpected_exception(self, out, test, example, exc_info) -> None:  # type: ignore[no-untyped-def]
        """Adds to what doctest does that a missing library is no failure."""
        if isinstance(exc_info[1], ModuleNotFoundError):
            pytest.skip(f"an example needs {exc_info[1].name}")
        super().report_unexpected_exception(out, test, example, exc_info)


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_the_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a docstring print what they say they print. Files go into a folder of the test."""
    monkeypatch.chdir(tmp_path)
    documented = OBJECTS[name]
    text = inspect.getdoc(documented)
    assert text, f"{name} has no docstring"
    first = text.split("\n\n")[0]
    assert first.endswith((".", ":")), f"{name}: the first paragraph of its docstring is no sentence: {first}"
    examples = doctest.DocTestParser().get_doctest(text, {"hlx": hlx}, name, None, None)
    output: list[str] = []
    runner = Runner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    result = runner.run(examples, out=output.append)
    assert result.failed == 0, "".join(output)


def needs_example(name: str) -> bool:
    """Whether a function shows itself at work: forms in place, the array API and small classes need not."""
    *_, owner, own = name.split(".")
    is_method = owner[0].isupper() and owner != "Tensor"
    return inspect.isfunction(OBJECTS[name]) and not (own.endswith("_") or is_method or owner == "array_api")


def test_operations_have_an_example() -> None:
    """Every function of the package and every method of tensors shows itself at work."""
    functions = [name for name in OBJECTS if needs_example(name)]
    assert functions, "no functions found"
    without = [name for name in functions if ">>>" not in (OBJECTS[name].__doc__ or "")]
    assert not without, f"no example: {', '.join(sorted(without))}"
