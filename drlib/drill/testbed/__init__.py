"""What drills on a lab share.

`failover_testbed.FailoverTestbed` has the mirror and the applications of the flights; `traffic_counts` counts produced,
mirrored and consumed records; `sampler` writes those counts to the run's folder twice a second; `failover_step` and
`lab_step` are the bases of the steps; `lab_roles` gives the users of a secured lab their files and rights.
"""
