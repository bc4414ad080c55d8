"""A Spark session of this process and topics as DataFrames.

`session` starts Spark, `jobs` runs work with progress and cancellation, `kafka_source` connects to a cluster, `topics` reads
pinned offset ranges, `contents` groups two topics by the content of their records.
"""
