"""Jobs `subscriptions` and `interests`, against tables that were worked out by hand and a log with known answers."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

pytest.importorskip("pyspark", reason="analytics is NOT tested: pip install 'gossamer[analytics]'")

from properties.selectors import examples, selectors

from gossamer.analytics import asked, local
from gossamer.analytics.inputs import Inputs, load
from gossamer.analytics.jobs import interests, subscriptions
from gossamer.analytics.schema import EVENTS, TELEMETRY
from gossamer.lab.made_log import MadeLog
from gossamer.logger.filling import fill
from gossamer.matching import Selector
from gossamer.matching.routing import Routes
from gossamer.matching.tree import names_of

S = 10**9


def event(number: int, group: str = "default", **attributes: Any) -> tuple[Any, ...]:
    text = json.dumps(attributes) if attributes else None
    return (number, group, f"{group}/p", number, S, S, None, None, None, text, None, 10, False, "store", "p")


def told(at_s: int, action: str, client: str, selector: str, group: str = "default") -> tuple[Any, ...]:
    attributes = {"action": action, "client": client, "subscription": 1, "group": group, "selector": selector}
    key = f"subscription/b1/{client}/1"
    return (at_s, "subscription", "b1", key, at_s * S, at_s * S, action == "removed", json.dumps(attributes), "store")


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


@pytest.fixture(scope="module")
def by_hand(spark: Any) -> Inputs:
    """100 events: symbols A to D in turn, prices 0 to 99; and one that cannot be read."""
    events = [event(n, symbol="ABCD"[n % 4], price=n) for n in range(100)] + [event(100, "other")]
    telemetry = [
        told(10, "added", "a", "symbol = 'A'"),
        told(11, "added", "b", "symbol IN ('A', 'B')"),
        told(12, "added", "c", "symbol = 'A'"),
        told(13, "added", "d", "TRUE"),
        told(14, "added", "e", "price < 10 AND symbol = 'C'"),
        told(15, "added", "f", "symbol = 'Z'"),
        told(16, "added", "g", "price ??"),
        told(17, "added", "h", "x = 1", "nobody publishes here"),
        told(18, "added", "i", "type = 'sample'", "$sys"),
        told(20, "removed", "a", "symbol = 'A'"),
        told(21, "changed", "b", "symbol = 'B'"),
        told(22, "changed", "before", "symbol = 'D'"),
    ]
    return Inputs(spark, local.table(spark, events, EVENTS), local.table(spark, telemetry, TELEMETRY))


@given(selectors)
@examples(100)
def test_every_selector_has_terms_on_its_attributes(selector: Selector) -> None:
    terms = asked._terms(str(selector))
    asked_for = names_of(selector.tree)
    assert terms is not None
    assert {name for name, _, _ in terms} <= asked_for
    assert bool(terms) is bool(asked_for)


def test_terms_of_expressions() -> None:
    assert asked._terms("x NOT IN ('a', y + 1) AND x / y IN (1, 2) AND (x = 1 OR z = 2) IS NULL") == [
        ("x", "NOT IN", "'a'"), ("x", "NOT IN", "y + 1"),
        ("x", "IN (expression)", None), ("y", "IN (expression)", None),
        ("x", "IS NULL (expression)", None), ("z", "IS NULL (expression)", None),
    ]  # fmt: skip


def test_what_was_asked_for_is_told_by_hand(by_hand: Inputs) -> None:
    found = subscriptions.run(by_hand)
    assert list(found) == ["subscriptions", "asked", "values", "churn", "selectivity", "covering"]
    assert rows(found["asked"]) == [
        ("symbol", "=", 5, 6), ("price", "<", 1, 1), ("symbol", "IN", 1, 1), ("x", "=", 1, 1),
    ]  # fmt: skip
    assert ("symbol", "=", "'A'", 1, 2) in rows(found["values"])
    assert ("symbol", "IN", "'B'", 1, 1) in rows(found["values"])

    verdicts = {
        row["selector"]: (row["matched"], row["share"], row["verdict"]) for row in found["subscriptions"].collect()
    }
    assert verdicts == {
        "symbol = 'A'": (25, 0.25, "some"), "symbol IN ('A', 'B')": (50, 0.5, "some"), "TRUE": (100, 1.0, "all"),
        "price < 10 AND symbol = 'C'": (2, 0.02, "some"), "symbol = 'Z'": (0, 0.0, "never"),
        "price ??": (None, None, "unreadable"), "x = 1": (None, None, "untested"), "symbol = 'B'": (25, 0.25, "some"),
        "symbol = 'D'": (25, 0.25, "some"),
    }  # fmt: skip
    bands = {row["band"]: row["subscriptions"] for row in found["selectivity"].collect()}
    assert bands == {
        "nothing": 1, "≤ 0.1 %": 0, "≤ 1 %": 0, "≤ 10 %": 1, "≤ 50 %": 5, "< 100 %": 0, "everything": 1,
    }  # fmt: skip
    covered = {(row["selector"], row["covered_by"]) for row in found["covering"].collect()}
    assert {("symbol = 'A'", "symbol IN ('A', 'B')"), ("symbol = 'A'", "TRUE")} <= covered
    assert not any(narrow == "TRUE" for narrow, _ in covered)

    churn = rows(found["churn"])
    assert [sum(row[column] for row in churn) for column in (1, 2, 3)] == [8, 2, 1]
    active = {row[0]: row[4] for row in churn}
    assert active[max(active)] == 8, "eight were added, one of them removed, and one was there before"
    assert min(active) <= datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC).replace(tzinfo=None)
    titles = [advice.title for advice in subscriptions.advise(found)]
    assert titles == ["A subscription matches nothing", "A subscription matches everything"]


def test_who_listens_to_a_group_gets_all_that_it_wants_and_the_traffic_is_counted_by_hand(by_hand: Inputs) -> None:
    found = interests.run(by_hand)
    groups = found["interests"].orderBy("place").collect()
    routes = Routes({row["name"]: row["selector"] for row in groups}, "default")
    published = defaultdict(list)
    events = [json.loads(row["attributes"]) for row in by_hand.events.where("`group` = 'default'").collect()]
    for attributes in events:
        published[routes.group_of(attributes)].append(attributes)
    received = wanted = subscribers = 0
    for row in found["listening"].where("of = 'default'").collect():
        selector = interests.Selector(row["selector"])
        heard = [each for name in row["listens"] for each in published[name]]
        assert list(map(selector.matches, heard)).count(True) == sum(map(selector.matches, events))
        assert row["received"] == pytest.approx(len(heard) / 100)
        received += len(heard) * row["subscriptions"]
        wanted += sum(map(selector.matches, events)) * row["subscriptions"]
        subscribers += row["subscriptions"]
    plans = {row["plan"]: row["deliveries"] for row in found["traffic"].where("of = 'default'").collect()}
    assert plans == {"one group": 100 * subscribers, "by interest": received, "ideal": wanted}
    assert received < 0.8 * 100 * subscribers


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Inputs, dict[str, Any]]:
    url = f"sqlite:///{tmp_path_factory.mktemp('made') / 'log.db'}"
    log = MadeLog(6_000)
    fill(url, log)
    return load(spark, [url]), log.truth()


@pytest.mark.slow
def test_the_verdicts_on_selectors_are_the_truth(made: tuple[Inputs, dict[str, Any]]) -> None:
    inputs, truth = made
    found = {row["selector"]: row for row in subscriptions.run(inputs)["subscriptions"].collect()}
    asked_for: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in truth["subscriptions"]:
        asked_for[each["selector"]].append(each)
    assert set(found) == set(asked_for)
    quotes = truth["groups"]["default"]["events"]
    assert quotes < asked.EVENTS_MAX, "so that the sample is all of it"
    for selector, several in asked_for.items():
        row = found[selector]
        assert (row["subscriptions"], row["sampled"], row["matched"]) == (len(several), quotes, several[0]["matches"])
        assert row["verdict"] == {"all": "all", "never": "never"}.get(several[0]["kind"], "some")


@pytest.mark.slow
def test_the_planted_interests_are_found(made: tuple[Inputs, dict[str, Any]]) -> None:
    inputs, truth = made
    found = interests.run(inputs)
    cluster_of = {each["selector"]: each["cluster"] for each in truth["subscriptions"] if each["kind"] == "cluster"}
    members: dict[str, set[int]] = defaultdict(set)
    for row in found["listening"].collect():
        if row["selector"] in cluster_of and row["cluster"] is not None:
            members[row["cluster"]].add(cluster_of[row["selector"]])
    assert all(len(clusters) == 1 for clusters in members.values()), "no group has interests of two planted clusters"
    assert set().union(*members.values()) == {0, 1, 2, 3}, "and none of them is left out"
    share = {row["plan"]: row["share"] for row in found["traffic"].collect()}
    assert share["ideal"] <= share["by interest"] < 0.5 < share["one group"] == 1.0
    (advice,) = interests.advise(found)
    assert advice.setting.count("[groups.") == found["interests"].count()
