"""The selector language, case by case: every operator against every kind of value, null and a missing attribute.

Each row is an expression and its result for each value of x in turn: T true, F false, ? unknown.
"""

import pytest

from gossamer.matching import Selector

MISSING = object()
VALUES = [MISSING, None, True, False, 1, 1.0, 5, 7.5, "a", "abc", "1", [], ["a", "b"]]

# -- null  bool   numbers  strings lists
BY_KIND = """
x = 1                      ?? FF TTFF FFF FF
x = 1.0                    ?? FF TTFF FFF FF
1 = x                      ?? FF TTFF FFF FF
x <> 1                     ?? FF FFTT FFF FF
x < 5                      ?? FF TTFF FFF FF
5 > x                      ?? FF TTFF FFF FF
x <= 5                     ?? FF TTTF FFF FF
x > 1                      ?? FF FFTT FFF FF
x >= 1                     ?? FF TTTT FFF FF
x >= 7.5                   ?? FF FFFT FFF FF
x = 'a'                    ?? FF FFFF TFF FF
x <> 'a'                   ?? FF FFFF FTT FF
x < 'b'                    ?? FF FFFF FFF FF
x > ''                     ?? FF FFFF FFF FF
x <= 'abc'                 ?? FF FFFF FFF FF
x >= '1'                   ?? FF FFFF FFF FF
x = TRUE                   ?? TF FFFF FFF FF
x = FALSE                  ?? FT FFFF FFF FF
x <> TRUE                  ?? FT FFFF FFF FF
x <> FALSE                 ?? TF FFFF FFF FF
x < TRUE                   ?? FF FFFF FFF FF
x >= FALSE                 ?? FF FFFF FFF FF
x                          ?? TF FFFF FFF FF
NOT x                      ?? FT TTTT TTT TT
NOT (x = 1)                ?? TT FFTT TTT TT
NOT x = 1                  ?? TT FFTT TTT TT
NOT (x <> 1)               ?? TT TTFF TTT TT
NOT (x < 5)                ?? TT FFTT TTT TT
NOT (x >= 5)               ?? TT TTFF TTT TT
NOT (x = 'a')              ?? TT TTTT FTT TT
NOT (x <> 'a')             ?? TT TTTT TFF TT
NOT (x < 'b')              ?? TT TTTT TTT TT
NOT NOT (x = 1)            ?? FF TTFF FFF FF
x BETWEEN 1 AND 5          ?? FF TTTF FFF FF
x BETWEEN 5 AND 1          ?? FF FFFF FFF FF
x NOT BETWEEN 1 AND 5      ?? TT FFFT TTT TT
NOT (x BETWEEN 1 AND 5)    ?? TT FFFT TTT TT
x BETWEEN 'a' AND 'b'      ?? FF FFFF FFF FF
x NOT BETWEEN 'a' AND 'b'  ?? TT TTTT TTT TT
3 BETWEEN x AND 5          ?? FF TTFF FFF FF
3 NOT BETWEEN x AND 5      ?? TT FFTT TTT TT
6 BETWEEN x AND 5          FF FF FFFF FFF FF
x + 1 BETWEEN 2 AND 6      ?? ?? TTTF ??? ??
x - 5 NOT BETWEEN 0 AND 1  ?? ?? TTFT ??? ??
x IN ('a', 'b')            ?? FF FFFF TFF FF
x NOT IN ('a', 'b')        ?? TT TTTT FTT TT
x IN (1, 'abc', TRUE)      ?? TF TTFF FTF FF
x IN (-1, 7.5, FALSE)      ?? FT FFFT FFF FF
x + 1 IN (2, 8.5)          ?? ?? TTFT ??? ??
x + 1 NOT IN (2)           ?? ?? FFTT ??? ??
x IN (x, 'a')              ?? TT TTTT TTT FF
x IN (missing)             ?? ?? ???? ??? ??
x IN (1, missing)          ?? ?? TT?? ??? ??
x NOT IN (1, missing)      ?? ?? FF?? ??? ??
x IN (1, x + 0)            ?? ?? TTTT ??? ??
x IN ('a', 4 + 1)          ?? FF FFTF TFF FF
1 IN (x, 5)                ?? FF TTFF FFF FF
5 IN (x, 5)                TT TT TTTT TTT TT
'abc' IN (x, missing)      ?? ?? ???? ?T? ??
TRUE IN (x, 'TRUE')        ?? TF FFFF FFF FF
1 NOT IN ('a', TRUE)       TT TT TTTT TTT TT
x LIKE 'a%'                ?? FF FFFF TTF FF
x + 1 LIKE '%'             ?? ?? FFFF ??? ??
x + 1 NOT PREFIX ''        ?? ?? TTTT ??? ??
'ab' LIKE 'a_'             TT TT TTTT TTT TT
'ab' NOT PREFIX 'a'        FF FF FFFF FFF FF
5 LIKE '5'                 FF FF FFFF FFF FF
x NOT LIKE 'a%'            ?? TT TTTT FFT TT
x LIKE '_'                 ?? FF FFFF TFT FF
x LIKE 'a'                 ?? FF FFFF TFF FF
x LIKE '%'                 ?? FF FFFF TTT FF
x LIKE '%b%'               ?? FF FFFF FTF FF
x NOT LIKE '%b%'           ?? TT TTTT TFT TT
x PREFIX 'ab'              ?? FF FFFF FTF FF
x NOT PREFIX 'ab'          ?? TT TTTT TFT TT
x IS NULL                  TT FF FFFF FFF FF
x IS NOT NULL              FF TT TTTT TTT TT
NOT (x IS NULL)            FF TT TTTT TTT TT
HAS x                      FF TT TTTT TTT TT
NOT HAS x                  TT FF FFFF FFF FF
(x) IS NULL                TT FF FFFF FFF FF
5 IS NULL                  FF FF FFFF FFF FF
'a' IS NOT NULL            TT TT TTTT TTT TT
TRUE IS NULL               FF FF FFFF FFF FF
x + 1 IS NULL              TT TT FFFF TTT TT
x + 1 IS NOT NULL          FF FF TTTT FFF FF
1 / 0 IS NULL              TT TT TTTT TTT TT
(x = 1) IS NULL            TT FF FFFF FFF FF
(NOT x LIKE 'a') IS NULL   TT FF FFFF FFF FF
(x IS NULL) IS NULL        FF FF FFFF FFF FF
(x + 1 IS NULL) IS NULL    FF FF FFFF FFF FF
(x > 1 AND x < 6) IS NULL  TT FF FFFF FFF FF
(x = 1 OR x - 1 = 4) IS NULL  TT TT FFFF TTT TT
(x = 1 OR x - 1 = 4) IS NOT NULL  FF FF TTTT FFF FF
(x IN (1, missing)) IS NULL  TT TT FFTT TTT TT
((x = 5 AND x + 0 = 5) IS NULL OR missing) IS NULL  FF TT TTTT TTT TT
'a' IN x                   ?? FF FFFF FFF FT
'c' IN x                   ?? FF FFFF FFF FF
'a' NOT IN x               ?? TT TTTT TTT TF
x = x                      ?? TT TTTT TTT FF
x <> x                     ?? FF FFFF FFF FF
x <= x                     ?? FF TTTT FFF FF
x + 1 = 2                  ?? ?? TTFF ??? ??
x - 1 <> 0                 ?? ?? FFTT ??? ??
x * 2 > 9                  ?? ?? FFTT ??? ??
x / 2 = 2.5                ?? ?? FFTF ??? ??
x / -2 = -2.5              ?? ?? FFTF ??? ??
x / 2 = 2                  ?? ?? FFFF ??? ??
10 / x = 2                 ?? ?? FFTF ??? ??
7 / 2 = 3.5 AND x = x      ?? TT TTTT TTT FF
x / 2.0 = 2.5              ?? ?? FFTF ??? ??
x / 0 = 1                  ?? ?? ???? ??? ??
x / 0.0 = 1                ?? ?? ???? ??? ??
-x < -4                    ?? ?? FFTT ??? ??
+x > 4                     ?? ?? FFTT ??? ??
NOT (x + 1 = 2)            ?? ?? FFTT ??? ??
x * 9223372036854775807 > 0  ?? ?? TT?T ??? ??
x = 1 OR x IS NULL         TT FF TTFF FFF FF
x = 1 AND x IS NOT NULL    FF FF TTFF FFF FF
TRUE                       TT TT TTTT TTT TT
FALSE                      FF FF FFFF FFF FF
"""
RESULTS = {"T": True, "F": False, "?": None}


