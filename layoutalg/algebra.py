"""The layout algebra (first form)."""

from layoutalg.compose import composition as composition
from layoutalg.measure import coalesce as coalesce
from layoutalg.measure import depth as depth
from layoutalg.measure import rank as rank
from layoutalg.measure import size as size
