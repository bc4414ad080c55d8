"""What ended a run, in one line and one exit code: pure.

Rules: an error of ours keeps its own exit code and its three sentences, though only its name comes over from the
kernel; a stop by a signal is 8 whatever it broke; a dead kernel is 6, as it is unknown how far the steps came; any other
exception is a defect, 1, reported with its class.
"""

import errno
from dataclasses import dataclass

from drlib import errors
from drlib.drill.plan.ways_on import WaysOn


@dataclass(frozen=True, slots=True)
class Outcome:
    """`code` 0 and no `error` for a notebook that ran to its end."""

    code: int = 0
    error: str = ""


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
COMPLETED = Outcome()
KERNEL_DIED = Outcome(errors.Deviated.exit_code, "the notebook's kernel died")


def stopped(by: str) -> Outcome:
    """The run was stopped by the signal `by`."""
    return Outcome(errors.Aborted.exit_code, f"stopped by {by}")


def failed_cell(name: str, text: str, cell: int | None) -> Outcome:
    """A cell (its execution count, None when it has none) raised the error class `name` that says `text`."""
    if name == "KeyboardInterrupt":
        return stopped("an interrupt")
    kind = error_class(name)
    if kind is not None:
        return Outcome(kind.exit_code, text)
    where = "" if cell is None else f"cell [{cell}] failed: "
    return Outcome(1, f"{where}{name}: {text}" if text else f"{where}{name}")


def failed(error: Exception, on: WaysOn) -> Outcome:
    """The run failed outside the notebook's cells. `on`: how to go on with it."""
    if isinstance(error, OSError) and error.errno in FULL:
        return Outcome(errors.Deviated.exit_code, str(unwritten(error, on)))
    if isinstance(error, errors.DrlibError):
        return Outcome(error.exit_code, str(error))
    return Outcome(1, f"{type(error).__name__}: {error}")


def unwritten(error: OSError, on: WaysOn) -> errors.Deviated:
    """The run's folder cannot be written. `on`: how to go on with the run."""
    return errors.Deviated(
        "the run stopped where it was",
        f"its folder cannot be written: {error.strerror or error}",
        f"Free space first. {on.sentence}",
    )


def error_class(name: str) -> type[errors.DrlibError] | None:
    """The class of our error tree that is called `name`, as far as it is loaded here."""
    waiting: list[type[errors.DrlibError]] = [errors.DrlibError]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name:
            return kind
        waiting.extend(kind.__subclasses__())
    return None
