"""The public operations, by kind; `install` puts them into the package and on the class of tensors."""

from hlx._operations import (
    arithmetic,
    comparisons,
    composed,
    conversions,
    diagonals,
    different,
    extremes,
    facts,
    functions,
    grouping,
    in_place,
    indexing,
    joining,
    layers,
    making,
    movement,
    pairs,
    parts,
    products,
    quantiles,
    random,
    reductions,
    reshaped_in_place,
    running,
    statistics,
    writing,
)
from hlx._operations._register import ATTRIBUTES, FUNCTIONS, METHODS, install

in_place.define()

__all__ = ["ATTRIBUTES", "FUNCTIONS", "METHODS", "install"]
