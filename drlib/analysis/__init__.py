"""Proofs over whole topics with PySpark: topics as DataFrames, and audits that end in pass, fail or unknown.

Importing this package costs nothing: `result` and `duplicates_result` have the values and their verdict without Spark, and
`jobs` how work on it is watched; what looks at records (`topics`, `contents`, `audit`, `duplicates`) brings PySpark in.
Not for: live lag or positions, which are `drlib.kafka.admin`' and need no JVM.
"""
