"""docs/experiments.md is renewed from a run: what was measured is replaced, what somebody wrote stays."""

from pathlib import Path

import pytest

from gossamer.lab.documented import renew, renewed
from gossamer.lab.experiments import registry
from gossamer.lab.experiments.registry import Claim, Result
from gossamer.lab.report import Taken
from gossamer.messages.errors import UsageError

PAGE = """# Experiments

| experiment | processor time | | experiment | processor time |
|---|---|---|---|---|
| convergence | 9 s | | quake | 8,765 s |

## convergence

| claim | the paper | ours | holds |
|---|---|---|---|
| old | old | old | yes |

Somebody's words: 1 | 2.

<!-- rows: members, rounds -->
| members | rounds |
|---|---|
| 1 | 1 |

Parameters: old.

## quake

| claim | the paper | ours | holds |
|---|---|---|---|
| kept | as | it | is |

## convergence, seen otherwise

Parameters: kept.
"""
RESULT = Result(
    "convergence",
    "004",
    {"members": 7, "processes": 2},
    [{"members": 7, "rounds": 3.5, "more": None}],
    [Claim("a | b", "so", r"seen \1", False), Claim("c", "so", "too", True)],
)
EXPECTED = (
    PAGE.replace(
        "convergence | 9 s | | quake | 8,765 s |", "convergence | 1,234 s | | scale | 8 s |\n| quake | 8,765 s | | | |"
    )
    .replace("| old | old | old | yes |", "| a \\| b | so | seen \\1 | **no** |\n| c | so | too | yes |")
    .replace("| 1 | 1 |", "| 7 | 3.5 |")
    .replace("Parameters: old.", "Parameters: members 7.")
)
TAKEN = {"scale": Taken(9.0, 8.0), "convergence": Taken(700.0, 1234.4)}


def _plain(text: str) -> str:
    """Whatever the rule under a table's head looks like."""
    return text.replace(" ", "").replace("---", "-")


def test_what_was_measured_is_replaced_and_nothing_else() -> None:
    once = renewed(PAGE, {"convergence": RESULT}, TAKEN)
    assert _plain(once) == _plain(EXPECTED)
    assert renewed(once, {"convergence": RESULT}, TAKEN) == once
    assert _plain(renewed(PAGE, {}, {})) == _plain(PAGE)


def test_a_column_that_there_is_not_is_said() -> None:
    with pytest.raises(UsageError, match="rows of convergence have no 'speed', but members, rounds, more"):
        renewed(PAGE.replace("rows: members", "rows: speed"), {"convergence": RESULT}, {})


def test_a_page_gets_its_pictures_and_tells_what_it_lacks(tmp_path: Path) -> None:
    page = tmp_path / "experiments.md"
    page.write_text(PAGE.replace("rows: members, rounds", "rows: reached, pull"))
    quick = registry.find("convergence").run(members=5)
    assert renew(page, [quick, Result("scale", "beyond", {}, [], [])], {}) == ["scale"]
    assert "Parameters: members 5, " in page.read_text()
    assert (tmp_path / "figures" / "convergence.svg").read_text().startswith("<?xml")
    assert [each.name for each in (tmp_path / "figures").iterdir()] == ["convergence.svg"]
    with pytest.raises(UsageError, match="cannot read"):
        renew(tmp_path / "absent.md", [], {})
