"""A Kafka consumer sidecar that recovers cursors it can prove.

It keeps apart what a committed offset mixes up (where to fetch next, what has been applied, and who
may move either) and moves a consumer group's cursor only over ground that evidence covers.
"""

__version__ = "0.1.0"
