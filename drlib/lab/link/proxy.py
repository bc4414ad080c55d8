"""The lab's link proxy: a TCP proxy process that can delay, throttle, cut and blackhole, one direction at a time.

Rules: listeners and the control socket are on 127.0.0.1, and control requires the token from a 0600 state file;
`python -m drlib.lab.link.proxy` is the process, and no other module imports this one. Not for: controlling it (`remote`),
moving bytes (`link`), Kafka's protocol, which the proxy does not read.
"""

import argparse
import asyncio
import hmac
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from drlib import decoding
from drlib.files import write_whole
from drlib.lab.link.link import APPS_LINK, HOST, LISTEN_ATTEMPTS, Link
from drlib.lab.ports import free_ports

_PATIENCE_S: Final = 10.0


class _Server:
    """All links of a lab and the control socket."""

    def __init__(self, links: Sequence[Link], token: str) -> None:
        self._links = {link.name: link for link in links}
        self._token = token

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), _PATIENCE_S)
            writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # a client that sends nothing, disconnects or sends an endless line is dropped
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            question: Any = decoding.json_value(line)
            if not hmac.compare_digest(str(question.get("token", "")), self._token):
                return {"error": "the token is wrong"}
            match question["op"]:
                case "links":
                    return {"ok": [asdict(link.state()) for link in self._links.values()]}
                case "target":
                    self._links[question["link"]].target = int(question["port"])
                case "set":
                    for link in self._named(question["link"]):
                        link.change(question["direction"], question["toxics"])
                        if question["cut"] is not None:
                            await link.set_cut(bool(question["cut"]))
                case "reset":
                    for link in self._named(question["link"]):
                        link.reset()
                case "forget":
                    for link in self._named(question["link"]):
                        link.forget(question["direction"])
                case other:
                    return {"error": f"unknown operation {other}"}
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as problem:
            return {"error": f"{type(problem).__name__}: {problem}"}
        return {"ok": None}

    def _named(self, name: str | None) -> list[Link]:
        links = [link for link in self._links.values() if _names(name, link.name)]
        if not links:
            raise KeyError(f"no link is called {name}")
        return links


def _names(wanted: str | None, link: str) -> bool:
    """Whether `wanted` names `link`: its own name, that of all links of its cluster, or None for all links of mirrors."""
    return not link.startswith(APPS_LINK) if wanted is None else wanted in (link, link.rpartition("-")[0])


async def _serve(names: Sequence[str], state_file: Path) -> None:
    links = []
    for wanted in names:
        name, _, port = wanted.partition("=")
        links.append(await _listening(name, int(port) if port else None))
    server = _Server(links, secrets.token_urlsafe(32))
    control = await asyncio.start_server(server.control, HOST, 0)
    state = {
        "control_port": control.sockets[0].getsockname()[1],
        "token": server._token,
        "links": {link.name: link.port for link in links},
    }
    write_whole(state_file, json.dumps(state))  # last: once the file exists, the proxy is ready
    await control.serve_forever()


async def _listening(name: str, port: int | None) -> Link:
    if port is not None:
        link = Link(name, port)
        await link.listen()
        return link
    for attempt in range(1, LISTEN_ATTEMPTS + 1):
        link = Link(name, free_ports(1)[0])
        try:
            await link.listen(attempts=1)
            return link
        except OSError:
            if attempt == LISTEN_ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m drlib.lab.link.proxy --state FILE LINK...`: serve until killed."""
    import uvloop

    parser = argparse.ArgumentParser(prog="python -m drlib.lab.link.proxy")
    parser.add_argument("--state", type=Path, required=True, help="where to write ports and token, 0600")
    parser.add_argument("links", nargs="+", metavar="NAME[=PORT]")
    options = parser.parse_args(argv)
    uvloop.run(_serve(options.links, options.state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
