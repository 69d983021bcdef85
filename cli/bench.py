"""`gossamer bench`: how fast it is here, beside what else one could have taken."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

PEERS = "nats,redis,mqtt,zenoh,zmq"
WAYS = "attributes,fanout,second_broker,logging,slow_consumer"


def bench(
    peers: Annotated[str, typer.Option("--peers", help="Which to compare with, those that are installed.")] = PEERS,
    ways: Annotated[str, typer.Option("--ways", help="What else to measure of Gossamer.")] = WAYS,
    seconds: Annotated[float, typer.Option("--seconds", min=0.01, help="How long each measurement takes.")] = 0.7,
    profile: Annotated[bool, typer.Option("--profile", help="Also tell where an event's time goes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on one line.")] = False,
) -> None:
    """Measure one publisher → broker → one subscriber, events of 100 bytes and 4 attributes, content matching on."""
    from gossamer.bench import pubsub, stages

    found = pubsub.run(_names(peers), _names(ways), seconds, lambda line: print(line, file=sys.stderr, flush=True))
    if profile:
        found["gossamer"]["stages_us"] = stages.measure(found["gossamer"]["cpu_us"])
    if as_json:
        print(json.dumps(found))
        return
    console = Console()
    console.print(_systems(found))
    own = found["gossamer"]
    if told := [way for way in _names(ways) if way in own]:
        console.print(_ways(own, told))
    if profile:
        console.print(_stages(own["stages_us"]))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _table(*columns: str) -> Table:
    table = Table(columns[0])
    for title in columns[1:]:
        table.add_column(title, justify="right")
    return table


def _systems(found: dict[str, Any]) -> Table:
    table = _table("1 → 1", "msgs/s", "MB/s", "p50 µs", "p99 µs", "lost", "CPU µs", "rate of it", "p50 of it")
    ratios = found["gossamer"]["ratios"]
    for name, each in found.items():
        ratio = ratios.get(name)
        table.add_row(
            name,
            *_figures(each),
            f"{sum(each['cpu_us'].values()):.1f}",
            "" if ratio is None else f"{ratio['throughput']:.2f} ×",
            "" if ratio is None else f"{ratio['p50']:.2f} ×",
        )
    return table


def _ways(own: dict[str, Any], ways: list[str]) -> Table:
    table = _table("gossamer", "msgs/s", "MB/s", "p50 µs", "p99 µs", "lost", "rate lost", "p50 more")
    for way in ways:
        each = own[way]
        costs = ["", ""] if way == "fanout" else [f"{each['throughput_cost']:.0%}", f"{each['p50_cost']:.0%}"]
        name = f"1 → {each['subscribers']}" if way == "fanout" else way.replace("_", " ")
        table.add_row(name, *_figures(each), *costs)
    return table


def _figures(each: dict[str, Any]) -> list[str]:
    latencies = ["" if each[name] is None else f"{each[name]:,}" for name in ("p50_us", "p99_us")]
    return [f"{each['throughput']:,}", f"{each['mb_per_s']:.1f}", *latencies, str(each["lost"])]


def _stages(stages: dict[str, float]) -> Table:
    table = _table("where an event's time goes", "µs")
    for name, cost in stages.items():
        table.add_row(name, f"{cost:.2f}")
    return table
