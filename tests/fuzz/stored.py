"""Decoders of what drlib's own processes wrote and others can have changed, in a form that takes bytes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import nbformat

from drlib.analysis.continuous import stream
from drlib.analysis.sessions import continuous_audit
from drlib.analysis.spark import topics
from drlib.client.bootstrap import state_file
from drlib.decoding import json_as
from drlib.drill.actions.applications import create_topics
from drlib.drill.actions.failover import transactions
from drlib.drill.actions.groups import decided as decided_moves
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.hooks import actions as hook_actions
from drlib.drill.inventory import kept
from drlib.drill.inventory.rules import Application, Inventory, Way
from drlib.drill.inventory.rules import Kind as AppKind
from drlib.drill.plan.plan import (
    Argument,
    Call,
    Change,
    Drill,
    Expectation,
    Fact,
    Mode,
    Plan,
    Step,
    StepPlan,
    canonical,
)
from drlib.drill.plan.plan import parse as parse_plan
from drlib.drill.run import approvals as approvals_file
from drlib.drill.run import planning
from drlib.drill.run import request as run_request
from drlib.drill.run import stored_run as runs
from drlib.drill.scenarios.failover import proof
from drlib.drill.step import rto_clock, step_output
from drlib.drill.step.known_silence import KnownSilence
from drlib.drill.testbed import sampler
from drlib.errors import UsageError
from drlib.files import read_json
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runbook.evidence import folder as evidence_folder
from drlib.runbook.evidence import page as evidence_page
from drlib.runbook.evidence.rules import Scope
from drlib.runbook.file import model, parameters
from drlib.runbook.file.drill_section import drill
from drlib.runbook.first_runbooks import folder as first_runbooks
from drlib.runs import folder as folders
from drlib.runs import journal as journals
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Line
from drlib.runs.scorecard import Objectives, Records, Rpo, RtoSeconds, Scorecard
from drlib.training.academy import progress as academy
from drlib.training.incidents import record
from drlib.training.incidents.lab.skipped import SkippedRecords
from drlib.ui.report import notebook_cells
from fuzz import samples
from fuzz.adapters import chained, folder
from fuzz.mutate import Case

# -- runbooks and notebooks --------------------------------------------------------------------------------------------

RUNBOOKS: Final = samples.all_of("runbooks/*.yaml")
NOTEBOOKS: Final = samples.all_of("notebooks/0*.ipynb")[:4]


def runbook(data: bytes) -> object:
    """A runbook, and the drill that it describes."""
    path = folder() / "runbooks" / "book.yaml"
    path.parent.mkdir(exist_ok=True)
    notebook = folder() / "notebooks" / "02_fail_over.ipynb"
    if not notebook.exists():
        notebook.parent.mkdir(exist_ok=True)
        notebook.write_bytes(NOTEBOOKS[2][0])
    path.write_bytes(data)
    book = model.load(path)
    known = parameters.declared(book.notebook)
    with contextlib.suppress(UsageError):
        parameters.check(book.parameters, known)
    return book if book.drill is None else drill(book.drill, book.name, book.objectives, book.parameters)


def declared(path: Path) -> object:
    known = parameters.declared(path)
    return parameters.parse([f"{name}=1" for name in known], known)


CELL_ERRORS: Final = (notebook_cells.UnreadableNotebook,)


def cells(path: Path) -> object:
    return [str(cell) for cell in notebook_cells.read_cells(path)]


def executed() -> tuple[Case, ...]:
    new: Any = nbformat.v4
    output = [
        new.new_output("stream", name="stdout", text="a\x1b[31mb"),
        new.new_output("display_data", {"text/html": "<b onclick='x'>a</b><script>x</script>", "text/plain": "a"}),
        new.new_output("display_data", {"image/png": "aGk=", "text/markdown": "# a\n[b](http://x)"}),
        new.new_output("execute_result", {"application/vnd.plotly.v1+json": {"data": []}, "text/plain": "f"}),
        new.new_output("error", ename="E", evalue="v", traceback=["t"]),
    ]
    code = new.new_code_cell("1", execution_count=1, outputs=output)
    return ((nbformat.writes(new.new_notebook(cells=[new.new_markdown_cell("# A\n<i>b</i> `c`"), code])).encode(),),)


# -- runs --------------------------------------------------------------------------------------------------------------

NAME: Final = "20261121T100000Z-failover-drill-9f31c2"
_STEPS: Final = (
    Step(name="create", title="Create it", action=Call("topic.create", (Argument("topic", "orders"),))),
    Step(name="move", title="Move it", action=Call("group.move", (Argument("positions", ("0:5", "1:7")),))),
)
_DRILL: Final = Drill(
    name="failover",
    flow=Flow("LEFT", "RIGHT"),
    mode=Mode.PLANNED,
    steps=_STEPS,
    hypothesis=(Expectation("It keeps up", Call("lag.below", (Argument("records", 10),))),),
    objectives=Objectives(rto_seconds=60),
)
PLAN: Final = Plan(
    _DRILL,
    (
        StepPlan("create", (Fact("partitions of orders", None),), (Change("partitions of orders", None, 6),)),
        StepPlan("move", (Fact("arrivals", 3), Fact("id", "x")), (Change("arrivals", 3, 5),)),
    ),
)
_STORED_PLAN: Final = {"hash": PLAN.hash, "made_ms": 5, "made_by": "u", "plan": json.loads(canonical(PLAN))}
PLANS: Final = samples.as_json(_STORED_PLAN)
_CARD: Final = Scorecard(
    runbook="failover-drill",
    run_id=NAME,
    verdict=Verdict.PASS,
    rto_seconds=RtoSeconds(detect=1.0, total=5.5),
    rpo=Rpo(records=0, seconds=0.0),
    records=Records(produced=10, lost=0),
    groups=(),
    checks=(Check("a", Verdict.PASS, "b"),),
    environment={"plan": PLAN.hash},
)
SCORECARDS: Final[tuple[Case, ...]] = ((_CARD.model_dump_json().encode(),),)


def _line(event: str, **data: object) -> dict[str, object]:
    return {"seq": 0, "at": "2026-11-21T10:00:00.000+00:00", "event": event, "data": data, "previous": "", "hash": ""}


def _lines(*lines: dict[str, object]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


RUN_JOURNALS: Final[tuple[Case, ...]] = (
    (_lines(_line("run-started", plan=PLAN.hash), _line("step-done", step="a"), _line("run-ended", detail="passed")),),
)
RUNS: Final[tuple[Case, ...]] = ((SCORECARDS[0][0], RUN_JOURNALS[0][0], PLANS[0][0]),)


def scorecard(data: bytes) -> object:
    return Scorecard.parse(data)


def run_journal(data: bytes) -> tuple[Line, ...]:
    return journals.parse(chained(data), Path("journal.jsonl"))


def _with_hash(plan: bytes) -> bytes:
    """A stored plan with the hash of what is in it, where that can be read."""
    try:
        body = json.loads(plan)
        text = json.dumps(body["plan"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        body["hash"] = parse_plan(text).hash
        return json.dumps(body).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return plan


def plan(data: bytes) -> object:
    return planning.parse(_with_hash(data))


def stored_run(card: bytes, journal: bytes, plan: bytes) -> object:
    """A run whose manifest fits whatever is in its files. Reading it raises nothing."""
    where = folder() / "runs" / NAME
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in (
        ("scorecard.json", card),
        ("journal.jsonl", chained(journal)),
        ("plan.json", _with_hash(plan)),
    ):
        (where / name).write_bytes(content)
    folders.seal(where)
    found = runs.read(where)
    return found.why, found.verdict


def evidence(card: bytes, journal: bytes, plan: bytes) -> object:
    """The package, and its page, of a year whose only run is `stored_run`'s. Making it raises nothing."""
    stored_run(card, journal, plan)
    scope = Scope(2026, ("LEFT->RIGHT", ""), "lab", {"failover-drill": 24}, 1_800_000_000_000)
    package = evidence_folder.collect(folder() / "runs", scope)
    return package.model_dump_json(), evidence_page.render(package)


