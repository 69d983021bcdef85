"""The `gossamer` command, one file a subcommand."""
