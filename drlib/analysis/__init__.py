"""Analyses of whole topics with PySpark: audits, duplicates and lag, each with a verdict pass, fail or unknown.

`spark` has the session, its jobs and topics as DataFrames; `audit` compares a mirrored topic with its source; `duplicates`
finds duplicates and their cause; `continuous` follows both clusters with Structured Streaming; `lag` measures lag over time;
`sessions` is what notebooks open. Importing this package does not import PySpark; the modules that compute on DataFrames do.
Not for: live lag or positions, which `drlib.kafka.admin` reads without a JVM.
"""
