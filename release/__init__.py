"""Releasing one package of the workspace; RELEASING.md says when, and nox has the environment."""
