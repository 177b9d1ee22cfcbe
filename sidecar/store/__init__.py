"""Redis, or Valkey: where checkpoints, receipts, gaps and the registry of a group are kept.

The parts, each with its own reason to change:

    keys       how things are named, and why every key of a partition shares one hash tag
    receipts   receipts as bytes
    formats    everything that is kept as JSON
    scripts    the Lua scripts, one for each transition, and the codes they answer with
    connect    from a URL to a client: one server, Sentinel, Cluster
    faults     the one place where the exceptions of redis-py become faults
    health     what a server's own settings promise
    redis      the `CheckpointStore` made of these
"""
