"""Functions with the same bits on every machine: `math.cos` and `**` are those of the system's C library."""

from __future__ import annotations

import decimal
from fractions import Fraction

BITS = 128
ONE = 1 << BITS
PI = (314159265358979323846264338327950288419716939937510582 << BITS) // 10**53


def cos_pi(numerator: float, denominator: float = 1) -> float:
    """`cos(pi numerator / denominator)`, rounded once from fixed-point numbers of 128 bits."""
    return _cos_pi(Fraction(numerator) / Fraction(denominator) % 2)


def _cos_pi(angle: Fraction) -> float:
    angle = min(angle, 2 - angle)
    if angle > Fraction(1, 2):
        return -_cos_pi(1 - angle)
    if angle == Fraction(1, 2):
        return 0.0
    theta = PI * angle.numerator // angle.denominator
    square = theta * theta >> BITS
    total, term, place = 0, ONE, 0
    while term:
        total += -term if place % 4 == 2 else term
        place += 2
        term = (term * square >> BITS) // (place * (place - 1))
    return total / ONE


def power(base: float, exponent: float) -> float:
    """`base^exponent`: by squaring for whole exponents, else by decimal numbers of 40 digits."""
    if exponent == int(exponent) and exponent >= 0:
        square, result, rest = float(base), 1.0, int(exponent)
        while rest:
            if rest & 1:
                result *= square
            square *= square
            rest >>= 1
        return result
    with decimal.localcontext(decimal.Context(prec=40)):
        return float(decimal.Decimal(base) ** decimal.Decimal(exponent))
