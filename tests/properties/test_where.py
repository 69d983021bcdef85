"""Option `where` of the Spark source gives the answers of the slow evaluator, whatever lies between."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from gossamer.analytics.source import GossamerSource
from gossamer.analytics.where import where_of
from gossamer.logger.filling import fill, fill_archive
from gossamer.matching import Selector
from gossamer.messages.event import Content
from gossamer.messages.packet import pack
from properties.selectors import NAMES, NUMBERS, STRINGS, attributes, examples, selectors


@given(selectors, attributes)
@examples(500)
def test_a_row_is_kept_if_and_only_if_its_event_matches(selector: Selector, event: dict[str, Any]) -> None:
    where = where_of(str(selector))
    assert where is not None
    matches = selector.evaluate(event) is True
    for text in (msgspec.json.encode(event), json.dumps(event), json.dumps(event, ensure_ascii=False)):
        assert where.keeps([text]) == [matches]
        if matches and where.needles:
            shown = text if isinstance(text, str) else text.decode()
            assert any(needle in shown for needle in where.needles)


@pytest.mark.parametrize(
    ("selector", "needles"),
    [
        ("symbol = 'IBM' AND quantity > 100", ('"IBM"',)),
        ("symbol = 'IBM.N Armonk' AND price > 100", ('"IBM.N Armonk"',)),
        ("symbol IN ('Microsoft', 'Alphabet')", ('"Alphabet"', '"Microsoft"')),
        ("symbol PREFIX 'Micro\"soft'", ("Micro",)),
        ("'urgent' IN tags", ('"urgent"',)),
        ("symbol PREFIX '' AND price > 100", ('"symbol"',)),
        ("price > 100 OR size > 5", ('"price"', '"size"')),
        ("price > 100 OR size IS NULL", ()),
        ("NOT (price > 100)", ()),
        ("name = 'é'", ('"name"',)),
        ("é = 'é'", ()),
    ],
)
def test_needles_of_a_selector(selector: str, needles: tuple[str, ...]) -> None:
    where = where_of(selector)
    assert where is not None
    assert where.needles == needles


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    """Attributes that selectors of `properties.selectors` tell apart, and some that they do not."""
    rng = random.Random(19)

    def value() -> Any:
        kinds: list[Callable[[], Any]] = [
            lambda: rng.choice(NUMBERS), lambda: rng.choice(STRINGS), lambda: rng.random() < 0.5, lambda: None,
            lambda: rng.sample(STRINGS, 2), lambda: rng.randint(-3, 8),
        ]  # fmt: skip
        return rng.choice(kinds)()

    return [{name: value() for name in rng.sample(NAMES, rng.randint(0, 5))} for _ in range(400)]


@pytest.fixture(scope="module", params=["sqlite", "postgres", "archive"])
def place(request: pytest.FixtureRequest, events: list[dict[str, Any]], tmp_path_factory: Any) -> dict[str, str]:
    """The same events in each place that the source reads."""
    folder: Path = tmp_path_factory.mktemp("where")
    log = [(5, [pack("default/feed", 0, [Content(attributes=each) for each in events])])]
    if request.param == "archive":
        fill_archive(folder, log)
        return {"archive": str(folder)}
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{folder / 'log.db'}" if is_sqlite else request.getfixturevalue("postgres").url()
    fill(url, log)
    return {"store": url}


@given(selector=selectors)
@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_the_rows_read_are_those_that_the_evaluator_chooses(
    events: list[dict[str, Any]], place: dict[str, str], selector: Selector
) -> None:
    source = GossamerSource({**place, "where": str(selector), "columns": "seq"})
    reader = source.reader(source.schema())
    found = [seq for part in reader.partitions() for batch in reader.read(part) for seq in batch["seq"].to_pylist()]
    assert found == [seq for seq, each in enumerate(events) if selector.evaluate(each) is True]
