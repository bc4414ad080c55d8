"""`drlib failover`: assess, ask for the cluster's name, run the runbook of an emergency, and follow it on one screen.

Rules: nothing is changed before the target's name was given. What is done is the runbook's, by `drlib run`'s own code: this
module chooses it, and shows the run as its folder tells it. A failover that was interrupted is continued; one that is done is
not done again. With `--json` standard output has one JSON document a line; progress is on standard error.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib.cli.drill.confirmation import (
    UNCHANGED,
    choose_runbook,
    confirm,
    other_flow,
    refuse_other_name,
    refuse_other_options,
)
from drlib.errors import ReadinessError, Unreachable, UsageError
from drlib.outgoing.terminal import write_document
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.drill.assessment.assessment import Assessment, Observed
    from drlib.model import Flow
    from drlib.runbook.execution.early_kernel import EarlyKernel
    from drlib.runbook.file.model import Runbook, Value
    from drlib.runbook.just_found import JustFound

SHIPPED: Final = "emergency-failover.yaml"
_LOADED_S: Final = 10.0  # for imports, on a host that is busy
_OPTIONS: Final = {"force_reason": "--force-reason", "fault_at": "--fault-at", "witnesses": "--witness"}
"""By the parameter that each is given to the runbook as."""


def failover(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[
        str, typer.Argument(help="The flow, e.g. 'paris->lyon'. Default: the only enabled one.", metavar="FLOW")
    ] = "",
    yes: Annotated[
        str, typer.Option(metavar="CLUSTER", help="The name of the cluster to move to, instead of typing it.")
    ] = "",
    runbook: Annotated[
        Path | None,
        typer.Option(
            help="The runbook, or a folder with failover.yaml. Default: runbooks/ beside FILE, else the shipped one.",
            metavar="PATH",
        ),
    ] = None,
    force_reason: Annotated[
        str, typer.Option(help="Fail over against the advice, for this reason.", metavar="REASON")
    ] = "",
    fault_at: Annotated[
        str, typer.Option(help="When the source failed, such as 2026-11-21T03:12:05Z.", metavar="TIME")
    ] = "",
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="Ask this drlib witness what it sees; repeat for more."),
    ] = None,
    supersede: Annotated[
        str, typer.Option(help="Give up this unfinished run of the flow, and begin.", metavar="RUN")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
) -> None:
    """The source is down: say what a failover costs, ask for the target's name, move the applications there, watch them return.

    Interrupted or repeated, it continues where it was. Exit codes are those of drlib run; 3: it is advised against, 9: not
    confirmed.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.extras import require
    from drlib.runs import folder as folders

    require("notebooks", "drlib failover")
    from drlib.runbook.execution.early_kernel import EarlyKernel

    settings = load_mirror_settings(file)
    folders.refuse_unusable(runs_dir)
    from drlib.cli.drill.followed_run import show_next
    from drlib.drill.actions.failover import fault_moment
    from drlib.drill.assessment.assessment import Next, assess
    from drlib.drill.assessment.observe import observe
    from drlib.drill.witness import service
    from drlib.lab import choose_flow
    from drlib.ui.terminal import failover as texts

    chosen = choose_flow.of_file(settings, flow, f"drlib failover {shlex.quote(str(file))}", name_it="'{}'")
    book = _emergency(choose_runbook(runbook, file, chosen, "failover", SHIPPED, "fail over"), chosen)
    if yes:
        refuse_other_name(yes, chosen.target)
    fault_moment.parse(fault_at)
    service.refuse_malformed(witness or ())
    given = {"force_reason": force_reason, "fault_at": fault_at, "witnesses": ",".join(witness or ())}
    loading = threading.Thread(target=_load_what_runs, daemon=True)
    loading.start()
    # both take seconds, in which a silent source and people are waited for
    with closing(EarlyKernel(book.notebook.parent)) as early:
        seen = observe(
            settings,
            chosen,
            runs_dir,
            supersede=Path(supersede).name,
            force_reason=force_reason,
            witnesses=witness or (),
            creates_topics=book.drill is not None and any(s.action == "topics.create" for s in book.drill.steps),
            ready=partial(loading.join, _LOADED_S),
        )
        made = assess(seen)
        if as_json:
            write_document(texts.assessment_json(made) + "\n")
        else:
            plain_console().print(texts.render_assessment(made))
        if made.next is Next.NOTHING:
            if not as_json:
                show_next(made, file)
            else:
                nothing = {"verdict": None, "exit_code": 0, "run": made.run, "why": made.why}
                write_document(texts.result_json(nothing) + "\n")
            return
        _refuse(made)
        _refuse_other_run(made, runs_dir, supersede)
        _refuse_other_options(made, file, runs_dir, book.file if runbook is not None else None, given)
        confirm(made.target, yes, f"{made.flow} is not failed over", "move the applications there")
        raise typer.Exit(_carry_out(made, book, file, runs_dir, supersede, given, found(seen), early, as_json=as_json))


def _emergency(path: Path, flow: Flow) -> Runbook:
    """The runbook at `path`, which has to be one of an emergency, for `flow` or for any."""
    from drlib.drill.plan.plan import Mode
    from drlib.runbook.file import model

    book = model.load(path)
    if book.drill is None or book.drill.mode != Mode.EMERGENCY:
        raise UsageError(f"runbook {path}", "it is not one of an emergency", "Run it with drlib run, or give another.")
    if other := other_flow(book, flow):
        raise UsageError(
            f"runbook {path}",
            f"it is for {other}, not for {flow}",
            "Give the one of this flow: --runbook PATH.",
        )
    return book


