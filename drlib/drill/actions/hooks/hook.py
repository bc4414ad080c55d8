"""What a hook is: a command to run or an address to post to, and the evidence of a call.

Rules: no shell, and no argument holds a secret, as any user of the machine can list arguments. Secrets are references
(`${env:NAME}`, `${file:/path:key}`) in environment values, headers, the body or the address; evidence holds the reference.
What a reference stands for, and what was written out instead of one, is hidden in captured output before anything is cut, so
no part of a secret is left at a cut. Four
outcomes: `unknown` is a call that began and whose end was not observed, and never counts as failed. A hook is tried again
only if it is declared idempotent.
Not for: running one (`run`), and deciding what a failed step means; the drill does that.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Final

from drlib.drill.actions.hooks.left_running import CALL
from drlib.drill.step import secret_arguments
from drlib.drill.step.secret_arguments import PUBLIC_HEADERS
from drlib.errors import UsageError
from drlib.kafka.java_formats import references
from drlib.outgoing import credentials, http_request
from drlib.runs.journal import Scalar

KEPT: Final = 4096  # bytes of output kept from its beginning, and as many from its end
ABORTED: Final = "it was ended, as the run was aborted"
SUCCESS: Final = tuple(int(s) for s in (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT))
SHORTEST: Final = 8  # characters of a written-out text that is hidden in output: hiding a shorter one hides words


class Outcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"  # it ended, with an exit code or status that was not expected
    NOT_DONE = "not done"  # it never began: no such program, no listener, a certificate that is not trusted
    UNKNOWN = "unknown"  # it began, and time was up or the connection lost before it ended


@dataclass(frozen=True, slots=True)
class HookContext:
    """The values that a hook receives. `flow` is such as `LEFT->RIGHT`, `active` the alias of the cluster in use now. `call` is
    the same whenever this hook is called again for the same purpose; empty where it never is."""

    run_id: str
    flow: str
    active: str
    call: str = ""

    def environment(self) -> dict[str, str]:
        return {"DRLIB_RUN_ID": self.run_id, "DRLIB_FLOW": self.flow, "DRLIB_ACTIVE": self.active, CALL: self.call}

    def headers(self) -> dict[str, str]:
        return {"Idempotency-Key": self.call} if self.call else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """`argv` is run without a shell. It gets the variables that any program needs (`drlib.outgoing.environment`), drlib's own
    and `environment`, whose values may be references: another variable of this process is handed on as NAME=${env:NAME}.

    `timeout_s` is for each of `attempts`; more than one needs `idempotent`. Raises `UsageError` for wrong values.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    expected: tuple[int, ...] = (0,)
    timeout_s: float = 60.0
    idempotent: bool = False
    attempts: int = 1

    def __post_init__(self) -> None:
        _check_attempts(self.name, self.attempts, self.idempotent, self.timeout_s)
        if isinstance(self.argv, str) or not self.argv or not self.argv[0]:
            raise UsageError(
                f"hook {self.name} has no command",
                "argv is a list, the program first",
                'Write ["/path/program", "arg"].',
            )
        if any(references.refers(argument) for argument in self.argv):
            raise UsageError(
                f"hook {self.name} hands a secret over as an argument",
                "every user of this machine can list the arguments of a process",
                "Put the reference into environment and let the command read it there.",
            )
        for place, argument in enumerate(self.argv):
            form = credentials.form_of(argument)
            if form and not (form == credentials.NAMED and len(argument.split()) > 1):  # such as a line of a shell
                raise UsageError(
                    f"hook {self.name} hands a secret over as an argument",
                    f"number {place} of its argv looks like {form}, and every user of this machine can list it",
                    "Put a reference, ${env:NAME}, into environment and let the command read it there.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHook:
    """POSTs JSON: the run, the flow, the active cluster, and `body`. `url` and the values of `headers` may hold references,
    and those of `body` where `body_refers`: an error's text in it may hold one, too, which is not resolved.

    `ca` is a PEM file to trust instead of the system's authorities. `expected` are statuses. Raises `UsageError`.
    """

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Scalar] = field(default_factory=dict, repr=False)
    body_refers: bool = False
    expected: tuple[int, ...] = SUCCESS
    ca: Path | None = None
    timeout_s: float = 10.0
    idempotent: bool = False
    attempts: int = 1

    def __post_init__(self) -> None:
        _check_attempts(self.name, self.attempts, self.idempotent, self.timeout_s)
        for header, value in self.headers.items():
            if header.lower() not in PUBLIC_HEADERS and not references.refers(value):
                raise UsageError(
                    f"hook {self.name} holds a secret",
                    f"{header} is written out, and any header but {', '.join(sorted(PUBLIC_HEADERS))} may be one",
                    "Refer to its value: ${env:NAME}.",
                )

    @property
    def given(self) -> tuple[str, ...]:
        """Headers and body as written, without those that hold no secret."""
        headers = (value for name, value in self.headers.items() if name.lower() not in PUBLIC_HEADERS)
        return (*headers, *(map(str, self.body.values()) if self.body_refers else ()))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a hook that was run. `code`: exit code (negative: the signal) or status, None without one.

    `target` and `sent` show names, hosts and references as they are written, no values. `output` is the last attempt's,
    `left_out` bytes of it cut from its middle; `seconds` is for all attempts.
    """

    name: str
    kind: str
    target: str
    outcome: Outcome
    code: int | None
    attempts: int
    seconds: float
    output: str
    left_out: int = 0
    reason: str = ""
    sent: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    def scalars(self) -> dict[str, Scalar]:
        """For one line of the drill's journal."""
        return {
            "name": self.name,
            "kind": self.kind,
            "target": self.target,
            "outcome": self.outcome.value,
            "code": self.code,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 3),
            "output": self.output,
            "left_out": self.left_out,
            "reason": self.reason,
            "sent": ", ".join(f"{name}: {value}" for name, value in self.sent),
        }


