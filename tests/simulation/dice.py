"""Chance, drawn from a number: the same number gives the same choices.

A move of a schedule carries one number, and everything that the world decides while it carries the
move out is drawn from that. So a schedule is a list that can be cut, kept and replayed, and taking
a move out of it leaves the meaning of the others alone. A generator of Python's own costs more to
seed than a move costs to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
_MASK = (1 << 64) - 1


class Dice:
    __slots__ = ("_state",)

    def __init__(self, number: int = 0) -> None:
        self._state = number

    def cast(self, number: int) -> None:
        self._state = number

    def below(self, count: int) -> int:
        self._state = state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (state >> 33) % count

    def between(self, first: int, last: int) -> int:
        return first + self.below(last - first + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def choice(self, among: Sequence[T]) -> T:
        return among[self.below(len(among))]

    def seconds(self, least: float, most: float) -> float:
        return least + (most - least) * self.below(1001) / 1000
