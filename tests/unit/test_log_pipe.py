"""`gossamer log | head`: who has seen enough may go, and nobody complains."""

import subprocess
import sys

from gossamer.logger.store import Store
from machines import packet

GOSSAMER = "from gossamer.cli.main import main; main()"


def test_a_reader_that_has_seen_enough_may_go(tmp_path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    with Store(url) as store:
        store.apply([packet(1_000 * n, 1_000 * n + 999) for n in range(20)])
        store.commit()
    with subprocess.Popen(
        [sys.executable, "-c", GOSSAMER, "log", "--store", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as log:
        assert log.stdout.readline()
        log.stdout.close()
        complaints = log.stderr.read()
    assert complaints == b""
    assert log.returncode == 0
