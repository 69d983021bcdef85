"""Selectors answer as in other brokers: `selector_peers.txt` holds their answers, and the reason of each difference."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gossamer.matching import Index, Selector, SelectorError

TABLE = Path(__file__).with_name("selector_peers.txt")
DOCS = Path(__file__).parents[2] / "docs" / "selectors.md"
ANSWERS = {True: "T", False: "F", None: "?"}
ACCEPTABLE = {"N": "F?", "P": "TF?"}


class Case(NamedTuple):
    peers: str
    answer: str
    ours: str
    """The answers with which Gossamer agrees to the row."""
    reason: str | None
    selector: str
    event: dict[str, object]


def cases() -> Iterator[Case]:
    event: dict[str, object] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("event "):
            event = json.loads(line.removeprefix("event "))
        elif line and not line.startswith("#"):
            said, _, text = line.partition(" | ")
            selector = json.loads(text.removeprefix("json ")) if text.startswith("json ") else text
            peers, answer, *different = said.split()
            ours, reason = different or (ACCEPTABLE.get(answer, answer), None)
            yield Case(peers, answer, ours, reason, selector, event)


CASES = list(cases())


def answer(case: Case) -> str:
    try:
        selector = Selector(case.selector)
    except SelectorError:
        return "E"
    found = selector.evaluate(case.event)
    index: Index[int] = Index()
    index.add(0, selector)
    assert bool(index.match(case.event)) is selector.matches(case.event) is (found is True)
    assert (~selector).matches(case.event) is (found is False)
    assert Selector(str(selector)).evaluate(case.event) is found
    return ANSWERS[found]


@pytest.mark.parametrize("peer", "ABCJR")
def test_every_answer_of_a_peer_is_as_the_table_says(peer: str) -> None:
    asked = [case for case in CASES if peer in case.peers]
    wrong = [
        (case.selector, case.event, case.ours, found) for case in asked if (found := answer(case)) not in case.ours
    ]
    assert asked
    assert wrong == []


def test_a_difference_in_the_table_is_one() -> None:
    assert [case for case in CASES if case.reason and case.ours in ACCEPTABLE.get(case.answer, case.answer)] == []


def test_the_docs_count_the_cases_and_give_every_reason() -> None:
    text = DOCS.read_text("utf-8")
    asked = sum(len(case.peers) for case in CASES)
    different = Counter[str]()
    for case in CASES:
        if case.reason:
            different[case.reason] += len(case.peers)
    agreeing, told = re.search(r"([\d,]+) of ([\d,]+) cases", text).groups()  # type: ignore[union-attr]
    assert (agreeing, told) == (f"{asked - different.total():,}", f"{asked:,}")
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| (\d+) \|$", text, re.MULTILINE)
    assert dict(rows) == {reason: str(count) for reason, count in different.items()}
