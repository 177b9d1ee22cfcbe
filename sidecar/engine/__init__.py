"""The engine: events in, commands out; no IO, no clock, no chance.

    runtime ──event──► Engine.step(event, now) ──commands──► runtime performs them
       ▲                                                         │
       └───────────────────── their answers ────────────────────┘

Every answer comes back as an event that carries the number of its question, so that one which
comes late, twice or never is an ordinary thing. The same events in the same order give the same
commands: that is what lets the simulator try schedules by the million.
"""

from sidecar.engine.engine import Engine

__all__ = ["Engine"]
