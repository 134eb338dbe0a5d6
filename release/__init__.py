"""Releasing one package of the workspace: what is checked, made and tried before an upload.

Most modules are programs too, as `python -m release.tag --help`; `python -m release` does what they
do in order. RELEASING.md tells when, and nox gives them their environment.
"""
