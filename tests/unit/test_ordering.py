"""The cost of order: small, but with every claim of the paper in it."""

import json

import pytest

from gossamer.cli.main import main
from gossamer.lab.experiments.registry import find
from gossamer.messages.errors import UsageError


def test_total_order_costs_more_than_causal_and_both_grow_with_the_group() -> None:
    result = find("ordering").run(members="3,7", messages=4, seeds=1, processes=1)
    assert [claim.claim for claim in result.claims if not claim.holds] == []
    by_size = {(row["protocol"], row["members"]): row for row in result.rows}
    for protocol in ("urgc", "urcgc", "consensus"):
        # The cost of a delivery does not grow with the group: that of a message grows linearly.
        assert by_size[protocol, 7]["copies_a_delivery"] < 2 * by_size[protocol, 3]["copies_a_delivery"]


def test_seeds_draw_when_messages_are_multicast() -> None:
    one, same, two = (
        find("ordering").run(members="3", messages=2, seeds=seeds, processes=1).rows for seeds in (1, 1, 2)
    )
    assert one == same
    assert [row["latency_ms_ci"] for row in one] == [0.0] * 3
    assert max(row["latency_ms_ci"] for row in two) > 0.0
    with pytest.raises(UsageError):
        find("ordering").run(members="3", seeds=0)


def test_bad_sizes_are_refused() -> None:
    for members in ("1", "x", "100", ""):
        with pytest.raises(UsageError):
            find("ordering").run(members=members)


def test_the_commands_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lab", "groups", "--runs", "3", "--json"])
    assert ended.value.code in (0, None)
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["violations"]) == (3, 0)
