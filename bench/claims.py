"""`python -m bench.claims`: time and memory of what a worker keeps of a reverse flow's journal with a million claims.

The journal's bytes are read as from a broker, batch by batch. Claims of a lane keep its producer ID and count its epochs up, so
that a million of them have 31 IDs; `ids` has as many IDs as claims, which no lane has. Each case is a process of its own; it
prints a line of JSON. Not for: reading it over a network (`bench`, workload m).
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import iter_batches
from drlib.mirror.engine.reverse.journal import JournalLane
from drlib.mirror.engine.reverse.rules import Known, Origin
from drlib.mirror.journal.claims_and_runs import Claim
from drlib.mirror.journal.fields import ClaimId

CLAIMS: Final = 1_000_000
EPOCHS: Final = 2**15
CASES: Final = {"epochs": EPOCHS, "ids": 1}
_BATCH: Final = 1_000


def journal(epochs: int, claims: int) -> Iterator[bytes]:
    """Batches of `claims` claims, `epochs` of each producer ID."""
    for first in range(0, claims, _BATCH):
        numbers = range(first, min(first + _BATCH, claims))
        entries = [Claim(ClaimId(1_000 + n // epochs, n % epochs), 1, n, "worker-1") for n in numbers]
        records = [recode.Record(n, n, entry.key(), entry.value()) for n, entry in enumerate(entries)]
        built = recode.rebuild(records, codec=0, producer_id=1, producer_epoch=0, base_sequence=0)
        batch = bytearray(built.head) + built.body
        struct.pack_into(">q", batch, 0, first)  # the base offset, which the checksum leaves out
        yield bytes(batch)


def resident() -> int:
    """Bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure(case: str, claims: int = CLAIMS) -> dict[str, float | str]:
    """Read them, and judge one batch of each producer ID."""
    lane, seconds = JournalLane(), 0.0
    for raw in journal(CASES[case], _BATCH):  # what is loaded once is not counted
        JournalLane().take(*next(iter_batches(raw)))
    before = resident()
    for raw in journal(CASES[case], claims):
        began = time.perf_counter()
        for header, view in iter_batches(raw):
            lane.take(header, view)
        seconds += time.perf_counter() - began
    known = Known(dict(lane.newest))  # as the lanes of a flow are put together
    grown = resident() - before
    began = time.perf_counter()
    copies = sum(known.origin((producer, epoch, False)) is Origin.COPY for producer, epoch in lane.newest.items())
    judged = time.perf_counter() - began
    if copies != -(-claims // CASES[case]):
        raise SystemExit(f"{copies} producers are known as those of copies, of {-(-claims // CASES[case])}")
    return {
        "case": case,
        "claims": claims,
        "producer ids": copies,
        "megabytes": round(grown / 1e6, 1),
        "seconds to read": round(seconds, 1),
        "nanoseconds to judge one": round(judged / copies * 1e9),
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    for case in CASES:
        subprocess.run([sys.executable, "-m", "bench.claims", case], check=True)


if __name__ == "__main__":
    main()