APPROVALS: Final[tuple[Case, ...]] = ((f"move of {PLAN.hash} by me\nmove of {PLAN.hash}\n\n# x\n".encode(),),)
REQUESTS: Final = samples.as_json(
    {"runbook": "/x.yaml", "parameters": {"a": [1, "b"]}, "approved": ["move"], "plan": ""}
)


def approvals(where: Path) -> object:
    return approvals_file.read(where, PLAN.hash)


def request(where: Path) -> object:
    found = run_request.find(where)
    return found and found.granted(("x",), ("y",))


MANIFESTS: Final = samples.as_json({"sha256": {"failover.yaml": "0" * 64}})


def first_manifest(where: Path) -> object:
    return first_runbooks.read_manifest(where)


ROWS: Final = ((b'[{"group": "a", "records": 5, "late": null, "ok": true}]\n[{"group": "b"}]',),)  # a list a line
SILENCES: Final = samples.as_json({"LEFT": {"why": "no answer within 5 s", "at_ms": 1, "took_s": 5.0}})
PARTS: Final = samples.as_json(json.loads(_CARD.model_dump_json(include={"rpo", "checks", "records", "environment"})))


def in_details(name: str, data: bytes) -> Path:
    where = folder() / "details-of-a-run"
    path = where / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return where


