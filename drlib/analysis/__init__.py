"""Proofs over whole topics with PySpark: topics as DataFrames, and audits that end in pass, fail or unknown.

Importing this package costs nothing: `result` has the values and their verdict without Spark; `session`, `topics` and
`audit` bring PySpark in. Not for: live lag or positions, which are `drlib.clusters`' and need no JVM.
"""
