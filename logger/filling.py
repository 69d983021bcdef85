"""A store, or an archive, of a log that somebody has made up: at once, with times of its own.

It goes the way of every packet: `Store` numbers and writes it, the `Keeper` makes events from it, the `Archive` files.
Only who acknowledges it, and who waits for that, is missing.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from gossamer.logger.archive import Archive
from gossamer.logger.keeper import Keeper
from gossamer.logger.pages import Pages
from gossamer.logger.store import Store
from gossamer.messages.errors import UsageError
from gossamer.messages.ids import NodeId
from gossamer.messages.packet import Packet

DERIVED_COMMITS = 256
"""So often what was logged is made into events."""

Commit = tuple[int, list[Packet]]
"""What is written at once, and when."""


def fill(url: str, log: Iterable[Commit], node: NodeId = "made") -> None:
    """A store that nobody has used gets this log."""
    now_ns = 0
    with Store(url, lambda: now_ns) as store:
        _claim(store, node)
        keeper = Keeper(store.database, store.on_swept)
        try:
            for count, (now_ns, packets) in enumerate(log, 1):  # noqa: B007
                store.apply(packets)
                store.commit()
                if count % DERIVED_COMMITS == 0:
                    keeper.work()
            keeper.work()
        finally:
            keeper.close()


def fill_archive(folder: Path, log: Iterable[Commit], node: NodeId = "made") -> None:
    """An archive gets this log: of a logger that had nothing in it."""
    now_ns = 0
    archive = Archive(folder)
    archive.begin(node, 0)
    with (
        tempfile.TemporaryDirectory(prefix="gossamer-") as scratch,
        Store(f"sqlite:///{scratch}/log.db", lambda: now_ns) as store,
    ):
        _claim(store, node)
        for now_ns, packets in log:  # noqa: B007
            store.apply(packets)
            store.commit()
        pages = Pages(store.database)
        try:
            archive.run(pages, 0, lambda _: None)
        finally:
            pages.close()


def _claim(store: Store, node: NodeId) -> None:
    if store.number:
        raise UsageError(f"the store {store.path} is not empty")
    store.claim(node)
