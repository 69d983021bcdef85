"""Imports point one way (docs/architecture.md): the tree is the architecture."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What each folder may import of ours. `sdk` may start a broker and a logger in-process (sdk/embedded.py); `analytics`
# reads what loggers store, and asks a mesh, as a client does, where they do (analytics/loggers.py).
ALLOWED: dict[str, set[str]] = {
    "messages": set(),
    "matching": {"messages"},
    "protocol": {"messages"},
    "broker": {"protocol", "matching", "messages"},
    "logger": {"protocol", "matching", "messages"},
    "sdk": {"broker", "logger", "protocol", "matching", "messages"},
    "analytics": {"lab", "sdk", "logger", "protocol", "matching", "messages"},  # lab: it draws with lab/plots.py
    "lab": {"protocol", "matching", "messages"},
    "bench": {"lab", "analytics", "sdk", "broker", "logger", "protocol", "matching", "messages"},
    "cli": {"sdk", "broker", "logger", "analytics", "lab", "bench", "protocol", "matching", "messages"},
    "gossamer": {"cli", "sdk", "matching", "messages"},  # cli: `python -m gossamer`
}
PURE = ("messages", "matching", "protocol")
IMPURE = {
    "time",
    "socket",
    "zmq",
    "threading",
    "asyncio",
    "random",
    "secrets",
    "uuid",
    "os",
    "pathlib",
    "multiprocessing",
}
FILES = sorted(path for folder in ALLOWED for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write gossamer.<folder>"
            module = node.module or ""
            names += [f"{module}.{alias.name}" for alias in node.names] if module == "gossamer" else [module]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    folder = path.relative_to(ROOT).parts[0]
    for name in imported(path):
        parts = name.split(".")
        assert parts[0] not in ALLOWED or parts[0] == "gossamer", f"{path}: import gossamer.{name}, never plain {name}"
        if parts[0] == "gossamer" and len(parts) > 1 and parts[1] != folder:
            assert parts[1] in ALLOWED[folder], f"{path}: {folder} may not import {parts[1]}"


@pytest.mark.parametrize("folder", PURE)
def test_the_core_has_no_clock_socket_thread_or_global_randomness(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text())
        for name in imported(path):
            top = name.split(".")[0]
            if top == "random":  # only the type of the generator that is handed in
                uses = {
                    node.attr
                    for node in ast.walk(tree)
                    if isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "random"
                }
                assert uses <= {"Random"}, f"{path}: randomness is a constructor argument"
            else:
                assert top not in IMPURE, f"{path}: imports {name}"


def test_every_folder_is_packaged() -> None:
    import tomllib

    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {path.parent for path in FILES}
    expected = {
        "gossamer" if f == ROOT / "gossamer" else "gossamer." + ".".join(f.relative_to(ROOT).parts) for f in found
    }
    assert expected == set(setuptools["packages"]) == set(setuptools["package-dir"])
