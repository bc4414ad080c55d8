"""The lab's link: a TCP proxy process that can delay, throttle, cut and swallow, one direction at a time.

Rules: toxics act on everything that passes, old connections and new; bytes are never lost, doubled or reordered while
a connection lives (a cut ends it with RST); a slow link pushes back on its sender instead of filling memory; listeners
and the control socket are on 127.0.0.1, and control takes the token of the 0600 file that only its owner can read.
`python -m drlib.lab.proxy` is the process, `LinkProxy` speaks to it. Not for: Kafka's protocol, which it does not read.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import functools
import hmac
import json
import secrets
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from drlib.errors import Unreachable, UsageError
from drlib.lab.ports import free_ports
from drlib.lab.processes import wait_until, write_private
from drlib.lab.toxics import Shaper, Toxics

HOST: Final = "127.0.0.1"
Direction = Literal["requests", "responses", "both"]
_PATIENCE_S: Final = 10.0
_LISTEN_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class LinkState:
    """One link now. `requests` flow to the broker, `responses` from it; byte counts are of what was delivered."""

    name: str
    port: int
    target: int
    cut: bool
    requests: Toxics
    responses: Toxics
    connections: int
    bytes_to_broker: int
    bytes_to_client: int


class LinkProxy:
    """The remote control of the proxy process whose state file is `state_file`; usable from any process."""

    def __init__(self, state_file: Path) -> None:
        self._state_file = state_file

    @property
    def ports(self) -> dict[str, int]:
        """Where the proxy listens, by link name."""
        return {name: int(port) for name, port in self._state()["links"].items()}

    def wait_ready(self, deadline_s: float = _PATIENCE_S) -> None:
        """Return when the process answers. Raises `Unreachable` at the deadline."""

        def answers() -> bool:
            try:
                self.links()
            except (OSError, Unreachable):
                return False
            return True

        if not wait_until(answers, deadline_s):
            raise Unreachable(
                "The link proxy did not start", f"it was silent for {deadline_s:g} s", "Look at proxy.log"
            )

    def links(self) -> tuple[LinkState, ...]:
        """Every link and what it does now. Raises `Unreachable`."""
        return tuple(
            LinkState(**{**link, "requests": Toxics(**link["requests"]), "responses": Toxics(**link["responses"])})
            for link in self._ask({"op": "links"})
        )

    def target(self, link: str, port: int) -> None:
        """Where new connections of `link` go."""
        self._ask({"op": "target", "link": link, "port": port})

    def set(
        self,
        link: str | None = None,
        *,
        direction: Direction = "both",
        delay_ms: float | None = None,
        bandwidth: float | None = None,
        blackhole: bool | None = None,
        cut: bool | None = None,
    ) -> None:
        """Change what is given and leave the rest. `link` is a broker's (`LEFT-1`), an alias (`LEFT`), or None for all.

        `delay_ms` is one way, milliseconds; `bandwidth` is bytes per second, 0 for no cap; `cut` resets what is
        connected and refuses what comes, in both directions whatever `direction` says. Raises `UsageError` for an
        unknown link.
        """
        if (delay_ms or 0) < 0 or (bandwidth or 0) < 0:
            raise UsageError("Not a link setting", "delay and bandwidth cannot be negative", "Use 0 for none")
        self._ask(
            {
                "op": "set",
                "link": link,
                "direction": direction,
                "toxics": {"delay_ms": delay_ms, "bandwidth": bandwidth, "blackhole": blackhole},
                "cut": cut,
            }
        )

    def reset(self, link: str | None = None) -> None:
        """End every connection of the link with RST, once; new ones are welcome."""
        self._ask({"op": "reset", "link": link})

    def clear(self, link: str | None = None) -> None:
        """A healthy link again."""
        self.set(link, delay_ms=0, bandwidth=0, blackhole=False, cut=False)

    def _state(self) -> Any:  # JSON of our own making, given a type by the callers beside it
        try:
            return json.loads(self._state_file.read_text(encoding="utf-8"))
        except FileNotFoundError as problem:
            raise Unreachable(
                "The link proxy is not there", f"{self._state_file} is missing", "Run `drlib lab up`"
            ) from problem

    def _ask(self, question: Mapping[str, object]) -> Any:
        state = self._state()
        line = json.dumps({**question, "token": state["token"]}).encode() + b"\n"
        try:
            with socket.create_connection((HOST, state["control_port"]), timeout=_PATIENCE_S) as connection:
                connection.sendall(line)
                with connection.makefile("rb") as answers:
                    answer = json.loads(answers.readline() or b'{"error": "it hung up"}')
        except OSError as problem:
            raise Unreachable("The link proxy does not answer", str(problem), "Run `drlib lab status`") from problem
        if "error" in answer:
            raise UsageError(
                "The link proxy refused", answer["error"], "Run `drlib lab status` for the links there are"
            )
        return answer["ok"]


class _Link:
    """One listener, its target, and what happens in between."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.target = 0
        self.cut = False
        self.requests = Shaper()
        self.responses = Shaper()
        self.delivered = [0, 0]  # to the broker, to the client
        self.halves: set[_Half] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, *, attempts: int = _LISTEN_ATTEMPTS) -> None:
        loop = asyncio.get_running_loop()
        for attempt in range(1, attempts + 1):
            try:
                self._server = await loop.create_server(
                    functools.partial(_ClientHalf, self), HOST, self.port, backlog=512
                )
                return
            except OSError:
                if attempt == attempts:
                    raise
                await asyncio.sleep(0.1)  # somebody's outgoing connection may sit on the port for a moment

    async def set_cut(self, cut: bool) -> None:
        if cut == self.cut:
            return
        if not cut:
            await self.listen()
        self.cut = cut
        if cut and self._server is not None:
            self._server.close()
            self._server = None
            self.reset()

    def change(self, direction: str, toxics: dict[str, object]) -> None:
        if direction not in get_args(Direction):
            raise ValueError(f"{direction} is no direction")
        given = {key: value for key, value in toxics.items() if value is not None}
        for name, shaper in (("requests", self.requests), ("responses", self.responses)):
            if direction in (name, "both"):
                shaper.change(replace(shaper.toxics, **given))  # type: ignore[arg-type]
        for half in tuple(self.halves):
            half.reconsider()
            if half.other is not None and not half.other.open:
                half.other.reconsider()  # it left, but what it said last is still under way

    def reset(self) -> None:
        for half in tuple(self.halves):
            half.reset()

    def state(self) -> LinkState:
        connections = sum(isinstance(half, _ClientHalf) for half in self.halves)
        return LinkState(
            name=self.name,
            port=self.port,
            target=self.target,
            cut=self.cut,
            requests=self.requests.toxics,
            responses=self.responses.toxics,
            connections=connections,
            bytes_to_broker=self.delivered[0],
            bytes_to_client=self.delivered[1],
        )


