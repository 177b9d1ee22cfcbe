"""A deterministic simulator: the shipped engine and performer over fakes, one seed a history.

`world` carries moves out, `schedule` draws them from a seed, `faults` is what may go wrong,
`oracle` knows what must not happen, `history` keeps and shrinks, `tally` adds up what was reached.
"""
