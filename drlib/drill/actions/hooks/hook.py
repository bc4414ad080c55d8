"""Steps that are somebody else's: a command to run or an address to post to, and evidence of what came of it.

Rules: no shell, and no argument holds a secret, as any user of the machine can list arguments. Secrets are references
(`${env:NAME}`, `${file:/path:key}`) in environment values, headers or the address; evidence holds the reference, and what
it stands for is hidden in captured output too. Four outcomes: `unknown` is what was begun and not heard of again, and
never counts as failed. It is tried again only if it is declared idempotent.
Not for: running one (`hook_run`), and deciding what a failed step means; the drill does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.kafka.java_formats import references
from drlib.runs.journal import Scalar

SUCCESS: Final = tuple(int(s) for s in (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT))
_LOGIN_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})


class Outcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"  # it ended, with an exit code or status that was not expected
    NOT_DONE = "not done"  # it never began: no such program, nobody listens, a certificate that is not trusted
    UNKNOWN = "unknown"  # it began, and time was up or the connection lost before it ended


@dataclass(frozen=True, slots=True)
class HookContext:
    """What a hook is told. `flow` is such as `LEFT->RIGHT`, `active` the alias of the cluster in use now."""

    run_id: str
    flow: str
    active: str

    def environment(self) -> dict[str, str]:
        return {"DRLIB_RUN_ID": self.run_id, "DRLIB_FLOW": self.flow, "DRLIB_ACTIVE": self.active}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """`argv` is run without a shell, in this process's environment and `environment`, whose values may be references.

    `timeout_s` is for each of `attempts`; more than one needs `idempotent`. Raises `UsageError` for what cannot be meant.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHook:
    """POSTs JSON: the run, the flow, the active cluster, and `body`. `url` and the values of `headers` may hold references.

    `ca` is a PEM file to trust instead of the system's authorities. `expected` are statuses. Raises `UsageError`.
    """

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Scalar] = field(default_factory=dict)
    expected: tuple[int, ...] = SUCCESS
    ca: Path | None = None
    timeout_s: float = 10.0
    idempotent: bool = False
    attempts: int = 1

    def __post_init__(self) -> None:
        _check_attempts(self.name, self.attempts, self.idempotent, self.timeout_s)
        for header, value in self.headers.items():
            login = header.lower() in _LOGIN_HEADERS or references.is_secret(header)
            if login and not references.refers(value):
                raise UsageError(
                    f"hook {self.name} holds a secret", f"{header} is written out", "Refer to it: ${env:NAME}."
                )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a hook that was run. `code`: exit code (negative: the signal) or status, None without one.

    `target` and `sent` show references as they are written. `output` is the last attempt's, `left_out` bytes of it cut
    from its middle; `seconds` is for all attempts.
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
    """What is called, as evidence may show it: references as they are written, and nothing behind a `?`."""
    if isinstance(hook, CommandHook):
        return " ".join(hook.argv)
    return hook.url if references.refers(hook.url) else hook.url.partition("?")[0]


def _check_attempts(name: str, attempts: int, idempotent: bool, timeout_s: float) -> None:
    if attempts < 1 or timeout_s <= 0:
        raise UsageError(f"hook {name} can never run", "attempts or timeout_s is not above zero", "Correct it.")
    if attempts > 1 and not idempotent:
        raise UsageError(
            f"hook {name} may not be tried {attempts} times",
            "what timed out may have been done, and doing it twice is not said to be harmless",
            "Declare idempotent = true if it is, or take attempts away.",
        )
