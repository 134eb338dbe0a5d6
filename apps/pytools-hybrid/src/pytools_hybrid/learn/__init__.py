"""The larger jobs of the command line: setup, evaluate, tune, enrich, migrate."""
