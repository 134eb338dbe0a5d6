"""Contract kit: run it over your own implementation of a toolrank protocol."""

from toolrank.testing._retriever import check_retriever

__all__ = ["check_retriever"]
