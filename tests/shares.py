"""Slow tests divided among several runs, so that each of them takes a part and all together take
them all."""

import re
import zlib


def parsed(text: str) -> tuple[int, int]:
    """The share K/N as two numbers, K from 0 to N - 1.

    Raises:
        ValueError: The text is no share.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not int(found[1]) < int(found[2]):
        raise ValueError(f"--share must be K/N with K from 0 to N - 1, such as 2/6, not {text!r}")
    return int(found[1]), int(found[2])


def is_in(name: str, share: tuple[int, int]) -> bool:
    """Whether a test belongs to a share: by its name alone, so that none changes its share while
    others come and go."""
    k, n = share
    return zlib.crc32(name.encode()) % n == k
