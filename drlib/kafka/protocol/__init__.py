"""Kafka's bytes: requests on the data path and record batches. Pure.

- `fetch`, `produce`: both requests by hand, over `flexible` (KIP-482)
- `batch`: headers, checksums, batches that move verbatim; `recode`: batches decoded and rebuilt
- `merge_batches`: many batches as one; `validate`: a fetched answer as a whole; `aborted_transactions`: read_committed
- `error_codes`: names and sets of codes, `BrokerError`; `acls`: ACL entries
"""
