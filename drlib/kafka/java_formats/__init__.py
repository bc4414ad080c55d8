"""Files and values in the formats of the Java clients.

- `properties`: `.properties` files; `references`: `${env:...}` and `${file:...}` in their values
- `jaas`: `sasl.jaas.config`; `key_stores`: PEM, PKCS12 and JKS stores; `jks`: the JKS format
"""
