"""`gossamer report --follow`: a page that is kept up to date, until somebody ends it."""

import json
import signal
import sys
import threading
from datetime import datetime
from pathlib import Path
from types import FrameType

from rich.console import Console

from gossamer.messages.errors import GossamerError

STEP_S = 0.5


def follow_store(store: str, out: Path, master: str | None, since: datetime | None, as_json: bool) -> None:
    from gossamer.analytics.follow import CONFIG, follow
    from gossamer.analytics.report import in_a_line
    from gossamer.analytics.session import session

    ended = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ended.set()

    console = Console(stderr=True, highlight=False)
    with console.status("starting Spark …") as status:
        spark = session(master, config=CONFIG)
        # After Spark, which has a handler of its own for ^C.
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, end)
        query = follow(spark, store, out, since, lambda count: status.update(f"{count:,} events; ^C ends it"))
        told = {"page": str(out / "index.html"), "store": store}
        print(json.dumps(told) if as_json else f"page    {told['page']}, as it goes on", flush=True)
        while not ended.wait(STEP_S) and query.isActive:
            pass
    failure = query.exception()
    query.stop()
    spark.stop()
    if failure is not None:
        raise GossamerError(f"the stream ended: {in_a_line(failure)}")
    sys.stdout.flush()
