"""Where to listen, and what others dial."""

import pytest

from gossamer.broker.addresses import advertised, check_peer, split
from gossamer.messages.errors import UsageError


@pytest.mark.parametrize(
    ("bound", "wanted", "told"),
    [
        ("tcp://127.0.0.1:7401", None, "tcp://127.0.0.1:7401"),
        ("tcp://0.0.0.0:41000", None, "tcp://127.0.0.1:41000"),
        ("tcp://10.0.0.5:41000", None, "tcp://10.0.0.5:41000"),
        ("tcp://0.0.0.0:41000", "tcp://node-5:0", "tcp://node-5:41000"),
        ("tcp://0.0.0.0:41000", "tcp://node-5:7401", "tcp://node-5:7401"),
        ("tcp://[::]:41000", "tcp://[::1]:*", "tcp://[::1]:41000"),
    ],
)
def test_what_others_dial(bound, wanted, told):
    assert advertised(bound, wanted) == told


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:1", "tcp://x", "tcp://x:y", "ipc://x:1", "tcp://x:70000", "tcp://a b:1"]
)
def test_what_is_no_address(url):
    with pytest.raises(UsageError):
        split(url)


@pytest.mark.parametrize("url", ["tcp://*:7401", "tcp://x:0"])
def test_what_nobody_can_dial(url):
    with pytest.raises(UsageError):
        check_peer(url)
    with pytest.raises(UsageError):
        advertised("tcp://0.0.0.0:1", "tcp://*:7401")
