from __future__ import annotations

from mcptools.maps import geocode_address
from mcptools.weather import get_forecast

from .api import PackingAdvice


def advise(destination: str, days: int) -> PackingAdvice:
    """Geocode the destination, read its forecast and choose the items."""
    candidates = geocode_address.run(geocode_address.Params(address=destination)).candidates
    if not candidates:
        raise ValueError(f"no place is called {destination!r}; add the country")
    forecast = get_forecast.run_parsed(
        get_forecast.Params(
            latitude=candidates[0].latitude,
            longitude=candidates[0].longitude,
            days=days,
            units="metric",
        )
    )
    return choose(
        lowest=min(period.low for period in forecast.periods),
        highest=max(period.high for period in forecast.periods),
        rain_likely=any(period.precipitation_probability > 40 for period in forecast.periods),
    )


def choose(*, lowest: float, highest: float, rain_likely: bool) -> PackingAdvice:
    """Choose items for a range of temperatures."""
    items = []
    if lowest < 3:
        items += ["winter coat", "gloves", "hat"]
    elif lowest < 12:
        items.append("warm jacket")
    if highest > 22:
        items += ["light shirts", "sunscreen"]
    if rain_likely:
        items += ["umbrella", "waterproof shoes"]
    return PackingAdvice(items=items, lowest=lowest, highest=highest, rain_likely=rain_likely)
