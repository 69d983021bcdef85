"""`python -m gossamer`: the `gossamer` command, where its script is not on the path."""

from gossamer.cli.main import main

main()
