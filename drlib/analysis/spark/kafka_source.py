"""How Spark's Kafka clients connect to a cluster: what of its keys is sent to executors.

Rules: an allow-list: addresses, and the keys of TLS and login that drlib honours. With a master `local[N]` the executor is this
process's own JVM, which gets them resolved. On any other master they go to other machines over connections that others may read
and answer, with each task: then they are sent as they are written, and each executor's Kafka client resolves `${env:NAME}` and
`${file:/path:key}` itself, by Kafka's own providers. A secret that is written out is not sent; the analysis is refused.
Source: `config.providers` of Kafka's `AbstractConfig`; the prefix `kafka.` of Spark's connector.
Not for: which records are read (`topics`, `drlib.analysis.continuous.stream`).
"""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

from drlib.config.shown import holds_secret
from drlib.errors import UsageError
from drlib.kafka.java_formats.references import refers, resolve
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.java_keys import HONOURED

_LOCAL: Final = re.compile(r"local(\[.*\])?")
_PACKAGE: Final = "org.apache.kafka.common.config.provider"
PROVIDERS: Final[Mapping[str, str]] = {
    "kafka.config.providers": "env,file",
    "kafka.config.providers.env.class": f"{_PACKAGE}.EnvVarConfigProvider",
    "kafka.config.providers.file.class": f"{_PACKAGE}.FileConfigProvider",
}


def read(spark: SparkSession, cluster: ClusterSettings) -> DataFrameReader:
    """A reader of topics of `cluster`; which, its caller sets. Raises `UsageError` for a secret that cannot be sent."""
    return spark.read.format("kafka").options(**options(cluster, spark.sparkContext.master))


def read_stream(spark: SparkSession, cluster: ClusterSettings) -> DataStreamReader:
    """The same for a streaming query."""
    return spark.readStream.format("kafka").options(**options(cluster, spark.sparkContext.master))


def options(cluster: ClusterSettings, master: str) -> dict[str, str]:
    """What the Kafka clients of executors of `master` get. Raises `UsageError` for a reference without a value here, too."""
    keys = {key: text for key, text in cluster.security.items() if key in HONOURED}
    resolved = {key: resolve(text, f"{cluster.alias}.{key}") for key, text in keys.items()}
    made = {"kafka.bootstrap.servers": ",".join(cluster.bootstrap_servers)}
    if _LOCAL.fullmatch(master):
        return {**made, **{f"kafka.{key}": text for key, text in resolved.items()}}
    for key, text in keys.items():
        if holds_secret(key, text):
            raise UsageError(
                f"{cluster.alias}.{key} is not sent to Spark's executors",
                f"a secret is written out in it, and connections of {master} may be read by others",
                "Write ${file:/path:key} or ${env:NAME} in its place, which every executor resolves itself, or use local[N].",
            )
    made |= {f"kafka.{key}": text for key, text in keys.items()}
    return {**made, **PROVIDERS} if any(map(refers, keys.values())) else made
