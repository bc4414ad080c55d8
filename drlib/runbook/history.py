"""The runs there are, read from their folders.

Rules: a folder of runs/ is a run when its name is one; what cannot be read is a run whose verdict is unknown, with the
reason, and is never left out. Nothing is written.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from drlib.drill.run.planning import PLAN_FILE
from drlib.runbook.history_rules import Outcome
from drlib.runs.journal import JOURNAL
from drlib.runs.scorecard import SCORECARD, Scorecard

_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-([a-z0-9][a-z0-9._-]*)-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class PastRun:
    """`problem` says why there is no scorecard to go by; empty when there is one."""

    outcome: Outcome
    folder: Path
    problem: str = ""


def read_runs(runs_dir: Path) -> tuple[PastRun, ...]:
    """Every run in `runs_dir`, oldest first; none when there is no such folder."""
    runs = []
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_dir() and not path.is_symlink():
            runs.append(_run(path, match[2], match[1]))
    return tuple(runs)


def _run(path: Path, runbook: str, begun: str) -> PastRun:
    started = int(datetime.strptime(begun, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
    try:
        card = Scorecard.read(path / SCORECARD)
    except FileNotFoundError:
        planned = (path / PLAN_FILE).exists() and not (path / JOURNAL).exists()
        why = "planned, not run" if planned else "no scorecard: it was not finished"
        return PastRun(Outcome(path.name, runbook, started, "unknown"), path, why)
    except (ValueError, OSError) as error:
        why = f"its scorecard cannot be read: {str(error).splitlines()[0]}"
        return PastRun(Outcome(path.name, runbook, started, "unknown"), path, why)
    return PastRun(
        Outcome(
            path.name,
            runbook,
            card.started_ms or started,
            card.verdict.value,
            card.rto_seconds.total,
            card.rpo.records,
            card.rpo.seconds,
        ),
        path,
    )
