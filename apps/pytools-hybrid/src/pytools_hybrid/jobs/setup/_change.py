"""The planned change of one client's configuration."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolimport import ServerError
from toolimport.connect import Redactor, secrets_in

from pytools_hybrid.files import discard_unfinished
from pytools_hybrid.jobs.setup._configuration import Configuration
from pytools_hybrid.jobs.setup._entry import destructive_tools, freeact_entry, own_entry
from pytools_hybrid.jobs.setup._servers import ServersFile, copied, handed_on

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from pytools_hybrid.jobs.setup._clients import Client
    from pytools_hybrid.jobs.setup._configuration import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that has not been applied yet.

    Attributes:
        names: The servers to move: their names in our file, by their places in the client's file.
        staying: The reasons why other servers are not moved, by name.
        same: The names in our file of servers that it has under another name, by name.
    """

    client: Client
    roots: Sequence[Path]
    names: Mapping[tuple[Place, str], str]
    staying: Mapping[str, str]
    same: Mapping[str, str]

    @classmethod
    def planned(
        cls, client: Client, ours: ServersFile, roots: Sequence[Path], home: Path
    ) -> Change:
        """Plan a change, and add the servers to our file, which is written later.

        Files left behind by a killed run are removed.
        """
        names: dict[tuple[Place, str], str] = {}
        staying: dict[str, str] = {}
        same: dict[str, str] = {}
        configuration = Configuration.read(client)
        configuration.discard_unfinished()
        discard_unfinished(ours.path)
        for key, entry in configuration.servers().items():
            if entry.disabled or entry.skipped:
                staying[entry.name] = entry.skipped or "it is disabled"
                continue
            known = ours.names
            try:
                names[key] = own = ours.add(copied(entry, home), entry.name)
            except ServerError as error:
                staying[entry.name] = error.detail
                continue
            if own in known and own != entry.name:
                same[entry.name] = own
        change = cls(client=client, roots=roots, names=names, staying=staying, same=same)
        # This fails before anything is written.
        change.diff()
        return change

    def diff(self) -> str:
        """Return the diff, without secrets; empty if nothing changes."""
        configuration = Configuration.read(self.client)
        after = self._edited(configuration, self.names)
        before = "" if configuration.data is None else configuration.text
        name = str(self.client.file)
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), name, name, lineterm=""
        )
        secrets = secrets_in(configuration.content, before)
        return Redactor(secrets).text("\n".join(lines))

    def make(self, imported: Collection[str]) -> bool:
        """Apply the change for the imported servers; return whether that changed the file."""
        configuration = Configuration.read(self.client)
        moved = [theirs for theirs, name in self.names.items() if name in imported]
        return configuration.write(self._edited(configuration, moved))

    def _edited(self, configuration: Configuration, moved: Collection[tuple[Place, str]]) -> str:
        if not self.client.moves:
            return configuration.edited((), freeact_entry())
        servers = {key: it for key, it in configuration.servers().items() if key in moved}
        env = handed_on([*servers.values()], self.client)
        entry = own_entry(self.roots, env, destructive_tools(self.roots))
        return configuration.edited(servers.keys(), {**entry, **self.client.extra})
