"""How many rounds of gossip until everybody has a message (rpbcast §4.2, figure 4-2).

Every member contacts one member a round. In a *pull* (gossiper-pull) a member that lacks the message asks the one it
contacts; in a *push* (gossiper-push) a member that has it offers it. Two ways to the number of rounds after which
somebody still lacks it with a probability below `error`:

* the **recurrence** (§4.2.2) carries one probability a member from round to round. It takes members for independent,
  which they are not: if the first rounds go badly, they go badly for all. Where few were reached it is optimistic.
* the **Markov chain** (§4.2.1) carries the distribution of *how many* have it, and is exact, for uniform pull.

**Loss.** Each message on the way is lost independently with probability `loss`. A pull takes two messages, request and
retransmission, and succeeds with (1 - loss)²; a push takes three, offer, request and retransmission (§4), and succeeds
with (1 - loss)³. Nothing is retried within a round.

**Self-contact.** The paper's chain draws from all n members (its i/n), so that a contact may be wasted on oneself; the
protocol draws from the n - 1 others. `self_contact` chooses, for recurrence and chain alike; without is the default.

**Simulation.** Nobody can see one run in a million fail by trying. What can be seen is the mean number of rounds, which
the chain gives as well; with `seeds` both are compared for some numbers of members reached.

Probabilities of *lacking* are carried and not of having: they are what is compared with a tiny error, and sums and
products of small positive numbers lose nothing to rounding.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from math import exp, expm1, lgamma, log, log1p, prod
from operator import add, mul
from random import Random
from statistics import fmean
from typing import Literal

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, Value, experiment, silent
from gossamer.lab.experiments.sweep import interval, summary
from gossamer.messages.errors import UsageError

Mechanism = Literal["pull", "push"]
MESSAGES: dict[Mechanism, int] = {"pull": 2, "push": 3}
"""How many messages a repair takes."""

MEMBERS_MAX = 2_000
ROUNDS_MAX = 10_000


@experiment(
    "004 Fig 4-2",
    Panel(
        "rounds of gossip until everybody has it",
        "reached",
        ("pull", "push", "pull_markov"),
        x_label="members reached by the multicast",
        y_label="rounds",
    ),
    full={"seeds": 300},
)
def convergence(
    *,
    members: int = 100,
    error: float = 1e-6,
    loss: float = 0.0,
    self_contact: bool = False,
    seeds: int = 0,
    progress: Progress = silent,
) -> tuple[Sequence[Row], list[Claim]]:
    """Pull converges faster than push, however many members the initial multicast reached (rpbcast §4.2)."""
    if not 2 <= members <= MEMBERS_MAX:
        raise UsageError(f"members: from 2 to {MEMBERS_MAX}, not {members}")
    if not 0 < error < 1:
        raise UsageError(f"error: a probability between 0 and 1, both excluded, not {error}")
    if not 0 <= loss < 1:
        raise UsageError(f"loss: a probability from 0 to below 1, not {loss}")
    if seeds < 0:
        raise UsageError(f"seeds: how many runs are simulated, not {seeds}")
    pull, push = (
        [uniform_rounds(members, reached, error, how, loss, self_contact) for reached in range(1, members + 1)]
        for how in MESSAGES
    )
    chain = chain_rounds(members, error, loss, self_contact)
    rows: list[dict[str, Value]] = [
        {"reached": reached, "pull": pull[reached - 1], "push": push[reached - 1], "pull_markov": chain[reached - 1]}
        for reached in range(1, members + 1)
    ]
    ahead = sum(exact < rounds for exact, rounds in zip(chain, push, strict=True))
    apart = [reached for reached in range(1, members + 1) if abs(chain[reached - 1] - pull[reached - 1]) > 1]
    claims = [
        Claim(
            "pull needs fewer rounds than push",
            "gossiper-pull always converges faster (§4.2, Fig 4-2)",
            f"pull, computed exactly, needs fewer rounds than push in {ahead} of {members - 1} cases",
            ahead == members - 1,
        ),
        Claim(
            "recurrence and chain agree",
            "both are given for uniform pull (§4.2)",
            "they "
            + (f"agree within a round from {apart[-1] + 1} reached" if apart else "agree within a round everywhere")
            + "; where fewer were reached the recurrence is optimistic, since it takes members for independent",
            not apart or apart[-1] <= members // 10,
        ),
    ]
    if seeds:
        claims.append(_simulate(rows, members, loss, self_contact, seeds, progress))
    return rows, claims


# Simulation -----------------------------------------------------------------------------------------------------------


def _simulate(
    rows: list[dict[str, Value]], members: int, loss: float, self_contact: bool, seeds: int, progress: Progress
) -> Claim:
    """Fill in the mean rounds until everybody has it, by the chain and by trying, for some of the rows."""
    for row in rows:
        row |= {"pull_mean_markov": None, "pull_mean_simulated": None, "pull_mean_simulated_ci": None}
    some = [reached for reached in (1, 2, 5, 10, 20, 50, 90) if reached < members]
    means = chain_means(members, loss, self_contact)
    close = 0
    for done, reached in enumerate(some):
        progress(done, len(some))
        rounds = [
            float(simulate_pull(members, reached, loss, self_contact, Random(f"{seed}/{reached}")))
            for seed in range(1, seeds + 1)
        ]
        mean = means[reached - 1]
        rows[reached - 1] |= {"pull_mean_markov": round(mean, 3), **summary("pull_mean_simulated", rounds)}
        close += abs(fmean(rounds) - mean) <= max(2 * interval(rounds), 0.1)
    return Claim(
        "simulation agrees with the chain",
        "the chain is exact for uniform pull (§4.2.1)",
        f"{seeds} runs' mean rounds are within two confidence intervals of the chain's in {close} of {len(some)} cases",
        close == len(some),
    )


def simulate_pull(members: int, reached: int, loss: float, self_contact: bool, rng: Random) -> int:
    """One run: rounds until everybody has it."""
    has = [place < reached for place in range(members)]
    rounds = 0
    while not all(has):
        rounds += 1
        before = list(has)
        for place, got in enumerate(before):
            if not got:
                drawn = rng.randrange(members if self_contact else members - 1)
                asked = drawn if self_contact or drawn < place else drawn + 1
                has[place] = before[asked] and rng.random() < (1 - loss) ** MESSAGES["pull"]
    return rounds


def chain_means(members: int, loss: float = 0.0, self_contact: bool = False) -> list[float]:
    """The mean number of rounds for each number reached: the sum over all rounds of the chance not to be done."""
    sums = [0.0] * members
    for number, lacking in enumerate(chain_lacking(members, loss, self_contact)):
        sums = list(map(add, sums, lacking))
        if max(lacking) < 1e-9:
            return sums
        _check_patience(number)
    raise AssertionError("the chain has no end")


# The recurrence, §4.2.2 -----------------------------------------------------------------------------------------------


def lacking_by_recurrence(
    contact: Sequence[Sequence[float]],
    sizes: Sequence[int],
    lacking: Sequence[float],
    mechanism: Mechanism,
    loss: float = 0.0,
) -> Iterator[list[float]]:
    """After round 0, 1, 2, …: the probability that a member of each class lacks the message.

    Members that are alike form a class; with classes of one member each, `contact` is the paper's C.
    `contact[a][b]` is the probability that a member of class a contacts one given *other* member of class b, and what
    is left to 1 is that it contacts itself.
    """
    classes = range(len(sizes))
    success = (1 - loss) ** MESSAGES[mechanism]
    others = [[sizes[b] - (a == b) for b in classes] for a in classes]
    itself = [max(0.0, 1 - sum(map(mul, contact[a], others[a]))) for a in classes]
    now = [float(chance) for chance in lacking]
    while True:
        yield now
        if mechanism == "pull":  # in vain: a message was lost, or the one contacted lacks it as well
            vain = [
                1 - success + success * (itself[a] + sum(contact[a][b] * others[a][b] * now[b] for b in classes))
                for a in classes
            ]
        else:  # in vain: nobody who has it contacted me and got through
            vain = [
                prod((1 - success * (1 - now[b]) * contact[b][a]) ** others[a][b] for b in classes) for a in classes
            ]
        now = list(map(mul, now, vain))


def rounds_by_recurrence(
    contact: Sequence[Sequence[float]],
    sizes: Sequence[int],
    lacking: Sequence[float],
    mechanism: Mechanism,
    error: float,
    loss: float = 0.0,
) -> int:
    """Rounds until the probability that anybody lacks the message is below `error`."""
    for rounds, now in enumerate(lacking_by_recurrence(contact, sizes, lacking, mechanism, loss)):
        if _anybody(now, sizes) < error:
            return rounds
        _check_patience(rounds)
    raise AssertionError("the recurrence has no end")


def uniform_rounds(
    members: int, reached: int, error: float, mechanism: Mechanism, loss: float = 0.0, self_contact: bool = False
) -> int:
    """The recurrence when everybody contacts everybody equally: those reached are one class, the rest the other."""
    chance = 1 / (members if self_contact else members - 1)
    sizes = [reached, members - reached]
    return rounds_by_recurrence([[chance, chance]] * 2, sizes, [0.0, 1.0], mechanism, error, loss)


def _anybody(lacking: Sequence[float], sizes: Sequence[int]) -> float:
    """1 - ∏(1 - lacking), which is small, without the cancellation."""
    if any(chance >= 1 and size for chance, size in zip(lacking, sizes, strict=True)):
        return 1.0
    return -expm1(sum(size * log1p(-chance) for chance, size in zip(lacking, sizes, strict=True) if size))


# The Markov chain, §4.2.1 ---------------------------------------------------------------------------------------------


def chain_lacking(members: int, loss: float = 0.0, self_contact: bool = False) -> Iterator[list[float]]:
    """After round 0, 1, 2, …: the probability that somebody lacks the message, for each number reached from 1 to n.

    Going backward, u(k) = P · u(k-1), gives all the starts at once, where powers of P would give what nobody asks.
    """
    transitions = [_transition(members, having, loss, self_contact) for having in range(1, members + 1)]
    now = [1.0] * (members - 1) + [0.0]
    while True:
        yield now
        now = [sum(map(mul, row, now[at:])) for at, row in enumerate(transitions)]


def chain_rounds(members: int, error: float, loss: float = 0.0, self_contact: bool = False) -> list[int]:
    """Rounds until the probability that anybody lacks the message is below `error`, for each number reached."""
    rounds: list[int] = []  # from the last state, which is there at once, to the first, which takes longest
    chain = chain_lacking(members, loss, self_contact)
    for number in count():
        lacking = next(chain)
        while len(rounds) < members and lacking[members - 1 - len(rounds)] < error:
            rounds.append(number)
        if len(rounds) == members:
            break
        _check_patience(number)
    return rounds[::-1]


def _transition(members: int, having: int, loss: float, self_contact: bool) -> list[float]:
    """p(i, j) for j from i to n: each of the n - i that lack the message gets it with the same chance.

    The paper prints the case of probability 0 as i < j; it is i > j, as its own text says.
    """
    lacking = members - having
    chance = (1 - loss) ** MESSAGES["pull"] * having / (members if self_contact else members - 1)
    if not lacking or chance >= 1:
        return [0.0] * lacking + [1.0]
    return [
        exp(
            lgamma(lacking + 1)
            - lgamma(got + 1)
            - lgamma(lacking - got + 1)
            + got * log(chance)
            + (lacking - got) * log1p(-chance)
        )
        for got in range(lacking + 1)
    ]


def _check_patience(rounds: int) -> None:
    if rounds >= ROUNDS_MAX:
        raise UsageError(f"it takes more than {ROUNDS_MAX} rounds: choose a smaller loss or a larger error")
