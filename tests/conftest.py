"""Fixtures live in named plugins beside this file.

Property tests have no deadline: how long an example takes says what else the machine does (an fsync beside three brokers
took 277 ms once), and no test here is about time.
"""

from collections import Counter

import pytest
from hypothesis import settings
from longest_files import LONGEST
from repository_root import ROOT

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
