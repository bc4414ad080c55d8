"""Fixtures live in named plugins beside this file.

Property tests have no deadline: how long an example takes says what else the machine does (an fsync beside three brokers
took 277 ms once), and no test here is about time.
"""

from hypothesis import settings

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
