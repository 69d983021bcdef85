"""A member that publishes until it is killed, and writes down what was acknowledged: PEER FILE."""

import json
import sys
import time

from gossamer.broker.runtime import Runtime
from gossamer.messages.event import Content
from gossamer.messages.ids import anonymous_stream
from gossamer.protocol.effects import Acked
from gossamer.protocol.inputs import Publish

peer, path = sys.argv[1:]
told = open(path, "w", buffering=1)  # noqa: SIM115
acked = -1


def on_acked(given: Acked) -> None:
    global acked
    if given.level == "logged":
        acked = given.last
        print(given.stream, given.last, file=told)


runtime = Runtime(name="publisher", peers=(peer,), on_acked=on_acked).start()
stream = anonymous_stream("default", f"publisher-{time.time_ns()}", 0)
while runtime.status != "member":
    time.sleep(0.01)
print(json.dumps({"node": runtime.name, "mesh": runtime.address}), flush=True)
seq = 0
while True:
    runtime.submit(Publish(stream, tuple(Content(body=b"%d" % each) for each in range(seq, seq + 8))))
    seq += 8
    while seq > acked + 400:  # enough under way for the kill to come in the middle
        time.sleep(0.001)
