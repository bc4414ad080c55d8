"""The alerts of a run: one POST of its result where it missed and, if its `alert` asks for it, of what happens before.

Rules: sent once, after the scorecard and before the manifest, for every exit code but 0, and for a run that was refused
before it had a folder (a closed gate, a cluster that is away, an unfinished run in its way), but not for a command that was
mistyped at a terminal. What came of it is in the run's folder (`alert.json`), with the address as written in the file. An
alert that could not be delivered is said on the terminal and never changes the run's result. Figures, names and the error are
sent; no evidence and no parameter.
- What happens during a run is read from its journal, and posted in order, each event once, by a thread that the run does not
  wait for; at its end it is given the time of one request. What came of each is in `alerts-during.json`.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from drlib.drill.actions.hooks import run as hook_run
from drlib.drill.actions.hooks.hook import Evidence, HookContext, HttpHook
from drlib.drill.plan.progress import Noted
from drlib.errors import DrlibError, UsageError
from drlib.files import write_whole
from drlib.runbook.file.model import Alert, During
from drlib.runs import journal
from drlib.runs.journal import JOURNAL, Scalar
from drlib.runs.scorecard import Scorecard

EVIDENCE: Final = "alert.json"
DURING: Final = "alerts-during.json"
_LOOK_S: Final = 0.3
_FAILURES: Final = frozenset(
    {
        Noted.RUN_STARTED,
        Noted.RUN_RESUMED,
        Noted.STEP_FAILED,
        Noted.HYPOTHESIS_FAILED,
        Noted.ABORT_REQUESTED,
        Noted.UNDO_STARTED,
        Noted.UNDO_FAILED,
    }
)
_OF: Final[Mapping[During, frozenset[Noted]]] = MappingProxyType(
    {
        During.NOTHING: frozenset(),
        During.FAILURES: _FAILURES,
        During.STEPS: _FAILURES | {Noted.STEP_STARTED, Noted.STEP_SUCCEEDED, Noted.APPROVED, Noted.UNDO_SUCCEEDED},
    }
)


def send(alert: Alert, card: Scorecard, code: int, error: str, run_dir: Path) -> str:
    """POST it. Returns why it was not delivered, empty when it was."""
    body = {
        "runbook": card.runbook,
        "verdict": card.verdict.value,
        "exit_code": code,
        "error": error,
        "rto_seconds": card.rto_seconds.total,
        "rpo_records": card.rpo.records,
        "rpo_seconds": card.rpo.seconds,
        "rpo_at_least": card.rpo.at_least,
        "missed": "; ".join(check.name for check in card.checks if check.verdict.value == "fail"),
    }
    evidence, why = _post(alert, body, HookContext(card.run_id, card.environment.get("flow", ""), ""))
    write_whole(run_dir / EVIDENCE, json.dumps(evidence, indent=1, ensure_ascii=False))
    return why


def send_refused(alert: Alert, runbook: str, refusal: DrlibError) -> str:
    """POST that a run was refused before it had a folder. Returns why it was not delivered, empty when it was."""
    body: dict[str, Scalar] = {
        "runbook": runbook,
        "verdict": "unknown",
        "exit_code": refusal.exit_code,
        "error": str(refusal),
    }
    return _post(alert, body, HookContext("", "", ""))[1]


class DuringRun:
    """Posts what the journal of the run in `run_dir` says from now on. A context manager around the run."""

    def __init__(self, alert: Alert | None, runbook: str, run_dir: Path) -> None:
        self._alert, self._runbook, self._run_dir = alert, runbook, run_dir
        self._posted: list[dict[str, Scalar]] = []
        self._failed: list[str] = []
        self._end, self._writing, self._closed = threading.Event(), threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name="run-alerts", daemon=True)
        self._seen, self._late = 0, False
        if alert is not None and alert.during is not During.NOTHING:
            self._seen = len(self._lines())
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._alert is not None and self._thread.ident is not None:
            self._thread.join(self._alert.timeout_seconds + 2 * _LOOK_S)
        with self._writing:
            self._closed = True  # the folder is sealed after this
            self._late = self._thread.is_alive()

    @property
    def undelivered(self) -> str:
        """How many were not delivered, and why the first was not; empty where all were."""
        failed = [f"{len(self._failed)} alerts during the run: {self._failed[0]}"] if self._failed else []
        late = ["the last alerts during the run were not answered in time"] if self._late else []
        return "; ".join((*failed, *late))

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._end.wait(_LOOK_S)
            self._look()

    def _look(self) -> None:
        assert self._alert is not None
        lines = self._lines()
        for line in lines[self._seen :]:
            self._seen = line.seq + 1
            if line.event in _OF[self._alert.during]:
                self._send(self._alert, line)

    def _lines(self) -> Sequence[journal.Line]:
        try:
            return journal.read(self._run_dir / JOURNAL)
        except (OSError, DrlibError):  # there is none yet, or the run itself reports what is wrong with it
            return ()

    def _send(self, alert: Alert, line: journal.Line) -> None:
        step, why = (str(line.data.get(name) or "") for name in ("step", "error"))
        body: dict[str, Scalar] = {
            "runbook": self._runbook,
            "event": line.event,
            "at": line.at,
            "step": step,
            "error": why or str(line.data.get("detail") or ""),
        }
        evidence, failed = _post(alert, body, HookContext(self._run_dir.name, "", ""))
        with self._writing:
            if self._closed:
                return
            self._posted.append({"event": line.event, "step": step, **evidence})
            if failed:
                self._failed.append(failed)
            with suppress(OSError):  # a full disk is the run's own to report
                write_whole(self._run_dir / DURING, json.dumps(self._posted, indent=1, ensure_ascii=False))


def _post(alert: Alert, body: dict[str, Scalar], context: HookContext) -> tuple[dict[str, Scalar], str]:
    """What came of it, and why it was not delivered."""
    try:
        hook = HttpHook(name="alert", url=alert.url, headers=alert.headers, body=body, timeout_s=alert.timeout_seconds)
        evidence = hook_run.run(hook, context)
    except UsageError as problem:
        return {"outcome": "not done", "reason": str(problem)}, str(problem)
    return dict(evidence.scalars()), "" if evidence.ok else _why(evidence)


def _why(evidence: Evidence) -> str:
    code = "" if evidence.code is None else f", status {evidence.code}"
    reason = f": {evidence.reason}" if evidence.reason else ""
    return f"the alert to {evidence.target} was {evidence.outcome.value}{code}{reason}"
