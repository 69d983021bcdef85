"""The state of a game: positions that may be skipped, goals that may not, and trades that happen whole or not at all.

Players move all the time (`key=`: the newest position counts), score (no key: every goal matters) and pay each other (a
transaction: both purses change, or neither). A spectator on a bad line ends with the right positions, has seen every
goal, and at no moment sees money appear or vanish.
"""

import asyncio
import random

import gossamer

PLAYERS = 8
MOVES = 5_000
GOLD = 100


async def play(client: gossamer.Client) -> tuple[dict[str, tuple[int, int]], int]:
    dice, places, goals = random.Random(11), dict[str, tuple[int, int]](), 0
    purses = [GOLD] * PLAYERS
    for _ in range(MOVES):
        player = dice.randrange(PLAYERS)
        x, y = dice.randrange(100), dice.randrange(100)
        places[f"player {player}"] = x, y
        await client.publish({"what": "move", "x": x, "y": y}, key=f"player {player}")
        if dice.random() < 0.02:
            goals += 1
            await client.publish({"what": "goal", "player": player})
        if dice.random() < 0.02:
            payer, payee = dice.sample(range(PLAYERS), 2)
            amount = dice.randrange(purses[payer] + 1)
            purses[payer] -= amount
            purses[payee] += amount
            async with client.transaction() as trade:
                for each in (payer, payee):
                    trade.publish({"what": "purse", "gold": purses[each]}, key=f"purse {each}")
    await client.publish({"what": "end"})
    return places, goals


async def main() -> None:
    async with gossamer.connect() as client:
        line = await client.subscribe("what IS NOT NULL", notices=True, buffer=32)
        playing = asyncio.create_task(play(client))
        places: dict[str, tuple[int, int]] = {}
        purses = {f"purse {player}": GOLD for player in range(PLAYERS)}
        goals = trades = 0
        async for said in line:
            if isinstance(said, gossamer.Commit):
                trades += 1
                assert sum(purses.values()) == GOLD * PLAYERS, "money was made or lost"
                continue
            event = said.attributes
            match event["what"]:
                case "move":
                    places[said.key] = event["x"], event["y"]
                    await asyncio.sleep(0.0002)  # the line is slow
                case "goal":
                    goals += 1
                case "purse":
                    purses[said.key] = event["gold"]
                case "end":
                    break
        expected_places, expected_goals = await playing
        stats = line.stats
        print(f"{MOVES} moves; the spectator saw {stats.delivered} events, and skipped {stats.obsoleted} obsolete ones")
        print(f"all {goals} goals, {trades} trades, and {sum(purses.values())} gold as ever")
        assert (places, goals) == (expected_places, expected_goals)
        assert (stats.lost, stats.obsoleted > 0) == (0, True)


asyncio.run(main())
