"""LIKE without backtracking.

A pattern is cut at its `%` into pieces of fixed length. The first piece must stand at the start and the last at the
end; each piece between is looked for from where the one before it ended, and the leftmost place is always the right
one to take: whatever would match further right also matches from there. So no choice is ever undone, and the cost is
at most pattern length x value length (`'%a%a%a%b'` against a megabyte is one pass).
"""

import re
from collections.abc import Callable

# A piece is a tuple of characters, `None` standing for `_`, any one character.
Piece = tuple[str | None, ...]


class Pattern:
    """A LIKE pattern that has at least one wildcard; `pieces` are what stands between its `%` signs."""

    __slots__ = ("pieces", "matches")

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces
        self.matches: Callable[[str], bool] = _matcher(pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.pieces == other.pieces

    def __hash__(self) -> int:
        return hash(self.pieces)


def split_pattern(pattern: str, escape: str | None = None) -> tuple[Piece, ...]:
    """The pieces of a pattern. Raises ValueError when it ends in the escape character.

    An escape that is `%` or `_` escapes only these two, as in ActiveMQ, and elsewhere is the wildcard.
    """
    if escape is None:
        parts = pattern.split("%")
        pieces = [tuple(None if c == "_" else c for c in part) if "_" in part else tuple(part) for part in parts]
    else:
        pieces = _split_escaped(pattern, escape)
    # Two `%` in a row say no more than one.
    return tuple(p for i, p in enumerate(pieces) if p or i in (0, len(pieces) - 1))


def _split_escaped(pattern: str, escape: str) -> list[Piece]:
    pieces: list[Piece] = []
    piece: list[str | None] = []
    characters = iter(enumerate(pattern, start=1))
    for following, character in characters:
        if character == escape and (character not in "%_" or pattern[following : following + 1] in ("%", "_")):
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("the pattern ends in its escape character")
            piece.append(escaped[1])
        elif character == "%":
            pieces.append(tuple(piece))
            piece = []
        else:
            piece.append(None if character == "_" else character)
    pieces.append(tuple(piece))
    return pieces


def literal(piece: Piece) -> str | None:
    """The text of a piece that has no `_`."""
    return "".join(c for c in piece if c is not None) if None not in piece else None


def join_pieces(pieces: tuple[Piece, ...]) -> tuple[str, bool]:
    r"""The pattern text with `\` as its escape character, and whether it needs it."""
    text = "%".join("".join("_" if c is None else f"\\{c}" if c in "%_\\" else c for c in p) for p in pieces)
    return text, "\\" in text


def _matcher(pieces: tuple[Piece, ...]) -> Callable[[str], bool]:
    if len(pieces) == 1:  # no `%`: the whole value, character by character
        whole = _expression(pieces[0])
        return lambda value: whole.fullmatch(value) is not None
    first, *middle, last = pieces
    if not first and not last and len(middle) == 1 and (needle := literal(middle[0])) is not None:
        return lambda value: needle in value
    head, tail = _at_place(first), _at_place(last)
    head_length, tail_length = len(first), len(last)
    finders = [_finder(piece) for piece in middle]

    def matches(value: str) -> bool:
        limit = len(value) - tail_length
        if limit < head_length or not head(value, 0) or not tail(value, limit):
            return False
        position = head_length
        for find in finders:
            position = find(value, position, limit)
            if position < 0:
                return False
        return True

    return matches


def _at_place(piece: Piece) -> Callable[[str, int], object]:
    """Whether a piece stands at a place of a value."""
    text = literal(piece)
    if text is None:
        return _expression(piece).match
    return lambda value, place: value.startswith(text, place)


def _expression(piece: Piece) -> re.Pattern[str]:
    """A regular expression without repetition, so it has nothing to backtrack over."""
    return re.compile("".join("." if c is None else re.escape(c) for c in piece), re.DOTALL)


def _finder(piece: Piece) -> Callable[[str, int, int], int]:
    """Where the leftmost occurrence of a piece within value[start:limit] ends, or -1."""
    text = literal(piece)
    if text is None:
        search = _expression(piece).search

        def find_expression(value: str, start: int, limit: int) -> int:
            found = search(value, start, limit)
            return found.end() if found else -1

        return find_expression
    needle, length = text, len(text)

    def find_text(value: str, start: int, limit: int) -> int:
        found = value.find(needle, start, limit)
        return found + length if found >= 0 else -1

    return find_text
