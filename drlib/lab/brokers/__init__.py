"""The brokers of a lab: real Kafka (KRaft) as child processes.

`broker.Broker` is one process with its listeners and data, `cluster.Cluster` the brokers of one alias; `security` and
`certificates` set up TLS and SASL listeners; `jvm_log` configures and reads the logs of Java processes.
"""
