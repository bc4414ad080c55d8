"""Hooks as steps: the recorded state of a call decides whether it is made again; an unknown one is not guessed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from testbed_http import http_server

from drlib.drill.actions.hooks.actions import HookAction
from drlib.drill.plan.plan import Argument, Call, Change, Drill, Fact, Mode, Step
from drlib.drill.plan.progress import Reach
from drlib.drill.run import planning
from drlib.drill.run.registry import make_action, parse_drill
from drlib.drill.step import step_output as details
from drlib.drill.step.context import DrillContext
from drlib.errors import Aborted, Deviated, UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runbook.open_drill import same_drill
from drlib.runs.abort import Abort

FLOW = Flow("LEFT", "RIGHT")
NOTE = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"


def made(run_dir: Path, action: str = "hook.command", **arguments: object) -> HookAction:
    """The step `tell` of a run in `run_dir`."""
    values = tuple(
        Argument(name, tuple(value) if isinstance(value, list) else value)  # type: ignore[arg-type]
        for name, value in arguments.items()
    )
    place = DrillContext(clusters={"RIGHT": ClusterSettings("RIGHT", ("127.0.0.1:1",))}, flow=FLOW, run_dir=run_dir)
    step = make_action(Call(action, values), place, "tell")
    assert isinstance(step, HookAction)
    return step


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def changes(step: HookAction) -> tuple[Change, ...]:
    return tuple(step.changes(step.observe()))


def remembered(run_dir: Path) -> dict[str, object]:
    return json.loads((run_dir / "hooks" / "tell.json").read_text())


def test_hook_command_is_called_once_and_undone_by_its_undo(tmp_path: Path) -> None:
    log = tmp_path / "log"
    step = made(tmp_path, argv=python(NOTE, log, "do "), undo_argv=python(NOTE, log, "undo "))
    planned = changes(step)
    (change,) = planned
    assert (change.entity, change.before) == ("hook tell", None)
    assert "do " in str(change.after)
    assert step.probe(planned) is Reach.UNTOUCHED
    found = step.act(planned, Abort(tmp_path))
    assert (found["outcome"], found["code"]) == ("ok", 0)
    assert step.probe(planned) is Reach.DONE
    assert step.observe()[0] == Fact("hook tell", change.after)
    assert details.read_rows(tmp_path, "tell")[0]["outcome"] == "ok"
    step.undo(planned)
    step.undo(planned)
    assert log.read_text() == "do undo "
    assert step.probe(planned) is Reach.UNTOUCHED


@pytest.mark.parametrize(
    ("memory", "idempotent", "reach"),
    [
        (None, False, Reach.UNTOUCHED),
        ({"outcome": None}, False, Reach.UNKNOWN),  # killed in the middle of the call
        ({"outcome": None}, True, Reach.PARTLY),
        ({"outcome": "unknown"}, False, Reach.UNKNOWN),
        ({"outcome": "unknown"}, True, Reach.PARTLY),
        ({"outcome": "refused"}, False, Reach.PARTLY),
        ({"outcome": "not done"}, False, Reach.UNTOUCHED),
        ({"outcome": "ok"}, False, Reach.DONE),
        ({"outcome": "ok", "undone": True}, False, Reach.UNTOUCHED),
    ],
)
def test_hook_probe_follows_what_was_recorded(
    tmp_path: Path, memory: dict[str, object] | None, idempotent: bool, reach: Reach
) -> None:
    step = made(tmp_path, argv=["true"], idempotent=idempotent)
    planned = changes(step)
    if memory is not None:
        (tmp_path / "hooks").mkdir()
        (tmp_path / "hooks" / "tell.json").write_text(json.dumps({"begun_ms": 1, "undone": False, **memory}))
    assert step.probe(planned) is reach


# A process that calls a hook as a step does, and is killed in the middle of the call.
CALLER = """
import json, sys
from pathlib import Path
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step.context import DrillContext
from drlib.model import Flow
from drlib.runs.abort import Abort

