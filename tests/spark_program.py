"""What a test submits to a Spark cluster: an audit and a lag analysis of two topics, by the functions a notebook calls.

`python spark_program.py MASTER LEFT RIGHT TOPIC REMOTE`; the last line of output is JSON.
"""

from __future__ import annotations

import json
import sys

from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.lag import frames as lag
from drlib.analysis.spark.session import spark_session
from drlib.analysis.spark.topics import read_topic


def main(master: str, left: str, right: str, topic: str, remote: str) -> None:
    with spark_session("drlib on a cluster", master=master, driver_memory="1g") as spark:
        audit = audit_topics(spark, left, right, topic, remote)
        sizes = (
            lag.partition_totals(lag.record_sizes(read_topic(spark, left, topic), topic)).orderBy("partition").collect()
        )
        context = spark.sparkContext
        reported = {
            "master": context.master,
            "executors": context._jsc.sc().getExecutorMemoryStatus().size() - 1,  # the driver is in it
            "verdict": audit.verdict.value,
            "missing": audit.missing,
            "duplicated": audit.duplicated,
            "source_records": audit.source_records,
            "by_partition": [[row["partition"], row["records"], row["bytes"]] for row in sizes],
        }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(*sys.argv[1:])