class _Half(asyncio.Protocol):
    """One socket of a connection: what it reads is queued, shaped, and written to its `other`."""

    transport: asyncio.Transport

    def __init__(self, link: _Link, shaper: Shaper, way: int) -> None:
        self.link = link
        self.shaper = shaper
        self.way = way
        self.other: _Half | None = None
        self.queue: collections.deque[tuple[float, bytes]] = collections.deque()
        self.queued = 0
        self.ended = False  # the peer will send no more
        self.end_told = False  # and `other` has been told
        self.open = False
        self.writable = True  # whether `other` may write to us
        self._reading = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class
        self.open = True
        self.link.halves.add(self)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        for piece in self.shaper.toxics.slices(data):
            self.queue.append((self.shaper.due(now, len(piece)), piece))
        self.queued += len(data)
        self.deliver()

    def eof_received(self) -> bool:
        self.ended = True
        self.deliver()
        return True  # the other way may still have something to say

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self.other is not None:
            self.other.deliver()

    def connection_lost(self, problem: Exception | None) -> None:
        self.open = False
        self.ended = True
        self.link.halves.discard(self)
        other = self.other
        if other is None:
            return
        if problem is not None:
            other.reset()  # what ended with an error on one side does not end politely on the other
        else:
            self.deliver()  # what it said before it left still arrives; then `other` is closed
            if other.queue or other.queued:
                other.drop()

    def deliver(self) -> None:
        """Write what is due, arm the timer for what is not, and push back when too much is under way."""
        other = self.other
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if other is not None and other.open and other.writable and not self.shaper.toxics.blackhole:
            now = time.monotonic()
            ready = []
            while self.queue and self.queue[0][0] <= now:
                ready.append(self.queue.popleft()[1])
            if ready:
                data = ready[0] if len(ready) == 1 else b"".join(ready)
                self.queued -= len(data)
                self.link.delivered[self.way] += len(data)
                other.transport.write(data)  # may call pause_writing, and then nothing more is written
            if self.queue and other.writable:
                self._timer = asyncio.get_running_loop().call_at(
                    asyncio.get_running_loop().time() + self.queue[0][0] - now, self.deliver
                )
            if self.ended and not self.queue:
                self._finish(other)
        self._push_back()

    def reconsider(self) -> None:
        """The toxics changed: bytes that a healthier link would have delivered by now need not wait any longer."""
        now = time.monotonic()
        self.queue = collections.deque((min(due, self.shaper.due(now, len(piece))), piece) for due, piece in self.queue)
        self.deliver()

    def drop(self) -> None:
        self.queue.clear()
        self.queued = 0

    def reset(self) -> None:
        """Close with RST, both sides."""
        for half in (self, self.other):
            if half is None:
                continue
            half.drop()
            if half.open:
                # A close with SO_LINGER 0 is what sends RST; abort() alone ends with FIN when nothing is unread.
                half.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                half.transport.abort()

    def _finish(self, other: _Half) -> None:
        if self.open and other.open:
            if not self.end_told:
                self.end_told = True
                with contextlib.suppress(OSError, RuntimeError):  # it may be closing at this very moment
                    other.transport.write_eof()
            if other.ended and not other.queue:
                self.transport.close()
                other.transport.close()
        elif other.open:
            other.transport.close()

    def _push_back(self) -> None:
        if not self.open:
            return
        limit = self.shaper.toxics.in_flight_bytes
        if self._reading and self.queued > limit:
            self._reading = False
            self.transport.pause_reading()
        elif not self._reading and self.queued <= limit // 2:
            self._reading = True
            self.transport.resume_reading()


