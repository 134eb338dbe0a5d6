"""The larger jobs of the command line: doctor, setup, evaluate, tune, enrich, usage report."""
