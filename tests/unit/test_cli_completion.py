"""The shell completes commands and options."""

import os
import subprocess
import sys

from processes import GOSSAMER


def completed(words: str) -> list[str]:
    asked = {"_GOSSAMER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    told = subprocess.run(GOSSAMER, env=os.environ | asked, capture_output=True, text=True, timeout=30)
    assert told.returncode == 0, told.stderr
    return told.stdout.split()


def test_commands_and_options_are_completed():
    assert completed("gossamer sta") == ["status"]
    assert completed("gossamer broker --telem") == ["--telemetry-interval-s"]


def test_the_script_for_the_shell_is_shown():
    told = subprocess.run([*GOSSAMER, "--show-completion"], capture_output=True, text=True, timeout=30)
    assert "_GOSSAMER_COMPLETE" in told.stdout or "not supported" in told.stderr + told.stdout


def test_the_command_is_also_a_module():
    found = subprocess.run([sys.executable, "-m", "gossamer", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("gossamer ")
