"""Writes the stubs of the package, `python/hlx/_hlx.pyi` and `python/hlx/__init__.pyi`, by looking at the package.

The stub of the native layer is natives.pyi beside this file, in which a person has written the types of what is native,
with the methods that the package attaches to tensors. Their signatures are those of the Python functions. Run it by
`cargo xtask python --stubs`; `--check` compares instead of writing.
"""

import argparse
import ast
import inspect
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from annotations import render, render_signature

import hlx
from hlx import _hlx
from hlx._operations import _register

PACKAGE = Path(__file__).parents[1] / "hlx"
NATIVES = Path(__file__).with_name("natives.pyi")
HEADER = "# Written by python/tools/stubs.py (`cargo xtask python --stubs`).\n"
#: Parts of every class that say nothing of it.
INHERITED = set(
    "__class__ __delattr__ __dict__ __dir__ __doc__ __format__ __ge__ __getattribute__ __gt__ __hash__ __init__ __le__"
    " __init_subclass__ __lt__ __module__ __new__ __reduce_ex__ __repr__ __setattr__ __sizeof__ __slots__ __str__"
    " __subclasshook__ __weakref__".split()
)


def main() -> None:
    """Writes or compares the stubs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--ruff", default="ruff", help="the program that formats them")
    arguments = parser.parse_args()
    stubs = {"_hlx.pyi": native_stub(), "__init__.pyi": package_stub()}
    outdated = []
    for name, text in stubs.items():
        file = PACKAGE / name
        text = formatted(HEADER + text, file, arguments.ruff)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            outdated.append(file.name)
            if not arguments.check:
                file.write_text(text, encoding="utf-8")
    if arguments.check and outdated:
        sys.exit(f"stubs: {', '.join(outdated)} of python/hlx are out of date: run cargo xtask python --stubs")


def formatted(text: str, file: Path, ruff: str) -> str:
    """A stub as ruff formats it."""
    for command in (["check", "--fix-only", "--exit-zero", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        run = subprocess.run(
            [ruff, *command, "--stdin-filename", str(file), "-"], input=text, capture_output=True, text=True, check=True
        )
        text = run.stdout
    return text


def native_stub() -> str:
    """The stub of the native layer: the written part, the attached methods, the private functions."""
    written = NATIVES.read_text(encoding="utf-8")
    expect_all_natives(ast.parse(written))
    head, mark, rest = written.partition("    # (attached methods)\n")
    if not mark:
        sys.exit(f"stubs: {NATIVES.name} has no line for the attached methods")
    return head + "".join(attached_methods()) + rest + "".join(private_parts(ast.parse(written)))


def names_of(body: list[ast.stmt]) -> set[str]:
    """The names that statements of a stub define."""
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def expect_all_natives(written: ast.Module) -> None:
    """Ends with an error if a class or a member of one has no type, or the other way round."""
    classes = {node.name: node for node in written.body if isinstance(node, ast.ClassDef)}
    public = {name for name, value in vars(hlx).items() if inspect.isbuiltin(value) and hasattr(_hlx, name)}
    wrong = [f"the function {name} is missing" for name in sorted(public - names_of(written.body) - {"note_fork"})]
    for name, native in inspect.getmembers(_hlx, inspect.isclass):
        if native.__module__ == "builtins" or name.startswith("__"):
            continue
        if name not in classes:
            wrong += [f"the class {name} is missing"] if is_public(native) else []
            continue
        inherited = INHERITED | (set(_register.METHODS) | set(_register.ATTRIBUTES) if name == "Tensor" else set())
        members = {
            member for member in vars(native) if member not in inherited or member in names_of(classes[name].body)
        }
        attached = {member for member in members if isinstance(vars(native)[member], types.FunctionType)}
        wrong += [f"{name}.{member} is missing" for member in sorted(members - attached - names_of(classes[name].body))]
        # Before Python 3.12 the buffer protocol has no method.
        known = set(vars(native)) | INHERITED | {"__buffer__"}
        wrong += [f"{name}.{member} does not exist" for member in sorted(names_of(classes[name].body) - known)]
    if wrong:
        sys.exit("\n".join(f"stubs: {NATIVES.name}: {line}" for line in wrong))


def is_public(native: type) -> bool:
    """Whether the package hands a native class to users."""
    return any(value is native for value in vars(hlx).values())


def attached_methods() -> Iterator[str]:
    """The methods and attributes that the package puts on the class of tensors."""
    for name, value in vars(hlx.Tensor).items():
        if isinstance(value, property) and isinstance(value.fget, types.FunctionType):
            yield "    @property\n"
            yield method(name, value.fget)
            if isinstance(value.fset, types.FunctionType):
                yield f"    @{name}.setter\n" + method(name, value.fset)
        elif isinstance(value, types.FunctionType):
            yield method(name, value)


def method(name: str, function: Callable[..., Any]) -> str:
    """A method of the class of tensors, with what it computes. Its first parameter keeps its name."""
    summary = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    lines = []
    for decorator, one in overloads(function):
        signature = render_signature(one, is_method=True)
        lines.append(f'{decorator}def {name}{signature}:\n    """{summary}"""\n')
    return textwrap.indent("".join(lines), "    ")


def overloads(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function, or its overloads where its types depend on its arguments."""
    several = typing.get_overloads(function)
    if not several:
        yield "", function
    for one in several:
        yield "@typing.overload\n", one


