"""Steps that are somebody else's: `hook.command` runs a program, `hook.http` posts to an address.

Rules: nobody can look into what was called, so the run's folder remembers it: a line before the call and one after it.
Killed between the two, or out of time, nobody knows what came of it: a hook that is declared idempotent is called again,
any other is unknown, and nobody guesses. One that ended with a code that was not expected may have done a part, so its
undo is called. A hook without an undo belongs into a step that is not undoable. What was captured is in the journal.
Arguments of both: timeout_seconds, expected (codes), idempotent, attempts, cluster (whose ID is typed for it where it is
destructive). `hook.command`: argv, environment ("NAME=value"), folder, undo_argv. `hook.http`: url, headers
("Name: value"), body ("name=value"), ca, undo_url. Secrets are references, as in `drlib.drill.actions.hooks.hook`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from drlib.client import pointer_file
from drlib.drill.actions.hooks import hook as hooks
from drlib.drill.actions.hooks import run as hook_run
from drlib.drill.actions.hooks.hook import CommandHook, HookContext, HttpHook, Outcome
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import arguments
from drlib.drill.step import step_output as details
from drlib.drill.step.action import ActionMaker, Changes, Evidence, StepCall
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.files import write_whole
from drlib.kafka.java_formats import references
from drlib.runs.abort import Abort

Hook = CommandHook | HttpHook
HOOKS: Final = "hooks"
_SHOWN: Final = 300  # characters of output in an error's one line
_BOTH: Final = ("timeout_seconds", "expected", "idempotent", "attempts", "cluster")
_COMMAND: Final = (*_BOTH, "argv", "environment", "folder", "undo_argv")
_HTTP: Final = (*_BOTH, "url", "headers", "body", "ca", "undo_url")


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. A maker raises KeyError for an argument that is missing, `UsageError` for a wrong one."""
    return {
        "hook.command": functools.partial(_command, workplace),
        "hook.http": functools.partial(_http, workplace),
    }


def _command(workplace: DrillContext, call: StepCall) -> HookStep:
    arguments.only(call, _COMMAND)
    folder = arguments.word(call, "folder", "")

    def hook(argv: tuple[str, ...], name: str) -> CommandHook:
        idempotent = arguments.flag(call, "idempotent", False)
        return CommandHook(
            name=name,
            argv=argv,
            environment=arguments.pairs(call, "environment", "="),
            folder=Path(folder) if folder else None,
            expected=arguments.codes(call, "expected", (0,)),
            timeout_s=arguments.number(call, "timeout_seconds", 60.0),
            idempotent=idempotent,
            attempts=arguments.whole(call, "attempts", 1, least=1),
        )

    undo = arguments.texts(call, "undo_argv", ())
    argv = arguments.texts(call, "argv", ())
    if not argv:
        raise KeyError("argv")
    forth = hook(argv, call.step)
    return HookStep(workplace, call.step, forth, hook(undo, f"undo of {call.step}") if undo else None, _alias(call))


def _http(workplace: DrillContext, call: StepCall) -> HookStep:
    arguments.only(call, _HTTP)
    ca = arguments.word(call, "ca", "")

    def hook(url: str, name: str) -> HttpHook:
        return HttpHook(
            name=name,
            url=url,
            headers=arguments.pairs(call, "headers", ":"),
            body=dict(arguments.pairs(call, "body", "=")),
            expected=arguments.codes(call, "expected", hooks.SUCCESS),
            ca=Path(ca) if ca else None,
            timeout_s=arguments.number(call, "timeout_seconds", 10.0),
            idempotent=arguments.flag(call, "idempotent", False),
            attempts=arguments.whole(call, "attempts", 1, least=1),
        )

    undo = arguments.word(call, "undo_url", "")
    forth = hook(arguments.required(call, "url"), call.step)
    return HookStep(workplace, call.step, forth, hook(undo, f"undo of {call.step}") if undo else None, _alias(call))


def _alias(call: StepCall) -> str:
    return arguments.word(call, "cluster", "")


