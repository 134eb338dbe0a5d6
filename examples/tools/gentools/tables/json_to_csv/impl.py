from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from .api import Conversion


def convert(source: str, output: str, separator: str) -> Conversion:
    """Flatten every object and write the union of their columns."""
    rows = [flatten(record, separator) for record in load(Path(source))]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with Path(output).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return Conversion(rows=len(rows), columns=columns)


def load(path: Path) -> list[dict[str, Any]]:
    """Read an array of objects or JSON Lines."""
    text = path.read_text(encoding="utf-8-sig").strip()
    if text.startswith("["):
        records = json.loads(text)
    else:
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise ValueError(f"record {number} of {path} is not an object")
    return records


def flatten(record: dict[str, Any], separator: str, prefix: str = "") -> dict[str, Any]:
    """Turn nested objects into one level of joined keys."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat.update(flatten(value, separator, f"{name}{separator}"))
        elif isinstance(value, (dict, list)):
            flat[name] = json.dumps(value, ensure_ascii=False)
        else:
            flat[name] = value
    return flat
