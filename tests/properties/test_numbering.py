"""Sequence leases: no number belongs to two holders, whichever loggers answer, in whichever order."""

from itertools import combinations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gossamer.messages.ids import named_stream
from gossamer.messages.wire import CheckedOut, Checkout
from gossamer.protocol.effects import Persist, Send
from gossamer.protocol.gossip_buffer import GossipBuffer
from gossamer.protocol.logger import LoggerRole
from gossamer.protocol.numbering import Numbering
from gossamer.protocol.placement import Placement
from gossamer.protocol.retired import RetiredStreams
from gossamer.protocol.stability import Stability
from machines import context, membership

FEED = named_stream("default", "feed")
BLOCK = 4


class Disk:
    """One logger that writes at once and answers at once."""

    def __init__(self, name):
        self.ctx = context(name, logger=True)
        members = membership(self.ctx, "ab", "")
        self.role = LoggerRole(
            self.ctx, GossipBuffer(10**6), Stability(), RetiredStreams(),
            Placement(self.ctx, members), lambda *_: None, None,
        )  # fmt: skip

    def answer(self, question: Checkout) -> CheckedOut:
        self.role.on_checkout("a", question)
        self.role.flush()
        for effect in [each for each in self.ctx.effects if isinstance(each, Persist)]:
            self.role.on_persisted(effect.token)
        (answer,) = [each.message for each in self.ctx.effects if isinstance(each, Send)]
        self.ctx.effects.clear()
        return answer


@settings(max_examples=300, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(1, 5), st.data())
def test_no_number_is_usable_by_two_holders(loggers, data):
    """Two clients ask for blocks under one name while each question reaches a random part of the loggers."""
    disks = {f"L{number}": Disk(f"L{number}") for number in range(loggers)}
    clients = [Numbering(FEED, f"holder-{number}", BLOCK) for number in range(2)]
    usable: dict[str, set[int]] = {}
    for step in range(data.draw(st.integers(1, 25), label="steps")):
        at = data.draw(st.integers(0, 1), label="client")
        if clients[at].superseded:
            clients[at] = Numbering(FEED, f"holder-{at} since {step}", BLOCK)
        numbers = clients[at]
        if numbers.asks is None:
            numbers.extend()
        for name in data.draw(st.lists(st.sampled_from(sorted(disks)), unique=True), label="reached"):
            if numbers.asks is not None and not numbers.superseded:
                numbers.on_checked_out(name, disks[name].answer(numbers.asks), loggers)
        if numbers.last >= 0 and not numbers.superseded:
            block = range(max(numbers.floor, numbers.last - BLOCK + 1), numbers.last + 1)
            usable.setdefault(numbers.holder, set()).update(block)
    for one, other in combinations(usable.values(), 2):
        assert not one & other
