"""Fixtures live in named plugins beside this file, and what holds for each run of tests is here.

Property tests have no deadline: how long an example takes says what else the machine does (an fsync beside three brokers
took 277 ms once), and no test here is about time.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings
from longest_files import LONGEST
from own_processes import of_worker
from repository_root import ROOT, TESTS
from xdist.workermanage import WorkerController

pytest_plugins = [
    "fix_lab",
    "fix_spark",
    "fix_engine",
    "fix_two_way",
    "fix_flows",
    "fix_authorizer",
    "fix_spark_cluster",
    "fix_browser",
    "fix_actions",
]

settings.register_profile("drlib", deadline=None)
settings.load_profile("drlib")
os.environ["PYTHONFAULTHANDLER"] = "1"  # a program that crashes, or is ended as it hangs, says where it was


@pytest.hookimpl(trylast=True)  # of the tests that were selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--no-loadscope-reorder`: the longest files first, then those with most tests.

    A process of `--dist loadfile` takes whole files in this order. One that begins last is waited for by an idle processor.
    """
    if config.getoption("loadscopereorder", True):
        return
    files = [item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else "" for item in items]
    tests, rank = Counter(files), {name: number for number, name in enumerate(LONGEST)}
    order = sorted(range(len(items)), key=lambda at: (rank.get(files[at], len(rank)), -tests[files[at]]))
    items[:] = [items[at] for at in order]


def pytest_collection_finish() -> None:
    gc.freeze()  # what there is now lives to the end, and need not be looked through each time


def on_brokers(item: pytest.Item) -> bool:
    return item.path.is_relative_to(TESTS / "integration")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Garbage of a test on brokers is collected at its end, by this thread, and at no other time.

    An `AdminClient` answers its requests in a thread of its own. Python may collect garbage there, and where that very client
    is among it, as after a request that nothing waited for, librdkafka ends the process (`rd_kafka_destroy_app`).
    """
    if on_brokers(item):
        gc.disable()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        if on_brokers(item):
            gc.enable()
            gc.collect()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """What a process of tests that crashed or was interrupted has started is killed: it would work on against dead brokers."""
    for process in of_worker(node.workerinput["workerid"], node.workerinput["testrunuid"]):
        process.kill()
