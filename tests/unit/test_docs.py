"""The documents say what the code does, as far as that can be checked."""

import re
from pathlib import Path

from gossamer.logger.schema import metadata
from gossamer.protocol.membership import TRANSITIONS
from gossamer.protocol.node import Node

ROOT = Path(__file__).resolve().parents[2]


def headings(page: str) -> str:
    return "\n".join(line for line in page.splitlines() if line.startswith("#"))


def test_every_message_handler_has_a_heading() -> None:
    told = headings((ROOT / "docs/rpbcast.md").read_text())
    handlers = [name for name in vars(Node) if name.startswith("on_")]
    assert len(handlers) > 20
    assert [name for name in handlers if name not in told] == []


def test_the_life_of_a_member_is_the_table_in_the_code() -> None:
    page = (ROOT / "docs/rpbcast.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \|$", page, re.M)
    drawn = {(before, event): after for before, event, after in rows if before != "from"}
    assert drawn == TRANSITIONS


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)} -> {target}"
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_decision_is_listed() -> None:
    pages = {path.name for path in (ROOT / "docs/decisions").glob("*.md")} - {"README.md"}
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/decisions/README.md").read_text()))
    assert pages == listed


def test_every_column_of_a_store_is_told() -> None:
    page = (ROOT / "docs/store.md").read_text()
    for table in metadata.tables.values():
        told = page[page.index(f"\n`{table.name}`") :]
        told = told[: told.index("\n`", 2) if "\n`" in told[2:] else None]
        assert [column.name for column in table.columns if f"`{column.name}`" not in told] == [], table.name
