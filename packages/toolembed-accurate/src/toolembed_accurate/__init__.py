"""The weights of toolembed's accurate model, and nothing else.

`toolembed.AccurateEmbedder` reads them; `toolembed.create_embedder("accurate")` makes one.
"""

from pathlib import Path

__all__ = ["WEIGHTS"]

WEIGHTS: Path = Path(__file__).with_name("accurate.safetensors")
"""The safetensors file: six layers of 384 dimensions, in 8 bits with a scale for each output."""
