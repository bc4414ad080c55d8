"""Real Kafka clusters on this machine, and the faults that drills need.

`lab.Lab` starts and stops them; `processes` registers every process, so that none outlives its lab; `jars` fetches what
the brokers run on; `ports`, `disk`, `clocks`, `mm2` and `link_trial` are the rest of the machine. Packages: `brokers` (one
process each), `link` (a proxy between the clusters), `apps` (producers and consumers), `workload` (what is put on a lab)
and `checker` (histories to verdicts). Everything listens on 127.0.0.1 only.
Not for production clusters: `drlib.kafka.admin` reaches those.
"""
