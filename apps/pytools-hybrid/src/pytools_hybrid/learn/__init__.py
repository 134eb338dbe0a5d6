"""Measuring searches on one's own requests, and improving them: evaluate, tune, enrich."""