def step_rows(data: bytes) -> object:
    return step_output.read_rows(in_details("details/move.rows.json", data), "move")


def known_silence(data: bytes) -> object:
    return KnownSilence(in_details("details/silent.json", data)).all()


def step_part(data: bytes) -> object:
    part = step_output.read_part(in_details("details/move.part.json", data), "move")
    return step_output.joined([part, part])


def moment(data: bytes) -> object:
    return rto_clock.at(in_details("moments/fault", data), "fault")


SAMPLED: Final[tuple[Case, ...]] = ((b'{"at_ms":5,"produced":1,"mirrored":1,"consumed":{"g":1}}\n' * 3,),)


def run_samples(data: bytes) -> object:
    return sampler.read(in_details(sampler.FILE, data))


def _moves() -> bytes:
    orders = TopicPartition("orders", 0)
    move = PositionMove("g", orders, 5, orders, 4, TranslationKind.EXACT, 0, 5)
    return decided_moves._MOVES.dump_json((move, move))


MOVES: Final[tuple[Case, ...]] = ((_moves() + b"\n" + _moves(),),)


KEPT_TRANSACTIONS: Final = (
    (transactions._KEPT.dump_json(transactions.KeptTransactions((("LEFT.orders", 0, 105),), ("sums",))),),
)


def kept_transactions(data: bytes) -> object:
    return transactions.read_kept(in_details("details/transactions.LEFT.RIGHT.json", data), Flow("LEFT", "RIGHT"))


KEPT_INVENTORIES: Final = (
    (
        kept._KEPT.dump_json(
            kept.complete(
                Flow("LEFT", "RIGHT"),
                "r",
                1,
                Inventory(
                    (Application("LEFT", AppKind.GROUP, "g", "", 1, ("c",), ("h",), ("t",), 1, Way.EITHER, "how"),),
                    {"LEFT": ("groups: why",)},
                ),
                {"LEFT": "id"},
            )
        ),
    ),
)


def kept_inventory(data: bytes) -> object:
    return kept.read_kept(in_details("details/inventory.LEFT.RIGHT.json", data))


def decided(data: bytes) -> object:
    return decided_moves.read(in_details("details/positions.groups.RIGHT.json", data), "RIGHT")


QUOTAS: Final[tuple[Case, ...]] = ((b'[[["client-id","a"],["user",""]],5000.0,null]',),)


def quota(data: bytes) -> object:
    return create_topics.quota_of(data.decode("utf-8", "replace"))


