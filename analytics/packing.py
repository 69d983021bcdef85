"""This package as one file, for executors that do not have it: what `--py-files` takes.

Its dependencies are not in it: a worker's own Python needs pyarrow and pandas, as Spark asks for itself, and psycopg
where it reads PostgreSQL, and msgspec where it matches selectors.
"""

import zipfile
from pathlib import Path

import gossamer

FOLDERS = ("analytics", "logger", "matching", "messages", "protocol")


def packed(folder: Path) -> Path:
    """A zip of what executors import."""
    path = folder / "gossamer.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("gossamer/__init__.py", Path(gossamer.__file__).read_text())
        for name in FOLDERS:
            root = _home(name)
            for file in sorted(root.rglob("*.py")):
                archive.write(file, f"gossamer/{name}/{file.relative_to(root)}")
    return path


def _home(name: str) -> Path:
    from importlib.util import find_spec

    spec = find_spec(f"gossamer.{name}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