def _refuse(made: Assessment) -> None:
    """Raises what stands in the way of a failover."""
    from drlib.drill.assessment.assessment import Next

    if made.next is Next.SUPERSEDE_FIRST:
        raise UsageError(f"{made.flow} has an unfinished run", made.why, made.remedy)
    if made.next is not Next.REFUSE:
        return
    what = f"{made.flow} is not failed over, {UNCHANGED}"
    if not made.target_answers:
        raise Unreachable(what, made.why, made.remedy)
    given = made.target_serves or "force_reason" in made.remedy
    hint = f"{made.remedy} Against the advice: --force-reason REASON." if given else made.remedy
    raise ReadinessError(what, made.why, hint)


def _refuse_other_run(made: Assessment, runs_dir: Path, supersede: str) -> None:
    """Raises `UsageError` where `supersede` is neither the unfinished run, which would be continued, nor what that gave up: who
    gives the same command again continues."""
    from drlib.drill.assessment.assessment import Next
    from drlib.runbook import plans as drills

    if supersede and made.next is Next.CONTINUE and made.unfinished is not None:
        own = made.unfinished.run
        _, asked = drills.run_of(runs_dir, Path(made.unfinished.folder))
        if asked.supersede == Path(supersede).name:
            return
        raise UsageError(
            f"--supersede {supersede} is not applied, {UNCHANGED}",
            f"the unfinished run of {made.flow} is {own}",
            f"Leave it out to continue that run, or give it up, its changes stay: --supersede {shlex.quote(own)}.",
        )


def _refuse_other_options(
    made: Assessment, file: Path, runs_dir: Path, runbook: Path | None, given: Mapping[str, str]
) -> None:
    """Raises `UsageError` for options that the run which is continued was not begun with; not while a process runs it."""
    from drlib.drill.assessment.assessment import Next
    from drlib.runbook import plans as drills
    from drlib.runbook.file import model, parameters

    pairs = [f"{name}={value}" for name, value in given.items() if value]
    if made.next is not Next.CONTINUE or made.unfinished is None or not (pairs or runbook):
        return
    folder, asked = drills.run_of(runs_dir, Path(made.unfinished.folder))
    if drills.held_by_executor(folder):
        return
    book = model.load(asked.runbook)
    wanted = parameters.parse(pairs, parameters.declared(book.notebook))
    own = drills.values(book, asked.parameters)
    others = [
        (_option(name, value), _option(name, own.get(name, "")))
        for name, value in wanted.items()
        if value != own.get(name)
    ]
    chosen = [_option(name, value) for name, value in wanted.items()]
    if runbook is not None:
        chosen.append(f"--runbook {shlex.quote(str(runbook))}")
        others += [(chosen[-1], f"--runbook {shlex.quote(str(asked.runbook))}")] if runbook != asked.runbook else []
    again = f"drlib failover {shlex.quote(str(file))} {shlex.quote(made.flow)} {' '.join(chosen)}"
    refuse_other_options(made.unfinished.run, others, again)


def _option(name: str, value: Value) -> str:
    """As a command line has it."""
    each = value if isinstance(value, list) else [value]
    return " ".join(f"{_OPTIONS[name]} {shlex.quote(str(one))}" for one in each if one != "") or f"no {_OPTIONS[name]}"


def _carry_out(
    made: Assessment,
    book: Runbook,
    file: Path,
    runs_dir: Path,
    supersede: str,
    given: Mapping[str, str],
    found: JustFound,
    early: EarlyKernel,
    *,
    as_json: bool,
) -> int:
    """Begin or continue the run, with the parameters `given`; returns its exit code. The target's name, once given, approves
    every step that waits for it."""
    from drlib.cli.drill import run as running
    from drlib.cli.drill.followed_run import FailoverScreen
    from drlib.drill.assessment.assessment import Gate, Next
    from drlib.drill.run import planning
    from drlib.drill.run.request import ClusterTarget
    from drlib.drill.step.known_silence import KnownSilence
    from drlib.runbook import plans as drills
    from drlib.runbook.file import drill_section
    from drlib.runbook.plans import Granted

    screen = FailoverScreen(made, file, as_json=as_json)
    if made.next is Next.CONTINUE and made.unfinished is not None:
        folder, asked = drills.run_of(runs_dir, Path(made.unfinished.folder))
        KnownSilence(folder).note(found.silent)
        steps = planning.read(folder).drill.steps
        return running.resume(folder, asked, Granted(tuple(s.name for s in steps if s.approval)), screen, early)
    assert book.drill is not None
    pairs = [f"{name}={value}" for name, value in given.items() if value]
    if drill_section.asked_flow(book.drill, {}) is not None:
        pairs.append(f"flow={made.flow}")
    approved = tuple(step.name for step in book.drill.steps if step.approval)
    skip = (given["force_reason"] or None) if made.gate is Gate.CLOSED else None
    granted = Granted(approved, skip_gate=skip, supersede=Path(supersede).name)
    return running.run_runbook(
        book.file,
        pairs,
        running.Wanted(runs_dir, target=ClusterTarget(file), granted=granted, found=found, early=early),
        screen,
    )


def found(seen: Observed) -> JustFound:
    """What the run does not ask and wait for in full again."""
    from drlib.drill.step.known_silence import Silence
    from drlib.runbook.just_found import JustFound

    silent = dict(seen.silent)
    if seen.waited_s is not None:
        at_ms = seen.at_ms + int(1000 * seen.waited_s)
        silent[seen.flow.source] = Silence(seen.source.silence, at_ms, seen.waited_s, seen.source.refused)
    return JustFound(silent, seen.readiness)


def _load_what_runs() -> None:
    """While the clusters are waited for: it takes seconds. With what starts a kernel, which is imported at the same time."""
    import jupyter_client.manager  # noqa: F401

    from drlib.runbook.execution.execute import load

    load()