def json_file(kind: Any) -> Callable[[bytes], object]:
    """A file that `read_json` reads as `kind`."""
    return lambda data: read_json(in_details("file.json", data) / "file.json", kind)


HOOKS: Final = samples.as_json({"begun_ms": 5, "outcome": "ok", "undone": False})
hook_memory: Final = json_file(hook_actions._Memory)


def abort_file(data: bytes) -> object:
    return Abort(in_details("abort", data)).by()


def _progress() -> bytes:
    attempt = {"lesson": "L1", "tag": "t", "lab": "l", "began_ms": 5, "passed": [1], "numbers": {"a": 1}}
    return json.dumps({"progress": {"lessons": {"L1": {"current": attempt, "best": 5}}}, "seal": ""}).encode()


BOOTSTRAP_STATES: Final[tuple[Case, ...]] = (
    (json.dumps({"application": "*", "version": 7, "cluster": "lyon", "at_ms": 1_700_000_000_000}).encode(),),
)


def bootstrap_state(data: bytes) -> object:
    path = folder() / "state.json"
    path.write_bytes(data)
    return state_file.read(path, "*")


PROGRESS: Final[tuple[Case, ...]] = ((_progress(),),)


def progress(data: bytes) -> object:
    """A learner's record with the digest of its content, where that can be read."""
    with contextlib.suppress(ValueError):
        content = json_as(academy._ADAPTER, data).progress
        data = academy._ADAPTER.dump_json(academy._File(content, academy._seal(content)))
    return academy.read(in_details(academy.FILE, data))


INCIDENTS: Final[tuple[Case, ...]] = (
    (
        _lines(
            _line("started", sealed="0" * 64),
            _line("diagnosed", word="x"),
            _line("acted", move="restart-broker LEFT", failed=True),
            _line("finished"),
        ),
        _lines(_line("cause-in", cause="a", where="LEFT", how="b"), _line("recovered")),
        b'[{"at_ms":5,"unreachable":[],"topics":[],"applications":[],"groups":[],"mirror_runs":true,"events":[]}]',
        b'{"recovered":true,"lost":0,"read_again":null}',
        b'[{"at_ms":5,"unmirrored":1,"expired":null,"stalled":0}]',
    ),
)


def incident(public: bytes, sealed: bytes, observations: bytes, measurements: bytes, sampled: bytes) -> object:
    where = folder() / "incident"
    (where / record.GAME).mkdir(parents=True, exist_ok=True)
    (where / "journal.jsonl").write_bytes(chained(public))
    (where / record.GAME / "journal.jsonl").write_bytes(chained(sealed))
    (where / "observations.json").write_bytes(observations)
    (where / "facts.json").write_bytes(measurements)
    (where / "samples.json").write_bytes(sampled)
    found = record.IncidentRecord(where)
    return found.observations(), found.measurements(), found.samples(), found.started_ms(), found.events()


def skipped(path: Path) -> object:
    return SkippedRecords(path, "t").count()


AUDIT_PLANS: Final = samples.as_json(
    {"bucket_ms": 1000, "source": [], "target": [], "unaligned": [{"topic": "o", "partition": 0}]}
)
audit_plan: Final = json_file(continuous_audit._PLAN)
audit_moment: Final = json_file(stream._MOMENT)
RANGES: Final = samples.as_json({"a": {"topic": "o", "start": {"0": 1}, "end": {"0": 5}, "log_start": {"0": 1}}})


def ranges(data: bytes) -> object:
    return topics.load_ranges(in_details("ranges.json", data) / "ranges.json")


REPORTS: Final = samples.as_json(
    {
        **{name: [] for name in ("lost", "duplicated", "out_of_order", "altered", "groups")},
        **dict.fromkeys(
            ("produced", "mirrored", "lost_count", "lost_in_tail", "duplicated_count", "out_of_order_count",
             "altered_count", "invented_count", "rpo_records", "rpo_seconds")
        ),
        "findings": [{"name": "a", "verdict": "pass", "evidence": "b"}],
    }
)  # fmt: skip
check_report: Final = json_file(proof._REPORT)
