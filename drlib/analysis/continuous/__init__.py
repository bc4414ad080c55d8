"""Both clusters of a flow followed by streaming queries and compared in buckets of time.

`stream` is one side's query, `bucket_sums` its sums on disk, `compare` joins both sides, `rules` judges a bucket.
"""