def target_of(hook: CommandHook | HttpHook) -> str:
    """What is called, as evidence may show it: of an address scheme, host and port, or the references it is made of.

    The path of a webhook is a secret itself, as that of Slack and Teams.
    """
    if isinstance(hook, CommandHook):
        return " ".join(hook.argv)
    return str(secret_arguments.address(hook.url))


def _check_attempts(name: str, attempts: int, idempotent: bool, timeout_s: float) -> None:
    if attempts < 1 or timeout_s <= 0:
        raise UsageError(f"hook {name} can never run", "attempts or timeout_s is not above zero", "Correct it.")
    if attempts > 1 and not idempotent:
        raise UsageError(
            f"hook {name} may not be tried {attempts} times",
            "a call that timed out may have taken effect, and the hook is not declared idempotent",
            "Set idempotent = true if it may take effect twice, or leave attempts out.",
        )


class Secrets:
    """The values behind references, and text without them; and without what is written out in `texts` and `url`, as it may be
    a secret, too: each value as a whole, and the parts of the address's path and query."""

    def __init__(self, texts: Iterable[str], where: str, url: str = "") -> None:
        given = tuple(texts)
        secrets = {value.strip() for text in (*given, url) for value in references.values(text, where)} - {""}
        written = (references.without_references(text).strip() for text in given)
        secrets |= {text for text in (*written, *_parts(references.resolve(url, where))) if len(text) >= SHORTEST}
        self._values = sorted((value.encode() for value in secrets), key=len, reverse=True)

    @property
    def longest(self) -> int:
        return max(map(len, self._values), default=0)

    def hide(self, raw: bytes) -> bytes:
        for value in self._values:
            raw = raw.replace(value, references.HIDDEN.encode())
        return raw


class Kept:
    """The beginning and the end of what is written, with a margin, so that no secret is cut before it is hidden."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._room = KEPT + secrets.longest
        self._head = b""
        self._tail = b""
        self._size = 0

    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        fits = self._room - len(self._head)
        self._head += chunk[:fits]
        self._tail = (self._tail + chunk[fits:])[-self._room :]

    def shown(self) -> tuple[str, int]:
        """The text, and how many bytes were left out of its middle."""
        if len(self._head) + len(self._tail) == self._size:
            whole = self._secrets.hide(self._head + self._tail)
            if len(whole) <= 2 * KEPT:
                return whole.decode(errors="replace"), 0
            head, tail = whole[:KEPT], whole[-KEPT:]
            return _joined(head, tail), len(whole) - 2 * KEPT
        head, tail = self._secrets.hide(self._head)[:KEPT], self._secrets.hide(self._tail)[-KEPT:]
        return _joined(head, tail), self._size - len(head) - len(tail)


def _parts(url: str) -> tuple[str, ...]:
    """The path and query of `url`, and what they are made of."""
    try:
        target = http_request.parse(url).target
    except http_request.NotAnAddress:
        return ()
    return (target, *re.split(r"[/?&=:]", target))


def _joined(head: bytes, tail: bytes) -> str:
    return f"{head.decode(errors='replace')}\n[...]\n{tail.decode(errors='replace')}"


def listed(codes: Iterable[int]) -> str:
    return ", ".join(map(str, codes))
