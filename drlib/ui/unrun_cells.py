"""What a kernel says to a cell that needs another one: the name of that one, instead of a bare NameError.

Rules: for names that drlib's notebooks make in one cell and use in others, and only where the cell itself uses the name; every
other error is shown as IPython shows it. JupyterLab as `drlib notebook` starts it gives each kernel `kernel_startup.py`, so it
holds after a restart, before any cell has run. Nothing of drlib is imported here: this runs at the start of every kernel.
Not for: the order of calls on an open lesson or incident, which they know themselves.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Final

# What the cells with parameters set.
PARAMETERS: Final = frozenset(
    (
        "allow",
        "answers",
        "at_once",
        "backlog",
        "bandwidth",
        "bucket_seconds",
        "clients",
        "fault_at",
        "flow",
        "force_reason",
        "groups",
        "histories",
        "lab_dir",
        "lag_seconds",
        "left_behind",
        "level",
        "master",
        "names",
        "objective",
        "outage",
        "partitions",
        "pass_points",
        "plant",
        "player",
        "prediction",
        "prediction_again",
        "properties",
        "rate",
        "records",
        "records_per_second",
        "reread_allowed",
        "retention",
        "role",
        "rpo_records",
        "rpo_seconds",
        "rto_seconds",
        "rtt",
        "run_dir",
        "runbook",
        "scope",
        "seat",
        "seed",
        "skip_gate",
        "slow_group",
        "state",
        "stopped_seconds",
        "tail",
        "topic",
        "topics",
        "trial_bandwidth",
        "trial_rtt",
        "watch_seconds",
        "window",
        "witnesses",
    )
)
OPENED: Final = frozenset({"audit", "console", "drill", "incident", "lag", "lesson", "sizing", "tour", "trial"})
IMPORTED: Final = frozenset({"drlib", "order_figure", "pulse_figure"})


def cell_to_run(name: str) -> str:
    """Which cell makes `name`, in a sentence; "" for a name that drlib's notebooks do not make."""
    if name in PARAMETERS:
        return (
            "Run the cell with the parameters first, the first one with code, then the cells below it in their order."
        )
    if name in OPENED:
        return f"Run first the cell with the parameters, then the one with the line that begins with `{name} = `."
    if name in IMPORTED:
        return f"Run first the cell with the parameters, then the one that imports {name}."
    return ""


def install() -> None:
    """Let this process's IPython kernel say it. Nothing where there is none."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        shell.set_custom_exc((NameError,), _show)


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: int | None = None
) -> None:
    """Show a NameError of a cell, with the cell to run where that is known."""
    name = getattr(error, "name", None) or ""
    cell = cell_to_run(name) if _raised_by(trace) is shell.user_ns else ""
    if cell:
        said = (
            f"{kind.__name__}: {name} is not known: the cell that makes it was not run since the kernel started. {cell}"
        )
        error._render_traceback_ = lambda: [said]  # type: ignore[attr-defined]  # IPython's protocol
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def _raised_by(trace: TracebackType) -> object:
    """The global names of the code that raised the error."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals
