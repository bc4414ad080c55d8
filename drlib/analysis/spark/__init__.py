"""A Spark session of this process and topics as DataFrames.

`session` starts Spark, `jobs` runs work with progress and cancellation, `topics` reads pinned offset ranges, `contents`
groups two topics by the content of their records.
"""
