"""Options of the tests, and the names of the examples in docstrings."""

import pytest

import hlx


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the package's tests."""
    parser.addoption("--all-samples", action="store_true", help="carry out all of PyTorch's samples")


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["hlx"] = hlx
    doctest_namespace["pytest"] = pytest
