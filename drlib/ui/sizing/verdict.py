"""Verdicts of a sizing: on the link, on one outage, and on whether the lab's link performed as predicted.

Rules: the flow and the outage are judged by arithmetic, a measurement only by whether the arithmetic held on this machine: one
that falls short may only show a busy machine, so it is unknown and no failure.
Not for: the arithmetic (`rules.sizing`).
"""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drlib import clock, formats
from drlib.lab.link.sizing import LinkSpec, Outage, Size, ours, sequential
from drlib.lab.link_trial import Measured
from drlib.runs import folder as folders
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, Records, Rpo, RtoSeconds, Scorecard

NAME: Final = "size-the-link"
HELD: Final = 0.5  # of what was predicted; clusters and mirror on one machine, and joining workers, take the rest


def carries(size: Size, said: str) -> Check:
    """Does the link carry the flow?"""
    return Check(name="the link carries the flow", verdict=Verdict.PASS if size.enough else Verdict.FAIL, evidence=said)


def survives(outage: Outage, retention_s: float) -> Check:
    """Does retention keep everything while the mirror is away for so long, and while it catches up?"""
    name = f"an outage of {formats.short_duration(outage.seconds)} loses nothing"
    if outage.lost:
        why = f"{formats.short_size(outage.lost)} at least, of a retention of {formats.short_duration(retention_s)}"
        return Check(name=name, verdict=Verdict.FAIL, evidence=why)
    if outage.catch_up_s is None:
        return Check(name=name, verdict=Verdict.FAIL, evidence="the mirror never catches up")
    left = (
        ""
        if outage.left_s is None
        else f"; {formats.short_duration(outage.left_s)} are left of retention when it is back"
    )
    return Check(
        name=name, verdict=Verdict.PASS, evidence=f"caught up after {formats.short_duration(outage.catch_up_s)}{left}"
    )


def measured_as_predicted(
    link: LinkSpec, waiting: Sequence[Measured], mirrored: Sequence[Measured]
) -> tuple[Check, ...]:
    """Checks of the measurements on the lab's link: the best of each kind against its prediction."""
    checks = []
    for name, tried in (
        (
            f"clients that wait reach at least {HELD:.0%} of what was predicted",
            [(m.rate, sequential(link, m.request, m.clients)) for m in waiting],
        ),
        (
            f"drlib mirror reaches at least {HELD:.0%} of what was predicted",
            [(m.rate, ours(link, m.workers)[0]) for m in mirrored],
        ),
    ):
        if not tried:
            continue
        rate, predicted = max(tried, key=lambda pair: pair[0] / pair[1])
        verdict = Verdict.PASS if rate >= HELD * predicted else Verdict.UNKNOWN
        checks.append(
            Check(
                name=name,
                verdict=verdict,
                evidence=f"{formats.rate(rate)} of {formats.rate(predicted)} on the lab's link",
            )
        )
    return tuple(checks)


def write(run_dir: Path, checks: Sequence[Check], began_ms: int) -> Verdict:
    """Write `scorecard.json`; returns its verdict."""
    card = Scorecard(
        runbook=NAME,
        run_id=run_dir.name,
        verdict=verdicts.overall(checks, 0),
        rto_seconds=RtoSeconds(),
        rpo=Rpo(),
        records=Records(),
        groups=(),
        checks=tuple(checks),
        started_ms=began_ms,
        finished_ms=clock.now_ms(),
        environment={"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"},
        kind=Kind.ANALYSIS,
    )
    folders.conclude(run_dir, card)
    return card.verdict
