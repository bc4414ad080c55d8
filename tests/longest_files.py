"""Files of few tests that take long, in the order in which a run of the tests on brokers begins them.

Without an entry here a file comes by its number of tests, so that one test of a whole drill would be among the last. Whole
drills, with applications and Spark, are apart: two of them at once keep no deadline on two processors.
"""

from __future__ import annotations

LONGEST = (
    "notebooks/03_fail_back.ipynb",
    "tests/integration/drill/test_clients_leave.py",
    "tests/integration/drill/test_own_clusters.py",
    "tests/integration/drill/test_failback_both_ways.py",
    "tests/notebooks/test_failover_drill.py",
    "tests/integration/drill/test_witness.py",
    "tests/integration/drill/test_failover_both_ways.py",
    "tests/integration/drill/test_switchover_both_ways.py",
    "notebooks/02_fail_over.ipynb",
    "tests/integration/drill/test_failover_command.py",
    "tests/integration/drill/test_waves.py",
    "tests/integration/drill/test_required_rights.py",
    "tests/integration/drill/test_lab_scenarios.py",
    "tests/integration/drill/test_mirror_maker_actions.py",
    "tests/integration/client/test_redirected_producer.py",
    "tests/integration/client/test_rebootstrap_required.py",
    "tests/integration/mirror/test_spark_workers.py",
    "tests/integration/client/test_bootstrap_address.py",
    "tests/integration/runbook/test_first_runbooks.py",
    "tests/integration/training/test_incidents.py",
    "tests/integration/bench/test_bench_smoke.py",
    "tests/integration/mirror/test_idle_topics.py",
    "tests/integration/mirror/test_topic_unauthorized.py",
    "tests/integration/ui/test_console_browser.py",
    "tests/integration/drill/test_canary.py",
    "tests/integration/mirror/test_secured_both_ways.py",
    "tests/notebooks/test_academy.py",
    "tests/integration/ui/test_console_pictures_browser.py",
    "tests/integration/ui/test_console_dead_lab_browser.py",
    "notebooks/00_start_here.ipynb",
    "tests/integration/cli/test_secrets_stay.py",
    "tests/integration/training/test_tour.py",
)
