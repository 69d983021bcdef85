"""Numbers for a named publisher, whose stream spans its restarts (rpbcast §6.2: check out a block).

A block is granted by a majority of the loggers, in two steps: read the highest block promised, then claim the next one.
A logger promises durably, and only a block beyond all that it has promised before. Two majorities share a logger, so no
two blocks overlap, whoever asks, from whichever node, in whichever life.

A claim carries an epoch above all that were read, which takes the publisher over: whoever held it before is refused its
next block, and so learns that it is superseded.
"""

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import CheckedOut, Checkout

READ = 0
"""The epoch of a question; claims count from 1."""


class Numbering:
    """The numbers of one named stream: what may be used, and what is being asked for."""

    __slots__ = (
        "_answers",
        "_highest_epoch",
        "_highest_last",
        "_size",
        "asks",
        "epoch",
        "last",
        "stream",
        "superseded",
    )

    def __init__(self, stream: StreamId, size: int) -> None:
        self.stream = stream
        self._size = size
        self.epoch = READ
        """Ours, once we hold the publisher."""
        self.last = -1
        """The last number that may be used."""
        self.superseded = False
        self.asks: Checkout | None = None
        """What the loggers are being asked."""
        self._answers: dict[NodeId, None] = {}
        self._highest_epoch = self._highest_last = -1
        self._read()

    def extend(self) -> None:
        """Ask for the block after this one, while there are numbers left."""
        if self.asks is None:
            self._ask(Checkout(self.stream, self.epoch, self.last + 1, self.last + self._size))

    def on_checked_out(self, logger: NodeId, message: CheckedOut, majority: int) -> int | None:
        """Count an answer. Returns the first number of a block, once it is granted."""
        asks = self.asks
        if asks is None or (message.epoch, message.last) != (asks.epoch, asks.last):
            return None
        if asks.epoch != READ and not message.granted:
            self.superseded = self.epoch != READ and message.promised_epoch > self.epoch
            self._read()  # somebody was quicker, or we know too little: begin again
            return None
        self._answers[logger] = None
        self._highest_epoch = max(self._highest_epoch, message.promised_epoch)
        self._highest_last = max(self._highest_last, message.promised_last)
        if len(self._answers) < majority:
            return None
        if asks.epoch == READ:
            first = self._highest_last + 1
            self._ask(Checkout(self.stream, self._highest_epoch + 1, first, self._highest_last + self._size))
            return None
        self.epoch, self.last, self.asks = asks.epoch, asks.last, None
        return asks.first

    def _read(self) -> None:
        self._highest_epoch = self._highest_last = -1
        self._ask(Checkout(self.stream, READ, -1, -1))

    def _ask(self, question: Checkout) -> None:
        self.asks = question
        self._answers.clear()
