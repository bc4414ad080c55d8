"""Actions `hook.command` and `hook.http`: a program to run, or an address to post to, as a step.

Rules: what a hook does cannot be observed, so the run's folder keeps a line before the call and one after it. Killed between
the two, or timed out, its effect is unknown: a hook that is declared idempotent is called again, any other step is unknown
and has to be decided by the operator. What still runs of a command whose call was interrupted is ended before it is called
again or undone; it is left, and named, where neither is done. Every call of a step has the same key, by which what is called
can know that it was called before. One that ended with a code that was not expected may have done a part, so its undo is
called. A hook without an undo belongs into a step that is not undoable. Captured output is in the journal. Secrets are
references (`drlib.drill.actions.hooks.hook`).
"""

import contextlib
import json
import os
import secrets
import shutil
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from drlib import clock
from drlib.client import pointer_file
from drlib.drill.actions.hooks import hook as hooks
from drlib.drill.actions.hooks import left_running
from drlib.drill.actions.hooks import run as hook_run
from drlib.drill.actions.hooks.hook import CommandHook, HookContext, HttpHook, Outcome
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Address, Codes, Flag, Headers, Positive, Seconds, Text, Texts, Variables
from drlib.drill.step.cluster_identity import cluster_id
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.files import make_folder, read_json, write_whole
from drlib.kafka.java_formats import references
from drlib.runs.abort import Abort

Hook = CommandHook | HttpHook
HOOKS: Final = "hooks"
_SHOWN: Final = 300  # characters of output in an error's one line


