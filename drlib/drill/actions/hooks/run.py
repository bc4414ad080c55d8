"""Runs a hook to its outcome, as often as it may be tried.

Rules: see `hooks`. Each attempt has the hook's time; between attempts it waits longer and longer, five seconds at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential

from drlib.drill.actions.hooks.command import run_command
from drlib.drill.actions.hooks.hook import CommandHook, Evidence, HookContext, HttpHook
from drlib.drill.actions.hooks.http import post


def run(hook: CommandHook | HttpHook, context: HookContext, stop: Callable[[], bool] = lambda: False) -> Evidence:
    """Runs `hook` to its outcome. Raises `UsageError` for a reference without a value; then nothing was begun.

    `stop` says whether to wait no longer: then it is ended, and as unknown as one whose time was up.
    """
    started = time.monotonic()
    tried = 0

    def once() -> Evidence:
        nonlocal tried
        tried += 1
        return run_command(hook, context, stop) if isinstance(hook, CommandHook) else post(hook, context, stop)

    again = Retrying(
        retry=retry_if_result(lambda evidence: not evidence.ok and not stop()),
        stop=stop_after_attempt(hook.attempts),
        wait=wait_exponential(multiplier=0.1, max=5),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
    )
    evidence: Evidence = again(once)
    return replace(evidence, attempts=tried, seconds=time.monotonic() - started)
