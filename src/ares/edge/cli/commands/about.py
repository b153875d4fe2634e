"""`ares version` and `ares completion`."""

import click

from ares import __version__


@click.command()
def version() -> None:
    """Prints the version."""
    click.echo(__version__)


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Prints a shell completion script.

    It completes commands, options and job ids.

    \b
      bash  eval "$(ares completion bash)"      in ~/.bashrc
      zsh   eval "$(ares completion zsh)"       in ~/.zshrc
      fish  ares completion fish | source       in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    kind = get_completion_class(shell)
    assert kind is not None, f"click knows {shell}"
    click.echo(kind(root.command, {}, "ares", "_ARES_COMPLETE").source())
