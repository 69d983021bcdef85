"""Numbers for a named publisher, whose stream spans its restarts (rpbcast §6.2: check out a block).

A block is granted by a majority of the loggers, in two steps: read the highest block promised, then claim the next one.
A logger promises durably, and only a block beyond all that it has promised before. Two majorities share a logger, so no
two blocks overlap, whoever asks, from whichever node, in whichever life.

A claim carries an epoch above all that were read, which takes the publisher over: whoever held it before is refused its
next block, and so learns that it is superseded. The *holder* is a node, or a client, which takes its hold along from
broker to broker: what was last promised to it is its own still, whoever asks. All numbers of an epoch, from its *floor*
on, are one holder's.
"""

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import CheckedOut, Checkout

READ = 0
"""The epoch of a question; claims count from 1."""


class Numbering:
    """The numbers of one named stream: what may be used, and what is being asked for."""

    __slots__ = (
        "_answers", "_held", "_highest", "_highest_last", "_size", "asks", "epoch", "floor", "holder", "last",
        "stream", "superseded",
    )  # fmt: skip

    def __init__(self, stream: StreamId, holder: str, size: int, held: bool = False) -> None:
        """`held`: the publisher was this holder's; it is to go on if it still is, and not to begin anew."""
        self.stream = stream
        self.holder = holder
        self._size = size
        self._held = held
        self.epoch = READ
        """Ours, once we hold the publisher."""
        self.floor = 0
        """The first number of our epoch: what is before is not ours to send."""
        self.last = -1
        """The last number that may be used."""
        self.superseded = False
        self.asks: Checkout | None = None
        """What the loggers are being asked."""
        self._answers: dict[NodeId, None] = {}
        self._highest: CheckedOut | None = None
        self._highest_last = -1
        self._read()

    def extend(self) -> None:
        """Ask for the block after this one, while there are numbers left."""
        if self.asks is None:
            self._claim(self.epoch)

    def on_checked_out(self, logger: NodeId, message: CheckedOut, majority: int) -> bool:
        """Count an answer; whether there are more numbers to use now."""
        asks = self.asks
        if asks is None or (message.epoch, message.last) != (asks.epoch, asks.last):
            return False
        self._highest_last = max(self._highest_last, message.promised_last)
        if asks.epoch != READ and not message.granted:
            if self.epoch != READ and message.promised_epoch > self.epoch:
                self.superseded = True
            else:
                self._read()  # somebody was quicker, or we know too little: begin again
            return False
        self._answers[logger] = None
        if self._highest is None or _rank(message) > _rank(self._highest):
            self._highest = message
        if len(self._answers) < majority:
            return False
        if asks.epoch == READ:
            return self._on_read(self._highest)
        if asks.epoch != self.epoch:
            self.epoch, self.floor = asks.epoch, asks.first
        self.last, self.asks, self._held = asks.last, None, True
        return True

    def _on_read(self, found: CheckedOut) -> bool:
        if found.holder == self.holder and found.promised_epoch != READ:
            self.epoch, self.floor, self.last = found.promised_epoch, found.floor, found.promised_last
            self.asks, self._held = None, True
            return True
        if self._held and found.promised_epoch != READ:
            self.superseded = True
            return False
        self._claim(found.promised_epoch + 1)
        return False

    def _read(self) -> None:
        self._ask(Checkout(self.stream, READ, -1, -1, self.holder))

    def _claim(self, epoch: int) -> None:
        # Beyond all that is promised, to whomever: numbers that are skipped in our own epoch are ours all the same.
        first = max(self.last, self._highest_last) + 1
        self._ask(Checkout(self.stream, epoch, first, first + self._size - 1, self.holder))

    def _ask(self, question: Checkout) -> None:
        self.asks = question
        self._answers.clear()
        self._highest = None


def _rank(message: CheckedOut) -> tuple[int, int]:
    return message.promised_epoch, message.promised_last