folder, what, arguments = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
values = tuple(Argument(name, tuple(each) if isinstance(each, list) else each) for name, each in arguments.items())
place = DrillContext(clusters={}, flow=Flow("LEFT", "RIGHT"), run_dir=folder)
step = make_action(Call("hook.command", values), place, "tell")
planned = step.changes(step.observe()) or json.loads(sys.argv[4])
step.act(planned, Abort(folder)) if what == "act" else step.undo(planned)
"""
# Its first call does not end, and neither does what it has started; a later one says which of both still run.
ENDLESS = """
import os, subprocess, sys, time
from pathlib import Path
log = Path(sys.argv[1])
before = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
alive = [int(pid) for line in before for pid in line[1:3] if os.path.exists(f"/proc/{pid}/exe")]
child = subprocess.Popen(["sleep", "600"]) if not before else None
with log.open("a") as file:
    file.write(f"{os.environ['DRLIB_CALL']} {os.getpid()} {child.pid if child else os.getpid()} {len(alive)}\\n")
time.sleep(0 if before else 600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """What `ENDLESS` writes; whatever of it still runs is ended."""
    path = tmp_path / "log"
    yield path
    for line in path.read_text().splitlines() if path.exists() else ():
        for pid in set(line.split()[1:3]):
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def killed_in_the_call(folder: Path, log: Path, what: str, **arguments: object) -> None:
    argv = [sys.executable, "-c", CALLER, str(folder), what, json.dumps(arguments), '["called"]']
    with subprocess.Popen(argv) as caller:
        while not log.exists() or not log.read_text().endswith("\n"):
            assert caller.poll() is None
        caller.kill()


def calls(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()]


def test_hook_of_a_process_that_was_killed_is_ended_before_it_is_called_again(tmp_path: Path, log: Path) -> None:
    arguments: dict[str, object] = {"argv": python(ENDLESS, log), "idempotent": True}
    killed_in_the_call(tmp_path, log, "act", **arguments)
    step = made(tmp_path, "hook.command", **arguments)
    planned = changes(step)
    assert step.probe(planned) is Reach.PARTLY
    assert step.act(planned, Abort(tmp_path))["outcome"] == "ok"
    first, second = calls(log)
    assert second[3] == "0", "the first call still runs"
    assert first[0] == second[0], "it cannot know that it was called before"


def test_hook_that_is_not_called_again_is_named_while_it_runs(tmp_path: Path, log: Path) -> None:
    arguments: dict[str, object] = {"argv": python(ENDLESS, log)}
    killed_in_the_call(tmp_path, log, "act", **arguments)
    step = made(tmp_path, "hook.command", **arguments)
    planned = changes(step)
    ((_, pid, child, _),) = calls(log)
    with pytest.raises(Deviated, match=rf"hook tell may not have ended: .*as process {pid}, {child}\b"):
        step.probe(planned)
    assert Path(f"/proc/{pid}/exe").exists()
    for each in (pid, child):
        os.kill(int(each), signal.SIGKILL)
    while Path(f"/proc/{pid}/exe").exists() or Path(f"/proc/{child}/exe").exists():
        pass
    assert step.probe(planned) is Reach.UNKNOWN


@pytest.mark.parametrize("interrupted", ["act", "undo"])
def test_hook_or_undo_of_a_process_that_was_killed_is_ended_before_it_is_undone(
    tmp_path: Path, log: Path, interrupted: str
) -> None:
    endless = python(ENDLESS, log)
    arguments: dict[str, object] = {
        "argv": endless if interrupted == "act" else ["true"],
        "undo_argv": endless,
        "idempotent": True,
    }
    if interrupted == "undo":
        step = made(tmp_path, "hook.command", **arguments)
        step.act(changes(step), Abort(tmp_path))
    killed_in_the_call(tmp_path, log, interrupted, **arguments)
    step = made(tmp_path, "hook.command", **arguments)
    step.undo((Change("hook tell", None, "called"),))
    first, second = calls(log)
    assert second[3] == "0", "what was called first still runs"
    assert (first[0] == second[0]) is (interrupted == "undo")
    assert second[0].endswith("-undo")


def test_hook_http_has_the_same_key_in_each_call(tmp_path: Path) -> None:
    with http_server() as server:
        step = made(tmp_path, "hook.http", url=server.url("/"), idempotent=True)
        planned = changes(step)
        step.act(planned, Abort(tmp_path))
        kept = remembered(tmp_path)
        (tmp_path / "hooks" / "tell.json").write_text(json.dumps({**kept, "outcome": None}))  # its answer was lost
        step.act(planned, Abort(tmp_path))
    keys = [request.headers["Idempotency-Key"] for request in server.received]
    assert keys == [kept["call"]] * 2


def test_hook_unexpected_exit_code_is_an_error_with_its_output(tmp_path: Path) -> None:
    step = made(tmp_path, argv=python("import sys; print('no room'); sys.exit(3)"))
    with pytest.raises(Deviated, match=r"exit code 3, expected 0; its output: no room"):
        step.act(changes(step), Abort(tmp_path))
    assert remembered(tmp_path)["outcome"] == "refused"
    assert made(tmp_path, argv=python("import sys; sys.exit(3)"), expected=[0, 3])


def test_hook_timed_out_is_unknown(tmp_path: Path) -> None:
    step = made(tmp_path, argv=python("import time; time.sleep(60)"), timeout_seconds=0.3)
    planned = changes(step)
    with pytest.raises(Deviated, match="its outcome is unknown"):
        step.act(planned, Abort(tmp_path))
    assert step.probe(planned) is Reach.UNKNOWN


def test_hook_aborted_is_unknown_and_no_failure(tmp_path: Path) -> None:
    abort = Abort(tmp_path)
    step = made(
        tmp_path,
        argv=python("import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(60)", tmp_path / "abort"),
    )
    planned = changes(step)
    with pytest.raises(Aborted):
        step.act(planned, abort)
    assert step.probe(planned) is Reach.UNKNOWN


def test_hook_aborted_between_two_attempts_is_not_tried_again(tmp_path: Path) -> None:
    """The fifth attempt leaves a process behind that aborts the run in the pause of 1.6 s after it."""
    later = "import pathlib, sys, time; time.sleep(0.5); pathlib.Path(sys.argv[1]).touch()"
    code = (
        "import pathlib, subprocess, sys; log, abort, later = sys.argv[1:]; tries = pathlib.Path(log)\n"
        "tries.write_text((tries.read_text() if tries.exists() else '') + 'x')\n"
        "if len(tries.read_text()) == 5:\n"
        "    null = subprocess.DEVNULL\n"
        "    subprocess.Popen([sys.executable, '-c', later, abort], stdout=null, stderr=null)\n"
        "sys.exit(3)"
    )
    argv = python(code, tmp_path / "log", tmp_path / "abort", later)
    step = made(tmp_path, argv=argv, idempotent=True, attempts=20)
    planned = changes(step)
    with pytest.raises(Aborted):
        step.act(planned, Abort(tmp_path))
    assert [row["attempts"] for row in details.read_rows(tmp_path, "tell")] == [5]
    assert step.probe(planned) is Reach.PARTLY


@pytest.mark.parametrize(("tail", "status"), [("\n", "200"), ("\nmore", "a header holds what no header can hold")])
def test_hook_secret_that_ends_with_a_line_is_sent_and_never_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: str, status: str
) -> None:
    """As a file of a secret often does; what no header can hold is not quoted."""
    (tmp_path / "token").write_text(CANARY + tail)
    headers = [f"Authorization: Bearer ${{directory:{tmp_path}:token}}"]
    with http_server() as server:
        server.answers["/hook"] = (200, {}, f"got {CANARY}".encode())
        step = made(tmp_path, "hook.http", url=server.url("/hook"), headers=headers)
        try:
            said = str(step.act(changes(step), Abort(tmp_path)))
        except Deviated as error:
            said = str(error)
        sent = [each.headers["Authorization"] for each in server.received]
    assert sent == ([f"Bearer {CANARY}"] if status == "200" else [])
    assert (status in said, CANARY in said) == (True, False)
    assert step.probe(changes(step)) is (Reach.DONE if status == "200" else Reach.UNTOUCHED)


