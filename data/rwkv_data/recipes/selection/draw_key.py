"""Draws that depend on a seed and on the name of what is drawn, and on nothing else: neither on the order in which
things come, nor on what else there is, nor on the process or a version of a random generator."""

import hashlib


def draw_key(purpose: str, seed: int, name: str, turn: tuple[int, int]) -> int:
    """Return a 64-bit key: whatever has the smallest keys is drawn. Draws for different purposes are independent."""
    text = f"{purpose}\0{seed}\0{name}\0{turn[0]}\0{turn[1]}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])
