"""`gossamer demo`: the whole story in a minute, with real processes on loopback."""

import json as json_format
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gossamer.cli.demo_report import report_on
from gossamer.cli.demo_story import BROKERS, LOGGER, SHORT, Facts, Story, Timing

PEOPLE = {
    "publisher": "publishes quotes",
    "fast": "wants them all",
    "slow": "50 × too slow",
    "picky": "has a selector",
    "durable": "will be away",
}


def demo(
    json: Annotated[bool, typer.Option("--json", help="Only the table at the end, as one JSON object.")] = False,
    short: Annotated[bool, typer.Option("--short", help="Ten seconds instead of a minute.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Where to put the report of it.  [a new folder]", metavar="DIR")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="End without a report.")] = False,
) -> None:
    """Three brokers, a logger, a publisher, consumers fast and slow; a broker is killed, and nobody misses anything."""
    console = Console(highlight=False, quiet=json)
    began_at = time.monotonic()
    with Story(SHORT if short else Timing()) as story:
        if console.is_terminal and not json:
            rates = Rates()
            with Live(console=console, refresh_per_second=10, transient=True) as live:
                for _ in story.play():
                    live.update(picture(story, rates, time.monotonic() - began_at))
        else:
            scene = ""
            for _ in story.play():
                if story.scene != scene:
                    scene = story.scene
                    console.print(f"{time.monotonic() - began_at:5.1f} s  {scene}", soft_wrap=True)
        if not json:
            console.print(summary(story.facts))
        made = {}
        if story.played and not no_report:
            with console.status("making a report of all that …"):
                made = report_on(story, report)
    if json:
        print(json_format.dumps({**story.facts.as_dict(), "report": made.get("page")}))
    elif made:
        console.print(Text("\n  the report of it  ", "bold").append(made.get("page") or f"no: {made['missing']}", ""))
    if not story.facts.held:
        raise typer.Exit(1)


class Rates:
    """Events a second of each, by how much their counts have grown in the last second or so."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int]] = {}
        self._rates: dict[str, float] = {}

    def of(self, name: str, count: int) -> float:
        now = time.monotonic()
        at, before = self._before.setdefault(name, (now, count))
        if now - at > 0.5:
            self._rates[name] = max(0, count - before) / (now - at)
            self._before[name] = now, count
        return self._rates.get(name, 0.0)


def picture(story: Story, rates: Rates, at_s: float) -> RenderableType:
    nodes = Text("   ")
    for name in (LOGGER, *BROKERS):
        actor = story.actors.get(name)
        killed = actor is not None and actor.killed
        ready = actor is not None and bool(actor.said)
        nodes.append("✗ " if killed else "● " if ready else "○ ", "bold red" if killed else "green" if ready else "dim")
        nodes.append(f"{name}   ", "dim strike" if killed else "")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for title in ("", "", "with", "events/s", "events", "obsoleted", "lost", "age when read"):
        table.add_column(title, justify="left" if title in ("", "with") else "right", no_wrap=True, min_width=8)
    for name, who in PEOPLE.items():
        actor = story.actors.get(name)
        said = {} if actor is None else {**actor.said, "node": "away"} if actor.killed else actor.said
        table.add_row(Text(f"  {name}", "bold"), Text(who, "dim"), *row(name, said, rates))
    heading = Text(f"{at_s:5.1f} s  ", "dim").append(story.scene, "bold cyan")
    return Group(Text(), heading, Text(), nodes, Text(), table)


def row(name: str, said: dict[str, Any], rates: Rates) -> list[RenderableType]:
    count = said.get("events", said.get("delivered", 0))
    told: list[RenderableType] = [said.get("node") or "", f"{rates.of(name, count):,.0f}", f"{count:,}"]
    if "delivered" in said:
        lost = said["lost"]
        told += [f"{said['obsoleted']:,}", Text(f"{lost:,}", "bold red" if lost else "green")]
        told.append(f"{said['age_ms']:,.0f} ms" if count else "")
    return told


def summary(facts: Facts) -> RenderableType:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("", no_wrap=True, min_width=9)
    for title in ("matched", "delivered", "obsoleted", "lost", "final state equal", "age"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, account in facts.accounts.items():
        equal, lost, age_ms = account["final_state_equal"], account["lost"], facts.ages_ms.get(name)
        table.add_row(
            Text(f"  {name}", "bold"),
            f"{account['delivered'] + account['obsoleted'] + lost:,}",
            f"{account['delivered']:,}",
            f"{account['obsoleted']:,}",
            Text(f"{lost:,}", "bold red" if lost else "green"),
            Text("yes" if equal else "no", "green" if equal else "bold red"),
            "" if age_ms is None else f"{age_ms:,.0f} ms",
        )
    told = Table(box=None, show_header=False, padding=(0, 1))
    for what, found in (
        ("published", f"{facts.published:,} events, all of them logged"),
        ("its rate", f"{facts.rate_fast:,.0f} events/s, logged, as fast as it goes, while all keep up"),
        ("", f"{facts.rate_slow:,.0f} events/s ({facts.ratio:.0%}) while one of them is slow"),
        ("longest wait", f"{facts.longest_publish_ms:,.0f} ms in a publish()"),
        ("away", f"{facts.missed:,} events missed, and had {facts.caught_up_s:.1f} s after coming back"),
        ("failover", f"{facts.failover_s:.2f} s without an event when {BROKERS[0]} was killed"),
    ):
        told.add_row(Text(f"  {what}", "bold"), found)
    promises = Table(box=None, show_header=False, padding=(0, 1))
    for promise, held in facts.promises.items():
        told_of = f"{promise}: {facts.measured[promise]}" if held else f"MISSED: {promise}: {facts.measured[promise]}"
        promises.add_row(Text("  ✓" if held else "  ✗", "bold green" if held else "bold red"), told_of)
    return Group(Text(), told, Text(), table, Text(), promises)
