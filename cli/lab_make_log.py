"""`gossamer lab run make-log`: a store or an archive with known answers, to test analytics against."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from gossamer.lab.made_log import SECONDS, MadeLog
from gossamer.messages.errors import UsageError

if TYPE_CHECKING:
    from gossamer.logger.filling import Commit

NAME = "make-log"


def make_log(
    events: Annotated[int, typer.Option(min=1, help="How many, telemetry apart.")] = 100_000,
    store: Annotated[
        str | None, typer.Option(help="A new store: sqlite:///FILE or postgresql://HOST/DATABASE.")
    ] = None,
    archive: Annotated[Path | None, typer.Option(help="Or an archive: a folder.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Where the truth is written, if not beside it.")] = None,
    seconds: Annotated[float, typer.Option(help="How long it took, in the log's own time.")] = SECONDS,
    seed: Annotated[int, typer.Option(help="Another log, of the same kind.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
) -> None:
    """A log with known answers: Zipf publishers and symbols, planted anomalies and interests; and the truth as JSON."""
    from gossamer.logger.filling import fill, fill_archive  # here: `--help` has no need of a database

    if (store is None) == (archive is None):
        raise UsageError("say where to: --store URL or --archive DIR")
    beside = truth or _beside(store, archive)
    log = MadeLog(events, seed, seconds)
    with Console(stderr=True).status(f"0 of {events:,} events") as status:

        def shown(commits: "Iterable[Commit]") -> "Iterator[Commit]":
            for number, commit in enumerate(commits):
                if number % 50 == 0:
                    status.update(f"{log.made:,} of {events:,} events")
                yield commit

        if archive is not None:
            fill_archive(archive, shown(log))
        elif store is not None:
            fill(store, shown(log))
    told = log.truth()
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
    if json:
        rows = [{"publisher": name, **each} for name, each in told["publishers"].items()]
        document: dict[str, Any] = {"name": NAME, "truth_file": str(beside), "rows": rows, "truth": told}
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        print(f"{told['events']:,} events, {told['telemetry']:,} of telemetry; the truth is in {beside}")


def _beside(store: str | None, archive: Path | None) -> Path:
    """Where the truth is found again."""
    if archive is not None:
        return archive.with_name(f"{archive.name}.truth.json")
    assert store is not None
    from gossamer.logger.databases import database

    place = database(store)
    path = getattr(place, "path", None)
    return Path(f"{path}.truth.json") if path else Path("truth.json")
