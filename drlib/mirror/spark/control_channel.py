"""The driver's end of the line to its tasks: who is there, what they say, and one way to let all of them stop.

Rules: whoever calls shows the token first, within a time and a length, or is hung up on; a caller after `stop` is told so
at once. Closing our half of a line is the word to stop, so that the death of this process says the same. What comes in is put
on a queue; nothing is decided here. Not for: secrets; the words of workers hold none.
"""

from __future__ import annotations

import contextlib
import hmac
import queue
import secrets
import socket
import threading
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from drlib.mirror.spark.child_worker import Word, decode_word

HELLO_S = 10.0
HELLO_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Hello:
    """Who calls: an `attempt` at worker `number`."""

    token: str
    number: int
    attempt: int
    name: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A worker's word; None where it says hello."""

    hello: Hello
    word: Word | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The line to that attempt ended."""

    hello: Hello


_HELLO = TypeAdapter(Hello)


class Line:
    """Open from the start to `close`; `heard` is where everything is put."""

    def __init__(self, host: str, heard: queue.SimpleQueue[object]) -> None:
        self.token = secrets.token_hex(16)
        self._heard = heard
        self._lock = threading.Lock()
        self._stopped = False
        self._lines: dict[socket.socket, Hello] = {}
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        self._server = socket.create_server((host, 0), family=family, backlog=64)
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, name="line", daemon=True).start()

    def there(self) -> frozenset[int]:
        """Numbers of the workers that have an attempt on the line."""
        with self._lock:
            return frozenset(hello.number for hello in self._lines.values())

    def stop(self) -> None:
        """Tell every worker that is there, and every one that comes, to stop."""
        with self._lock:
            self._stopped = True
            for line in self._lines:
                _half_close(line)

    def close(self) -> None:
        self.stop()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._listen, args=(line,), name="line", daemon=True).start()

    def _listen(self, line: socket.socket) -> None:
        with line, line.makefile("rb") as words, contextlib.suppress(OSError):
            line.settimeout(HELLO_S)
            try:
                hello = _HELLO.validate_json(words.readline(HELLO_BYTES))
            except ValidationError:
                return
            if not hmac.compare_digest(hello.token.encode(), self.token.encode()):
                return
            line.settimeout(None)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with self._lock:
                self._lines[line] = hello
                if self._stopped:
                    _half_close(line)
            self._heard.put(Heard(hello))
            try:
                for said in words:
                    self._heard.put(Heard(hello, decode_word(said)))
            except (OSError, ValidationError):
                pass  # cut in the middle of a word: its executor died
            finally:
                with self._lock:
                    del self._lines[line]
                self._heard.put(Gone(hello))


def _half_close(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_WR)