class _Memory(BaseModel):
    """What is known of a call. `outcome` is None from the call's beginning until its end was heard of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begun_ms: int
    outcome: Outcome | None = None
    undone: bool = False


@dataclass(frozen=True)
class HookStep:
    """One hook as a step. `back` undoes it; None where nothing does."""

    workplace: DrillContext
    step: str
    hook: Hook
    back: Hook | None
    alias: str = ""

    @property
    def _entity(self) -> str:
        return f"hook {self.step}"

    @property
    def _called(self) -> str:
        return f"called: {hooks.target_of(self.hook)}"

    def observe(self) -> Sequence[Fact]:
        """Whether it was called in this run, and which programs the commands are. Raises `UsageError` for none."""
        known = self._memory()
        done = known is not None and known.outcome is Outcome.OK and not known.undone
        return (Fact(self._entity, self._called if done else None), *self._programs())

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """That it is called. Raises `UsageError` for a program or a secret there is none of."""
        for hook in (self.hook, self.back):
            if hook is not None:
                _look_up(hook)
        now = {fact.entity: fact.value for fact in observed}
        return () if now[self._entity] == self._called else (Change(self._entity, None, self._called),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Call it. Raises `Deviated` when it was refused, could not be done, or nobody knows."""
        if not changes:
            return {"called": False}
        abort.check()
        begun_ms = int(time.time() * 1000)
        self._remember(_Memory(begun_ms=begun_ms))
        try:
            found = hook_run.run(self.hook, self._context(), lambda: abort.requested)
        except UsageError:
            self._remember(_Memory(begun_ms=begun_ms, outcome=Outcome.NOT_DONE))  # a secret was missing: not begun
            raise
        self._remember(_Memory(begun_ms=begun_ms, outcome=found.outcome))
        details.write_rows(self.workplace.run_dir, self.step, [found.scalars()])
        if not found.ok:
            abort.check()
            raise _failed(found)
        return found.scalars()

    def probe(self, changes: Changes) -> Reach:
        known = self._memory()
        if not changes or known is None or known.undone:
            return Reach.UNTOUCHED if changes else Reach.DONE
        match known.outcome:
            case Outcome.OK:
                return Reach.DONE
            case Outcome.NOT_DONE:
                return Reach.UNTOUCHED
            case Outcome.REFUSED:
                return Reach.PARTLY
            case _:
                return Reach.PARTLY if self.hook.idempotent else Reach.UNKNOWN

    def undo(self, changes: Changes) -> None:
        """Call the undo, which may be called again after a kill. Raises `Deviated` when there is none or it fails."""
        known = self._memory()
        if not changes or known is None or known.undone or known.outcome is Outcome.NOT_DONE:
            return
        if self.back is None:
            raise Deviated(
                f"hook {self.step} is not undone", "nothing was given that undoes it", "Undo it by hand if it matters."
            )
        found = hook_run.run(self.back, self._context())
        if not found.ok:
            raise _failed(found)
        self._remember(known.model_copy(update={"undone": True}))

    def cluster_id(self) -> str:
        """Of the cluster named for it, or of the flow's target."""
        return cluster_id(self.workplace.cluster(self.alias or self.workplace.flow.target))

    def _programs(self) -> Sequence[Fact]:
        found = []
        for hook in (self.hook, self.back):
            if not isinstance(hook, CommandHook):
                continue
            # as the process is started: a relative path counts from the folder it is started in
            wanted = hook.argv[0] if hook.folder is None or os.sep not in hook.argv[0] else hook.folder / hook.argv[0]
            program = shutil.which(wanted)
            if program is None:
                raise UsageError(
                    f"hook {hook.name} cannot be run", f"there is no program {hook.argv[0]} here", "Correct its argv."
                )
            fact = Fact(f"program {hook.argv[0]}", str(program))
            if fact not in found:
                found.append(fact)
        return found

    def _context(self) -> HookContext:
        """The cluster in use is what the applications' pointer says; where there is none, nobody knows."""
        active = "unknown"
        if self.workplace.pointer is not None:
            with contextlib.suppress(DrlibError, OSError):
                active = pointer_file.read(self.workplace.pointer).active
        return HookContext(self.workplace.run_dir.name, str(self.workplace.flow), active)

    @property
    def _path(self) -> Path:
        return self.workplace.run_dir / HOOKS / f"{self.step}.json"

    def _memory(self) -> _Memory | None:
        try:
            return _Memory.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            raise UsageError(
                f"{self._path.name} cannot be used", "it is not what a hook's step wrote", "Don't rely on this run."
            ) from None

    def _remember(self, known: _Memory) -> None:
        """On disk before the next thing is done."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(known.model_dump(mode="json")))


def _failed(found: hooks.Evidence) -> Deviated:
    said = " ".join(found.output.split())
    told = f"; it said: {said[-_SHOWN:]}" if said else ""
    what = {
        Outcome.REFUSED: "ended otherwise than expected",
        Outcome.NOT_DONE: "could not be called",
        Outcome.UNKNOWN: "was called, and nobody knows what came of it",
    }.get(found.outcome, str(found.outcome))
    return Deviated(f"hook {found.name} {what}", found.reason + told, f"See what {found.target} does, then resume.")


def _look_up(hook: Hook) -> None:
    """Raises `UsageError` for a reference of `hook` that stands for nothing here. Looks its values up and drops them."""
    texts = hook.environment.values() if isinstance(hook, CommandHook) else (hook.url, *hook.headers.values())
    for text in texts:
        references.resolve(text, f"hook {hook.name}")
