"""A broker: a member of the mesh that serves clients."""

from typing import Any

from gossamer.broker.runtime import Runtime
from gossamer.broker.session import ClientLimits
from gossamer.broker.sessions import Sessions
from gossamer.messages.session import Interest


def broker(
    listen: str = "tcp://127.0.0.1:0",
    *,
    limits: ClientLimits | None = None,
    interests: tuple[Interest, ...] = (),
    **options: Any,
) -> Runtime:
    """A runtime with client sessions, ready to start; `options` are those of `Runtime`. Whatever is wrong with the
    addresses is said now, and nothing stays bound then."""
    runtime = Runtime(**options)
    try:
        runtime.clients = Sessions(listen, limits=limits, counters=runtime.counters, interests=interests)
    except BaseException:
        runtime.kill()
        raise
    return runtime