class _Memory(BaseModel):
    """What is known of a call. `outcome` is None from the call's beginning until its end is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    begun_ms: int
    outcome: Outcome | None = None
    undone: bool = False
    call: str = ""  # its key


class HookAction(DrillAction):
    """Call a hook once, and its undo where the step is undone."""

    idempotent: Flag = False
    """Declares that calling it twice is harmless, so that it may be tried again."""
    attempts: Positive = 1
    """How often it is tried; more than once only where it is idempotent."""
    cluster: Text = ""
    """Alias of the cluster whose ID has to be confirmed where the step is destructive; by default the flow's target."""
    outage_seconds: Seconds = 0.0
    """How long it may keep the flow's target from answering, as a restart of its brokers: the run's lease lasts that much
    longer."""

    @property
    def outage_s(self) -> float:
        return self.outage_seconds

    @property
    @abstractmethod
    def hook(self) -> Hook: ...

    @property
    @abstractmethod
    def undo_hook(self) -> Hook | None:
        """What undoes it; None where nothing does."""

    def check(self) -> None:
        super().check()
        assert self.hook is not None  # making them refuses what cannot be called
        assert self.undo_hook is None or self.undo_hook

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
        """That it is called. Raises `UsageError` for a program or secret that does not exist."""
        for hook in (self.hook, self.undo_hook):
            if hook is not None:
                _resolve_secrets(hook)
        now = {fact.entity: fact.value for fact in observed}
        return () if now[self._entity] == self._called else (Change(self._entity, None, self._called),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Call it. Raises `Deviated` when it was refused, could not be done, or its outcome is unknown."""
        if not changes:
            return {"called": False}
        abort.check()
        before = self._memory()
        self._end_interrupted(before)
        call = before.call if before is not None and before.call else secrets.token_hex(16)
        known = _Memory(begun_ms=clock.now_ms(), call=call)
        self._remember(known)
        try:
            evidence = hook_run.run(self.hook, self._hook_context(call), lambda: abort.requested)
        except UsageError:
            self._remember(known.model_copy(update={"outcome": Outcome.NOT_DONE}))  # a secret was missing: not begun
            raise
        self._remember(known.model_copy(update={"outcome": evidence.outcome}))
        details.write_rows(self.context.run_dir, self.step, [evidence.scalars()])
        if not evidence.ok:
            abort.check()
            raise _failed(evidence)
        return evidence.scalars()

    def probe(self, changes: Changes) -> Reach:
        """How far it came. Raises `Deviated` where it still runs after its call was interrupted, and is not called again."""
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
            case None if not self.hook.idempotent and (pids := left_running.running(known.call)):
                raise Deviated(
                    f"hook {self.step} may not have ended",
                    left_running.still(pids),
                    "Let it end, or end it; then see what it did.",
                )
            case _:
                return Reach.PARTLY if self.hook.idempotent else Reach.UNKNOWN

    def undo(self, changes: Changes) -> None:
        """Call the undo, which may be called again after a kill. Raises `Deviated` when there is none or it fails."""
        known = self._memory()
        if not changes or known is None or known.undone or known.outcome is Outcome.NOT_DONE:
            return
        if self.undo_hook is None:
            raise Deviated(
                f"hook {self.step} is not undone", "the step has no undo hook", "Undo its effect yourself if needed."
            )
        self._end_interrupted(known)
        undoing = f"{known.call}-undo" if known.call else ""
        left_running.end(undoing, f"undo of {self.step}")  # of an undo that was interrupted
        evidence = hook_run.run(self.undo_hook, self._hook_context(undoing))
        if not evidence.ok:
            raise _failed(evidence)
        self._remember(known.model_copy(update={"undone": True}))

    def _end_interrupted(self, known: _Memory | None) -> None:
        if known is not None and known.outcome is None:
            left_running.end(known.call, self.step)

    def cluster_id(self) -> str:
        """Of the cluster named for it, or of the flow's target."""
        return cluster_id(self.context.cluster(self.cluster or self.context.flow.target))

    def _programs(self) -> Sequence[Fact]:
        facts = []
        for hook in (self.hook, self.undo_hook):
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
            if fact not in facts:
                facts.append(fact)
        return facts

    def _hook_context(self, call: str) -> HookContext:
        """The cluster in use is what the applications' pointer says; where there is none, it is unknown."""
        active = "unknown"
        if self.context.pointer is not None:
            with contextlib.suppress(DrlibError, OSError):
                active = pointer_file.read(self.context.pointer).active
        return HookContext(self.context.run_dir.name, str(self.context.flow), active, call)

    @property
    def _path(self) -> Path:
        return self.context.run_dir / HOOKS / f"{self.step}.json"

    def _memory(self) -> _Memory | None:
        try:
            return read_json(self._path, _Memory, "Do not rely on this run.")
        except FileNotFoundError:
            return None

    def _remember(self, known: _Memory) -> None:
        """On disk before the next thing is done."""
        make_folder(self._path.parent)
        write_whole(self._path, json.dumps(known.model_dump(mode="json")))


class CallCommand(HookAction):
    """Run a program, without a shell."""

    name = "hook.command"

    argv: Texts
    """The program and its arguments. No secrets: every user of a machine can list the arguments of a process."""
    environment: Variables = Field(default_factory=dict)
    """Its variables besides PATH, HOME, TMPDIR, language, time zone and DRLIB_*; NAME=${env:NAME} hands one of drlib's on."""
    folder: Text = ""
    """The folder it is started in; by default the one that drlib was started in."""
    undo_argv: Texts = ()
    """The program that undoes it, and its arguments."""
    expected: Codes = (0,)
    """Exit codes that mean success."""
    timeout_seconds: Seconds = 60.0
    """How long each attempt may take."""

    @property
    def hook(self) -> CommandHook:
        return self._command(self.argv, self.step)

    @property
    def undo_hook(self) -> CommandHook | None:
        return self._command(self.undo_argv, f"undo of {self.step}") if self.undo_argv else None

    def _command(self, argv: tuple[str, ...], name: str) -> CommandHook:
        return CommandHook(
            name=name,
            argv=argv,
            environment=self.environment,
            folder=Path(self.folder) if self.folder else None,
            expected=self.expected,
            timeout_s=self.timeout_seconds,
            idempotent=self.idempotent,
            attempts=self.attempts,
        )


class CallHttp(HookAction):
    """POST JSON to an address: the run, the flow, the active cluster, and `body`."""

    name = "hook.http"

    url: Address
    """The address; may hold a reference to a secret. Plans, journals and reports have its host or its references."""
    headers: Headers = Field(default_factory=dict)
    """Headers; a value is a reference, except for Accept, Accept-Language, Content-Type and User-Agent."""
    body: Variables = Field(default_factory=dict)
    """What is added to the JSON; a value may hold a reference to a secret."""
    ca: Text = ""
    """A PEM file to trust instead of the system's authorities."""
    undo_url: Address = ""
    """The address to post to where the step is undone."""
    expected: Codes = hooks.SUCCESS
    """Statuses that mean success."""
    timeout_seconds: Seconds = 10.0
    """How long each attempt may take."""

    @property
    def hook(self) -> HttpHook:
        return self._post(self.url, self.step)

    @property
    def undo_hook(self) -> HttpHook | None:
        return self._post(self.undo_url, f"undo of {self.step}") if self.undo_url else None

    def _post(self, url: str, name: str) -> HttpHook:
        return HttpHook(
            name=name,
            url=url,
            headers=self.headers,
            body=dict(self.body),
            body_refers=True,
            expected=self.expected,
            ca=Path(self.ca) if self.ca else None,
            timeout_s=self.timeout_seconds,
            idempotent=self.idempotent,
            attempts=self.attempts,
        )


def _failed(evidence: hooks.Evidence) -> Deviated:
    printed = " ".join(evidence.output.split())
    output = f"; its output: {printed[-_SHOWN:]}" if printed else ""
    outcome = {
        Outcome.REFUSED: "ended otherwise than expected",
        Outcome.NOT_DONE: "could not be called",
        Outcome.UNKNOWN: "was called, and its outcome is unknown",
    }.get(evidence.outcome, str(evidence.outcome))
    return Deviated(f"hook {evidence.name} {outcome}", evidence.reason + output, f"See what {evidence.target} does.")


def _resolve_secrets(hook: Hook) -> None:
    """Raises `UsageError` for a reference of `hook` without a value on this machine. Does not keep the values."""
    texts = hook.environment.values() if isinstance(hook, CommandHook) else (hook.url, *hook.given)
    for text in texts:
        references.resolve(text, f"hook {hook.name}")
