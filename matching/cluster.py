"""Clusters: the nodes of the index.

A cluster holds the conjunctions that share the predicates on the way to it. While there are few, they are simply
tested one by one. When it gets crowded, one more predicate of each is indexed: it becomes the *access predicate*
under which the rest of the conjunction is filed.

    equality, membership    a dictionary from value to cluster        (one look-up)
    prefix                  a dictionary from prefix to cluster       (one look-up for each length of prefix)
    item of a list          a dictionary from item to cluster         (one look-up for each item)
    range                   sorted boundaries, see `intervals`        (a bisection, then a slice)
    not null                a cluster
    none of these           stays in the cluster, and is tested

Of several predicates that could give access, the one an event is least likely to satisfy is taken: so often the rest
would be tested. How likely it is, is counted as events come; before any has, the subscriptions are taken as a sample
of the events. A range comes after the dictionaries, since nothing can be filed below it.

When a cluster has tested many residuals, the choice is looked at again (`review`): the workload may have drifted.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from gossamer.matching.compiled import Get, compile_terms
from gossamer.matching.places import Group, Place, Ranges, Span, Verdicts
from gossamer.matching.predicates import AMONG, EQUAL, HAS, PREFIX, RANGE, TAG, Term, Terms, settled
from gossamer.matching.values import INFINITY, Attributes

CROWD = 16  # so many residuals are tested about as fast as an index looks them up, in half the memory
SPREAD_MAX = 16  # a membership of more values is no access predicate below the root: it would be filed at each
PATIENCE = 1_024  # residuals a cluster tests before its access predicate is looked at for the first time
BETTER = 4  # how much less likely another predicate must be to move a conjunction there: noise is no drift

Move = tuple[Hashable, Place, list[Place]]  # a key, the place it had and the places it has now


class Branch:
    """Access by one attribute."""

    __slots__ = ("size", "clusters", "prefixes", "lengths", "items", "ranges", "present")

    def __init__(self) -> None:
        self.size = 0  # how often a key is filed in here
        self.clusters: dict[Hashable, Cluster] = {}
        self.prefixes: dict[Hashable, Cluster] = {}
        self.lengths: dict[int, int] = {}  # the lengths of the prefixes, and how many have each
        self.items: dict[Hashable, Cluster] = {}
        self.ranges: Ranges | None = None
        self.present: Cluster | None = None

    def table(self, tag: str) -> "dict[Hashable, Cluster]":
        return self.clusters if tag is EQUAL else self.prefixes if tag is PREFIX else self.items

    def cluster(self, owner: "Cluster", access: Term) -> "Cluster":
        """The cluster below an access predicate, made if there is none."""
        if access[0] is HAS:
            if self.present is None:
                self.present = Cluster(owner, access)
            return self.present
        table = self.table(access[0])
        child = table.get(access[2])
        if child is None:
            child = table[access[2]] = Cluster(owner, access)
            if access[0] is PREFIX:
                length = len(access[2])
                self.lengths[length] = self.lengths.get(length, 0) + 1
        return child

    def forget(self, access: Term) -> None:
        if access[0] is HAS:
            self.present = None
            return
        del self.table(access[0])[access[2]]
        if access[0] is PREFIX:
            length = len(access[2])
            self.lengths[length] -= 1
            if not self.lengths[length]:
                del self.lengths[length]


class Cluster:
    __slots__ = (
        "parent",
        "access",
        "size",
        "visits",
        "visits_before",
        "parent_before",
        "effort",
        "patience",
        "groups",
        "branches",
    )

    def __init__(self, parent: "Cluster | None" = None, access: Term | None = None) -> None:
        self.parent = parent
        self.access = access
        self.size = 0  # how often a key is filed here and below
        self.visits = 0  # events that came by: out of the parent's, they tell how likely the access predicate is
        self.visits_before = 0
        self.parent_before = parent.visits if parent is not None else 0
        self.effort = 0  # residuals tested since the last review
        self.patience = PATIENCE
        self.groups: dict[Terms, Group] = {}
        # None until the cluster is crowded for the first time. The root is so from the start.
        self.branches: dict[str, Branch] | None = {} if parent is None else None

    # Filing

    def file(self, terms: Terms, key: Hashable, places: list[Place], moves: list[Move]) -> None:
        """File a conjunction, adding to `places` where it went and to `moves` what had to make way."""
        group = self.groups.get(terms)
        if group is None:
            access = self.choose(terms) if self.branches is not None else None
            if access is not None:
                self.file_under(access, terms, key, places, moves)
                return
            group = self.groups[terms] = Group(self, terms, key)
        elif key in group.keys:  # by way of another alternative of the same selector
            return
        else:
            group.add(key)
        places.append(group)
        self.grow()
        if len(self.groups) > CROWD and self.branches is None:
            self.disperse(moves)

    def file_under(self, access: Term, terms: Terms, key: Hashable, places: list[Place], moves: list[Move]) -> None:
        rest = tuple([term for term in terms if term is not access])
        name = access[1]
        if access[0] is AMONG:
            rest = settled(rest)  # under one list's values, never under the combinations of several
            for value in access[2]:
                self.branch(name).cluster(self, (EQUAL, name, value)).file(rest, key, places, moves)
        elif access[0] is RANGE:
            branch = self.branch(name)
            if branch.ranges is None:
                branch.ranges = Ranges()
            places.append(branch.ranges.add(self, access, rest, key))
            branch.size += 1
            self.grow()
        else:
            self.branch(name).cluster(self, access).file(rest, key, places, moves)

    def branch(self, name: str) -> Branch:
        assert self.branches is not None
        branch = self.branches.get(name)
        if branch is None:
            branch = self.branches[name] = Branch()
        return branch

    def disperse(self, moves: list[Move]) -> None:
        """Index one more predicate of everything that is tested here."""
        self.branches = {}
        for group in list(self.groups.values()):
            access = self.choose(group.terms)
            if access is not None:
                self.refile(group, self, access, group.terms, moves)

    def refile(self, group: Group, target: "Cluster", access: Term, terms: Terms, moves: list[Move]) -> None:
        """Take a group out of here and file its keys under an access predicate of the target."""
        for key in tuple(group.keys):
            places: list[Place] = []
            moves.append((key, group, places))  # first: filing may move the key on, and moves are made in order
            target.file_under(access, terms, key, places, moves)
        for key in tuple(group.keys):
            group.remove(key)

    def grow(self) -> None:
        cluster = self
        cluster.size += 1
        while cluster.parent is not None:
            assert cluster.access is not None
            parent = cluster.parent
            assert parent.branches is not None
            parent.branches[cluster.access[1]].size += 1
            parent.size += 1
            cluster = parent

    def shrink(self) -> None:
        """One key less here and on the way up; what is empty goes."""
        cluster = self
        cluster.size -= 1
        while cluster.parent is not None:
            assert cluster.access is not None
            parent = cluster.parent
            assert parent.branches is not None
            branch = parent.branches[cluster.access[1]]
            branch.size -= 1
            if not cluster.size:
                branch.forget(cluster.access)
                if not branch.size:
                    del parent.branches[cluster.access[1]]
            parent.size -= 1
            cluster = parent

    def remove_span(self, span: Span) -> None:
        assert self.branches is not None
        branch = self.branches[span.name]
        assert branch.ranges is not None
        branch.ranges.remove(span)
        branch.size -= 1
        if not branch.size:
            del self.branches[span.name]
        self.shrink()

    # Choosing

    def choose(self, terms: Terms) -> Term | None:
        """The access predicate of a conjunction: the least likely in a dictionary, else a range, else HAS."""
        best: Term | None = None
        rank = 4
        for term in terms:
            tag = term[0]
            if tag is EQUAL or tag is PREFIX or tag is TAG or (tag is AMONG and self.may_spread(term)):
                if best is not None and rank == 0 and self.chance(term) >= self.chance(best):
                    continue
                best, rank = term, 0
            elif tag is RANGE:
                two_ended = term[2] != -INFINITY and term[3] != INFINITY
                if rank > (1 if two_ended else 2):
                    best, rank = term, 1 if two_ended else 2
            elif tag is HAS and rank > 3:
                best, rank = term, 3
        return best

    def may_spread(self, term: Term) -> bool:
        return self.parent is None or len(term[2]) <= SPREAD_MAX

    def chance(self, term: Term) -> float:
        """How likely an event that comes here satisfies a predicate."""
        assert self.branches is not None
        branch = self.branches.get(term[1])
        if term[0] is AMONG:
            return min(1.0, sum(self.chance((EQUAL, term[1], value)) for value in term[2]))
        if branch is None:
            return 0.5
        child = branch.table(term[0]).get(term[2])
        if child is None:
            return 1 / (branch.size + 1)
        sampled = (child.size + 1) / (branch.size + 1)
        if term[0] is PREFIX:
            sampled *= len(branch.lengths)  # an event may satisfy one of each length, not one of all
        return (child.visits - child.visits_before + sampled) / (self.visits - child.parent_before + 1)

    def review(self, moves: list[Move]) -> None:
        """Move the conjunctions tested here to where they would be tested less, if there is such a place."""
        self.effort = 0
        self.patience *= 2  # a review that changes nothing should cost less and less
        parent, access = self.parent, self.access
        if parent is None or access is None or access[0] is HAS:
            return
        likely = parent.chance(access)
        for group in list(self.groups.values()):
            better = parent.choose(group.terms)
            if better is None or better[0] not in (EQUAL, PREFIX, TAG) or parent.chance(better) * BETTER > likely:
                continue
            child = parent.branch(better[1]).cluster(parent, better)
            child.patience = max(child.patience, self.patience)  # what moves to and fro does so less and less
            self.refile(group, parent, better, (access, *group.terms), moves)
        # Half of the past is forgotten, so that what comes now counts for more.
        self.visits_before += (self.visits - self.visits_before) // 2
        self.parent_before += (parent.visits - self.parent_before) // 2

    # Matching

    def collect(
        self, attributes: Attributes, get: Get, out: list[Any], verdicts: Verdicts, tired: "list[Cluster]"
    ) -> None:
        """List the keys here and below that match."""
        self.visits += 1
        groups = self.groups
        if groups:
            for group in groups.values():
                terms = group.terms
                if terms:
                    test = group.test
                    if test is None:
                        test = group.test = compile_terms(terms)
                    if test(get, terms):
                        out += group.keys
                else:
                    out += group.keys
            self.effort += len(groups)
            if self.effort > self.patience:
                tired.append(self)
        branches = self.branches
        if not branches:
            return
        # Of the event's attributes and the indexed ones, go through the fewer.
        if len(branches) <= len(attributes):
            named: Iterable[tuple[str, Branch]] = branches.items()
        else:
            named = [(name, branches[name]) for name in attributes if name in branches]
        for name, branch in named:
            value = get(name)
            if value is None:
                continue
            kind = value.__class__
            if kind is str:
                child = branch.clusters.get(value)
                if child is not None:
                    child.collect(attributes, get, out, verdicts, tired)
                for length in branch.lengths:
                    child = branch.prefixes.get(value[:length])
                    if child is not None and length <= len(value):
                        child.collect(attributes, get, out, verdicts, tired)
            elif kind is float or kind is int:
                child = branch.clusters.get(value)
                if child is not None:
                    child.collect(attributes, get, out, verdicts, tired)
                ranges = branch.ranges
                if ranges is not None and value == value:  # not a number is in no range
                    if ranges.exact is not None:
                        ranges.exact.holding(value, out)
                    if ranges.residuals:
                        ranges.collect_tested(value, get, out, verdicts)
            elif kind is bool:
                child = branch.clusters.get((value,))
                if child is not None:
                    child.collect(attributes, get, out, verdicts, tired)
            elif kind is list and branch.items:
                for item in dict.fromkeys(value):  # an item that comes twice matches once
                    child = branch.items.get(item)
                    if child is not None:
                        child.collect(attributes, get, out, verdicts, tired)
            if branch.present is not None:
                branch.present.collect(attributes, get, out, verdicts, tired)
