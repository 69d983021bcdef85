"""Traffic with a known pattern of obsolescence: what the papers' experiments, and our tests and benchmarks, publish.

What purging can do is decided by one thing about the traffic: how far apart related messages are. D is the distance
from a message to the latest one that it makes obsolete, 0 if there is none, and f(x) = P(D = x) (000 §5.1.1). Of eight
messages, of which 2, 5 and 6 set `x` and 4 and 8 set `y`,

    message   1   2   3   4   5   6   7   8
    key       –   x   –   y   x   x   –   y
    D         0   0   0   0   3   1   0   4

a buffer of three can make use of two relations, and one of four of all three. Four patterns, each an endless (`game`: a
long) iterator, determined by the generator it is handed:

    overwrites   two parameters: r, the share of messages that overwrite, and d, on how many keys (000 §5.3.1)
    chains       three: r, d concurrent chains, of l messages each (003 §4.2)
    quotes       stock quotes: as many keys as symbols, some of them far more popular than others
    game         a session of the game of 000 §6, or what of it can be told from its published statistics

Every message is as a client would say it. One with a key carries a rank that grows, so that it may be published with
`scope="group"` just as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from random import Random

from gossamer.messages.errors import UsageError
from gossamer.messages.event import Content, Value
from gossamer.protocol.purging_model import Distribution


def never_obsolete(contents: Sequence[Content]) -> list[bool]:
    """Of each message of one publisher, whether none of those after it has its key: what everybody must get (P5)."""
    last = {content.key: at for at, content in enumerate(contents)}
    return [content.key is None or last[content.key] == at for at, content in enumerate(contents)]


# Overwrites, 000 §5.3.1 -----------------------------------------------------------------------------------------------


def overwrites(rng: Random, r: float, d: int, body_bytes: int = 0) -> Iterator[Content]:
    """Independent messages, and with probability r one that overwrites one of d keys, each as likely as the others.

    A given key's turn comes with probability r/d a message, whatever came before: that is the geometric law of `f`. The
    first message of a key has nothing to overwrite, for which f has no term; it is d messages in all.
    """
    _check_share(r)
    _check_positive("d", d)
    body = bytes(body_bytes)
    for number in count():
        if rng.random() < r:
            yield Content(f"key-{rng.randrange(d)}", number, attributes={"number": number}, body=body)
        else:
            yield Content(attributes={"number": number}, body=body)


def f(x: int, r: float, d: int) -> float:
    """f_{r,d}(x): the probability that the latest message which a message overwrites is x before it, 0 for none."""
    if x < 0:
        return 0.0
    return 1 - r if x == 0 else r * (1 - r / d) ** (x - 1) * (r / d)


def overwriting(r: float, d: int) -> Distribution:
    """f_{r,d} (000 §5.3.1), for the model (`protocol/purging_model.py`)."""
    return lambda x: f(x, r, d)


def R_N(n: int, r: float, d: int) -> float:
    """Σ f(x) for x from 1 to n, which is a geometric sum: the share of messages with something to purge among n."""
    return r * (1 - (1 - r / d) ** n)


# Chains, 003 §4.2 -----------------------------------------------------------------------------------------------------


def chains(rng: Random, r: float, d: int, l: int, body_bytes: int = 0) -> Iterator[Content]:  # noqa: E741 (the paper's)
    """A share r of the messages belongs to one of d concurrent chains; a chain is over after l, and a new one begins.

    Bids in an auction: d items at a time, l bids for each. The attribute `lasting` says of each message whether nothing
    will ever obsolete it: of the independent ones, and of the last of each chain. It is 1 - r + r/l of all.
    """
    _check_share(r)
    _check_positive("d", d)
    _check_positive("l", l)
    body = bytes(body_bytes)
    names = count()
    running = [[next(names), 0] for _ in range(d)]
    for number in count():
        attributes: dict[str, Value] = {"number": number, "lasting": True}
        key: str | None = None
        if rng.random() < r:
            chain = running[rng.randrange(d)]
            chain[1] += 1
            key = f"chain-{chain[0]}"
            attributes["place"] = chain[1]
            attributes["lasting"] = chain[1] == l
            if chain[1] == l:
                chain[:] = next(names), 0
        yield Content(key, None if key is None else number, attributes=attributes, body=body)


# Stock quotes ---------------------------------------------------------------------------------------------------------

VOLATILITY = 0.0005
"""Standard deviation of a price's step, as a share of the price: a few per cent in a day of some thousand trades."""


def quotes(rng: Random, symbols: int, s: float = 1.0, body_bytes: int = 0) -> Iterator[Content]:
    """Trades of stocks: the n-th most popular symbol has a share proportional to 1/n^s, its price walks at random."""
    _check_positive("symbols", symbols)
    if not s >= 0:
        raise UsageError(f"s: the exponent of Zipf's law, not negative, not {s}")
    names = [symbol(number) for number in range(symbols)]
    upto = list(accumulate((number + 1) ** -s for number in range(symbols)))
    prices = [rng.lognormvariate(4.0, 0.8) for _ in names]  # half of them below 55
    body = bytes(body_bytes)
    for number in count():
        (which,) = rng.choices(range(symbols), cum_weights=upto)
        prices[which] = max(0.01, prices[which] * (1 + rng.gauss(0, VOLATILITY)))
        attributes: dict[str, Value] = {
            "symbol": names[which],
            "price": round(prices[which], 2),
            "volume": 100 * (1 + int(rng.expovariate(0.4))),  # round lots, most of them small
        }
        yield Content(names[which], number, attributes=attributes, body=body)


