"""What documents and docstrings show as code runs as it stands, against a node of its own."""

import ast
import asyncio
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import gossamer
from clients import run
from gossamer.protocol.config import Config
from gossamer.sdk import client as client_module
from gossamer.sdk import connecting as connecting_module
from gossamer.sdk import subscription as subscription_module
from gossamer.sdk import sync as sync_module
from gossamer.sdk.embedded import Embedded
from gossamer.sdk.transport import Receiver
from processes import BRISK

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/sdk.md")
ASYNC = (client_module.Client, client_module.Transaction, subscription_module.Subscription, connecting_module.connect)
SYNC = (sync_module.Client, sync_module.Subscription, sync_module.connect)
QUOTE = {"type": "quote", "symbol": "IBM", "price": 101.5}


def fenced(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.S | re.M)


def shown(documented: object) -> list[str]:
    """The code in a docstring: its last lines if they are code (the formatter takes back their indentation), or what is
    indented."""
    first, _, rest = inspect.cleandoc(getattr(documented, "__doc__", None) or "").partition("\n\n")
    if first and "(" in rest and is_code(rest):
        return [rest]
    blocks, block = [], list[str]()
    for line in [*rest.splitlines(), "."]:
        if line.startswith("    ") or (block and not line.strip()):
            block.append(line)
        elif block:
            blocks.append(textwrap.dedent("\n".join(block)).strip() + "\n")
            block = []
    return [block for block in blocks if is_code(block)]


def is_code(text: str) -> bool:
    try:
        compile(text, "documented", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False
    return True


def public(owner: Any) -> Iterator[tuple[str, Any]]:
    """What a user calls: the function itself, or a class's methods, but not those that are the transport's to call."""
    if inspect.isfunction(owner):
        yield owner.__name__, owner
        return
    for name, member in vars(owner).items():
        if not name.startswith("_") and inspect.isfunction(member) and name not in vars(Receiver):
            yield f"{owner.__name__}.{name}", member


def documented() -> list[Any]:
    found = []
    for page in PAGES:
        for number, code in enumerate(fenced(ROOT / page), 1):
            found.append(pytest.param(code, id=f"{page}-{number}"))
    for owner in (*ASYNC, *SYNC, client_module, sync_module, gossamer.Event):
        where = "sync." if owner in SYNC else ""
        members = [] if inspect.ismodule(owner) else public(owner)
        for name, member in [(getattr(owner, "__name__", ""), owner), *members]:
            found += [pytest.param(code, id=f"{where}{name}") for code in shown(member)]
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    node = Embedded.start(config=Config(**BRISK))
    yield node.url
    node.stop()


@pytest.mark.parametrize("code", documented())
def test_it_runs(code: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.sub(r"tcp://[\w.*]+:\d+", url, code)
    compiled = compile(code, "documented", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = bool(compiled.co_flags & inspect.CO_COROUTINE)
    names: dict[str, Any] = {"gossamer": gossamer, "asyncio": asyncio, "json": json}

    async def main() -> None:
        async with gossamer.connect(url) as trader:

            async def trade() -> None:
                while True:
                    await trader.publish(QUOTE, key="IBM")
                    await asyncio.sleep(0.02)

            trading = asyncio.create_task(trade())
            client = await gossamer.connect(url)
            sub = await client.subscribe()
            event = await anext(sub)
            if coroutine and "asyncio.run(" not in code:
                names.update(client=client, sub=sub, event=event)
                await eval(compiled, names)
            else:
                await asyncio.to_thread(plainly, event)
            await client.close()
            trading.cancel()
            with suppress(asyncio.CancelledError):
                await trading

    def plainly(event: gossamer.Event) -> None:
        with gossamer.sync.connect(url) as client:
            names.update(client=client, sub=client.subscribe(), event=event)
            exec(compiled, names)

    run(main)


def test_every_public_method_shows_how_it_is_used() -> None:
    methods = [(owner, name, member) for owner in (*ASYNC, *SYNC) for name, member in public(owner)]
    assert len(methods) > 20
    assert [f"{owner.__module__}.{name}" for owner, name, member in methods if not shown(member)] == []
