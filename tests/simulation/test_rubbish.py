"""Frames of a real mesh with some bytes changed: whatever still decodes, a node takes or refuses, and goes on."""

import random
from collections import defaultdict

import pytest

from gossamer.lab.mesh import Mesh
from gossamer.lab.observer import Observer
from gossamer.messages.codec import decode, encode
from gossamer.messages.errors import PeerError
from gossamer.protocol.config import Config
from gossamer.protocol.effects import Load, Persist
from gossamer.protocol.inputs import Loaded, Persisted, Received, Wake
from machines import node


class Frames(Observer):
    def __init__(self) -> None:
        self.by_kind: dict[str, list[bytes]] = defaultdict(list)

    def sent(self, at_s, node, to, message) -> None:
        self.by_kind[type(message).__name__].append(encode(message))


@pytest.fixture(scope="module")
def frames() -> dict[str, list[bytes]]:
    found = Frames()
    mesh = Mesh("abc", "LM", config=Config(seek_after_rounds=4, round_interval_s=0.1), observers=(found,))
    mesh.open("a", "feed")
    for _ in range(5):
        for publisher in (None, "feed"):
            mesh.publish("a", publisher=publisher)
        mesh.publish("b")
        mesh.run(0.3)
    mesh.crash("c")
    mesh.isolate("b")
    mesh.publish("a", 5)
    mesh.run(3.0)
    mesh.heal()
    mesh.restart("c")
    mesh.run(10.0)
    assert len(found.by_kind) > 12
    return dict(found.by_kind)


@pytest.mark.parametrize("logger", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_node_survives_what_its_peers_make_of_their_messages(frames, seed, logger):
    rng = random.Random(seed)
    config = {"seek_after_rounds": 3, "round_interval_s": 0.1, "purge_above_bytes": 0, "purge_send_buffer": True}
    me, _ = node("me", brokers="abc", loggers="LM", logger=logger, link_window_bytes=rng.choice([None, 500]), **config)
    now, taken = 0.0, 0
    for _ in range(400):
        now += rng.choice([0.0, 0.01, 0.2])
        effects = me.handle(Wake(), now)
        frame = bytearray(rng.choice(frames[rng.choice(list(frames))]))
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            frame[rng.randrange(1, len(frame))] = rng.choice([rng.randrange(256), 0x00, 0x7F, 0x90, 0xC0, 0xFF])
        try:
            effects += me.handle(Received(rng.choice("abcLM"), decode(bytes(frame))), now)
            taken += 1
        except PeerError:
            pass
        for effect in effects:
            if isinstance(effect, Persist):
                me.handle(Persisted(effect.token), now)
            elif isinstance(effect, Load):
                me.handle(Loaded(effect.token, ()), now)
    assert taken > 100