def symbol(number: int) -> str:
    """AAA, AAB, …, ZZZ, BAAA, …: one name a number."""
    letters = ""
    while number or len(letters) < 3:
        number, letter = divmod(number, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


# The game, 000 §6 -----------------------------------------------------------------------------------------------------

GAME_ROUNDS = 11_696
GAME_S = 360.0
"""A session: about six minutes."""
GAME_LASTING = 36
"""Items that are there from beginning to end: players, weapons, doors. The rest of the 42.33 comes and goes."""
SHOTS_A_ROUND = 0.385
SHOT_ROUNDS = (42.33 - GAME_LASTING) / SHOTS_A_ROUND
"""How long one flies on average, so that the active items are 42.33 on average (Little's law): half a second."""
SHOT_MODIFIED = 0.06
LASTING_MODIFIED = 1.03
"""Of the 1.39 items modified in a round; shots are the rest."""
POPULARITY = 0.7
"""Each lasting item is modified that much as often as the one before it, so that some never are (figure 6.2(a))."""
AGAIN = 0.5
"""The chance that what was modified in a round is in the next: who turns goes on turning, and pairs are close together
(figure 6.2(b))."""
UPDATE_BYTES, RELIABLE_BYTES = 52, 24


@dataclass(slots=True)
class _Item:
    """Something a player can interact with. `begins` is its chance to be modified if it was not in the last round."""

    name: str
    begins: float
    place: list[float]
    modified: bool = False


def game(rng: Random, rounds: int = GAME_ROUNDS) -> Iterator[Content]:
    """A session of a Quake-like game of five players: item updates by key, creations and destructions without.

    Published are the averages: 1.39 items modified of 42.33 active in a round, 41.88 % of messages never obsolete, and
    of the distances that they are often within 10. What we add is why: shots come and go, and each costs two reliable
    messages and, if it was updated at all, one update that nothing follows. With p shots a round, of which a share q is
    updated, that makes (2p + qp) / (1.39 + 2p) = 0.4188. One number is left to choose; p = 0.385 makes 2.16 messages a
    round, 70 a second in a session of six minutes, which is what fills 24 places in 342 ms (000 §6.4).
    """
    numbers, shots_fired = count(), count(1)
    lasting = _lasting_items(rng)
    shots: list[_Item] = []
    for turn in range(rounds):
        if rng.random() < SHOTS_A_ROUND:
            shots.append(_Item(f"shot-{next(shots_fired)}", _begins(SHOT_MODIFIED), _somewhere(rng)))
            yield _reliable("created", shots[-1], turn)
        for item in (*lasting, *shots):
            item.modified = rng.random() < (AGAIN if item.modified else item.begins)
            if item.modified:
                item.place = [round(at + rng.gauss(0, 8), 1) for at in item.place]
                yield Content(
                    item.name, next(numbers), attributes=_said("update", item, turn), body=bytes(UPDATE_BYTES)
                )
        flying: list[_Item] = []
        for item in shots:
            if rng.random() < 1 / SHOT_ROUNDS:
                yield _reliable("destroyed", item, turn)
            else:
                flying.append(item)
        shots = flying


def round_start_s(content: Content) -> float:
    """When the round of a game's message begins: all messages of a round come at once."""
    turn = content.attributes["round"]
    assert isinstance(turn, int)
    return turn * GAME_S / GAME_ROUNDS


def _lasting_items(rng: Random) -> list[_Item]:
    shares = [POPULARITY**number for number in range(GAME_LASTING)]
    scale = LASTING_MODIFIED / sum(shares)
    return [
        _Item(f"player-{number + 1}" if number < 5 else f"item-{number + 1}", _begins(share * scale), _somewhere(rng))
        for number, share in enumerate(shares)
    ]


def _begins(modified: float) -> float:
    """What makes an item modified in that share of the rounds: share = share · again + (1 - share) · begins."""
    return modified * (1 - AGAIN) / (1 - modified)


def _somewhere(rng: Random) -> list[float]:
    return [round(rng.uniform(-2_000, 2_000), 1) for _ in range(3)]


def _reliable(kind: str, item: _Item, turn: int) -> Content:
    return Content(attributes=_said(kind, item, turn), body=bytes(RELIABLE_BYTES))


def _said(kind: str, item: _Item, turn: int) -> dict[str, Value]:
    x, y, z = item.place
    return {"kind": kind, "item": item.name, "round": turn, "x": x, "y": y, "z": z}


def _check_share(r: float) -> None:
    if not 0 <= r <= 1:
        raise UsageError(f"r: a share from 0 to 1, not {r}")


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{name}: at least 1, not {value}")