def test_hook_without_undo_is_not_undone(tmp_path: Path) -> None:
    step = made(tmp_path, argv=["true"])
    planned = changes(step)
    step.act(planned, Abort(tmp_path))
    with pytest.raises(Deviated, match="the step has no undo hook"):
        step.undo(planned)


def test_hook_secret_is_a_reference_in_the_plan_and_must_resolve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "hunter2")
    step = made(tmp_path, "hook.http", url="https://127.0.0.1:1/x", headers=["Authorization: Bearer ${env:HOOK_TOKEN}"])
    drill = Drill(
        name="d", flow=FLOW, mode=Mode.PRACTICE, steps=(Step(name="tell", title="t", action=Call("hook.http")),)
    )
    planning.write(planning.make_plan(drill, {"tell": step}), tmp_path)
    assert "hunter2" not in (tmp_path / "plan.json").read_text()
    monkeypatch.delenv("HOOK_TOKEN")
    with pytest.raises(UsageError, match="HOOK_TOKEN is not set"):
        changes(step)


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        ("hook.command", {}, "its argument 'argv' is missing"),
        ("hook.command", {"argv": 3}, "is not a list of texts"),
        ("hook.command", {"argv": ["true"], "timeout": 3}, "Did you mean timeout_seconds?"),
        ("hook.command", {"argv": ["true"], "timeout_seconds": "soon"}, "is not a number of seconds from 0 on"),
        ("hook.command", {"argv": ["true"], "attempts": 3}, "may not be tried 3 times"),
        ("hook.command", {"argv": ["true"], "idempotent": 1}, "is not true or false"),
        ("hook.command", {"argv": ["true"], "environment": ["NAME"]}, "is not a list of 'name=value'"),
        ("hook.command", {"argv": ["no-such-program-here"]}, "there is no program no-such-program-here"),
        ("hook.command", {"argv": ["true", "${env:TOKEN}"]}, "hands a secret over"),
        ("hook.http", {"url": "http://127.0.0.1/", "expected": "fine"}, "is not a list of codes"),
        ("hook.http", {"url": "http://127.0.0.1/", "headers": ["Authorization: Bearer x"]}, "holds a secret"),
        ("hook.htpp", {}, "no action or probe has this name"),
    ],
)
def test_hook_wrong_arguments_are_refused_before_any_call(
    tmp_path: Path, action: str, arguments: dict[str, object], message: str
) -> None:
    values = tuple(Argument(n, tuple(v) if isinstance(v, list) else v) for n, v in arguments.items())  # type: ignore[arg-type]
    drill = Drill(
        name="d", flow=FLOW, mode=Mode.PRACTICE, steps=(Step(name="tell", title="t", action=Call(action, values)),)
    )
    place = DrillContext(clusters={}, flow=FLOW, run_dir=tmp_path)
    with pytest.raises(UsageError, match=message):
        planning.make_plan(drill, parse_drill(drill).bind(place)[0])
    assert list(tmp_path.iterdir()) == []