def rows(table: str) -> list[tuple[str, str]]:
    split = [line.split("  ", 1) for line in table.strip().splitlines()]
    return [(expression.strip(), expected.replace(" ", "")) for expression, expected in split]


CASES = [
    pytest.param(expression, value, RESULTS[letter], id=f"{expression} | {'-' if value is MISSING else value!r}")
    for expression, expected in rows(BY_KIND)
    for value, letter in zip(VALUES, expected, strict=True)
]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 900


@pytest.mark.parametrize(("expression", "value", "expected"), CASES)
def test_every_operator_with_every_kind(expression: str, value: object, expected: bool | None) -> None:
    attributes = {} if value is MISSING else {"x": value}
    selector = Selector(expression)
    assert selector.evaluate(attributes) is expected
    assert selector.matches(attributes) is (expected is True)
    assert (~selector).matches(attributes) is (expected is False)


@pytest.mark.parametrize("left", "TF?")
@pytest.mark.parametrize("right", "TF?")
def test_three_valued_and_or(left: str, right: str) -> None:
    conjunction = {"TT": "T", "T?": "?", "?T": "?", "??": "?"}.get(left + right, "F")
    disjunction = {"FF": "F", "F?": "?", "?F": "?", "??": "?"}.get(left + right, "T")
    event = {"l": RESULTS[left], "r": RESULTS[right]}
    assert Selector("l AND r").evaluate(event) is RESULTS[conjunction]
    assert Selector("l OR r").evaluate(event) is RESULTS[disjunction]
    assert Selector("NOT l").evaluate(event) is {"T": False, "F": True, "?": None}[left]


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("1L", 1),
        ("1l", 1),
        ("0x1F", 31),
        ("0X1fL", 31),
        ("0x1E", 30),
        ("0x1f", 31),
        ("017", 15),
        ("00", 0),
        ("0b101", 5),
        ("1_000", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("- 5", -5),
        ("--5", 5),
        ("+5", 5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1.5", 1.5),
        ("1E3", 1000.0),
        ("1e+3", 1000.0),
        ("1.5E-3", 0.0015),
        (".5e1", 5.0),
        ("57f", 57.0),
        ("57F", 57.0),
        ("57.5d", 57.5),
        ("57D", 57.0),
        ("09.5", 9.5),
        ("1e3f", 1000.0),
        ("0.1f", 0.1),
        ("0x800p-3", 256.0),
        ("0x1.8P1d", 3.0),
        ("0x7FFF_FFFF_FFFF_FFFF", 2**63 - 1),
        ("0x8000_0000_0000_0000", -(2**63)),
        ("0xFFFFFFFFFFFFFFFF", -1),
        ("01777777777777777777777L", -1),
        ("-0xFFFFFFFFFFFFFFFF", 1),
    ],
)
def test_numeric_literals_take_javas_forms(spelling: str, value: float) -> None:
    selector = Selector(f"x * 1 = {spelling}")
    assert selector.evaluate({"x": value}) is True
    kind = selector.tree.right.value
    assert (type(kind), kind) == (type(value), value)


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("x = 'it''s'", "it's", True),
        ("x = ''", "", True),
        ("x = ''''", "'", True),
        ("x = 'A'", "a", False),
        ("x = 'é'", "é", True),
        ("x LIKE '12%3'", "123", True),
        ("x LIKE '12%3'", "12993", True),
        ("x LIKE '12%3'", "1234", False),
        ("x LIKE 'l_se'", "lose", True),
        ("x LIKE 'l_se'", "loose", False),
        (r"x LIKE '\_%' ESCAPE '\'", "_foo", True),
        (r"x LIKE '\_%' ESCAPE '\'", "bar", False),
        (r"x LIKE '100\%' ESCAPE '\'", "100%", True),
        (r"x LIKE '100\%' ESCAPE '\'", "1000", False),
        (r"x LIKE 'a\\b%' ESCAPE '\'", "a\\bc", True),
        ("x LIKE '%%'", "", True),
        ("x LIKE '%_%' ESCAPE '%'", "_ab", True),
        ("x LIKE '%_%' ESCAPE '%'", "ab", False),
        ("x LIKE '_a__' ESCAPE '_'", "xa_", True),
        ("x LIKE '_a__' ESCAPE '_'", "xab", False),
        ("x LIKE 'a!b' ESCAPE '!'", "ab", True),
        ("x LIKE 'a%b'", "a\nb", True),
        ("x LIKE '_'", "\n", True),
        ("x LIKE 'a.c'", "abc", False),
        ("x LIKE '[a]'", "a", False),
        ("x LIKE '%a%a%'", "aa", True),
        ("x LIKE '%a%a%'", "a", False),
        ("x LIKE 'a%a'", "a", False),
        ("x LIKE 'a%a%'", "a", False),
        ("x LIKE 'a%a%a'", "aa", False),
        ("x LIKE '%ab%b'", "ab", False),
        ("x LIKE '%_b'", "b", False),
        ("x LIKE '%_b%'", "cab", True),
        ("x LIKE '_%_'", "a", False),
        ("x PREFIX 'a%'", "a%b", True),
        ("x PREFIX 'a%'", "ab", False),
        ("x = 9007199254740993", 9007199254740992.0, False),
        ("x > 9007199254740992.0", 9007199254740993, True),
        ("x = 0", -0.0, True),
        ("x / 1 = 9007199254740993", 9007199254740993, True),
        ("x / 7 = 1317624576693539401", 2**63 - 1, True),
        ("x / 2 = 4.611686018427388e18", 2**63 - 1, True),
        ("x / -1 IS NULL", -(2**63), True),
        ("x / -2 = 4611686018427387904", -(2**63), True),
        ("x / 0 IS NULL", 5, True),
        ("x * 1e308 * 10 IS NULL", 5, True),
    ],
)
def test_strings_patterns_and_exact_numbers(expression: str, value: object, expected: bool) -> None:
    assert Selector(expression).evaluate({"x": value}) is expected
    assert Selector(expression).matches({"x": value}) is expected


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("", "TRUE"),
        ("  ", "TRUE"),
        ("a = 1 or b = 2 And c = 3", "a = 1 OR b = 2 AND c = 3"),
        ("(a = 1 OR b = 2) AND c = 3", "(a = 1 OR b = 2) AND c = 3"),
        ("not a = 1 and b = 2", "NOT a = 1 AND b = 2"),
        ("NOT (a = 1 AND b = 2)", "NOT (a = 1 AND b = 2)"),
        ("NOT a IS NULL", "a IS NOT NULL"),
        ("b = 1 AND a = 2", "a = 2 AND b = 1"),
        ("a = 1 AND (b = 2 AND c = 3)", "a = 1 AND b = 2 AND c = 3"),
        ("x + 2 * y > 3", "x + 2 * y > 3"),
        ("(x + 2) * y > 3", "(x + 2) * y > 3"),
        ("x - (y - z) > 3", "x - (y - z) > 3"),
        ("x - y - z > 3", "x - y - z > 3"),
        ("-x * y > 3", "(0 - x) * y > 3"),
        ("5 < x", "x > 5"),
        ("x > 100.0", "x > 100"),
        ("x / 2.0 > 100.0", "x / 2.0 > 100.0"),
        ("2 + 3 < x", "x > 5"),
        ("1 = 1 AND x = 2", "x = 2"),
        ("1 = 2 AND x = 2", "FALSE"),
        ("x IN ('b', 'a', 'b')", "x IN ('a', 'b')"),
        ("x IN ('a')", "x = 'a'"),
        ("x BETWEEN 1 AND 2", "x <= 2 AND x >= 1"),
        ("x NOT BETWEEN 1 AND 2", "NOT (x <= 2 AND x >= 1)"),
        ("x / 2 = 2.5", "x / 2 = 2.5"),
        ("x = 7 / 2", "x = 3.5"),
        ("x = 8 / 2", "x = 4"),
        ("x / y / z > 1", "x / y / z > 1"),
        ("x / (y / z) > 1", "x / (y / z) > 1"),
        ("x IN (1 + 1, -1)", "x IN (-1, 2)"),
        ("x IN (y, 'b', z + 1, 'a')", "x IN ('a', 'b', y, z + 1)"),
        ("x IN (y)", "x = y"),
        ("'a' IN (y, z, 'b')", "'a' IN (y, z)"),
        ("'a' IN (y, 'a')", "TRUE"),
        ("5 IN (5, 6)", "TRUE"),
        ("x + 1 IN (2.0, 3)", "x + 1 IN (2, 3)"),
        ("x + 1 NOT IN (y, 3)", "NOT x + 1 IN (3, y)"),
        ("'ab' LIKE 'a%' AND x = 1", "x = 1"),
        ("x + 1 LIKE 'a%'", "x + 1 = ''"),
        ("5 IS NOT NULL", "TRUE"),
        ("-x IS NULL", "0 - x IS NULL"),
        ("x + 1 IS NOT NULL", "x + 1 IS NOT NULL"),
        ("(x = 1) IS NULL", "x IS NULL"),
        ("(x > y + 1) IS NULL", "x IS NULL OR y + 1 IS NULL"),
        ("(NOT (x OR y)) IS NULL", "(x = TRUE OR y = TRUE) IS NULL"),
        ("NOT ((x = 1 AND y = 2) IS NULL)", "(x = 1 AND y = 2) IS NOT NULL"),
        ("(x IN (1, y)) IS NULL", "(x IN (1, y)) IS NULL"),
        ("x LIKE 'abc%'", "x PREFIX 'abc'"),
        ("x LIKE 'abc'", "x = 'abc'"),
        (r"x LIKE '%!%' ESCAPE '!'", r"x LIKE '%\%' ESCAPE '\'"),
        ("active", "active = TRUE"),
        ("active <> TRUE", "active = FALSE"),
        ("HAS a.b", "a.b IS NOT NULL"),
        ('"my attribute" = 1', '"my attribute" = 1'),
        ('"and" = 1', '"and" = 1'),
        ('"a""b" = 1', '"a""b" = 1'),
        ('"plain" = 1', "plain = 1"),
        ("$price = 1", "$price = 1"),
        ("_a.b.c = 1", "_a.b.c = 1"),
        ("größe > 1", "größe > 1"),
        ("has = 1", '"has" = 1'),
        ("has", '"has" = TRUE'),
        ("HAS has", '"has" IS NOT NULL'),
        ("has PREFIX 'a'", "\"has\" PREFIX 'a'"),
        ("HAS prefix", '"prefix" IS NOT NULL'),
        ("prefix PREFIX 'a' AND prefix", '"prefix" = TRUE AND "prefix" PREFIX \'a\''),
        ("has AND HAS has", '"has" = TRUE AND "has" IS NOT NULL'),
    ],
)
def test_one_canonical_text(written: str, canonical: str) -> None:
    assert str(Selector(written)) == canonical
    assert str(Selector(canonical)) == canonical
    assert Selector(written) == Selector(canonical)


def test_what_differs_in_meaning_is_not_equal() -> None:
    different = ["x / 2 = 1", "x / 2.0 = 1", "x = 1", "x = TRUE", "x = '1'", "NOT (x < 5)", "x >= 5", "x < 5", "TRUE"]
    different += ["x IN (y, z)", "x IN (y, 'z')", "x + 1 IS NULL", "x + 1.0 IS NULL"]
    assert len({Selector(text) for text in different}) == len(different)
    assert Selector("x = 1") != "x = 1"
