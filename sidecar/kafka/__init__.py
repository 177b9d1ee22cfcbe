"""librdkafka in, our values and errors out: the one place that knows its traps.

`log` asks, `fetcher` is the group member, `client` says what both are configured with, `faults`
what their errors mean, `frames` what a record's digest is taken of. The rest are the fetcher's
parts.
"""
