from __future__ import annotations

# Each factor says how many base units (metre, kilogram, litre, metre per second, byte) one unit is.
_FACTORS: dict[str, dict[str, float]] = {
    "length": {
        "mm": 0.001,
        "cm": 0.01,
        "m": 1.0,
        "km": 1000.0,
        "in": 0.0254,
        "ft": 0.3048,
        "yd": 0.9144,
        "mi": 1609.344,
        "nmi": 1852.0,
    },
    "mass": {
        "mg": 1e-6,
        "g": 0.001,
        "kg": 1.0,
        "t": 1000.0,
        "oz": 0.028349523125,
        "lb": 0.45359237,
    },
    "volume": {
        "ml": 0.001,
        "l": 1.0,
        "m3": 1000.0,
        "cup": 0.2365882365,
        "pt": 0.473176473,
        "gal": 3.785411784,
    },
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704, "kn": 1852 / 3600},
    "data": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
}
_TEMPERATURES = {"C", "F", "K"}


def convert(value: float, from_unit: str, to_unit: str) -> float:
    """Convert by way of the base unit of the quantity."""
    if {from_unit, to_unit} <= _TEMPERATURES:
        return from_kelvin(to_kelvin(value, from_unit), to_unit)
    for factors in _FACTORS.values():
        if from_unit in factors and to_unit in factors:
            return value * factors[from_unit] / factors[to_unit]
    known = sorted(_TEMPERATURES.union(*_FACTORS.values()))
    raise ValueError(
        f"cannot convert {from_unit!r} to {to_unit!r}; the units known are {', '.join(known)}"
    )


def to_kelvin(value: float, unit: str) -> float:
    """Convert a temperature to kelvin."""
    if unit == "C":
        return value + 273.15
    return (value + 459.67) / 1.8 if unit == "F" else value


def from_kelvin(value: float, unit: str) -> float:
    """Convert a temperature from kelvin."""
    if unit == "C":
        return value - 273.15
    return value * 1.8 - 459.67 if unit == "F" else value
