"""The remote control of the lab's link proxy.

Rules: a setting is in effect when its call returns; the token comes from the proxy's 0600 state file and is sent to the
control socket on 127.0.0.1 alone. Not for: the proxy itself (`proxy`), deciding what a drill breaks.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import Unreachable, UsageError
from drlib.files import read_json
from drlib.lab.link.link import APPS_LINK, HOST, Direction, LinkState
from drlib.lab.processes import wait_until

_PATIENCE_S: Final = 10.0
_MOST_ANSWER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _State:
    """What the proxy writes once it listens."""

    control_port: int
    token: str
    links: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the proxy answers: `ok` has the links where they were asked for."""

    ok: tuple[LinkState, ...] | None = None
    error: str | None = None


_STATE: Final = TypeAdapter(_State)
_ANSWER: Final = TypeAdapter(_Answer)


class LinkProxy:
    """The remote control of the proxy process whose state file is `state_file`; usable from any process."""

    def __init__(self, state_file: Path) -> None:
        self._state_file = state_file

    @property
    def ports(self) -> dict[str, int]:
        """Where the proxy listens, by link name."""
        return dict(self._state().links)

    def wait_ready(self, deadline_s: float = _PATIENCE_S) -> None:
        """Wait until the process answers. Raises `Unreachable` at the deadline."""

        def answers() -> bool:
            try:
                self.links()
            except (OSError, Unreachable):
                return False
            return True

        if not wait_until(answers, deadline_s):
            raise Unreachable(
                "The link proxy did not start", f"it did not answer for {deadline_s:g} s", "Read proxy.log"
            )

    def links(self) -> tuple[LinkState, ...]:
        """The state of every link of mirrors. Raises `Unreachable`."""
        return tuple(link for link in self._all() if not link.name.startswith(APPS_LINK))

    def apps_links(self, alias: str) -> tuple[LinkState, ...]:
        """The state of the applications' links to a cluster, one for each broker. Raises `Unreachable`."""
        return tuple(link for link in self._all() if link.name.rpartition("-")[0] == f"{APPS_LINK}{alias}")

    def cut_applications(self, alias: str, cut: bool = True) -> None:
        """Reset the applications' connections to a cluster and refuse new ones, or end that. Raises as `set` does."""
        self.set(f"{APPS_LINK}{alias}", cut=cut)

    def target(self, link: str, port: int) -> None:
        """Send new connections of `link` to `port`."""
        self._request({"op": "target", "link": link, "port": port})

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
        """Change the given toxics and keep the others. `link` is a broker's (`LEFT-1`), an alias (`LEFT`), or None for all
        those of mirrors; `apps:LEFT-1` and `apps:LEFT` are the links of applications.

        `delay_ms` is one way, milliseconds; `bandwidth` is bytes per second, 0 for no cap; `cut` resets
        open connections and refuses new ones, in both directions whatever `direction` is. Raises `UsageError` for an
        unknown link.
        """
        if (delay_ms or 0) < 0 or (bandwidth or 0) < 0:
            raise UsageError("not a link setting", "delay and bandwidth cannot be negative", "Use 0 for none")
        self._request(
            {
                "op": "set",
                "link": link,
                "direction": direction,
                "toxics": {"delay_ms": delay_ms, "bandwidth": bandwidth, "blackhole": blackhole},
                "cut": cut,
            }
        )

    def reset(self, link: str | None = None) -> None:
        """End every open connection of the link with RST, once; new ones are accepted."""
        self._request({"op": "reset", "link": link})

    def forget(self, link: str | None = None, *, direction: Direction = "both") -> None:
        """Silence the open connections of the link for good, as a firewall that lost its table does; new ones work."""
        self._request({"op": "forget", "link": link, "direction": direction})

    def clear(self, link: str | None = None) -> None:
        """Remove every toxic and the cut."""
        self.set(link, delay_ms=0, bandwidth=0, blackhole=False, cut=False)

    def _all(self) -> tuple[LinkState, ...]:
        return self._request({"op": "links"}) or ()

    def _state(self) -> _State:
        try:
            return read_json(self._state_file, _STATE, "Run `drlib lab down`, then `drlib lab up`.")
        except FileNotFoundError as problem:
            raise Unreachable(
                "the link proxy does not run", f"{self._state_file} does not exist", "Run `drlib lab up`"
            ) from problem

    def _request(self, request: Mapping[str, object]) -> tuple[LinkState, ...] | None:
        state = self._state()
        line = json.dumps({**request, "token": state.token}).encode() + b"\n"
        try:
            with socket.create_connection((HOST, state.control_port), timeout=_PATIENCE_S) as connection:
                connection.sendall(line)
                with connection.makefile("rb") as answers:
                    line = answers.readline(_MOST_ANSWER) or b'{"error": "it closed the connection"}'
                    answer = decoding.json_as(_ANSWER, line)
        except (OSError, OverflowError, Undecodable) as problem:
            raise Unreachable("The link proxy does not answer", str(problem), "Run `drlib lab status`") from problem
        if answer.error is not None:
            raise UsageError("The link proxy refused", answer.error, "Run `drlib lab status` for the links there are")
        return answer.ok
