"""Cutting a selector's text into tokens: one regular expression, one pass.

A broker parses millions of selectors and reports an error in few of them, so tokens do not carry their positions:
`position_of` works one out when there is an error to point at.
"""

import math
import re
from typing import Any

from gossamer.matching.errors import SelectorError
from gossamer.matching.values import INT_MAX, Number

RESERVED = ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")
CONTEXTUAL = ("HAS", "PREFIX")  # keywords only where an attribute name makes no sense
SYMBOLS = ("=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "(", ")", ",")
MISSPELT = {"!=": "<>", "==": "="}

# A token's kind is one of these, or a reserved word in capitals, or the symbol itself.
WORD, QUOTED, NUMBER, STRING, END = "word", "quoted name", "number", "string", "end"

IDENTIFIER = r"(?:[^\W\d]|\$)[\w$]*+(?:\.[\w$]++)*+"
# Whatever starts like a number is taken whole, letters too, and judged by `number`.
_TOKEN = re.compile(
    rf"""\s*+(
      {IDENTIFIER}
    | 0[xX][\w$.]*+ (?:(?<=[pP])[+-][\w$.]*+)? | \.?\d[\w$.]*+ (?:(?<=[eE])[+-][\w$.]*+)?
    | '[^']*+(?:''[^']*+)*+' | "[^"]*+(?:""[^"]*+)*+"
    | <> | <= | >= | != | == | .
    )""",
    re.VERBOSE | re.DOTALL,
)
_FIXED = {text: text for text in (*RESERVED, *SYMBOLS)}
_STARTS = {"'": STRING, '"': QUOTED, **dict.fromkeys("0123456789.", NUMBER)}

WORDS_MAX = 4_096
_words: dict[str, str] = {}  # the kinds of words seen: selectors share their few attribute names

_INT = re.compile(r"(0[xX][\da-fA-F_]*[\da-fA-F]|0[bB][01_]*[01]|\d(?:[\d_]*\d)?)[lL]?", re.ASCII)
_HEX_FLOAT = re.compile(r"(0[xX][\da-fA-F_]*\.?[\da-fA-F_]*[pP][+-]?\d+)[fFdD]?", re.ASCII)
_FLOAT = re.compile(r"((?:\d(?:[\d_]*\d)?)?\.?(?:\d(?:[\d_]*\d)?)?(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)


def tokenize(text: str) -> tuple[list[str], list[Any]]:
    """The kinds and the values of a selector's tokens, an END after the last."""
    kinds: list[str] = []
    values: list[Any] = []
    # Without what is blank at the end, since a match that fails there is tried again from each of its characters.
    for spelling in _TOKEN.findall(text.rstrip()):
        value: str | Number = spelling
        kind = _FIXED.get(spelling) or _STARTS.get(spelling[0])
        if kind is None:
            kind = _words.get(spelling) or _word_kind(spelling, text, len(kinds))
        elif kind is STRING:
            if len(spelling) == 1:
                raise SelectorError("this string is never closed", text, position_of(text, len(kinds)))
            value = spelling[1:-1].replace("''", "'")
        elif kind is NUMBER:
            try:
                value = number(spelling)
            except ValueError as problem:
                raise SelectorError(str(problem), text, position_of(text, len(kinds))) from None
        elif kind is QUOTED:
            if len(spelling) < 3:
                problem_text = (
                    "an attribute name cannot be empty" if len(spelling) == 2 else "this name is never closed"
                )
                raise SelectorError(problem_text, text, position_of(text, len(kinds)))
            value = spelling[1:-1].replace('""', '"')
        kinds.append(kind)
        values.append(value)
    kinds.append(END)
    values.append("")
    return kinds, values


def position_of(text: str, index: int) -> int:
    """Where in the text the token with this index starts."""
    for i, found in enumerate(_TOKEN.finditer(text)):
        if i == index:
            return found.start(1)
    return len(text)


def _word_kind(spelling: str, text: str, index: int) -> str:
    first = spelling[0]
    if first == "_" or first == "$" or (first.isalnum() and not first.isdecimal()):
        # Only ASCII is folded: a dotless i makes no keyword.
        kind = _FIXED.get(spelling.upper(), WORD) if spelling.isascii() else WORD
        if len(_words) < WORDS_MAX and len(spelling) < 64:
            _words[spelling] = kind
        return kind
    if spelling in MISSPELT:
        message = f"unknown operator {spelling}; did you mean {MISSPELT[spelling]}?"
    else:
        message = f"unexpected character {spelling!r}"
    raise SelectorError(message, text, position_of(text, index))


def number(spelling: str) -> Number:
    """A numeric literal in one of Java's forms. An int may be 2**63, which only a minus sign makes legal."""
    if spelling.isascii():  # the common forms first
        if spelling.isdigit() and spelling[0] != "0" and len(spelling) < 19:
            return int(spelling)
        if len(spelling) < 300 and spelling != "." and spelling.replace(".", "", 1).isdigit() and "." in spelling:
            return float(spelling)
    shown = spelling[:40]
    if exact := _INT.fullmatch(spelling):
        return _exact(exact[1].replace("_", ""), shown)
    if hexadecimal := _HEX_FLOAT.fullmatch(spelling):
        return _hex_float(hexadecimal[1].replace("_", ""), shown)
    approximate = _FLOAT.fullmatch(spelling)
    if not approximate or not any(c.isdigit() for c in re.split("[eE]", approximate[1])[0]):
        raise ValueError(f"malformed number {shown!r}")
    value = float(approximate[1].replace("_", ""))
    if not math.isfinite(value):
        raise ValueError(f"{shown} is beyond the largest float")
    return value


def _exact(digits: str, shown: str) -> int:
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    if octal and ("8" in digits or "9" in digits):
        raise ValueError(f"{shown} starts with 0 and so is octal, which has no digit 8 or 9")
    # Nothing of 64 bits has more digits than that in binary; int() takes its time over very many, or refuses.
    value = int(digits, 8 if octal else 0) if len(digits) <= 70 else 2**64
    if digits[0] == "0" and INT_MAX < value < 2**64:
        return value - 2**64  # as in Java, hexadecimal, octal and binary digits are the 64 bits of a signed integer
    if value > INT_MAX + 1:
        raise ValueError(f"{shown} does not fit in 64 bits")
    return value


def _hex_float(digits: str, shown: str) -> float:
    try:
        return float.fromhex(digits)
    except OverflowError:
        raise ValueError(f"{shown} is beyond the largest float") from None
    except ValueError:
        raise ValueError(f"malformed number {shown!r}") from None
