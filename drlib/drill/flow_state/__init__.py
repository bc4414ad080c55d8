"""What a flow's target knows of its drills: read from any machine, and a run's holder stopped where another supersedes it.

`flow_record` reads the state, `lease_holder` stops a holder and says who is in the way.
"""
