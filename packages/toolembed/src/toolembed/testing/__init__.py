"""A contract kit: run it on your own implementation of the `Embedder` protocol."""

from toolembed.testing._embedder import check_embedder

__all__ = ["check_embedder"]
