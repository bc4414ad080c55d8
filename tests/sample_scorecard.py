"""A realistic scorecard and journal for tests of what people look at: one drill, killed in mid-traffic, 37 s in all."""

from __future__ import annotations

from pathlib import Path

from drlib.runs import folder as folders
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import DrillJournal, Line, read
from drlib.runs.scorecard import (
    GroupScore,
    LostExample,
    Mark,
    Objectives,
    PartitionOffsets,
    Records,
    Rpo,
    RtoSeconds,
    Sample,
    Scorecard,
)

START = 1_795_255_200_000  # 2026-11-21 10:00:00 UTC
FAULT, DETECTED, DECIDED, ACTED, VERIFIED = 21_400, 22_630, 22_712, 26_930, 29_545


def scorecard(**changes: object) -> Scorecard:
    """A pass with conditions: 118 records were on the source alone; `changes` replace fields."""
    return _CARD.model_copy(update=changes)


def unmeasured() -> Scorecard:
    """A drill that broke off before anything was established."""
    return Scorecard(
        runbook="failover-drill",
        run_id="20261121T100000Z-9f31c2",
        verdict=Verdict.UNKNOWN,
        rto_seconds=RtoSeconds(),
        rpo=Rpo(),
        records=Records(),
        groups=(GroupScore(group="arrivals"),),
        checks=(),
        partitions=(
            PartitionOffsets(
                topic="flights", partition=0, source_end=None, mirrored_to=None, target_end=None, unmirrored=None
            ),
        ),
    )


def journal(folder: Path) -> tuple[Line, ...]:
    """Lines as a drill writes them, through the real journal."""
    book = DrillJournal(folder / "journal.jsonl")
    book.write("drill started", runbook="failover-drill", seed=7)
    for step, seconds in (("steady state", 12.4), ("kill LEFT", 0.1), ("translate positions", 1.9), ("switch", 2.2)):
        book.write("step started", step=step)
        book.write("step finished", step=step, status="succeeded", seconds=seconds)
    book.write("drill finished", status="completed", deviated=False, verdict="conditions")
    book.close()
    return read(book.path)


def finished_run(folder: Path, card: Scorecard) -> Path:
    """A run in the new folder `folder` that is verified: journal, scorecard, manifest."""
    folder.mkdir(mode=0o700, parents=True)
    journal(folder)
    folders.conclude(folder, card.model_copy(update={"run_id": folder.name}))
    return folder


def _samples() -> tuple[Sample, ...]:
    found = []
    for second in range(37):
        produced = 60_000 + 4_000 * second if second <= 21 else 145_600 + max(0, second - 27) * 4_000
        mirrored = min(int(9_500 * second), 60_000 + 4_000 * second - 160) if second <= 21 else 145_482
        arrivals = min(int(8_800 * second), produced - 900 if second <= 21 else 144_700 + max(0, second - 27) * 4_010)
        delays = int(2_450 * second) if second <= 21 else 52_430 + max(0, second - 27) * 2_450
        at_ms = START + second * 1000
        found.append(Sample(at_ms=at_ms, produced=produced, mirrored=mirrored, consumed={"arrivals": arrivals}))
        found[-1] = found[-1].model_copy(update={"consumed": {"arrivals": arrivals, "delays": delays}})
    return tuple(found)


def _partitions() -> tuple[PartitionOffsets, ...]:
    found = []
    for topic, partitions, size in (("delays", 3, 17_800), ("flights", 6, 24_266)):
        for n in range(partitions):
            end = size + 37 * n * (1 if n % 2 else -1)
            behind = (0, 31, 0, 54, 0, 33)[n] if topic == "flights" else 0
            found.append(
                PartitionOffsets(
                    topic=topic,
                    partition=n,
                    source_end=end,
                    mirrored_to=end - behind,
                    target_end=end - behind + 6_002 + n,
                    unmirrored=behind,
                )
            )
    return tuple(found)


_CARD = Scorecard(
    runbook="failover-drill",
    run_id="20261121T100000Z-4be0a7",
    verdict=Verdict.CONDITIONS,
    rto_seconds=RtoSeconds(detect=1.23, decide=0.082, act=4.218, verify=2.615, total=8.145),
    rpo=Rpo(records=118, seconds=0.031),
    records=Records(produced=181_600, mirrored=145_482, lost=118, duplicated=0, out_of_order=0),
    groups=(
        GroupScore(group="arrivals", re_read=214, skipped=0, positions={"exact": 5, "behind": 1}),
        GroupScore(group="delays", re_read=0, skipped=0, positions={"exact": 3}),
    ),
    checks=(
        Check(
            name="no record is lost beyond the objective",
            verdict=Verdict.CONDITIONS,
            evidence="118 of 181,600 acknowledged records are on LEFT alone; the objective allows 500",
        ),
        Check(name="nothing is duplicated", verdict=Verdict.PASS, evidence="181,482 records scanned, 181,482 distinct"),
        Check(
            name="order holds for each key",
            verdict=Verdict.PASS,
            evidence="4,043 keys in 9 partitions, no step backwards; checked by histories and by Spark",
        ),
        Check(
            name="every group resumes at the exact record",
            verdict=Verdict.PASS,
            evidence="8 of 9 positions exact; 1 behind by 214 records that were read again; none skipped",
        ),
        Check(
            name="objective: RTO in seconds",
            verdict=Verdict.PASS,
            evidence="8.145 of at most 30 seconds: 21.855 seconds to spare",
        ),
        Check(
            name="objective: RPO in records",
            verdict=Verdict.PASS,
            evidence="118 of at most 500 records: 382 records to spare",
        ),
        Check(name="no transaction is left open", verdict=Verdict.PASS, evidence="0 of 9 partitions hold one back"),
    ),
    objectives=Objectives(rto_seconds=30, rpo_records=500),
    started_ms=START,
    finished_ms=START + 37_120,
    marks=(
        Mark(name="steady state held", at_ms=START + 14_000, detail="mirror lag under 200 records for 5 s"),
        Mark(name="LEFT killed", at_ms=START + FAULT, detail="SIGKILL to the broker"),
        Mark(name="detected", at_ms=START + DETECTED, detail="3 probes failed"),
        Mark(name="decided", at_ms=START + DECIDED, detail="policy: fail over"),
        Mark(name="switched", at_ms=START + ACTED, detail="pointer at RIGHT"),
        Mark(name="verified", at_ms=START + VERIFIED, detail="both groups read new records"),
    ),
    samples=_samples(),
    partitions=_partitions(),
    lost_examples=tuple(
        LostExample(
            id=f"N{14_000 + n}-{n}",
            key=f"N{14_000 + n}",
            partition=(1, 3, 5)[n % 3],
            offset=24_270 + n,
            acked_ms=START + FAULT - 31 + n,
        )
        for n in range(12)
    ),
    environment={
        "Kafka": "4.3.1, one KRaft broker a cluster",
        "drlib": "0.1.0",
        "Python": "3.11.2",
        "Java": "17.0.13",
        "PySpark": "4.0.5",
        "machine": "2 CPUs, 7.8 GiB, Linux 6.1",
        "link": "127.0.0.1, no delay added",
        "seed": "7",
    },
)
