"""The weights of toolembed's accurate model, and nothing else.

`toolembed.create_embedder("accurate")` reads them.
"""

from pathlib import Path

__all__ = ["WEIGHTS"]

WEIGHTS: Path = Path(__file__).with_name("accurate.safetensors")
"""The safetensors file: six layers of 384 dimensions, in 8 bits with a scale for each output."""
