"""A command of robustify in this process, its exception kept, and all commands by name."""

from collections.abc import Iterator

import click
from click.testing import CliRunner, Result

from robustify.cli import cli


def invoked(*args: object) -> Result:
    """How the command with these arguments ended; an error of ours is `exception`, an exit code `return_value`."""
    return CliRunner().invoke(cli, [str(arg) for arg in args], standalone_mode=False)


def commands(name: str = "robustify", command: click.Command = cli) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name, groups before their members."""
    yield name, command
    for inner, one in sorted(command.commands.items()) if isinstance(command, click.Group) else ():
        yield from commands(f"{name} {inner}", one)
