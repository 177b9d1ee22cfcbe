"""Rows that no test inflicts yet, each with its reason; they are shown as not run."""

from tests.faults.rows import Declared

NOT_RUN: tuple[Declared, ...] = ()
