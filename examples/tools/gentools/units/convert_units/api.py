from __future__ import annotations


def run(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a measurement between metric, imperial and US units.

    Knows length, mass, volume, speed, data size and temperature. For amounts of money use
    convert_currency, whose rates change daily.

    Args:
        value: Number to convert
        from_unit: Symbol of its unit, such as "mi", "lb", "gal", "km/h", "GiB" or "F"
        to_unit: Symbol of the unit wanted, of the same quantity

    Returns:
        The value in the other unit, not rounded
    """
    from .impl import convert

    return convert(value, from_unit, to_unit)
