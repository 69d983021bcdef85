"""Rounds to converge: the chain against enumeration and simulation, the recurrence against the paper's own forms."""

import random
from fractions import Fraction
from itertools import islice, pairwise, product
from math import sqrt

import pytest

from gossamer.lab.experiments import registry
from gossamer.lab.experiments.convergence import (
    MEMBERS_MAX,
    ROUNDS_MAX,
    chain_lacking,
    chain_rounds,
    lacking_by_recurrence,
    rounds_by_recurrence,
    uniform_rounds,
)
from gossamer.messages.errors import UsageError


def rows_of(**parameters: registry.Value) -> list[registry.Row]:
    return [*registry.find("convergence").run(**parameters).rows]


# Figure 4-2 -----------------------------------------------------------------------------------------------------------


def test_a_hundred_members_as_computed_before() -> None:
    rows = rows_of()
    assert rows[0] == {"reached": 1, "pull": 11, "push": 26, "pull_markov": 23}
    assert [row["reached"] for row in rows] == [*range(1, 101)]
    for row in rows[9:]:
        assert abs(row["pull"] - row["pull_markov"]) <= 1, row
    for row in rows[:-1]:
        assert max(row["pull"], row["pull_markov"]) < row["push"], row
    assert rows[-1] == {"reached": 100, "pull": 0, "push": 0, "pull_markov": 0}


def test_the_chain_is_not_moved_by_contacting_oneself_and_the_recurrence_is() -> None:
    assert chain_rounds(100, 1e-6, self_contact=True)[0] == chain_rounds(100, 1e-6)[0] == 23
    assert uniform_rounds(100, 1, 1e-6, "pull", self_contact=True) == 13


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.5])
def test_more_reached_never_takes_longer_and_more_loss_always_does(loss: float) -> None:
    rows, worse = rows_of(members=40, loss=loss), rows_of(members=40, loss=loss + 0.2)
    for column in ("pull", "push", "pull_markov"):
        assert all(a[column] >= b[column] for a, b in pairwise(rows))
        assert all(a[column] < b[column] for a, b in zip(rows[:-1], worse[:-1], strict=True))


def test_a_smaller_error_takes_longer() -> None:
    rounds = [chain_rounds(50, error)[4] for error in (1e-1, 1e-3, 1e-6, 1e-12, 1e-100, 1e-300)]
    assert rounds == sorted(set(rounds))


def test_two_members_need_one_round() -> None:
    assert rows_of(members=2)[0] == {"reached": 1, "pull": 1, "push": 1, "pull_markov": 1}


# The Markov chain -----------------------------------------------------------------------------------------------------


def enumerated(members: int, loss: Fraction, self_contact: bool) -> list[list[Fraction]]:
    """Transition probabilities by going through every choice of everybody who lacks the message."""
    matrix = []
    for having in range(1, members + 1):
        row = [Fraction(0)] * (members + 1)
        targets = [
            [target for target in range(members) if self_contact or target != member]
            for member in range(having, members)
        ]
        for contacted in product(*targets):
            chance = Fraction(1)
            for choices in targets:
                chance /= len(choices)
            useful = sum(target < having for target in contacted)
            for heard in product([True, False], repeat=useful):
                through = Fraction(1)
                for got in heard:
                    through *= (1 - loss) ** 2 if got else 1 - (1 - loss) ** 2
                row[having + sum(heard)] += chance * through
        matrix.append(row[1:])
    return matrix


@pytest.mark.parametrize("self_contact", [True, False])
@pytest.mark.parametrize("loss", [Fraction(0), Fraction(1, 4)])
@pytest.mark.parametrize("members", [3, 4, 5])
def test_the_chain_is_what_enumeration_gives(members: int, loss: Fraction, self_contact: bool) -> None:
    matrix = enumerated(members, loss, self_contact)
    assert all(sum(row) == 1 for row in matrix)
    chain = chain_lacking(members, float(loss), self_contact)
    # Forward, from each start, as the paper's r(i, n)(k) has it.
    states = [[Fraction(start == state) for state in range(members)] for start in range(members)]
    for lacking in islice(chain, 8):
        assert lacking == pytest.approx([float(1 - state[-1]) for state in states], rel=1e-9, abs=1e-15)
        states = [
            [sum((state[i] * matrix[i][j] for i in range(members)), Fraction(0)) for j in range(members)]
            for state in states
        ]


def simulated(members: int, reached: int, loss: float, trials: int, rng: random.Random) -> list[int]:
    """Rounds of pull until everybody has it, in each of many trials; message by message, knowing no formula."""
    taken = []
    for _ in range(trials):
        having, rounds = set(range(reached)), 0
        while len(having) < members:
            rounds += 1
            healed = set()
            for member in range(members):
                if member not in having:
                    target = rng.choice([other for other in range(members) if other != member])
                    request_arrives, reply_arrives = rng.random() >= loss, rng.random() >= loss
                    if target in having and request_arrives and reply_arrives:
                        healed.add(member)
            having |= healed
        taken.append(rounds)
    return taken


