"""Disk faults and wall-clock jumps: a small library that members preload, compiled where there is a C compiler."""

import errno
import mmap
import shutil
import struct
import subprocess
import sys
from pathlib import Path

_PAGE = struct.Struct("=qii")
ERRORS = {"disk full": errno.ENOSPC, "disk error": errno.EIO}


def compile_shim(folder: Path) -> Path | str:
    """Return the library's path, or a sentence that says why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux"):
        return "preloading is for Linux"
    if compiler is None:
        return "no C compiler (cc, gcc)"
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return library if made.returncode == 0 else f"{compiler} failed: {made.stderr.strip()[-200:]}"


class Page:
    """The faults of one member, in a file that it maps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def set(self, clock_s: int = 0, error: int = 0, delay_us: int = 0) -> None:
        self._memory[: _PAGE.size] = _PAGE.pack(clock_s, error, delay_us)

    def environment(self, library: Path) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "GOSSAMER_CHAOS_PAGE": str(self.path)}

    def close(self) -> None:
        self._memory.close()
