"""Numbers for a named publisher, whose stream spans its restarts (rpbcast §6.2: check out a block).

A block is granted in two steps: read the highest block promised, then claim the next one. A logger promises durably,
and only a block beyond all that it has promised before. To begin a publisher, or to take one over, takes a majority of
the loggers. To extend the holder's own block takes half of them. That half shares a logger with every majority, so a
claim that takes over reads of it, and a holder that was taken over is refused. Two majorities share a logger as well:
the blocks of two holders never overlap, from whichever node and in whichever life they ask. With two loggers a running
publisher goes on while one of them is down, however long; a new publisher needs both.

A claim carries an epoch above all that were read, which takes the publisher over: whoever held it before is refused its
next block, and so learns that it is superseded. The *holder* is a node, or a client, which takes its hold along from
broker to broker: what was last promised to it is its own still, whoever asks. All numbers of an epoch, from its *floor*
on, are one holder's.
"""

from collections.abc import Collection

from gossamer.messages.ids import NodeId, StreamId
from gossamer.messages.wire import CheckedOut, Checkout

READ = 0
"""The epoch of a question; claims count from 1."""


class Numbering:
    """The numbers of one named stream: what may be used, and what is being asked for."""

    __slots__ = (
        "_answers", "_held", "_highest_last", "_size", "asks", "epoch", "floor", "holder", "last",
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
        self._answers: dict[NodeId, CheckedOut] = {}
        self._highest_last = -1
        self._read()

    @property
    def answered(self) -> Collection[NodeId]:
        """The loggers that have answered the present question."""
        return self._answers.keys()

    def extend(self) -> None:
        """Ask for the block after this one, while there are numbers left."""
        if self.asks is None:
            self._claim(self.epoch)

    def on_checked_out(self, logger: NodeId, message: CheckedOut, loggers: int) -> bool:
        """Count an answer, of so many loggers; whether there are more numbers to use now."""
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
        self._answers[logger] = message
        if asks.epoch == READ:
            return self._on_read(loggers)
        if len(self._answers) < needed(loggers, asks.epoch == self.epoch):
            return False
        if asks.epoch != self.epoch:
            self.epoch, self.floor = asks.epoch, asks.first
        self.last, self.asks, self._held = asks.last, None, True
        return True

    def _on_read(self, loggers: int) -> bool:
        """See whether the name is ours, or free to claim. A promise at a few loggers may be that of a claim which most
        refused: it is ours if a majority has made it, or if the client has used the name before."""
        found = max(self._answers.values(), key=_rank)
        majority = needed(loggers, False)
        if found.holder == self.holder and found.promised_epoch != READ:
            epoch = found.promised_epoch
            ours = [each for each in self._answers.values() if _owner(each) == (epoch, self.holder)]
            half = needed(loggers, True)
            if len(ours) >= majority or (self._held and len(self._answers) >= half):
                self.epoch, self.floor = epoch, found.floor
                lasts = sorted((answer.promised_last for answer in ours), reverse=True)
                self.last = lasts[half - 1] if len(lasts) >= half else self.floor - 1
                self.asks, self._held = None, True
                return True
            if len(self._answers) < loggers:
                return False  # the others may have promised it as well
        if len(self._answers) < majority:
            return False
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


def needed(loggers: int, extends: bool) -> int:
    """How many of the loggers have to agree: half of them if the holder extends its own block, else a majority."""
    return max(1, loggers - loggers // 2) if extends else loggers // 2 + 1


def _owner(message: CheckedOut) -> tuple[int, str]:
    return message.promised_epoch, message.holder


def _rank(message: CheckedOut) -> tuple[int, int]:
    return message.promised_epoch, message.promised_last
