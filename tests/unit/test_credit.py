"""How many events a subscription takes of a session, when another session begins while it counts."""

from gossamer.sdk.subscription import Subscription
from gossamer.sdk.waiting import Turns

BUFFER = 100


class Racing(Subscription):
    """Another thread begins a session at the worst moment, if it is not kept from it."""

    armed = False

    @property
    def _queued(self) -> int:
        if self.armed and not self._lock.locked():
            self.armed = False
            self.asked(0.05)
        return 0

    @_queued.setter
    def _queued(self, _: int) -> None: ...


def test_a_session_that_begins_meanwhile_is_not_given_the_credit_of_the_one_before() -> None:
    sub = Racing(
        1, "", buffer=BUFFER, policy="eager", order="fifo", notices=False, start=None, loop=None,  # type: ignore[arg-type]
        turns=Turns(), credit=lambda _: None, call=lambda *_: None,
    )  # fmt: skip
    sub.asked(0.05)
    sub._received, sub._granted = 1_000_000, 1_000_000 + BUFFER // 2 + 1
    sub._put([object()], True, 1, True, {})  # type: ignore[list-item]
    sub.armed = True
    assert sub._take()
    sub.armed = False
    if sub._received:  # it could not begin before the other had counted
        sub.asked(0.05)
    assert sub.total() <= 2 * BUFFER
