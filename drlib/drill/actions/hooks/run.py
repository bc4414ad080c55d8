"""Runs a hook to its outcome, as often as it may be tried.

Rules: each attempt has the hook's own time limit; the pause between two attempts doubles from 0.1 s to five seconds at most.
Not for: what a hook is (`drlib.drill.actions.hooks.hook`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from drlib.drill.actions.hooks.command import run_command
from drlib.drill.actions.hooks.hook import CommandHook, Evidence, HookContext, HttpHook
from drlib.drill.actions.hooks.http import post

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


def run(hook: CommandHook | HttpHook, context: HookContext, stop: Callable[[], bool] = lambda: False) -> Evidence:
    """Runs `hook` to its outcome. Raises `UsageError` for a reference without a value; then no attempt was made.

    `stop` says whether to end now: an attempt that it ends has an unknown outcome, as one that ran out of time.
    """
    started = time.monotonic()
    for attempt in range(1, hook.attempts + 1):
        evidence = run_command(hook, context, stop) if isinstance(hook, CommandHook) else post(hook, context, stop)
        if evidence.ok or stop() or attempt == hook.attempts:
            break
        time.sleep(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
    return replace(evidence, attempts=attempt, seconds=time.monotonic() - started)
