"""A small synchronous handle on one Kafka cluster."""
