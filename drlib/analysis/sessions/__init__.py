"""What a notebook opens: one class per analysis, each a context manager that ends in a scorecard.

`session` is their base, `analysed_flow` where they look. `nightly_audit`, `duplicates_audit`, `continuous_audit` (checks in
`bucket_checks`) and `lag_analysis` are the analyses; `audit_practice` and `lag_practice` make traffic for them on a lab.
"""