CANARY = "c4n4ry-7f2e"
ECHO = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("hook.http", {"url": f"http://127.0.0.1:1/services/T0/B0/{CANARY}"}),
        ("hook.http", {"url": f"http://127.0.0.1:1/?key={CANARY}"}),
        ("hook.http", {"url": "http://127.0.0.1:1/", "undo_url": f"http://127.0.0.1:1/{CANARY}"}),
        ("hook.http", {"url": "${env:HOOK_URL}"}),
        ("hook.http", {"url": "http://127.0.0.1:1/", "headers": [f"X-Key: {CANARY}${{env:HOOK_TOKEN}}"]}),
        ("hook.http", {"url": "http://127.0.0.1:1/", "headers": ["Authorization: Bearer ${env:HOOK_TOKEN}"]}),
        ("hook.http", {"url": "http://127.0.0.1:1/", "body": [f"routing_key={CANARY}", "dedup=${env:HOOK_TOKEN}"]}),
        ("hook.command", {"argv": python(ECHO), "environment": [f"TOKEN={CANARY}"]}),
        ("hook.command", {"argv": python(ECHO), "environment": [f"TOKEN={CANARY}${{env:HOOK_TOKEN}}", "MODE=fast"]}),
        ("hook.command", {"argv": python(f"{ECHO}; raise SystemExit(3)"), "environment": ["TOKEN=${env:HOOK_TOKEN}"]}),
    ],
)
def test_hook_secret_written_out_or_referred_to_is_in_no_file_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, arguments: dict[str, object]
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", CANARY)
    monkeypatch.setenv("HOOK_URL", f"http://127.0.0.1:1/{CANARY}")
    step = made(tmp_path, action, **arguments)
    values = tuple(Argument(n, tuple(v) if isinstance(v, list) else v) for n, v in arguments.items())  # type: ignore[arg-type]
    drill = Drill(
        name="d", flow=FLOW, mode=Mode.PRACTICE, steps=(Step(name="tell", title="t", action=Call(action, values)),)
    )
    plan = planning.make_plan(drill, {"tell": step})
    planning.write(plan, tmp_path)
    assert planning.read(tmp_path) == plan
    same_drill(drill, {"tell": step}, plan, tmp_path)
    said = repr(plan)
    try:
        said += str(step.act(changes(step), Abort(tmp_path)))
    except Deviated as error:
        said += str(error)
    try:
        step.undo(changes(step))
    except Deviated as error:
        said += str(error)
    kept = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"plan.json", "tell.json"} <= kept.keys()
    assert [name for name, text in {**kept, "said": said}.items() if CANARY in text] == []


