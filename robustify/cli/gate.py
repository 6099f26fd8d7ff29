"""`robustify gate`: the leak gate. Its own parser reads the arguments, so that the hook needs no Click."""

import click


class _Gate(click.Command):
    """Hands every argument on, `--` and `--help` included, and shows the gate's own help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        from robustify.gate.command import scanner

        return scanner().format_help().rstrip("\n")


@click.command(cls=_Gate, add_help_option=False)
@click.pass_context
def gate(ctx: click.Context) -> int:
    """Refuse items of a sensitive set before they are committed, pushed or published."""
    from robustify.gate.command import main

    return main(ctx.args)
