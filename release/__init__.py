"""Release one package of the workspace; see RELEASING.md. nox installs the tools that it needs."""
