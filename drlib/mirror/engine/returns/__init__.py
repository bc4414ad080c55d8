"""Records that a flow copied and that return to its source under the same topic name: a loop that other replicators close.

`rules` has the steps of a trial, `suspicion` decides from what is seen in it, `sightings` remembers a sample of what was read,
`watch` does the I/O.
"""
