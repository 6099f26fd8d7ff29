"""A command of robustify in this process, its exception kept."""

from click.testing import CliRunner, Result

from robustify.cli import cli


def invoked(*args: object) -> Result:
    """How the command with these arguments ended; an error of ours is `exception`, an exit code `return_value`."""
    return CliRunner().invoke(cli, [str(arg) for arg in args], standalone_mode=False)
