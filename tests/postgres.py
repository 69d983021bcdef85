"""A private PostgreSQL server for the tests, from the binaries that are installed; it listens on a Unix socket only."""

import glob
import os
import shutil
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

MISSING = "PostgreSQL is NOT tested: no initdb and postgres on the PATH (Debian: apt install postgresql)"
_databases = count()


def binary(name: str) -> str | None:
    return shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)


def available() -> bool:
    return binary("initdb") is not None and binary("postgres") is not None


class Server:
    """Runs until `close`; `kill` and `start` are what a server that dies and returns does."""

    def __init__(self, **settings: str) -> None:
        self._user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to be root
        self.folder = Path(tempfile.mkdtemp(prefix="gossamer-pg-"))
        self._settings = {
            "listen_addresses": "''",
            "unix_socket_directories": f"'{self.folder}'",
            "fsync": "off",
            **settings,
        }
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        initdb = [str(binary("initdb")), "-D", "data", "-U", "gossamer", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([*initdb, "--locale=C"], cwd=self.folder, user=self._user, check=True, capture_output=True)
        with open(self.folder / "data" / "postgresql.conf", "a") as config:
            config.writelines(f"{name} = {value}\n" for name, value in self._settings.items())
        self.start()

    def start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(binary("postgres")), "-D", "data"], cwd=self.folder, user=self._user, stdout=log, stderr=log
            )
        import psycopg

        until = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self._dsn("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def url(self) -> str:
        """A new, empty database."""
        import psycopg

        name = f"store{next(_databases)}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://gossamer@/{name}?host={self.folder}"

    def run(self, url: str, statement: str) -> list[tuple[object, ...]]:
        import psycopg

        name = url.partition("@/")[2].partition("?")[0]
        with psycopg.connect(self._dsn(name), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """At once, as if the machine had gone: every session ends."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: the postmaster takes its children with it
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def _dsn(self, name: str) -> str:
        return f"host={self.folder} user=gossamer dbname={name}"