def test_hook_plan_of_another_host_name_or_reference_is_another_drill(tmp_path: Path) -> None:
    def drill(url: str, header: str) -> Drill:
        values = (Argument("url", url), Argument("headers", (header,)))
        step = Step(name="tell", title="t", action=Call("hook.http", values))
        return Drill(name="d", flow=FLOW, mode=Mode.PRACTICE, steps=(step,))

    given = ("http://127.0.0.1:1/a", "X-Key: ${env:PATH}")
    actions = {"tell": made(tmp_path, "hook.http", url=given[0], headers=[given[1]])}
    plan = planning.make_plan(drill(*given), actions)
    same_drill(drill(*given), actions, plan, tmp_path)
    for other in (("http://127.0.0.1:2/a", given[1]), (given[0], "X-Key: ${env:HOME}"), (given[0], "Key: ${env:PATH}")):
        with pytest.raises(UsageError, match="another drill's plan"):
            same_drill(drill(*other), actions, plan, tmp_path)


@pytest.mark.parametrize(
    "argument",
    [f"--token={CANARY}", f"Authorization: Bearer {CANARY}", f"https://me:{CANARY}@h/", f"password={CANARY}"],
)
def test_hook_secret_in_an_argument_of_a_program_is_refused(tmp_path: Path, argument: str) -> None:
    with pytest.raises(UsageError, match=r"number 1 of its argv looks like .*Put a reference") as refused:
        made(tmp_path, argv=["true", argument])
    assert CANARY not in str(refused.value)
    assert made(tmp_path, argv=["sh", "-c", 'token=$(cat /run/x); curl -H "X: $token" "$URL"'])


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("hook.http", {"url": "https://h/", "headers": [f"Authorization Bearer {CANARY}"]}),
        ("hook.http", {"url": (f"https://h/{CANARY}", "x")}),
        ("hook.http", {"url": "https://h/", "body": [CANARY]}),
        ("hook.command", {"argv": ["true"], "environment": ["A=1", CANARY]}),
    ],
)
def test_hook_error_quotes_no_secret(tmp_path: Path, action: str, arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="is not") as refused:
        made(tmp_path, action, **arguments)
    assert CANARY not in str(refused.value)


def test_hook_that_restarts_the_target_says_how_long_that_may_not_answer(tmp_path: Path) -> None:
    assert made(tmp_path, argv=["roll"]).outage_s == 0
    assert made(tmp_path, argv=["roll"], outage_seconds=30).outage_s == 30
    assert made(tmp_path, "hook.http", url="https://h/", outage_seconds=5).outage_s == 5
