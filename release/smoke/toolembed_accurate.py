"""The installed toolembed-accurate has its weights."""

from toolembed_accurate import WEIGHTS

print(f"{WEIGHTS.stat().st_size:,} bytes in {WEIGHTS.name}")
