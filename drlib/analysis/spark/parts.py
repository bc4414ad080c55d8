"""Keep the records of a frame that lie in given parts of their partitions, however many these are.

Rules: the parts are cut at every 4,096th offset, so that each record is compared with the few of its block alone. They are
broadcast: rows stay where they are and in their order, which sums of pieces rely on.
Not for: finding the parts (`drlib.mirror.offsets.unreplicated.origins`).
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

_BLOCK_BITS: Final = 12


def only_inside(records: DataFrame, parts: Iterable[tuple[str, int, int, int]]) -> DataFrame:
    """The records, of columns partition and offset, that lie in a part: topic, partition, first offset, one past the last.

    Records without a column topic are of one.
    """
    rows = [part for part in parts if part[2] < part[3]]
    table = records.sparkSession.createDataFrame(rows, "in_topic string, in_partition int, first_in long, end_in long")
    blocks = sf.sequence(sf.shiftright("first_in", _BLOCK_BITS), sf.shiftright(sf.col("end_in") - 1, _BLOCK_BITS))
    inside = (
        (sf.col("partition") == sf.col("in_partition"))
        & (sf.shiftright("offset", _BLOCK_BITS) == sf.col("block"))
        & (sf.col("offset") >= sf.col("first_in"))
        & (sf.col("offset") < sf.col("end_in"))
    )
    if "topic" in records.columns:
        inside &= sf.col("topic") == sf.col("in_topic")
    return records.join(sf.broadcast(table.withColumn("block", sf.explode(blocks))), inside, "left_semi")
