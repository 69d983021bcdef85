"""Where the loggers of a mesh keep what they log: asked of any broker, as they tell it in `$sys`."""

import time

from gossamer.messages.errors import GossamerError, Timeout, UsageError

PATIENCE_S = 15.0
"""For all members to tell of themselves, which they do every few seconds."""


def resolved(url: str) -> list[str]:
    """The stores that a url means: itself; or, if it is a broker's, those of the loggers there, by their names."""
    if not url.startswith("tcp://"):
        return [url]
    stores = {node: store for node, store in _samples(url).items() if store is not None}
    if not stores:
        raise UsageError(f"the mesh at {url} has no logger that tells where its store is")
    return [stores[node] for node in sorted(stores)]


def _samples(url: str, patience_s: float = PATIENCE_S) -> dict[str, str | None]:
    """Who has told of itself, and where its store is, if it has one."""
    from gossamer.sdk import sync

    until = time.monotonic() + patience_s
    found: dict[str, str | None] = {}
    known: set[str] = set()
    try:
        with (
            sync.connect(url, group="$sys", timeout=patience_s) as client,
            client.subscribe("type = 'sample'", start="last_per_key") as samples,
        ):
            while not found or not known <= found.keys():
                event = samples.get(max(until - time.monotonic(), 0.01))
                told = getattr(event, "attributes", {})
                if isinstance(node := told.get("node"), str):
                    found[node] = store if isinstance(store := told.get("store"), str) else None
                    known.update(told.get("members") or ())
    except Timeout:  # some are known of and do not tell: they may be dead
        pass
    except GossamerError as error:
        raise UsageError(f"cannot ask {url} for its loggers: {error}") from None
    return found
