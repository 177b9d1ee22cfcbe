"""The sidecar, its application and its servers ended at chosen and at random moments, for real.

Every story here ends the same way: an application's own ledger, what was produced, and the gaps
that were declared are held against each other by a checker that shares no code with the product;
and somebody outside looked at the group's commits and at the store all the while.
"""
