"""The error tree of drlib: every error that a user can meet says what happened, why, and the next command.

Rules: an error that a user can cause or meet is a `DrlibError` with three sentences and an exit code; the CLI prints
`str(error)` on one line and never a traceback. Broker error codes become these errors in one place,
`drlib.kafka.protocol.error_codes`.
Not for: programming errors, which stay ordinary exceptions and do print a traceback.
"""

from __future__ import annotations

from typing import ClassVar


class DrlibError(Exception):
    """An error that a user can act on.

    `what` happened, `why` it did, and the `remedy`: the next command or edit. `retriable`: the same call may succeed later
    without any change.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, why: str, remedy: str, *, retriable: bool = False) -> None:
        super().__init__(what, why, remedy)
        self.what = what
        self.why = why
        self.remedy = remedy
        self.retriable = retriable

    def __str__(self) -> str:
        return f"{self.what}: {self.why.removesuffix('.')}. {self.remedy}"

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the three sentences, as the terminal does."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(DrlibError):
    """A wrong key, parameter, file or option; nothing was started."""

    exit_code = 2


class ReadinessError(DrlibError):
    """The readiness gate refused to start a drill."""

    exit_code = 3


class HypothesisFailed(DrlibError):
    """The steady-state hypothesis did not hold before the drill began."""

    exit_code = 4


class DeviatedRolledBack(DrlibError):
    """A drill deviated and was rolled back."""

    exit_code = 5


class Deviated(DrlibError):
    """A drill deviated and was not rolled back."""

    exit_code = 6


class ObjectiveMissed(DrlibError):
    """A drill ran to its end and missed an objective."""

    exit_code = 7


class Aborted(DrlibError):
    """A run was stopped by Ctrl-C, SIGTERM or an abort button."""

    exit_code = 8


class ApprovalMissing(DrlibError):
    """A step needs an approval that was not given."""

    exit_code = 9


class LeaseHeld(DrlibError):
    """Another process holds this flow or lane."""

    exit_code = 10


class Unreachable(DrlibError):
    """A cluster did not answer within its deadline."""

    exit_code = 11

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy, retriable=True)


class NoBrokersYet(Unreachable):
    """A broker answers and names no broker of its cluster, not even itself: what it says of anything else is worth nothing."""

    def __init__(self, cluster: str) -> None:
        super().__init__(
            f"the brokers of {cluster} are not known",
            "a broker answers and names none, as one that has just started",
            "Wait a few seconds and run it again; if that does not help, read the log of that broker.",
        )


class NoLeader(Unreachable):
    """A partition has no leader: until it has one, its log can be neither read nor written."""

    def __init__(self, partition: object, cluster: str) -> None:
        self.partition = str(partition)
        super().__init__(
            f"{partition} on {cluster} cannot be read",
            f"it has no leader on {cluster}: the brokers that hold it are down",
            f"Start the broker that held {partition} last, then run it again.",
        )


class StalePlan(DrlibError):
    """The clusters have changed since the plan was made."""

    exit_code = 12


class MissingDependency(DrlibError):
    """Java, a jar or an optional package is not installed."""

    exit_code = 2


def first_error(error: BaseException) -> BaseException:
    """The first error in a group of any depth; an error that is no group itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def explain(error: BaseException) -> str:
    """An error in one line: the first of a group, with its type where it is not one of ours."""
    first = first_error(error)
    return str(first) if isinstance(first, DrlibError) else f"{type(first).__name__}: {first}"
