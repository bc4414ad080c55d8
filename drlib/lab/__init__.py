"""Real Kafka clusters on this machine, and the faults that a drill needs.

`lab.Lab` starts them, `jars` fetches what they run on, `proxy` stands in the mirror's way, `processes` sees to it
that nothing started here outlives its lab. Everything listens on 127.0.0.1 only. Not for production clusters: those are
`drlib.kafka.admin`.
"""
