"""Telemetry: a board of what is too hot *now*, kept right by a filter that says when something has left it.

Two hundred sensors report; the board subscribes to what is above 90 degrees. When a sensor cools down its new value
does not match, so the board would never hear of it, and go on showing an alarm. With `notices=True` it is told: `Left`.
"""

import asyncio
import random

import gossamer

SENSORS = 200
READINGS = 6_000


async def main() -> None:
    async with gossamer.connect() as client:
        board = await client.subscribe(gossamer.attr.celsius > 90, notices=True, buffer=64)
        weather, now = random.Random(3), dict[str, float]()

        async def report() -> None:
            for _ in range(READINGS):
                sensor = f"sensor-{weather.randrange(SENSORS)}"
                now[sensor] = round(weather.gauss(80, 8), 1)
                await client.publish({"celsius": now[sensor]}, key=sensor)
            for sensor in now:  # one more reading of each, so that the last word of all of them is known
                await client.publish({"celsius": now[sensor]}, key=sensor)
            await client.publish({"celsius": 100.0}, key="end")

        reporting = asyncio.create_task(report())
        alarms: dict[str | None, float] = {}
        most = 0
        async for said in board:
            if isinstance(said, gossamer.Left):
                alarms.pop(said.key, None)
            elif said.key == "end":
                break
            else:
                alarms[said.key] = said.attributes["celsius"]
            most = max(most, len(alarms))
        await reporting
        stats = board.stats
        print(f"{READINGS} readings, of which the board was shown {stats.delivered}; {stats.left} times an alarm ended")
        print(f"{most} alarms at most; now {len(alarms)}: {', '.join(sorted(map(str, alarms))[:3])}, …")
        assert alarms == {sensor: celsius for sensor, celsius in now.items() if celsius > 90}
        assert stats.lost == 0


asyncio.run(main())
