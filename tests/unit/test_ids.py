import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.messages.errors import UsageError
from gossamer.messages.ids import (
    NAME_LENGTH_MAX,
    SEQ_MAX,
    STREAM_LENGTH_MAX,
    EventId,
    Issued,
    anonymous_stream,
    group_of,
    issued_by,
    named_stream,
)
from strategies import texts


def test_streams_are_spelt_as_documented() -> None:
    assert anonymous_stream("default", "b1-1731", 42) == "default/~b1-1731.42"
    assert named_stream("default", "trades-feed") == "default/trades-feed"
    assert str(EventId("default/trades-feed", 7)) == "default/trades-feed:7"


def test_a_stream_tells_its_group_and_its_issuer() -> None:
    assert group_of("default/~b1-1731.42") == group_of("default/trades-feed") == "default"
    assert issued_by("default/~b1-1731.42") == Issued("default/~b1-1731", 42)
    assert issued_by("default/trades-feed") is None
    assert issued_by("default/feed.42") is None


@pytest.mark.parametrize(
    "stream",
    [
        "default/~b1.",
        "default/~b1.-1",
        "default/~b1.07",
        "default/~b1.٣",
        "default/~b1.4\n",
        "default/~b1/c.5",
        "default/~.5",
        "/~.5",
        "~b1.5",
        f"default/~b1.{SEQ_MAX + 1}",
        f"default/~b1.{'9' * 400}",
    ],
)
def test_a_number_spelt_oddly_was_not_issued(stream: str) -> None:
    # Two spellings of one number would retire each other's streams; one out of range could not be sent on.
    assert issued_by(stream) is None


@pytest.mark.parametrize(
    "name", ["", "~a", " a", "a/b", "a\0", "a\n", "\t", "/", "\ud800", "a\udfff", "a" * (NAME_LENGTH_MAX + 1)]
)
def test_a_bad_name_is_refused_wherever_it_stands(name: str) -> None:
    for make in (
        lambda: named_stream(name, "p"),
        lambda: named_stream("g", name),
        lambda: anonymous_stream(name, "n", 0),
        lambda: anonymous_stream("g", name, 0),
    ):
        with pytest.raises(UsageError, match="a name is 1 to 200 characters"):
            make()


def test_the_longest_names_make_a_stream_that_can_be_sent() -> None:
    name = "a" * NAME_LENGTH_MAX
    assert len(anonymous_stream(name, name, SEQ_MAX)) <= STREAM_LENGTH_MAX


@given(texts(1), texts(1), st.integers(0, SEQ_MAX))
def test_an_anonymous_stream_tells_who_issued_it(group: str, issuer: str, number: int) -> None:
    try:
        stream = anonymous_stream(group, issuer, number)
    except UsageError:
        return
    assert group_of(stream) == group
    assert issued_by(stream) == Issued(f"{group}/~{issuer}", number)


@given(texts(1), texts(1))
def test_a_named_stream_never_passes_for_an_anonymous_one(group: str, publisher: str) -> None:
    try:
        stream = named_stream(group, publisher)
    except UsageError:
        return
    assert group_of(stream) == group
    assert issued_by(stream) is None


@given(st.from_regex(r"[^/]{0,3}/?~?.{0,3}\.[0-9]{0,21}", fullmatch=True))
def test_an_issued_number_has_one_spelling(stream: str) -> None:
    issued = issued_by(stream)
    if issued is not None:
        assert f"{issued.issuer}.{issued.number}" == stream
        assert 0 <= issued.number <= SEQ_MAX
