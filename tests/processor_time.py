"""Processor time of programs, and how much slower than usual this machine is: bounds that hold beside other work."""

from __future__ import annotations

import resource
import subprocess
import sys

from repository_root import ROOT

# A machine that takes longer than BASELINE_CPU_S for BASELINE, now, may take as much longer for what is measured.
BASELINE, BASELINE_CPU_S = "import argparse, dataclasses, email.message, inspect, logging, typing, unittest", 0.06


def cpu_s(*arguments: str) -> float:
    """Processor time of a Python process, user and system, in seconds: the least of three."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, timeout=60, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def slower() -> float:
    """How many times the processor time that bounds were set for a Python program takes here and now, at least 1."""
    return max(1.0, cpu_s("-c", BASELINE) / BASELINE_CPU_S)
