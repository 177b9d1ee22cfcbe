"""The fault matrix: what each fault is called, what it holds, what it costs.

A row is a test with a mark. The test is where the claim is proven; the row adds what can be told of
it in figures, so that the matrix that is published is never more than what was just run:

    @pytest.mark.fault(row="retention-loss/delete-records", bench="K1", expected="retention_loss",
                       cases=(3, 4))
    def test_records_deleted_past_a_cursor(world: World, row: Row) -> None:
        ...
        world.outside.delete_records(topic, 0, 45)
        row.inflicted()                       # from here on it can be seen by a running sidecar
        gap = sidecar.await_gap(topic)
        row.judged(gap.reason, "gap")         # the verdict observed, and the state that is held
        sidecar.api().resolve(gap.id, "accepted")
        row.cured()                           # the cause is gone, or was decided
        world.apply(sidecar, topic, 1)
        row.delivering()                      # the first new delivery
        ...
        row.account(world.account(gaps))      # lost, repeated_unflagged; raises like `check`

The mark, by keyword:

`row`      the fault's name in the matrix, `kind/how`. A parametrised test is a row for each case:
           the case's id is appended. A mark may stand in `pytest.param(..., marks=...)`, too.
`bench`    where it is inflicted: `K1`, `K1a`, `K3`, `R1`, `R2`, `RC`, or several: `K1+R2`.
`expected` a verdict, a condition, a state, a store error as `kind/CODE` (`refused/OOM`), or one
           of `tests.faults.rows.OTHER`.
`cases`    the field cases (docs/field-cases.md) that the row is the test of.
`covers`   verdicts, conditions, fault kinds and store codes that are shown besides `expected`.
`within_seconds`  from fault to verdict, at most; held against the figures by `make faults` only,
           which has the machine for itself. Say it wherever the client's own detection allows.

The fixture `row` (`tests.faults.rows.Row`): each of `inflicted`, `judged`, `cured` and
`delivering` is a moment on the monotonic clock. A fault that is inflicted while nothing runs is
`inflicted()` when the sidecar has been started. Pairs may come again in one test; the longest
counts. `row.judged(...)` says what was observed; `row.observe(...)` says it without a moment.
`row.account(...)` checks what the independent checker found, and keeps it. A row passes when its
test passes, what was observed is what was expected, and nothing was lost or repeated without a
flag. A row that was skipped or not reached is `not_run`; what cannot be run yet is declared in
`tests.faults.declared`.

A row that takes long and proves nothing that a shorter one does not is marked `faults_only`: `make
test` leaves it out.

    make faults                     every row; writes build/faults.json and docs/fault-matrix.md
    make faults ROWS='retention*'   some rows; the published matrix is of one whole run, and stays
"""
