"""`gossamer lab`: the simulator, the swarm and the papers' experiments."""

import typer

app = typer.Typer(no_args_is_help=True, help="Experiments and simulation with the production protocol code.")


@app.callback()
def lab() -> None:
    """Keep subcommands even while there is only one."""
