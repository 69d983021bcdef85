"""The store that a command reads when none is named: the one that `gossamer up` or `gossamer logger` keeps here."""

import os
from pathlib import Path

from gossamer.messages.errors import UsageError

FILE = "gossamer.db"
STORE = f"sqlite:///{FILE}"
DATA = Path("gossamer-data")


def find_store(given: str | None) -> str:
    """The url of the store to read: the given one, else the only one here; `UsageError` if there is none, or two."""
    if given is not None:
        return given
    folder = Path(os.environ.get("GOSSAMER_DATA") or DATA)
    places = {folder / FILE: "gossamer up", Path(FILE): "gossamer logger"}
    found = [place for place in places if place.is_file()]
    if len(found) == 1:
        return f"sqlite:///{found[0]}"
    named = " and ".join(f"{place} (of `{command}`)" for place, command in places.items())
    if found:
        raise UsageError(f"there are two stores here, {named}: choose one with --store sqlite:///FILE")
    raise UsageError(
        f"no store here: looked for {named} in {Path.cwd()}; pass --store sqlite:///FILE or postgresql://…"
    )
