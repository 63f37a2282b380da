"""Symbols: a … z, A … Z, aa, ab, … in this order."""

from __future__ import annotations

from collections.abc import Iterable

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RANK = {letter: rank for rank, letter in enumerate(ALPHABET)}


def symbol_rank(symbol: str) -> tuple[int, tuple[int, ...]]:
    """Sort key of symbols: shorter first, then by letter, lower case before upper case."""
    return len(symbol), tuple(_RANK[letter] for letter in symbol)


def symbol_at(number: int) -> str:
    """The symbol with the given position in the order, from 0."""
    letters = ""
    number += 1
    while number:
        number, rank = divmod(number - 1, len(ALPHABET))
        letters = ALPHABET[rank] + letters
    return letters


def next_symbols(existing: Iterable[str]) -> Iterable[str]:
    """Endless symbols behind the highest that exists, so that a freed symbol is never used again."""
    number = _position(max(existing, key=symbol_rank, default=""))
    while True:
        yield symbol_at(number)
        number += 1


def _position(symbol: str) -> int:
    number = 0
    for letter in symbol:
        number = number * len(ALPHABET) + _RANK[letter] + 1
    return number
