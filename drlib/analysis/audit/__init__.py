"""A mirrored topic against its source.

`staged` is the entry: sums first (`sequences`, judged by `rules`), then record by record what they leave open (`compare`).
`compaction` explains records that a log cleaner removed, `checkpoints` judges checkpoints, `result` has the values.
"""
