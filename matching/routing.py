"""`Routes`: which group an event belongs to, and which groups a subscriber has to listen to for a selector.

Thesis §1.4 leaves open how the interests of many subscribers are mapped to a few multicast groups. Here a group has a
selector, its *interest*, and the groups are in order. An event belongs to the first group whose interest it matches, or
to the rest if it matches none: so it is published once, in one group, whoever wants it. A subscriber listens to every
group in which something that it wants may be. That is told as covering is, soundly: what cannot be told makes it listen
to a group in vain, and never makes it miss anything.
"""

from collections.abc import Mapping

from gossamer.matching.covering import conjunctions
from gossamer.matching.selector import Selector
from gossamer.matching.values import Attributes


class Routes:
    __slots__ = ("interests", "rest", "_tests", "_conjunctions")

    def __init__(self, interests: Mapping[str, Selector | str], rest: str) -> None:
        self.interests = {name: Selector(text) if isinstance(text, str) else text for name, text in interests.items()}
        self.rest = rest
        """The group of what no interest matches."""
        self._tests = [(name, selector.matches) for name, selector in self.interests.items()]
        self._conjunctions = [(name, conjunctions(selector)) for name, selector in self.interests.items()]

    def group_of(self, attributes: Attributes) -> str:
        """Where an event with these attributes is published."""
        return next((name for name, matches in self._tests if matches(attributes)), self.rest)

    def groups_of(self, wanted: Selector | str) -> list[str]:
        """Where everything is published that the selector matches; in the order of the groups, the rest last."""
        left, heard = conjunctions(wanted), []
        for name, ours in self._conjunctions:
            if any(one.meets(other) for one in ours for other in left):
                heard.append(name)
            # What a group's interest includes is published there or in a group before, and in none after it.
            left = [other for other in left if not any(one.includes(other) for one in ours)]
        return [*heard, self.rest] if left or not heard else heard