class _ClientHalf(_Half):
    """The side that connected to us; it brings the broker's side into being."""

    def __init__(self, link: _Link) -> None:
        super().__init__(link, link.requests, 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        broker = _Half(self.link, self.link.responses, 1)
        try:
            await asyncio.get_running_loop().create_connection(lambda: broker, HOST, self.link.target)
        except OSError:
            self.reset()  # nobody there: the client shall see what it would have seen without us
            return
        if not self.open:
            broker.transport.abort()
            return
        self.other, broker.other = broker, self
        self.deliver()
        broker.deliver()


class _Server:
    """All links of a lab and the control socket."""

    def __init__(self, links: Sequence[_Link], token: str) -> None:
        self._links = {link.name: link for link in links}
        self._token = token

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), _PATIENCE_S)
            writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # a visitor that says nothing, hangs up, or sends an endless line, costs us nothing
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            question = json.loads(line)
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
                case other:
                    return {"error": f"there is no {other}"}
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as problem:
            return {"error": f"{type(problem).__name__}: {problem}"}
        return {"ok": None}

    def _named(self, name: str | None) -> list[_Link]:
        found = [link for link in self._links.values() if name in (None, link.name, link.name.rpartition("-")[0])]
        if not found:
            raise KeyError(f"no link is called {name}")
        return found


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
    write_private(state_file, json.dumps(state))  # last: whoever can read it finds the proxy ready
    await control.serve_forever()


async def _listening(name: str, port: int | None) -> _Link:
    if port is not None:
        link = _Link(name, port)
        await link.listen()
        return link
    for attempt in range(1, _LISTEN_ATTEMPTS + 1):
        link = _Link(name, free_ports(1)[0])
        try:
            await link.listen(attempts=1)
            return link
        except OSError:
            if attempt == _LISTEN_ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m drlib.lab.proxy --state FILE LINK...`: serve until killed."""
    import uvloop

    parser = argparse.ArgumentParser(prog="python -m drlib.lab.proxy")
    parser.add_argument("--state", type=Path, required=True, help="where to write ports and token, 0600")
    parser.add_argument("links", nargs="+", metavar="NAME[=PORT]")
    options = parser.parse_args(argv)
    uvloop.run(_serve(options.links, options.state))
    return 0


if __name__ == "__main__":
    sys.exit(main())