def private_parts(written: ast.Module) -> Iterator[str]:
    """The native classes and functions that the package's own modules use, as far as the written part has none."""
    known = names_of(written.body)
    for name, native in inspect.getmembers(_hlx, inspect.isclass):
        if name not in known and not name.startswith("__"):
            yield private_class(name, native)
    for name, _ in inspect.getmembers(_hlx, inspect.isbuiltin):
        if name not in known and not name.startswith("__"):
            yield f"{name}: collections.abc.Callable[..., typing.Any]\n"
    yield f"__all__ = {sorted(_hlx.__all__)}\n"


def private_class(name: str, native: type) -> str:
    """A class with the names and parameters of its members, without types."""
    lines = ["@typing.final\n", f"class {name}:\n"]
    if "__new__" in vars(native):
        parameters = render_signature(native, is_typed=False).removeprefix("(").partition(") ->")[0]
        lines.append(f"    def __new__(cls, {parameters}) -> typing.Self: ...\n")
    for member, value in vars(native).items():
        if inspect.isgetsetdescriptor(value):
            lines.append(f"    @property\n    def {member}(self) -> typing.Any: ...\n")
        elif inspect.isroutine(value) and member not in INHERITED:
            lines.append(f"    def {member}{render_signature(value, is_method=True, is_typed=False)}: ...\n")
    return "".join(lines if len(lines) > 2 else [*lines, "    ...\n"])


#: What the signatures in the package's stub may name.
NAMED = """import builtins
import collections.abc
import typing
from hlx._hlx import device as _device, dtype as _dtype
from hlx._operations._types import Device as _Device, Dims as _Dims, Number as _Number
from hlx._operations._types import Operand as _Operand, Shape as _Shape
"""


def package_stub() -> str:
    """The stub of the package: what is public, from the modules that define it."""
    imports, constants, made = [], [], []
    for name, value in sorted(vars(hlx).items()):
        if name.startswith("_") and name != "__version__":
            continue
        if not (isinstance(value, types.ModuleType) or inspect.isclass(value) or inspect.isroutine(value)):
            constants.append(f"{name}: {render(type(value)).removeprefix('_')}\n")
        elif place := place_of(name, value):
            imports.append(f"from {place} as {name}\n")
        else:
            made += [f"{decorator}def {name}{render_signature(one)}: ...\n" for decorator, one in overloads(value)]
    return "".join([NAMED, *imports, *constants, *made])


def place_of(name: str, value: Any) -> str | None:
    """The module that defines something, and its name there: `hlx._operations.arithmetic import sub`.

    None for a function that a module of the package has made, without a name there.
    """
    if isinstance(value, types.ModuleType):
        parent, _, child = value.__name__.rpartition(".")
        if parent.split(".")[0] != "hlx":
            sys.exit(f"stubs: hlx.{name} is the module {value.__name__}, which is not of the package")
        return f"{parent} import {child}"
    # Native functions name no module, and what is shown as `hlx.NAME` is defined elsewhere.
    candidates = [getattr(value, "__module__", None), "hlx._hlx", "hlx.errors", "hlx._size"]
    for module in candidates:
        own = value.__name__
        if module not in (None, "hlx") and getattr(sys.modules.get(module), own, None) is value:
            return f"{module} import {own}"
    if not inspect.isfunction(value):
        sys.exit(f"stubs: no module of the package defines hlx.{name}")
    return None


if __name__ == "__main__":
    main()
