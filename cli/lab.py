"""`gossamer lab`: the simulator, the swarm and the papers' experiments."""

import typer

from gossamer.cli import lab_demo, lab_groups, lab_orders, lab_report, lab_run, lab_swarm

app = typer.Typer(no_args_is_help=True, help="Experiments and simulation with the production protocol code.")
app.command("list")(lab_run.list_experiments)
app.add_typer(lab_run.app, name="run")
app.command("report")(lab_report.write_report)
app.command("demo")(lab_demo.run_demo)
app.command("swarm")(lab_swarm.run_swarm)
app.command("groups")(lab_groups.run_groups)
app.command("orders")(lab_orders.run_orders)
