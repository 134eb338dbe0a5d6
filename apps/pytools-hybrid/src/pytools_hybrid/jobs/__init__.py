"""Jobs of the command line that are not searches: doctor, evaluate, enrich, report usage."""