@pytest.mark.parametrize(("members", "reached", "loss"), [(12, 1, 0.0), (12, 6, 0.0), (12, 1, 0.2), (25, 3, 0.1)])
def test_simulation_agrees_with_the_chain(members: int, reached: int, loss: float) -> None:
    trials = 1_500
    taken = simulated(members, reached, loss, trials, random.Random(f"{members} {reached} {loss}"))
    spread = 0
    for rounds, lacking in enumerate(islice(chain_lacking(members, loss), 15)):
        expected = lacking[reached - 1]
        seen = sum(took > rounds for took in taken) / trials
        # Four standard deviations of a binomial share, and one trial's worth for the rare ones.
        assert abs(seen - expected) <= 4 * sqrt(expected * (1 - expected) / trials) + 1 / trials, rounds
        spread += 0.01 < expected < 0.99
    assert spread >= 3  # the agreement is not about zeros and ones


def test_the_recurrence_is_optimistic_in_the_end_where_few_were_reached() -> None:
    recurrence = lacking_by_recurrence([[1 / 99] * 2] * 2, [1, 99], [0.0, 1.0], "pull")
    for now, exact in islice(zip(recurrence, chain_lacking(100), strict=False), 10, 25):
        assert 1 - (1 - now[1]) ** 99 < exact[0]


# The recurrence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["pull", "push"])
def test_classes_are_a_matrix_in_short(mechanism: str) -> None:
    members, reached, loss = 7, 3, 0.1
    one_each = [[1 / (members - 1)] * members for _ in range(members)]
    lacking = [0.0] * reached + [1.0] * (members - reached)
    whole = lacking_by_recurrence(one_each, [1] * members, lacking, mechanism, loss)
    short = lacking_by_recurrence([[1 / 6] * 2] * 2, [reached, members - reached], [0.0, 1.0], mechanism, loss)
    for every, classes in islice(zip(whole, short, strict=False), 12):
        assert every == pytest.approx([0.0] * reached + [classes[1]] * (members - reached))


def test_uniform_pull_is_the_papers_quadratic_recurrence() -> None:
    n, n0 = 100, 7
    has = 0.0
    for now in islice(lacking_by_recurrence([[1 / n] * 2] * 2, [n0, n - n0], [0, 1], "pull"), 10):
        assert 1 - now[1] == pytest.approx(has)
        has = n0 / n + (2 * (n - n0) - 1) / n * has - (n - n0 - 1) / n * has**2


def test_a_contact_matrix_may_be_biased() -> None:
    # A ring: everybody contacts the next member only, so the message walks backward, one member a round and surely.
    members = 6
    ring = [[float(b == (a + 1) % members) for b in range(members)] for a in range(members)]
    lacking = [0.0] + [1.0] * (members - 1)
    assert rounds_by_recurrence(ring, [1] * members, lacking, "pull", 1e-6) == members - 1
    assert rounds_by_recurrence(ring, [1] * members, lacking, "push", 1e-6) == members - 1
    after = [*islice(lacking_by_recurrence(ring, [1] * members, lacking, "pull"), 3)]
    assert after[2] == [0, 1, 1, 1, 0, 0]
    after = [*islice(lacking_by_recurrence(ring, [1] * members, lacking, "push"), 3)]
    assert after[2] == [0, 0, 0, 1, 1, 1]


def test_a_pull_is_two_messages_and_a_push_three() -> None:
    for mechanism, messages in (("pull", 2), ("push", 3)):
        _, now = islice(lacking_by_recurrence([[1, 1]] * 2, [1, 1], [0, 1], mechanism, 0.5), 2)
        assert now[1] == 1 - 0.5**messages


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [{"members": m} for m in (1, 0, -5, MEMBERS_MAX + 1)]
    + [{"error": e} for e in (0.0, 1.0, -0.1, 2.0, float("nan"))]
    + [{"loss": p} for p in (-0.1, 1.0, 1.5, float("nan"))],
)
def test_a_parameter_out_of_range_is_named(parameters: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(parameters))}: "):
        rows_of(**parameters)


def test_what_would_never_end_is_refused() -> None:
    with pytest.raises(UsageError, match=f"more than {ROUNDS_MAX} rounds"):
        rows_of(members=3, loss=0.9999)
    with pytest.raises(UsageError, match=f"more than {ROUNDS_MAX} rounds"):
        chain_rounds(3, 1e-6, loss=0.9999)


def test_an_unknown_experiment_or_parameter_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no experiment 'nonsense'; there are: .*convergence"):
        registry.find("nonsense")
    with pytest.raises(UsageError, match="no parameter 'nonsense'; it has members, error, loss, self_contact"):
        rows_of(nonsense=1)
