"""Where the loggers of a mesh keep what they log: asked of any broker, as they tell it in `$sys`."""

from gossamer.messages.errors import UsageError


def resolved(url: str) -> list[str]:
    """The stores that a url means: itself, or those of the loggers behind a broker's."""
    if not url.startswith("tcp://"):
        return [url]
    raise UsageError(f"{url}: not yet")
