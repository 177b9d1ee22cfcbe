"""The HTTP side: what an application and an operator may ask of the running sidecar.

Two listeners over one `Desk` (`sidecar.ports`): the application's, which hands out pages and takes
outcomes, and the operator's, with probes, metrics and the same state read-only. Nothing is decided
here. A request is turned into values, the desk answers with values, and these are turned into
JSON or MessagePack; what cannot be turned is refused before the desk hears of it.

`operations` is the one table that routes, documents and tests are made from.
"""
