"""`python -m soak --minutes 10 --seed 7`: run a plan of faults, remove them, judge. Exit code 0: no findings; 1: findings.

Without a seed the known ones run first (`known_seeds.txt`: all that ever had findings), then a new one.

Rules: every run ends with a verdict: no findings, or each with its evidence and the seed that repeats the same faults
(apart from the machine's own timing). With findings the run's folder is kept, with all logs.
Ctrl-C and SIGTERM end it with all that it started.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import KafkaException
from fix_engine import wait_for
from own_processes import ended_in_order

from drlib.lab.lab import Lab
from soak.faults import ALONE, EVERY, INSIDE, LINKS_AND_BROKERS
from soak.judge import Finding
from soak.logs import bounds, last_numbers
from soak.plan import Step, dice_of, plan
from soak.testbed import BROKERS_LOG_IN, FORGETFUL, SOURCE, UNCLEAN, Testbed, mirror, start_testbed, topic
from soak.verdict import verdict

STUCK_S = 120.0  # traffic goes on and nothing reaches the target for so long
DRAIN_S = 240.0


class Progress:
    """Whether records still reach the target, looked at between faults."""

    def __init__(self) -> None:
        self.ends = -1
        self.moved_at = time.monotonic()

    def look(self, testbed: Testbed) -> int:
        try:
            ends = sum(
                end
                for sort, n in testbed.partitions.items()
                for _, end in bounds(testbed.right, mirror(sort), n).values()
            )
        except (KafkaException, TimeoutError):
            return self.ends
        if ends != self.ends:
            self.ends, self.moved_at = ends, time.monotonic()
        elif time.monotonic() - self.moved_at > STUCK_S:
            testbed.anomalies.append(f"nothing reached the target for {STUCK_S:g} s")
            self.moved_at = time.monotonic()
        return ends


def run_step(testbed: Testbed, step: Step, seed: int) -> str:
    """All faults of a step at the same time; what each did, in words."""

    def one(name: str) -> str:
        try:
            return f"{name.replace('_', ' ')}: {EVERY[name](testbed, dice_of(seed, step.number, name))}"
        except Exception:
            testbed.anomalies.append(f"step {step.number}, {name}: {traceback.format_exc(limit=4)}")
            return f"{name.replace('_', ' ')}: could not be played, {traceback.format_exc().splitlines()[-1]}"

    with ThreadPoolExecutor(len(step.faults)) as pool:
        return " + ".join(pool.map(one, step.faults))


def remove_faults(testbed: Testbed) -> None:
    testbed.set_clocks(0)
    for lab in (testbed.source, testbed.target):
        lab.proxy.clear()
        for cluster in lab.clusters.values():
            dead = [broker for broker in cluster.brokers if not broker.alive]
            for broker in cluster.brokers:
                if broker in dead:
                    broker.launch()
                else:
                    broker.resume()
            for broker in dead:
                broker.wait_ready(60)
    for worker in testbed.workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGCONT)
    testbed.check_workers()


def drain(testbed: Testbed) -> None:
    """Wait until the last record of every partition is mirrored; note those that never are."""
    for each in testbed.traffic.values():
        each.close()
    waiting: dict[str, dict[int, int]] = {}

    def lost(sort: str, partition: int) -> bool:
        names = ("SourceTruncated", "SourceRewound")
        return any(testbed.reported(name, f"{topic(sort)}-{partition}") for name in names)

    def through() -> bool:
        waiting.clear()
        for sort, n in testbed.partitions.items():
            last = {p: max(log.numbers, default=-1) for p, log in testbed.traffic[sort].acked.items()}
            there = last_numbers(testbed.right, mirror(sort), n)
            if sort == UNCLEAN:  # what counts is what its source still has, until the engine reports that it lost some
                last = last_numbers(testbed.left, topic(sort), n)
                last = {p: number for p, number in last.items() if not lost(sort, p)}
            behind = {p: number for p, number in last.items() if there[p] != number}
            if behind:
                waiting[topic(sort)] = behind
        return not waiting

    try:
        wait_for("everything is mirrored", through, DRAIN_S)
    except AssertionError:
        testbed.anomalies.append(f"after {DRAIN_S:g} s of health not mirrored to the last record: {waiting}")


def run(root: Path, minutes: float, seed: int) -> tuple[list[Finding], str]:
    with (
        Lab(root / "left", ("LEFT",), brokers=3, extra=SOURCE, security=BROKERS_LOG_IN) as source,
        Lab(root / "right", ("RIGHT",), brokers=3, extra=FORGETFUL, security=BROKERS_LOG_IN) as target,
    ):
        testbed = start_testbed(root, source, target, seed)
        try:
            progress, began, steps = Progress(), time.monotonic(), 0
            for step in plan(seed, tuple(INSIDE), tuple(LINKS_AND_BROKERS), tuple(ALONE)):
                if time.monotonic() - began > minutes * 60:
                    break
                time.sleep(step.pause_s)
                what = run_step(testbed, step, seed)
                testbed.check_workers()
                steps += len(step.faults)
                sent = sum(each.sent for each in testbed.traffic.values())
                at = time.monotonic() - began
                print(f"{at:6.1f} s  {step.number}: {what}  [{sent} sent, {progress.look(testbed)} there]", flush=True)
            remove_faults(testbed)
            print("healed; waiting for the rest to cross", flush=True)
            drain(testbed)
            found = verdict(testbed)
            for at, worker in enumerate(testbed.workers):
                testbed.expected.add(worker.pid)
                if (code := testbed.engine.stop(worker, 60)) and not testbed.just_begun(worker):
                    found.append(Finding(f"worker {at}", "was asked to stop and did not end well", f"exit code {code}"))
        finally:
            testbed.close()
        sent = sum(each.sent for each in testbed.traffic.values())
        return found, f"{steps} faults, {sent} records"


def known_seeds() -> list[int]:
    """The seeds that once had findings, oldest first."""
    lines = Path(__file__).with_name("known_seeds.txt").read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, help="this one alone; else all known ones, and then a new one")
    wanted = parser.parse_args()
    seeds = [*known_seeds(), random.randrange(10**6)] if wanted.seed is None else [wanted.seed]
    with ended_in_order():
        return max([judged(seed, wanted.minutes) for seed in seeds])


def judged(seed: int, minutes: float) -> int:
    """Run one seed and print its verdict; 1 with findings, else 0."""
    print(f"seed {seed}, {minutes:g} minutes", flush=True)
    Path("runs").mkdir(exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"soak-{seed}-", dir="runs")).absolute()
    try:
        found, reported = run(root, minutes, seed)
    except Exception:
        found, reported = [Finding("the run", "could not be played to its end", traceback.format_exc())], "unfinished"
    if not found:
        shutil.rmtree(root, ignore_errors=True)
        print(f"seed {seed}: {reported}; 0 findings: nothing lost, doubled, altered, out of order or silent")
        return 0
    (root / "findings.txt").write_text("".join(f"{finding}\n" for finding in found))
    print(f"seed {seed}: {reported}; {len(found)} findings; logs in {root.relative_to(Path.cwd())}")
    for finding in found:
        print(f"- {finding}")
    print(f"to play it again: make soak MINUTES={minutes:g} SEED={seed}; keep it in tests/soak/known_seeds.txt")
    return 1


if __name__ == "__main__":
    sys.exit(main())
