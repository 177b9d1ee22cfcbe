"""Deliberate faults in the shipped code, and whether anything notices them.

A test that passes says little until the same test was seen to fail on the mistake it is there for.
So mistakes are written down (`catalogue`), each against an invariant or a row of the verdict tables
(`attacks`), applied one at a time to a copy of the code, and something has to notice: an assertion
of a test, or a named violation of the simulator. What nobody notices is a survivor, and fails.

Why by hand, beside a tool that changes operators: the mistakes that lose records are mostly of
order and of omission (a commit before its promotion, an answer taken for another), which no
operator stands for. The list is written before it is run, so that it says what could go wrong and
not what the tests happen to find.

    python -m tests.mutants                  # all
    python -m tests.mutants 'commit|floor'   # those whose name matches
"""
