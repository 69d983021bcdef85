"""A primary's updates, as its member hands them to the group."""

import asyncio
from typing import cast

import gossamer
from gossamer.protocol.groups.effects import Effect, View
from gossamer.protocol.groups.inputs import Input, Received, Start
from gossamer.protocol.groups.views import Views
from gossamer.protocol.groups.wire import Hello
from gossamer.sdk.group_runtime import GroupRuntime
from gossamer.sdk.member import Member


class ChangingView:
    """The runtime of a member that is asked to let somebody in right after its first input."""

    me = "a"

    def __init__(self) -> None:
        self.machine = Views("g", "a", ("a", "b"), order="fifo")
        self.effects: list[Effect] = self.machine.handle(Start(), 0.0)

    def submit(self, given: Input) -> None:
        self.effects += self.machine.handle(given, 0.1)
        self.effects += self.machine.handle(Received("c", Hello()), 0.1)


def test_an_update_of_several_items_is_sent_in_one_view() -> None:
    """Otherwise members would give up its first parts at the end of the view, and it would be applied by nobody."""

    async def main() -> None:
        runtime = ChangingView()
        store = gossamer.PrimaryBackup()
        store._member = Member("g", cast(GroupRuntime, runtime), causal=False, views=True, state=None)
        store._member.view = View(0, ("a", "b"))
        updating = asyncio.create_task(store.update({"x": 1, "y": 2}))
        await asyncio.sleep(0)
        assert (runtime.machine._held, len(runtime.machine._outbox)) == ([2, -1], 0)
        updating.cancel()

    asyncio.run(main())
