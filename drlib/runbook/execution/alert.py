"""The alert of a run that missed: one POST of its result, by the runbook's `alert`.

Rules: sent once, after the scorecard and before the manifest, for every exit code but 0, and for a run that was refused
before it had a folder (a closed gate, a cluster that is away), but not for a mistyped command. What came of it is in
the run's folder (`alert.json`), with the address as written in the file. An alert that could not be delivered is said
on the terminal and never changes the run's result. Figures, names and the error are sent; no evidence and no parameter.
"""

import json
from pathlib import Path
from typing import Final

from drlib.drill.actions.hooks import run as hook_run
from drlib.drill.actions.hooks.hook import Evidence, HookContext, HttpHook
from drlib.errors import DrlibError, UsageError
from drlib.files import write_whole
from drlib.runbook.file.model import Alert
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Scorecard

EVIDENCE: Final = "alert.json"


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
