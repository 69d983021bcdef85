"""Groups by interest, from the file that a broker loads to the events that come."""

import json
import subprocess
from pathlib import Path
from urllib.request import urlopen

import gossamer
from clients import run
from gossamer.sdk.routed import routed
from processes import GOSSAMER, Processes, until

GROUPS = """
[groups.metals]
selector = "symbol IN ('AU', 'AG')"
backpressure = false

[groups.big]
selector = "size > 100"
"""


def test_events_go_to_the_group_of_their_interest_and_nobody_misses_any(mesh: Processes, tmp_path: Path) -> None:
    path = tmp_path / "groups.toml"
    path.write_text(GROUPS)
    broker = mesh.broker("b1", groups=str(path)).ready()

    async def main() -> None:
        async with routed(broker.url) as client, gossamer.connect(broker.url, group="metals") as plain:
            assert client.routes.groups_of("symbol = 'AU'") == ["metals"]
            everything = await client.subscribe("")
            large = await client.subscribe("size > 200 AND symbol = 'CU'")
            metals = await plain.subscribe("")
            assert [len(heard.subscriptions) for heard in (everything, large)] == [3, 1]
            sent = [{"symbol": symbol, "size": size} for symbol in ("AU", "CU") for size in (5, 500)]
            ids = [await client.publish(each) for each in sent]
            assert [id.stream.partition("/")[0] for id in ids] == ["metals", "metals", "default", "big"]
            found = [(await anext(everything)).attributes for _ in sent]
            assert sorted(map(str, found)) == sorted(map(str, sent))
            assert (await anext(large)).attributes == {"symbol": "CU", "size": 500}
            assert [(await anext(metals)).attributes["size"] for _ in range(2)] == [5, 500]
            await everything.close()

    run(main)


def test_brokers_that_were_told_different_groups_are_trouble(mesh: Processes, tmp_path: Path) -> None:
    for name, text in (("one", GROUPS), ("other", GROUPS.replace("100", "200"))):
        (tmp_path / name).write_text(text)
    brisk = {"telemetry-interval-s": "0.1", "http": "127.0.0.1:0"}
    first = mesh.broker("b1", groups=str(tmp_path / "one"), **brisk).ready()
    mesh.broker("b2", first.address, groups=str(tmp_path / "other"), **brisk).ready()

    def picture() -> dict:
        with urlopen(f"{first.http}/mesh") as answer:
            return json.load(answer)

    until(lambda: "different groups" in str(picture()["trouble"]), "the difference to be told")
    assert all(member["interests"] == ["metals", "big"] for member in picture()["members"])


def test_a_bad_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "groups.toml"
    path.write_text("[groups.a]\n\nselector = 'price >'\n")
    done = subprocess.run(
        [*GOSSAMER, "broker", "--groups", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{path}, line 3: " in done.stderr
