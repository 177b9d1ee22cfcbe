"""Benches: real Kafka and Redis servers that the tests start, break and throw away."""
