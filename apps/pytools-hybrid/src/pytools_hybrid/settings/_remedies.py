"""The remedies that errors about models suggest, as our own commands and settings."""

from toolembed.providers import Remedies

from pytools_hybrid.installation import install_command

REMEDIES = Remedies(
    distribution="pytools-hybrid",
    download="pytools-hybrid models download {model}",
    device="set PYTOOLS_DEVICE=auto",
    install=install_command,
)
