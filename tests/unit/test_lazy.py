"""What is not needed is not imported, and all that is named is there."""

import subprocess
import sys

import pytest

import gossamer
from gossamer.cli.main import COMMANDS, main


def test_every_public_name_is_there_and_no_other():
    assert [name for name in gossamer.__all__ if getattr(gossamer, name, None) is None] == []
    assert set(dir(gossamer)) == set(gossamer.__all__)
    with pytest.raises(AttributeError, match="nonesuch"):
        gossamer.nonesuch  # noqa: B018


@pytest.mark.parametrize("code", ["import gossamer", "from gossamer.cli.main import main; main(['--help'])"])
def test_neither_sockets_nor_brokers_are_loaded_for_nothing(code):
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\n"
    script += "sys.exit(any(name in sys.modules for name in ('zmq', 'gossamer.broker.runtime', 'sqlalchemy')))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_the_help_tells_of_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert [name for name in COMMANDS if f" {name} " not in told] == []
