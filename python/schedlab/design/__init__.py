"""Designs of experiments and response-surface methodology.

A few well-chosen runs (`box_behnken`, `central_composite`) support a second-order model of a
response (`fit`), whose shape says where to go: to a stationary point (`canonical`), along its axes
(`Canonical.path`) or along the ridge from the centre (`ridge_path`). `stationary_intervals` and
`resampled` say how well any of that is known. Names and results follow R's package ``rsm`` (R. V.
Lenth, "Response-Surface Methods in R, Using rsm", Journal of Statistical Software 32:7, 2009).
Nothing here knows what the factors are.

>>> coding = Coding((Factor("time", 80, 90), Factor("temperature", 170, 180)))
>>> design = central_composite(2, centre=3)
>>> surface = fit(design, 80 - ((design - 0.5) ** 2).sum(axis=1), names=coding.names)
>>> found = canonical(surface)
>>> found.nature, coding.natural(found.stationary).round(1).tolist()
('maximum', [87.5, 177.5])
"""

from schedlab.design.canonical import Canonical, Nature, canonical
from schedlab.design.coding import Coding, Factor
from schedlab.design.confidence import (
    Resampled,
    StationaryIntervals,
    resampled,
    stationary_intervals,
    stationary_region_holds,
)
from schedlab.design.designs import box_behnken, central_composite, two_level
from schedlab.design.ridge import PathPoint, ridge_path
from schedlab.design.surface import Part, Surface, Term, fit

__all__ = [
    "Canonical",
    "Coding",
    "Factor",
    "Nature",
    "Part",
    "PathPoint",
    "Resampled",
    "StationaryIntervals",
    "Surface",
    "Term",
    "box_behnken",
    "canonical",
    "central_composite",
    "fit",
    "resampled",
    "ridge_path",
    "stationary_intervals",
    "stationary_region_holds",
    "two_level",
]
