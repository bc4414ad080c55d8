"""Ask all that the assessment of a failover needs: both clusters, workers, the flow's state, the pointer, the folder of runs.

Rules: it only reads. First both clusters are asked whether they answer, for `ANSWER_S` at most; then everything else at the
same time, under the deadlines of the parts, and a cluster that did not answer is not asked again. In all about ten seconds.
The deadlines are for the clusters: what this process does beside it is waited for before they begin (`ready`).
What a cluster can cause is an answer here and not an error.
"""

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from drlib import clock
from drlib.client.pointer_topic import TOPIC as POINTER_TOPIC
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.applications.pointer import topic_on
from drlib.drill.actions.failover.triage import BROKERS_S
from drlib.drill.actions.failover.triage_rules import side_of
from drlib.drill.assessment.assessment import Observed
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.progress import fold
from drlib.drill.readiness.doctor import observed
from drlib.drill.run import planning, request
from drlib.drill.run.request import ClusterTarget
from drlib.drill.run.runner import notes_of
from drlib.drill.session import unfinished_runs
from drlib.drill.step.known_silence import Silence
from drlib.drill.witness.evidence import Finding
from drlib.drill.witness.login import login_of
from drlib.drill.witness.look import HOLD_S, look_until_settled, without_answer
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import Refused, who_answers
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.monitor.observer import FlowObserver, claimed_addresses, configured_address
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.journal import JOURNAL


def observe(
    settings: MirrorSettings,
    flow: Flow,
    runs_dir: Path,
    *,
    supersede: str = "",
    force_reason: str = "",
    witnesses: Sequence[str] = (),
    creates_topics: bool = True,
    ready: Callable[[], object] = lambda: None,
) -> Observed:
    """What can be observed of the enabled `flow` now. Blocks. `witnesses`: addresses of `drlib witness`. `ready` returns once
    nothing else in this process, as its imports, takes the processor.

    Raises `UsageError` and `SecurityFault` for a wrong file, or a target that cannot be used.
    """
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    at_ms = clock.now_ms()
    began = time.monotonic()
    answers = who_answers([source, target], dispensable={source.alias})
    waited_s = time.monotonic() - began
    ready()
    silent = {alias: each.why for alias, each in answers.items() if isinstance(each, Unreachable)}
    topics = {alias: _topics(settings, flow, alias, each) for alias, each in answers.items()}
    place = ClusterTarget(properties=settings.path.absolute())
    with ThreadPoolExecutor(7, "assessment") as pool:
        errors = {alias: each for alias, each in answers.items() if isinstance(each, Unreachable)}
        doctor = pool.submit(observed, settings, flow, runs=runs_dir, silent=errors)
        serving = pool.submit(
            examine, [each for each in (source, target) if each.alias not in silent], topics, BROKERS_S
        )
        unfinished = pool.submit(unfinished_runs.find, [(flow, target)], runs_dir, place, down=silent)
        record = pool.submit(_record, target, flow, silent)
        pointer = pool.submit(_pointer, target, silent)
        source_pointer = pool.submit(_silent_pointer, source, silent, serving)
        refused = isinstance(answers[flow.source], Refused)
        seen = pool.submit(_seen, settings, flow, silent, witnesses, waited_s, refused)
        services = {**errors, **serving.result()}
        found = unfinished.result()
        observation, readiness = doctor.result()
        chosen = settings.flow(flow.source, flow.target)
        judged = [name for name in topics[flow.target] if chosen.is_mirror(name, observation.known_mirrors)]
        run = found.of(str(flow))
        folder = Path(run.folder) if run is not None and run.folder else None
        here = run is not None and folder is not None and is_run(folder)
        return Observed(
            flow=flow,
            at_ms=at_ms,
            host=socket.gethostname(),
            source=side_of(flow.source, services[flow.source], topics[flow.source]),
            target=side_of(flow.target, services[flow.target], judged),
            observation=observation,
            readiness=readiness,
            record=record.result(),
            pointer=pointer.result(),
            unfinished=found,
            folder_here=here,
            next_step=next_step(folder) if here and folder is not None else "",
            supersede=supersede,
            force_reason=force_reason,
            creates_topics=creates_topics,
            seen=seen.result(),
            waited_s=waited_s if flow.source in silent else None,
            silent=source_pointer.result(),
        )


def next_step(folder: Path) -> str:
    """The first step of the run in `folder` that is not done; empty where its folder does not say."""
    try:
        plan = planning.read(folder)
        lines = journal.read(folder / JOURNAL) if (folder / JOURNAL).exists() else ()
        done = fold(notes_of(lines)).done
    except (DrlibError, OSError):
        return ""
    return next((step.name for step in plan.drill.steps if step.name not in done), "")


def is_run(folder: Path) -> bool:
    """Is `folder` here, and a run's? No two runs have one name, so that it is the one that was meant: a pod that was started
    again has another host name and the same folder."""
    try:
        return request.find(folder) is not None
    except (DrlibError, OSError):
        return False


def _topics(settings: MirrorSettings, flow: Flow, alias: str, answer: ClusterMetadata | Unreachable) -> Collection[str]:
    """The flow's topics on one cluster: those that are mirrored, or their mirrors."""
    if isinstance(answer, Unreachable):
        return ()
    chosen = settings.flow(flow.source, flow.target)
    if alias == flow.source:
        return [name for name in answer.topics if chosen.mirrors_topic(name)]
    return [name for name in answer.topics if chosen.is_mirror(name)]


def _seen(
    settings: MirrorSettings,
    flow: Flow,
    silent: Mapping[str, str],
    witnesses: Sequence[str],
    waited_s: float,
    refused: bool,
) -> Finding | None:
    """What other places see of a source that does not answer this host; None where it does, or the target does not."""
    if flow.source not in silent or flow.target in silent:
        return None
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    here = without_answer(source, target_answers=True, waited_s=waited_s, refused=refused)
    chosen = settings.flow(flow.source, flow.target)
    (survey,) = FlowObserver().survey_blocking([(settings, chosen)], silent)
    address = configured_address(chosen)
    workers = {*claimed_addresses(survey).values(), *([] if address is None else [address])}
    login = login_of(settings)
    return look_until_settled(source, target, sorted(workers), witnesses, hold_s=HOLD_S, login=login, first=here)


def _record(target: ClusterSettings, flow: Flow, silent: Collection[str]) -> LeaseRecord | None:
    try:
        return None if target.alias in silent else unfinished_runs.read_state(target, flow)
    except (DrlibError, OSError):
        return None  # what stands in the way is said of the unfinished runs, which read the same


def _silent_pointer(
    source: ClusterSettings, silent: Collection[str], serving: Future[Mapping[str, ClusterService | Unreachable]]
) -> Mapping[str, Silence]:
    """The source's copy of the pointer, where it gives no answer though the source answers: its leader is not waited for where
    `serving` says that it is silent."""
    began = time.monotonic()
    try:
        if source.alias not in silent:
            service = serving.result()[source.alias]
            if isinstance(service, ClusterService) and service.not_led([POINTER_TOPIC]):
                raise Unreachable(topic_on(source.alias), "its leader does not answer", "Start the brokers.")
            read_pointer([source], timeout_s=BROKERS_S)
    except Unreachable as error:
        return {topic_on(source.alias): Silence(error.why, clock.now_ms(), round(time.monotonic() - began, 3))}
    except (DrlibError, OSError):
        pass
    return {}


def _pointer(target: ClusterSettings, silent: Collection[str]) -> str | None:
    try:
        found = None if target.alias in silent else read_pointer([target]).pointer
    except (DrlibError, OSError):
        return None
    return None if found is None else found.active
