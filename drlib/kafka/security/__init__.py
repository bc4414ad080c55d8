"""TLS and logins of connections to one cluster.

- `cluster_settings`: a cluster's addresses and Java security keys; `java_keys`: these keys as `Security`
- `credentials`: `Security`, one value for drlib's connections and for librdkafka; `tls`, `oauth`: contexts and tokens
- `errors`: `SecurityFault`, why a secured connection failed
"""
